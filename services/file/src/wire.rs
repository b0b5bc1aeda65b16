//! The volume's own reads, writes and flushes, on their way to the disk: in pieces of a slot, many
//! at a time.

use alloc::vec;
use alloc::vec::Vec;
use culm_block::BLOCK;

/// A run of blocks that the volume has read or written.
#[derive(Debug)]
pub struct Run {
    /// Tells it apart from others.
    pub number: u32,
    pub is_write: bool,
    /// The first block.
    pub block: u64,
    pub bytes: Vec<u8>,
    /// Blocks that were sent for.
    pub sent: u32,
    /// Requests at the disk.
    pub outstanding: u32,
    pub has_failed: bool,
}

impl Run {
    /// Returns how many blocks it has.
    pub fn blocks(&self) -> u32 {
        (self.bytes.len() / BLOCK) as u32
    }

    /// Returns whether nothing more is to be sent, and nothing is at the disk.
    pub fn has_ended(&self) -> bool {
        self.outstanding == 0 && (self.has_failed || self.sent == self.blocks())
    }
}

/// The writes and the flush that the volume waits for.
#[derive(Debug, Default)]
pub struct Wire {
    pub runs: Vec<Run>,
    /// Whether a flush is wanted, and whether it was sent.
    pub flush: Option<bool>,
    /// How many runs there were.
    count: u32,
}

impl Wire {
    /// Begins a read.
    pub fn read(&mut self, block: u64, blocks: u32) {
        self.add(false, block, vec![0; blocks as usize * BLOCK]);
    }

    /// Begins a write.
    pub fn write(&mut self, block: u64, bytes: &[u8]) {
        self.add(true, block, bytes.to_vec());
    }

    fn add(&mut self, is_write: bool, block: u64, bytes: Vec<u8>) {
        self.count = self.count.wrapping_add(1);
        self.runs.push(Run { number: self.count, is_write, block, bytes, sent: 0, outstanding: 0, has_failed: false });
    }

    /// Forgets what is under way: its answers are no news any more.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.flush = None;
    }

    /// The run of this number.
    pub fn run(&mut self, number: u32) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.number == number)
    }

    /// Takes a run out that has ended.
    pub fn take_ended(&mut self) -> Option<Run> {
        let at = self.runs.iter().position(Run::has_ended)?;
        Some(self.runs.remove(at))
    }
}
