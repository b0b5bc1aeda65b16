//! Random numbers from a seed, by ChaCha20 (RFC 8439).
//!
//! Each block of output replaces the key that made it and gives the rest away (*fast key erasure*),
//! so that an attacker who reads the memory later cannot tell which numbers were given out before.
//! The kernel makes components' seeds with it, and components the numbers that they ask for.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub use culm_abi::start::SEED_WORDS;

/// Random bits from which a [`Generator`] begins: as many as its key has.
pub type Seed = [u64; SEED_WORDS];

/// Makes any count of numbers from a seed.
#[derive(Clone, Debug)]
pub struct Generator {
    key: Key,
}

type Key = [u32; 8];

impl Generator {
    /// A generator that nobody can predict who does not know `seed`.
    pub fn new(seed: Seed) -> Self {
        Self { key: key(seed) }
    }

    /// Adds a seed to what is there: whoever does not know both cannot predict what follows.
    pub fn add(&mut self, seed: Seed) {
        for (own, added) in self.key.iter_mut().zip(key(seed)) {
            *own ^= added;
        }
        // The sum does not stay in memory.
        self.step();
    }

    /// The next `N` numbers.
    pub fn words<const N: usize>(&mut self) -> [u64; N] {
        let mut numbers = [0; N];
        for some in numbers.chunks_mut(SEED_WORDS) {
            some.copy_from_slice(&self.step()[..some.len()]);
        }
        numbers
    }

    /// Replaces the key by one half of a block, and gives the other half away.
    fn step(&mut self) -> Seed {
        let output = block(&self.key, 0, [0; 3]);
        self.key = core::array::from_fn(|index| output[index]);
        let rest = &output[self.key.len()..];
        core::array::from_fn(|index| u64::from(rest[2 * index]) | u64::from(rest[2 * index + 1]) << 32)
    }
}

fn key(seed: Seed) -> Key {
    core::array::from_fn(|index| (seed[index / 2] >> (index % 2 * 32)) as u32)
}

/// The block function of ChaCha20 (RFC 8439, 2.3).
fn block(key: &Key, counter: u32, nonce: [u32; 3]) -> [u32; 16] {
    let [a, b, c, d, e, f, g, h] = *key;
    let [x, y, z] = nonce;
    let first = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574, a, b, c, d, e, f, g, h, counter, x, y, z];
    let mut state = first;
    for _ in 0..10 {
        for column in 0..4 {
            quarter(&mut state, [column, column + 4, column + 8, column + 12]);
        }
        for diagonal in 0..4 {
            let step = |by: usize| by * 4 + (diagonal + by) % 4;
            quarter(&mut state, [step(0), step(1), step(2), step(3)]);
        }
    }
    core::array::from_fn(|index| state[index].wrapping_add(first[index]))
}

/// The quarter round (RFC 8439, 2.1) on the words at `at`.
fn quarter(state: &mut [u32; 16], at: [usize; 4]) {
    let [a, b, c, d] = at;
    for (to, from, target, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[to] = state[to].wrapping_add(state[from]);
        state[target] = (state[target] ^ state[to]).rotate_left(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// RFC 8439, 2.3.2.
    #[test]
    fn the_block_function_is_that_of_the_standard() {
        let key = core::array::from_fn(|index| u32::from_le_bytes([0, 1, 2, 3].map(|byte| index as u8 * 4 + byte)));
        let output = block(&key, 1, [0x0900_0000, 0x4a00_0000, 0]);
        assert_eq!(output[..4], [0xe4e7_f110, 0x1559_3bd1, 0x1fdd_0f50, 0xc471_20a3]);
        assert_eq!(output[12..], [0xd19c_12b5, 0xb94e_16de, 0xe883_d0cb, 0x4e3c_50a2]);
    }

    #[test]
    fn no_number_comes_twice() {
        let mut seen = BTreeSet::new();
        for first in 1..=10 {
            let mut generator = Generator::new([first, 0, 0, first]);
            for _ in 0..10 {
                seen.extend(generator.words::<9>());
            }
        }
        assert_eq!(seen.len(), 10 * 10 * 9);
        let [again] = Generator::new([1, 0, 0, 1]).words();
        assert!(seen.contains(&again), "the same seed gives the same numbers");
    }

    #[test]
    fn a_number_does_not_depend_on_how_many_are_asked_for_after_it() {
        let [first] = Generator::new([1, 2, 3, 4]).words();
        let [also_first, ..] = Generator::new([1, 2, 3, 4]).words::<7>();
        assert_eq!(first, also_first);
    }

    #[test]
    fn what_follows_an_added_seed_depends_on_both() {
        let after = |first: u64, added: u64| {
            let mut generator = Generator::new([first, 0, 0, 0]);
            generator.add([added, 0, 0, 0]);
            generator.words::<4>()
        };
        assert_ne!(after(1, 2), after(1, 3));
        assert_ne!(after(1, 2), after(2, 2));
        assert_ne!(after(1, 2), Generator::new([1, 0, 0, 0]).words::<4>());
        assert_ne!(after(1, 2), Generator::new([2, 0, 0, 0]).words::<4>());
    }
}
