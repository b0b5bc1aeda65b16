//! Random numbers that nobody else can guess, where the machine has a source of them.
//!
//! The kernel gives each component a seed at each start: from the processor's `RNDRRS` instruction or else from the
//! firmware (Arm DEN0098). From the seed this module makes as many numbers as are asked for, by ChaCha20 (RFC 8439) whose
//! key is replaced by its own output each time, so that who reads the memory later cannot tell what was given out before.
//!
//! A machine without a source says so when it boots, and [`words`] answers `None`: whoever asks must then do with what
//! an attacker could guess, such as the time, or without.

use crate::domain::own;
use core::cell::Cell;
use culm_abi::start::SEED_WORDS;

own! {
    /// The generator's key; none where the machine has no source.
    KEY: Cell<Option<Key>> = Cell::new(None);
}

type Key = [u32; 8];

/// Takes the seed of this start. One that is all zero says that there is no source.
pub(crate) fn seed(seed: [u64; SEED_WORDS]) {
    let words = |index: usize| (seed[index / 2] >> (index % 2 * 32)) as u32;
    KEY.with(|key| key.set((seed != [0; SEED_WORDS]).then(|| core::array::from_fn(words))));
}

/// `N` random numbers; `None` where the machine has no source of them. A restart begins with a fresh seed.
///
/// ```
/// culm::testing::set_seed([1, 2, 3, 4]);
/// let [first, second] = culm::random::words().expect("there is a seed");
/// assert_ne!(first, second);
/// ```
pub fn words<const N: usize>() -> Option<[u64; N]> {
    let mut key = KEY.with(Cell::get)?;
    let mut numbers = [0; N];
    for four in numbers.chunks_mut(4) {
        let output = block(&key, 0, [0; 3]);
        key = core::array::from_fn(|index| output[index]);
        for (number, halves) in four.iter_mut().zip(output[8..].chunks_exact(2)) {
            *number = u64::from(halves[0]) | u64::from(halves[1]) << 32;
        }
    }
    KEY.with(|cell| cell.set(Some(key)));
    Some(numbers)
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
    fn without_a_seed_there_are_no_numbers() {
        assert_eq!(words::<1>(), None);
        seed([1, 0, 0, 0]);
        assert!(words::<1>().is_some());
        seed([0; 4]);
        assert_eq!(words::<1>(), None);
    }

    #[test]
    fn no_number_comes_twice() {
        let mut seen = BTreeSet::new();
        for first in 1..=10 {
            seed([first, 0, 0, first]);
            for _ in 0..10 {
                seen.extend(words::<9>().expect("there is a seed"));
            }
        }
        assert_eq!(seen.len(), 10 * 10 * 9);
        seed([1, 0, 0, 1]);
        let [again] = words().expect("there is a seed");
        assert!(seen.contains(&again), "the same seed gives the same numbers");
    }
}
