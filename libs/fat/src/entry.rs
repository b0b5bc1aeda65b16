//! Entries of folders: what the caller sees, and the 32 bytes on the medium.

use crate::geometry::Geometry;
use crate::time::Stamp;
use alloc::string::String;

/// Bytes of an entry on the medium.
pub(crate) const ENTRY: usize = 32;

/// A flag in the byte that has those of upper and lower case: the entry is the new name of
/// something whose old name may still be there. Others ignore it.
pub(crate) const MOVED: u8 = 0x20;

const READ_ONLY: u8 = 1;
pub(crate) const VOLUME: u8 = 8;
const FOLDER: u8 = 0x10;
const ARCHIVE: u8 = 0x20;

/// A file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
}

/// A file or folder, as the folder that it is in describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name; empty for the root folder.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// Bytes of the file; 0 for a folder.
    pub size: u64,
    /// When it was written last, in seconds since 1970, in whatever zone the writer kept.
    pub modified: u64,
    /// Whether it must not be written.
    pub read_only: bool,
}

/// The 32 bytes of an entry, and where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    pub(crate) at: u64,
    pub(crate) bytes: [u8; ENTRY],
}

impl Raw {
    /// The entry that the root folder would have.
    pub(crate) const ROOT: [u8; ENTRY] = {
        let mut bytes = [0; ENTRY];
        bytes[11] = FOLDER;
        bytes
    };

    fn word(&self, at: usize) -> u32 {
        u32::from(self.bytes[at]) | u32::from(self.bytes[at + 1]) << 8
    }

    fn put_word(&mut self, at: usize, number: u32) {
        self.bytes[at] = number as u8;
        self.bytes[at + 1] = (number >> 8) as u8;
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.bytes[11] & FOLDER != 0
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.bytes[11] & READ_ONLY != 0
    }

    /// Returns the characters of its short name, in whatever code page.
    pub(crate) fn short_name(&self) -> impl Iterator<Item = u8> {
        let part = |range: core::ops::Range<usize>| {
            let part = &self.bytes[range];
            part.iter().rposition(|byte| *byte != b' ').map_or(&[][..], |last| &part[..=last])
        };
        let (name, extension) = (part(0..8), part(8..11));
        let dot = (!extension.is_empty()).then_some(b'.');
        // `0xe5` would mean that the entry is removed; `5` stands for it.
        let name = (0..).zip(name).map(|(index, byte)| if index == 0 && *byte == 5 { 0xe5 } else { *byte });
        name.chain(dot).chain(extension.iter().copied())
    }

    pub(crate) fn is_moved(&self) -> bool {
        self.bytes[12] & MOVED != 0
    }

    pub(crate) fn set_moved(&mut self, is_moved: bool) {
        self.bytes[12] = self.bytes[12] & !MOVED | if is_moved { MOVED } else { 0 };
    }

    pub(crate) fn size(&self) -> u32 {
        self.word(28) | self.word(30) << 16
    }

    /// Returns the number of the first cluster as it stands there; 0 if there is none.
    pub(crate) fn cluster(&self, geometry: &Geometry) -> u32 {
        self.word(26) | if geometry.is_fat32 { self.word(20) << 16 } else { 0 }
    }

    /// Sets the first cluster and the size.
    pub(crate) fn set_content(&mut self, cluster: u32, size: u32, geometry: &Geometry) {
        self.put_word(26, cluster);
        if geometry.is_fat32 {
            self.put_word(20, cluster >> 16);
        }
        self.put_word(28, size);
        self.put_word(30, size >> 16);
    }

    /// Sets when it was written.
    pub(crate) fn set_modified(&mut self, stamp: Stamp) {
        self.put_word(22, stamp.time.into());
        self.put_word(24, stamp.date.into());
        self.put_word(18, stamp.date.into());
        self.bytes[11] |= ARCHIVE;
    }

    /// Takes all but the name from another entry.
    pub(crate) fn take_all_but_name(&mut self, other: &Self) {
        let name_flags = self.bytes[12];
        self.bytes[11..].copy_from_slice(&other.bytes[11..]);
        self.bytes[12] = name_flags;
    }

    /// Takes content and times from another entry.
    pub(crate) fn take_content(&mut self, other: &Self) {
        self.bytes[13..].copy_from_slice(&other.bytes[13..]);
    }

    /// Returns what the caller sees of it.
    pub(crate) fn seen(&self, name: String) -> Entry {
        let is_folder = self.is_folder();
        let stamp = Stamp { time: self.word(22) as u16, date: self.word(24) as u16 };
        Entry {
            name,
            kind: if is_folder { Kind::Folder } else { Kind::File },
            size: if is_folder { 0 } else { self.size().into() },
            modified: stamp.unix(),
            read_only: self.is_read_only(),
        }
    }
}

/// Returns the checksum that parts of a long name have of the short one (Microsoft's FAT
/// specification, "Long Directory Entries").
pub(crate) fn checksum(short: &[u8]) -> u8 {
    short.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}
