//! SipHash-2-4, a keyed hash (Aumasson and Bernstein, "SipHash: a fast short-input PRF"): who does
//! not know the key cannot tell its values from random numbers, however many he has seen.

/// The key.
#[derive(Clone, Copy)]
pub(super) struct SipHash {
    key: [u64; 2],
}

impl SipHash {
    pub(super) const fn new(key: [u64; 2]) -> Self {
        Self { key }
    }

    /// The hash of some words and a number below 2⁵⁶, as their bytes with the lowest first: eight
    /// of each word, seven of the number.
    pub(super) fn hash(&self, words: &[u64], tail: u64) -> u64 {
        let [low, high] = self.key;
        // "somepseudorandomlygeneratedbytes", as the specification has it.
        let mut state = [
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ];
        // The last word has the length of all in its uppermost byte.
        let last = ((words.len() as u64 * 8 + 7) << 56) | (tail & (u64::MAX >> 8));
        for word in words.iter().copied().chain([last]) {
            state[3] ^= word;
            rounds(&mut state, 2);
            state[0] ^= word;
        }
        state[2] ^= 0xff;
        rounds(&mut state, 4);
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

#[inline]
fn rounds(state: &mut [u64; 4], count: usize) {
    let [mut a, mut b, mut c, mut d] = *state;
    for _ in 0..count {
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32);
        c = c.wrapping_add(b);
        a = a.wrapping_add(d);
        b = b.rotate_left(17) ^ c;
        d = d.rotate_left(21) ^ a;
        c = c.rotate_left(32);
    }
    *state = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's test vectors for inputs of 7 and 15 bytes that count up
    /// from 0.
    #[test]
    fn values_are_those_of_the_reference() {
        let hash = SipHash::new([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        let words = [0x0706_0504_0302_0100];
        assert_eq!(hash.hash(&[], 0x0006_0504_0302_0100), 0xab02_00f5_8b01_d137);
        assert_eq!(hash.hash(&words, 0x000e_0d0c_0b0a_0908), 0xa129_ca61_49be_45e5);
    }
}
