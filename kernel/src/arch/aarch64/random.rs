//! Sources of randomness: the processor's `RNDRRS` instruction (Arm ARM K12.1, FEAT_RNG), or else
//! the firmware. [`crate::seeds`] makes seeds of their output.

use super::firmware;
use super::system_register::read_register;
use crate::trng;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use culm_abi::start::SEED_WORDS;
use culm_abi::system::MAX_CORES;
use culm_random::Seed;

/// Number of tries of the instruction for one word before it counts as failed.
const MAX_POLLS: usize = 100;

/// Number of times that a source is asked at boot, each time with all its tries, before it counts
/// as dry: a fraction of a second.
const TRIES_AT_BOOT: usize = 1000;

/// Whether the firmware has a source.
static FIRMWARE: AtomicBool = AtomicBool::new(false);

/// Each core's first seed. All zero is none; a core that takes its seed leaves zeros.
static FIRST: [[AtomicU64; SEED_WORDS]; MAX_CORES] = [const { [const { AtomicU64::new(0) }; SEED_WORDS] }; MAX_CORES];

/// The machine's source of randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nothing.
    Absent,
    /// A source that has given nothing so far.
    Dry,
    /// A source that works.
    Works,
}

/// Looks for a source, and takes the first seed of core `index` from it. The core that boots calls
/// it once, before any [`fresh`].
pub fn find_source(index: u32) -> Source {
    FIRMWARE.store(trng::is_present(firmware::call), Ordering::Relaxed);
    if !has_instruction() && !FIRMWARE.load(Ordering::Relaxed) {
        return Source::Absent;
    }
    match (0..TRIES_AT_BOOT).find_map(|_| fresh()) {
        Some(seed) => {
            hand_over(index, seed);
            Source::Works
        }
        None => Source::Dry,
    }
}

/// Leaves core `index` its first seed. Call it before the core is started.
pub fn hand_over(index: u32, seed: Seed) {
    if let Some(first) = FIRST.get(index as usize) {
        first.iter().zip(seed).for_each(|(to, word)| to.store(word, Ordering::Release));
    }
}

/// Takes the first seed that was left for this core.
pub fn take_first(index: u32) -> Option<Seed> {
    let first = FIRST.get(index as usize)?;
    let seed = core::array::from_fn(|word| first[word].swap(0, Ordering::Acquire));
    (seed != [0; SEED_WORDS]).then_some(seed)
}

/// Returns fresh random bits, if a source gives some.
pub fn fresh() -> Option<Seed> {
    let seed = if has_instruction() { by_instruction() } else { None };
    seed.or_else(|| FIRMWARE.load(Ordering::Relaxed).then(|| trng::seed(firmware::call)).flatten())
}

/// Returns whether this core has the instruction (`ID_AA64ISAR0_EL1.RNDR`, bits 60-63).
fn has_instruction() -> bool {
    read_register!("id_aa64isar0_el1") >> 60 != 0
}

fn by_instruction() -> Option<Seed> {
    let mut seed = [0; SEED_WORDS];
    for word in &mut seed {
        *word = (0..MAX_POLLS).find_map(|_| random_word())?;
    }
    Some(seed)
}

fn random_word() -> Option<u64> {
    let (word, good): (u64, u64);
    // SAFETY: [K7] RNDRRS, S3_3_C2_C4_1, gives a number from a generator that it seeds anew, and
    // sets the flag Z where it cannot; it has no effect on memory. Only executed where the
    // processor has it.
    unsafe {
        core::arch::asm!("mrs {}, S3_3_C2_C4_1", "cset {}, ne", out(reg) word, out(reg) good, options(nomem, nostack));
    }
    (good != 0).then_some(word)
}
