//! Hashes that nobody can predict who does not know their key.
//!
//! Whoever chose addresses and ports so that all of them hash alike would make one chain of a
//! table, and a walk of each look-up. So what peers choose is hashed with a key of random bits. A
//! number that peers see, like the port that a flow gets, is SipHash-1-3, whose values tell nothing
//! of the key. Places in tables, which nobody sees, take a multiplication for each word: a new flow
//! needs a dozen.

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

    /// Returns a hash of `words` for a place in a table. It must stay in this machine: who saw some
    /// could compute the key.
    #[inline]
    pub fn place(&self, words: &[u64]) -> u64 {
        let [low, high] = self.0;
        let start = low ^ words.len() as u64;
        // Each word meets a number that nobody knows before it is multiplied: otherwise the changes
        // of two words could cancel each other whatever the key.
        let state = words.iter().fold(start, |state, word| multiply(state ^ word, high | 1));
        multiply(state ^ low.rotate_left(32), high | 1)
    }
}

/// Returns the exclusive or of both halves of a product: each bit of it depends on both factors.
#[inline(always)]
fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
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
        for hash in [Key::hash, Key::place] {
            let one = hash(&Key([1, 2]), &[7]);
            assert!(one != hash(&Key([1, 5]), &[7]) && one != hash(&Key([0, 2]), &[7]));
        }
    }

    /// Returns a number without a pattern.
    fn mixed(number: u64) -> u64 {
        Key([3, 5]).hash(&[number])
    }

    /// Of words that count up, at any of the places of a key of five, none share more places than
    /// random numbers would; and lengths count.
    #[test]
    fn words_that_count_up_are_spread() {
        const PLACES: usize = 4096;
        let key = Key([mixed(1), mixed(2)]);
        for at in 0..5 {
            for step in [1_u64, 1 << 16, 1 << 32, 1 << 48] {
                for shift in [0, 32, 52] {
                    let mut places = [0_u8; PLACES];
                    for number in 0..PLACES as u64 {
                        let mut words = [0x0a00_0001_0a00_0002, 80 << 16, 6, 0, 0];
                        words[at] ^= number.wrapping_mul(step);
                        places[(key.place(&words) >> shift) as usize % PLACES] += 1;
                    }
                    let taken = places.iter().filter(|count| **count > 0).count();
                    // Of random numbers 1 - 1/e: 2,589.
                    let most = places.iter().max().copied().unwrap_or(0);
                    assert!(taken > 2300 && most < 14, "{at}, {step:#x}, {shift}: {taken} places, {most} in one");
                }
            }
        }
        assert_ne!(key.place(&[0, 0]), key.place(&[0, 0, 0]));
    }

    /// Pairs of words that differ in the same bits share a place for few keys: nobody can choose
    /// them for all.
    #[test]
    fn no_two_words_are_alike_for_all_keys() {
        let alike = |other: [u64; 2]| {
            let keys = (0..20_000).map(|number| Key([mixed(2 * number), mixed(2 * number + 1)]));
            keys.filter(|key| (key.place(&[0, 0]) ^ key.place(&other)) & 0xfff == 0).count()
        };
        for other in [[1, 1], [1, 0], [0, 1], [1 << 63, 1 << 63], [1 << 63, 0], [u64::MAX, u64::MAX], [1 << 32, 1]] {
            let count = alike(other);
            assert!(count < 30, "{other:x?}: {count} of 20,000, where random numbers have five");
        }
    }
}
