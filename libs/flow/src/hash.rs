//! SipHash-1-3: a short hash that nobody can predict who does not know its key.
//!
//! Whoever chose addresses and ports so that all of them hash alike would make one chain of a
//! table, and a walk of each look-up. So what peers choose is hashed with a key of random bits.

/// A key of random bits. Each life of a router makes its own.
#[derive(Clone, Copy, Debug)]
pub struct Key(pub [u64; 2]);

impl Key {
    /// Returns the hash of `words`; those of different lengths hash differently, too.
    #[inline]
    pub fn hash(&self, words: &[u64]) -> u64 {
        let [low, high] = self.0;
        let mut state = [
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ];
        for word in words {
            absorb(&mut state, *word);
        }
        // The upper byte of the last word counts bytes.
        absorb(&mut state, (words.len() as u64 * 8) << 56);
        state[2] ^= 0xff;
        for _ in 0..3 {
            round(&mut state);
        }
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

#[inline(always)]
fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline(always)]
fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::hash_map::DefaultHasher;
    use std::hash::Hasher;

    /// The standard library's hasher is SipHash-1-3 with a key of zeros.
    #[test]
    fn it_is_the_hash_of_the_standard_library() {
        for length in 0..8_u64 {
            let mut words = std::vec::Vec::new();
            let mut hasher = DefaultHasher::new();
            for word in 0..length {
                words.push(word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                hasher.write_u64(words[word as usize]);
            }
            assert_eq!(Key([0, 0]).hash(&words), hasher.finish());
        }
    }

    #[test]
    fn the_key_matters() {
        let one = Key([1, 2]).hash(&[7]);
        assert!(one != Key([1, 3]).hash(&[7]) && one != Key([0, 2]).hash(&[7]));
    }
}
