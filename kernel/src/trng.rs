//! The firmware's source of random numbers: the True Random Number Generator Firmware Interface
//! (Arm DEN0098), asked by calls of the SMC Calling Convention (Arm DEN0028).

use culm_abi::start::SEED_WORDS;

const PSCI_VERSION: u64 = 0x8400_0000;
const PSCI_FEATURES: u64 = 0x8400_000a;
const SMCCC_VERSION: u64 = 0x8000_0000;
const TRNG_VERSION: u64 = 0x8400_0050;
const TRNG_FEATURES: u64 = 0x8400_0051;
const TRNG_RND64: u64 = 0xc400_0053;

/// Status of a call that found too little entropy: it may succeed when tried again.
const NO_ENTROPY: i32 = -3;
/// Number of tries of a call before the source counts as dry.
const MAX_POLLS: usize = 100;
/// Words that are asked of one call; it could give three.
const WORDS: usize = 2;

/// A call of the firmware: takes function and arguments, returns what `x0` to `x3` hold afterwards.
pub trait Firmware: FnMut(u64, [u64; 3]) -> [u64; 4] {}
impl<F: FnMut(u64, [u64; 3]) -> [u64; 4]> Firmware for F {}

/// Returns whether the firmware has a source. Firmware older than the calling convention's version
/// 1.1 may do anything if it is asked for a function that it does not know. So the version is asked
/// for first, and before it whether the version can be asked for (DEN0028, appendix B).
pub fn is_present(mut call: impl Firmware) -> bool {
    let mut ask = |function: u64, argument: u64| call(function, [argument, 0, 0])[0] as i32;
    ask(PSCI_VERSION, 0) >= 0x1_0000
        && ask(PSCI_FEATURES, SMCCC_VERSION) >= 0
        && ask(SMCCC_VERSION, 0) >= 0x1_0001
        && ask(TRNG_VERSION, 0) >= 0x1_0000
        && ask(TRNG_FEATURES, TRNG_RND64) >= 0
}

/// Returns random words from a source that is present, or `None` if it is dry.
pub fn seed(mut call: impl Firmware) -> Option<[u64; SEED_WORDS]> {
    let mut seed = [0; SEED_WORDS];
    for words in seed.chunks_exact_mut(WORDS) {
        words.copy_from_slice(&two_words(&mut call)?);
    }
    Some(seed)
}

fn two_words(call: &mut impl Firmware) -> Option<[u64; WORDS]> {
    for _ in 0..MAX_POLLS {
        let [status, _, high, low] = call(TRNG_RND64, [64 * WORDS as u64, 0, 0]);
        match status as i32 {
            0 => return Some([low, high]),
            NO_ENTROPY => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Firmware of these versions that has a source, which is dry the first `dry` times.
    fn firmware(psci: u64, convention: u64, mut dry: usize) -> impl Firmware {
        const UNKNOWN: u64 = u64::MAX;
        let mut given = 0;
        move |function, [argument, ..]| match function {
            PSCI_VERSION => [psci, 0, 0, 0],
            PSCI_FEATURES if psci >= 0x1_0000 && argument == SMCCC_VERSION && convention != 0 => [0; 4],
            SMCCC_VERSION if convention != 0 => [convention, 0, 0, 0],
            TRNG_VERSION if convention >= 0x1_0001 => [0x1_0000, 0, 0, 0],
            TRNG_FEATURES if convention >= 0x1_0001 && argument == TRNG_RND64 => [0; 4],
            TRNG_RND64 if dry > 0 => {
                dry -= 1;
                [i64::from(NO_ENTROPY) as u64, 0, 0, 0]
            }
            TRNG_RND64 => {
                assert_eq!(argument, 128);
                given += 2;
                [0, 0, given, given - 1]
            }
            PSCI_FEATURES => [UNKNOWN, 0, 0, 0],
            // The answer of old firmware to a call that it does not know is not to be found
            // out.
            _ => panic!("function {function:#x} of firmware {psci:#x}, {convention:#x}"),
        }
    }

    #[test]
    fn old_firmware_is_not_asked_for_what_it_does_not_know() {
        for (psci, convention) in [(2, 0), (0x1_0000, 0), (0x1_0001, 0x1_0000)] {
            assert!(!is_present(firmware(psci, convention, 0)), "{psci:#x}, {convention:#x}");
        }
        assert!(is_present(firmware(0x1_0001, 0x1_0002, 0)));
    }

    #[test]
    fn a_seed_is_made_of_all_words() {
        assert_eq!(seed(firmware(0x1_0001, 0x1_0002, 0)), Some([1, 2, 3, 4]));
    }

    #[test]
    fn a_source_that_is_dry_for_a_while_is_asked_again_but_not_for_ever() {
        assert!(seed(firmware(0x1_0001, 0x1_0002, MAX_POLLS - 1)).is_some());
        assert_eq!(seed(firmware(0x1_0001, 0x1_0002, usize::MAX)), None);
        assert_eq!(seed(|_, _| [-1_i64 as u64, 0, 0, 0]), None, "refused");
    }
}
