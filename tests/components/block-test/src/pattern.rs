//! The pattern on a disk: every word differs, so that a block in a wrong place, of an earlier
//! round or of another disk is seen.

use culm_block::BLOCK;

/// Words of a block.
pub const WORDS: u64 = (BLOCK / 8) as u64;

/// Returns a word of a block: the seed in its upper half, its place on the disk in the lower one.
pub fn word(seed: u64, block: u64, index: u64) -> u64 {
    seed << 32 ^ (block * WORDS + index)
}
