//! QEMU's record of what a disk was given, and the disks that a power cut may leave of it. It is in
//! the format of Linux's dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst):
//! a block about the record, and then a block about each write, with what was written behind it.

use crate::frames::Random;
use std::path::Path;

/// Bytes of a block: what a disk writes as a whole.
const BLOCK: usize = 512;

/// An entry of the record.
#[derive(Debug)]
pub enum Entry {
    /// Bytes were written.
    Write {
        /// Where on the disk.
        at: usize,
        /// What.
        bytes: Vec<u8>,
    },
    /// What was written before is durable.
    Flush,
}

/// Reads what QEMU has recorded: entries, each with the place where it ends.
///
/// # Panics
/// Where it cannot be read, or has an entry that QEMU does not write.
pub fn read_record(record: &Path) -> Vec<(u64, Entry)> {
    let record = std::fs::read(record).expect("QEMU keeps a record");
    let mut entries = vec![];
    let mut place = BLOCK;
    while let Some(head) = record.get(place..place + BLOCK) {
        let field = |index: usize| {
            let bytes = head[index * 8..index * 8 + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes) as usize
        };
        let (block, blocks, flags) = (field(0), field(1), field(2));
        place += BLOCK;
        let entry = match (blocks, flags) {
            // Not written yet.
            (0, 0) => break,
            (0, 1) => Entry::Flush,
            (_, 0) => {
                let Some(bytes) = record.get(place..place + blocks * BLOCK) else { break };
                place += bytes.len();
                Entry::Write { at: block * BLOCK, bytes: bytes.to_vec() }
            }
            other => panic!("an entry of {} blocks with the flags {}", other.0, other.1),
        };
        entries.push((place as u64, entry));
    }
    entries
}

/// Returns how many of the entries are durable because they were flushed.
pub fn flushed(entries: &[(u64, Entry)]) -> usize {
    entries.iter().rposition(|(_, entry)| matches!(entry, Entry::Flush)).unwrap_or(0)
}

/// Makes the disk as it is if the power goes after these entries: with all of the first `durable`
/// ones, and any of the blocks that were written later.
pub fn cut(disk: &mut [u8], entries: &[(u64, Entry)], durable: usize, random: &mut Random) {
    // Of four blocks that are not durable, so many reach the disk on average.
    let share = random.below(5);
    for (index, (_, entry)) in entries.iter().enumerate() {
        let Entry::Write { at, bytes } = entry else { continue };
        for (block, new) in (*at..).step_by(BLOCK).zip(bytes.chunks(BLOCK)) {
            if index < durable || random.below(4) < share {
                disk[block..block + BLOCK].copy_from_slice(new);
            }
        }
    }
}
