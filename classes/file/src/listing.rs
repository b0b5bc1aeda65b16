//! Lists of folders' items, as they lie in a client's memory: each a head of three little-endian
//! words and a name behind it, filled up to a multiple of 8 bytes.
//!
//! ```text
//!   size 64   modified 64   flags 8, 0 8, bytes of the name 16, 0 32   name
//! ```

use crate::path::{MAX_NAME, is_name};
use crate::{BLOCK, Info};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use culm::Region;

/// Bytes of an item's head.
const HEAD: usize = 24;

/// Flags of an item.
mod flag {
    pub const FOLDER: u64 = 1 << 0;
    pub const READ_ONLY: u64 = 1 << 1;
}

/// An item of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Its properties; its mark is not told (0).
    pub info: Info,
}

/// A list as a provider writes it.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    space: usize,
}

impl Writer {
    /// Creates an empty list that may have so many bytes.
    pub fn new(space: u32) -> Self {
        Self { bytes: Vec::new(), space: space as usize }
    }

    /// Adds an item. Returns false if it has no space.
    pub fn push(&mut self, name: &str, info: &Info) -> bool {
        let length = HEAD + name.len().next_multiple_of(8);
        if name.len() > MAX_NAME || self.space - self.bytes.len() < length {
            return false;
        }
        let end = self.bytes.len() + length;
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let flags = flag(info.is_folder, flag::FOLDER) | flag(info.is_read_only, flag::READ_ONLY);
        for word in [info.size, info.modified, flags | (name.len() as u64) << 16] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.resize(end, 0);
        true
    }

    /// Returns the list's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A list that a client has got: the items one after the other. What is no item ends it.
#[derive(Clone, Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    at: usize,
}

impl Listing {
    /// Copies the list of `count` bytes out of memory, where it begins at block `place`. It is
    /// empty if there is no such memory.
    pub fn read(memory: &Region, place: u32, count: u32) -> Self {
        let mut bytes = vec![0; (count as usize).min(memory.len())];
        if memory.read(place as usize * BLOCK, &mut bytes).is_err() {
            bytes.clear();
        }
        Self { bytes, at: 0 }
    }

    fn word(&self, index: usize) -> Option<u64> {
        let bytes = self.bytes.get(self.at.checked_add(index * 8)?..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }
}

impl Iterator for Listing {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let (size, modified, rest) = (self.word(0)?, self.word(1)?, self.word(2)?);
        let length = (rest >> 16) as usize & 0xffff;
        let begin = self.at + HEAD;
        let name = core::str::from_utf8(self.bytes.get(begin..begin.checked_add(length)?)?).ok()?;
        if !is_name(name) {
            return None;
        }
        let info = Info {
            is_folder: rest & flag::FOLDER != 0,
            is_read_only: rest & flag::READ_ONLY != 0,
            size,
            modified,
            mark: 0,
        };
        let item = Item { name: name.into(), info };
        self.at = begin + length.next_multiple_of(8);
        Some(item)
    }
}
