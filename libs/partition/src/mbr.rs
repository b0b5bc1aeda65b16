//! Master boot records and the chains of logical partitions in extended ones (UEFI 2.10 §5.2; what
//! it leaves open is as Linux and fdisk have it).

use crate::bytes::{array, word};

/// One of the four entries of a boot record. Places are logical blocks.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    status: u8,
    kind: u8,
    pub first: u32,
    pub blocks: u32,
}

impl Entry {
    /// Returns whether it is in use, whatever its type, as Linux counts.
    pub fn is_used(self) -> bool {
        self.blocks != 0
    }

    /// Returns whether it says that the disk has a GPT.
    pub fn is_protective(self) -> bool {
        self.kind == 0xee
    }

    /// Returns whether it holds logical partitions: with CHS, LBA, or as Linux has its own.
    pub fn is_extended(self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }
}

/// Returns the entries of the disk's boot record, or `None` if it is none: without its signature,
/// or with entries that are neither active nor inactive, as in the boot block of a disk that is all
/// one file system.
pub fn first(bytes: &[u8]) -> Option<[Entry; 4]> {
    entries(bytes).filter(|entries| entries.iter().all(|entry| matches!(entry.status, 0 | 0x80)))
}

/// Returns the entries of a record, or `None` if it has no signature.
pub fn entries(bytes: &[u8]) -> Option<[Entry; 4]> {
    if array(bytes, 510) != [0x55, 0xaa] {
        return None;
    }
    Some(core::array::from_fn(|number| {
        let at = 446 + 16 * number;
        let [status] = array(bytes, at);
        let [kind] = array(bytes, at + 4);
        Entry { status, kind, first: word(bytes, at + 8), blocks: word(bytes, at + 12) }
    }))
}

/// Returns the number of the disk.
pub fn signature(bytes: &[u8]) -> u32 {
    word(bytes, 440)
}
