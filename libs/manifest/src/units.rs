//! Sizes, durations and hardware addresses as people write them.

/// Units of size, largest first.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Units of time in nanoseconds, largest first. (`µs` is accepted, `us` is printed.)
const DURATIONS: [(&str, u64); 5] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("µs", 1_000), ("ns", 1)];

/// What a size looks like, for messages.
pub const SIZE_FORM: &str =
    "write a size as a count of bytes or as text with a unit, for example \"64KiB\" or \"4MiB\"";

/// What a duration looks like, for messages.
pub const DURATION_FORM: &str = "write a duration as text with a unit (s, ms, us or ns), for example \"10ms\"";

/// What a hardware address looks like, for messages.
pub const MAC_FORM: &str =
    "write a hardware address as six pairs of hexadecimal digits, for example \"52:54:00:12:34:56\"";

/// Reads a size such as `64KiB`.
pub fn parse_size(text: &str) -> Option<u64> {
    parse_with_unit(text, &SIZES)
}

/// Reads a duration such as `10ms`, in nanoseconds.
pub fn parse_duration(text: &str) -> Option<u64> {
    parse_with_unit(text, &DURATIONS)
}

/// Reads a hardware address such as `52:54:00:12:34:56`.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next()?;
        if part.len() != 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// Writes a size with the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    format_with_unit(bytes, &SIZES, "0")
}

/// Writes a duration, given in nanoseconds, with the largest unit that divides it.
pub fn format_duration(nanoseconds: u64) -> String {
    format_with_unit(nanoseconds, &DURATIONS, "0s")
}

/// Writes a hardware address.
pub fn format_mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.replace('_', "").parse().ok()?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.checked_mul(*factor)
}

fn format_with_unit(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    if value == 0 {
        return zero.to_string();
    }
    units
        .iter()
        .find(|(_, factor)| value.is_multiple_of(*factor))
        .map_or_else(|| value.to_string(), |(name, factor)| format!("{}{name}", value / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64KiB"), Some(65536));
        assert_eq!(parse_size("4 MiB"), Some(4 << 20));
        assert_eq!(parse_size("12B"), Some(12));
        for wrong in ["64", "64kb", "KiB", "", "-1KiB", "99999999999GiB"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert_eq!(format_size(0x60_0000), "6MiB");
        assert_eq!(format_size(4097), "4097B");
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("10ms"), Some(10_000_000));
        assert_eq!(parse_duration("50us"), parse_duration("50µs"));
        assert_eq!(parse_duration("10"), None);
        assert_eq!(parse_duration("10min"), None);
        assert_eq!(format_duration(1_500_000_000), "1500ms");
        assert_eq!(format_duration(0), "0s");
    }

    #[test]
    fn addresses() {
        assert_eq!(parse_mac("52:54:00:12:34:5F"), Some([0x52, 0x54, 0, 0x12, 0x34, 0x5f]));
        for wrong in ["52:54:00:12:34", "52:54:00:12:34:56:78", "5:54:00:12:34:56", "52:54:00:12:34:+6", ""] {
            assert_eq!(parse_mac(wrong), None, "{wrong}");
        }
        assert_eq!(format_mac([0x52, 0x54, 0, 0x12, 0x34, 0x5f]), "52:54:00:12:34:5f");
    }
}
