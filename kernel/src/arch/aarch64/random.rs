//! Where seeds come from: the processor's `RNDRRS` instruction (Arm ARM K12.1, FEAT_RNG), or else the firmware.

use super::firmware;
use super::system_register::read_register;
use crate::trng;
use core::sync::atomic::{AtomicBool, Ordering};
use culm_abi::start::SEED_WORDS;

/// How often the instruction is tried for one word before it counts as failed.
const TRIES: usize = 100;

/// Whether the firmware has a source.
static FIRMWARE: AtomicBool = AtomicBool::new(false);

/// Looks for a source: once, before any [`seed`]. False where there is none.
pub fn find_source() -> bool {
    FIRMWARE.store(trng::is_present(firmware::call), Ordering::Relaxed);
    has_instruction() || FIRMWARE.load(Ordering::Relaxed)
}

/// Fresh random bits, all zero where there is no source or all sources fail.
pub fn seed() -> [u64; SEED_WORDS] {
    let seed = if has_instruction() { by_instruction() } else { None };
    let firmware = || FIRMWARE.load(Ordering::Relaxed).then(|| trng::seed(firmware::call)).flatten();
    seed.or_else(firmware).unwrap_or_default()
}

/// `ID_AA64ISAR0_EL1.RNDR`, bits 60-63, of the core that asks.
fn has_instruction() -> bool {
    read_register!("id_aa64isar0_el1") >> 60 != 0
}

fn by_instruction() -> Option<[u64; SEED_WORDS]> {
    let mut seed = [0; SEED_WORDS];
    for word in &mut seed {
        *word = (0..TRIES).find_map(|_| random_word())?;
    }
    Some(seed)
}

fn random_word() -> Option<u64> {
    let (word, good): (u64, u64);
    // SAFETY: RNDRRS, S3_3_C2_C4_1, gives a number from a generator that it seeds anew, and sets the flag Z where it
    // cannot; it has no effect on memory. Only executed where the processor has it.
    unsafe {
        core::arch::asm!("mrs {}, S3_3_C2_C4_1", "cset {}, ne", out(reg) word, out(reg) good, options(nomem, nostack));
    }
    (good != 0).then_some(word)
}
