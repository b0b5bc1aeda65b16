//! Looking at bytes in bulk: where a line ends, and which bytes may stand where.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The index of the first control character (below 0x20, or 0x7f) at or after `from`, or the length
/// of `bytes`.
///
/// Eight bytes at a time, because every byte of every request passes here.
pub fn find_control(bytes: &[u8], from: usize) -> usize {
    let mut rest = bytes.get(from..).unwrap_or(&[]);
    let mut at = from.min(bytes.len());
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        // A lane's high bit is set by the subtraction where the byte is below 0x20, by the addition
        // where it is 0x7f, and `!word` removes the bytes from 0x80. A borrow can only mark lanes
        // above a true hit.
        let below = word.wrapping_sub(ONES * 0x20);
        let delete = (word & !HIGHS).wrapping_add(ONES);
        let hits = (below | delete) & !word & HIGHS;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
        rest = tail;
    }
    at + rest.iter().position(|&byte| is_control(byte)).unwrap_or(rest.len())
}

/// Whether `byte` is a control character.
pub const fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

/// Bits of [`class`].
pub mod classes {
    /// May stand in a token: a method's or a field's name (RFC 9110 §5.6.2).
    pub const TOKEN: u8 = 1 << 0;
    /// Stands for itself in a path and needs no further look: an unreserved or delimiting
    /// character, or `/`.
    pub const PATH: u8 = 1 << 1;
    /// Stands for itself in a registered name or an IPv4 address (RFC 3986 §3.2.2).
    pub const NAME: u8 = 1 << 2;
}

/// Returns the classes of `byte`: [`classes`].
#[inline]
pub fn class(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

static CLASSES: [u8; 256] = build_classes();

const fn build_classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte: u8 = 0x21;
    while byte < 0x7f {
        let at = byte as usize;
        let alphanumeric = byte.is_ascii_alphanumeric();
        if alphanumeric || is_any(byte, b"!#$%&'*+-.^_`|~") {
            table[at] |= classes::TOKEN;
        }
        // RFC 3986 §3.3: pchar = unreserved / pct-encoded / sub-delims / ":" / "@". The percent
        // sign is not among them, because it begins an escape; nor is the dot, because it may make
        // a dot segment. The last four are none, but browsers leave them as they are (WHATWG URL,
        // "path percent-encode set").
        if alphanumeric || is_any(byte, b"-_~!$&'()*+,;=:@/|^[]") {
            table[at] |= classes::PATH;
        }
        if alphanumeric || is_any(byte, b"-._~!$&'()*+,;=") {
            table[at] |= classes::NAME;
        }
        byte += 1;
    }
    table
}

const fn is_any(byte: u8, set: &[u8]) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_is_told_apart() {
        for byte in 0..=255u8 {
            for position in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[position] = byte;
                let expected = if is_control(byte) { position } else { 20 };
                assert_eq!(find_control(&bytes, 0), expected, "byte {byte:#x} at {position}");
            }
        }
    }

    proptest! {
        #[test]
        fn bulk_search_is_the_plain_search(bytes: Vec<u8>, from in 0usize..40) {
            let plain = (from.min(bytes.len())..bytes.len()).find(|&at| is_control(bytes[at])).unwrap_or(bytes.len());
            prop_assert_eq!(find_control(&bytes, from), plain);
        }
    }
}
