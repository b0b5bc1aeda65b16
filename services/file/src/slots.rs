//! The service's own part of the memory that its disk reaches, in slots: for the volume's blocks,
//! and for blocks of which a file has a part.

use alloc::vec::Vec;
use culm_block::BLOCK;

/// Blocks of a slot: two of the largest granules that a volume can have.
pub const BLOCKS: u32 = 16;

/// Bytes of a slot.
pub const SIZE: usize = BLOCKS as usize * BLOCK;

/// Slots that only the volume may use, so that clients' data cannot keep it from going on.
const KEPT: usize = 4;

/// The free slots, by their numbers.
#[derive(Debug)]
pub struct Slots(Vec<u16>);

impl Slots {
    /// Those in so many bytes at the beginning of the memory.
    ///
    /// # Panics
    ///
    /// If they are too few.
    pub fn new(bytes: usize) -> Self {
        let count = (bytes / SIZE).min(usize::from(u16::MAX));
        assert!(count > KEPT, "{bytes} bytes of memory for the disk: let `memory` be {} at least", (KEPT + 1) * SIZE);
        Self((0..count as u16).rev().collect())
    }

    /// Takes one for the volume.
    pub fn take_any(&mut self) -> Option<u16> {
        self.0.pop()
    }

    /// Takes one for a client's data.
    pub fn take(&mut self) -> Option<u16> {
        if self.0.len() > KEPT { self.0.pop() } else { None }
    }

    /// Gives one back.
    pub fn give(&mut self, slot: u16) {
        self.0.push(slot);
    }
}

/// Returns where a slot begins in the memory.
pub fn offset(slot: u16) -> usize {
    usize::from(slot) * SIZE
}
