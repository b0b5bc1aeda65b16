//! The files and folders that clients have open.

use alloc::string::String;
use alloc::vec::Vec;
use culm_fat::{FileId, MAX_FILES};
use culm_file::Error;

/// The number of something open, whoever has it.
pub type OpenId = usize;

/// Something that a client has open.
#[derive(Debug)]
pub struct Open {
    /// The kind.
    pub kind: Kind,
    /// Transfers of its data that have not ended.
    pub transfers: u32,
}

/// The kind of what is open.
#[derive(Debug)]
pub enum Kind {
    /// A folder, by its path on the volume.
    Folder(String),
    /// A file that is read.
    Reader {
        /// The volume's number for it.
        file: FileId,
        /// Its bytes when it was opened.
        size: u64,
    },
    /// A file that is written.
    Writer(Writer),
}

/// A file that is written.
#[derive(Debug)]
pub struct Writer {
    /// The volume's number for it.
    pub file: FileId,
    /// Its path on the volume, in lower case.
    pub path: String,
    /// Whether its end is committed when it is closed: it is there already, or is to be.
    pub is_there: bool,
    /// Its bytes, those on their way included.
    pub end: u64,
    /// The end of those that are on the disk without a gap: this is kept, also after an error.
    pub good: u64,
    /// Pieces behind `good` that are on the disk, each with its begin and end: as many at most as a
    /// client's queue has writes.
    pub ahead: Vec<(u64, u64)>,
    /// The count of its bytes that are committed.
    pub committed: u64,
    /// The count of bytes that it has space for on the volume.
    pub reserved: u64,
    /// The bytes of the last granule, as far as there are some.
    pub tail: Vec<u8>,
    /// Writes of a granule that it has a part of which are on their way. Another one of the same
    /// granule waits for them.
    pub edges: u32,
    /// Why it cannot be written any more.
    pub error: Option<Error>,
}

impl Writer {
    /// Takes it that the bytes between these positions are on the disk.
    pub fn wrote(&mut self, begin: u64, end: u64) {
        self.ahead.push((begin, end));
        while let Some(next) = self.ahead.iter().position(|(begin, _)| *begin == self.good) {
            self.good = self.ahead.swap_remove(next).1;
        }
    }
}

impl Open {
    /// Something of this kind.
    pub fn new(kind: Kind) -> Self {
        Self { kind, transfers: 0 }
    }

    /// Returns the volume's number for it, if it is a file.
    pub fn file(&self) -> Option<FileId> {
        match &self.kind {
            Kind::Folder(_) => None,
            Kind::Reader { file, .. } => Some(*file),
            Kind::Writer(writer) => Some(writer.file),
        }
    }

    /// Returns the position of the last byte of a file that is read.
    pub fn last(&self) -> Option<u64> {
        match &self.kind {
            Kind::Reader { size, .. } => size.checked_sub(1),
            _ => None,
        }
    }

    /// Returns it as a file that is written.
    pub fn writer(&mut self) -> Option<&mut Writer> {
        match &mut self.kind {
            Kind::Writer(writer) => Some(writer),
            _ => None,
        }
    }
}

/// Returns whether one more may be opened for the client `number`, if clients have so many open.
/// Each has an equal share of [`MAX_FILES`]. Beyond its share it gets only what is left when the
/// shares of all others, used or not, are set aside.
pub fn may_open(open: impl Iterator<Item = usize> + Clone, number: usize) -> bool {
    let share = MAX_FILES / open.clone().count().max(1);
    let kept: usize = open.clone().map(|count| count.max(share)).sum();
    open.clone().nth(number).is_some_and(|count| count < share) || kept < MAX_FILES
}

/// Everything that is open.
#[derive(Debug, Default)]
pub struct Opens(Vec<Option<Open>>);

impl Opens {
    /// Adds something; returns its number.
    pub fn add(&mut self, open: Open) -> OpenId {
        let free = self.0.iter().position(Option::is_none).unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        if let Some(place) = self.0.get_mut(free) {
            *place = Some(open);
        }
        free
    }

    /// Returns the open file or folder of this number.
    #[inline]
    pub fn get(&self, id: OpenId) -> Option<&Open> {
        self.0.get(id)?.as_ref()
    }

    /// Returns the open file or folder of this number, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: OpenId) -> Option<&mut Open> {
        self.0.get_mut(id)?.as_mut()
    }

    /// Takes something out.
    pub fn remove(&mut self, id: OpenId) -> Option<Open> {
        self.0.get_mut(id)?.take()
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns whether somebody writes behind the end of the file that is there, or is to be, at
    /// this path, in lower case.
    pub fn is_appended(&self, path: &str) -> bool {
        self.0.iter().flatten().any(|open| match &open.kind {
            Kind::Writer(writer) => writer.is_there && writer.path == path,
            _ => false,
        })
    }
}
