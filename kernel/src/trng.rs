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
mod tests;
