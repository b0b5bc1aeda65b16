//! Random numbers that nobody else can guess, if the machine has a source of them.
//!
//! The kernel gives each component a seed of its own at each start, made of what the processor's
//! `RNDRRS` instruction or else the firmware (Arm DEN0098) has given so far. From the seed this
//! module makes as many numbers as are asked for ([`culm_random`]).
//!
//! A component that is a client of a device of the class `entropy` adds a seed of that ([`add`]).
//! If neither the kernel nor a device gives a seed, [`words`] returns `None`. The caller must then
//! use something that an attacker could guess, such as the time, or do without.

use crate::arch::domain_static;
use core::cell::RefCell;
use culm_abi::start::SEED_WORDS;
use culm_random::{Generator, Seed};

domain_static! {
    /// The generator; `None` until there is a seed.
    GENERATOR: RefCell<Option<Generator>> = RefCell::new(None);
}

/// Takes the kernel's seed of this start. A seed of zeros means that the kernel has no source.
pub(crate) fn seed(seed: [u64; SEED_WORDS]) {
    GENERATOR.with(|generator| generator.replace((seed != [0; SEED_WORDS]).then(|| Generator::new(seed))));
}

/// Adds a seed from another source, for example a device: whoever does not know that and the
/// kernel's cannot predict the numbers that follow.
pub fn add(seed: Seed) {
    GENERATOR.with(|generator| match &mut *generator.borrow_mut() {
        Some(generator) => generator.add(seed),
        none => *none = Some(Generator::new(seed)),
    });
}

/// Returns `N` random numbers; `None` if there was no seed. A restart begins with a fresh one.
///
/// ```
/// culm::testing::set_seed([1, 2, 3, 4]);
/// let [first, second] = culm::random::words().expect("there is a seed");
/// assert_ne!(first, second);
/// ```
pub fn words<const N: usize>() -> Option<[u64; N]> {
    GENERATOR.with(|generator| generator.borrow_mut().as_mut().map(Generator::words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_seed_there_are_no_numbers() {
        assert_eq!(words::<1>(), None);
        seed([1, 0, 0, 0]);
        assert!(words::<1>().is_some());
        seed([0; 4]);
        assert_eq!(words::<1>(), None);
    }

    #[test]
    fn an_added_seed_changes_what_follows() {
        seed([0; 4]);
        add([1, 2, 3, 4]);
        assert_eq!(words::<2>(), Some(Generator::new([1, 2, 3, 4]).words()));
        seed([1, 2, 3, 4]);
        add([5; 4]);
        assert_ne!(words::<2>(), Some(Generator::new([1, 2, 3, 4]).words()));
    }

    #[test]
    fn numbers_are_those_of_the_seed_one_after_the_other() {
        let mut same = Generator::new([1, 2, 3, 4]);
        seed([1, 2, 3, 4]);
        assert_eq!(words::<2>(), Some(same.words()));
        assert_eq!(words::<9>(), Some(same.words()));
    }
}
