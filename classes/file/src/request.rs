//! A client's requests, and why they may be refused.

use crate::{BLOCK, Info, MAX_FILES, MAX_LENGTH, PATH_BLOCKS, path};
use core::fmt;

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To read it, or to list it if it is a folder.
    Read,
    /// To write a new file, which takes the place of what the path leads to when it is committed.
    New,
    /// To write behind its end. A new one is begun if there is none, which is there when it is
    /// committed, at the latest.
    Append,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Open what the path leads to. Answered with an [`Info`]. Of a new file `position` says for
    /// how many bytes there must be space, which are its own until it is closed.
    Open(Mode),
    /// Close the file.
    Close,
    /// Read bytes into memory. Answered with their count, which is less than `length` if and only
    /// if the file ends.
    Read,
    /// Write bytes from memory behind the file's end, at which `position` must be. All are written,
    /// or the request fails.
    Write,
    /// Make durable, and visible, all that was written to the file.
    Commit,
    /// Say what the path leads to. Answered with an [`Info`].
    Stat,
    /// List items of the folder, from `position` on: 0, or what an earlier answer said comes next.
    /// Answered with the count of bytes of a [`crate::Listing`], and where to go on.
    List,
    /// Make a folder.
    MakeFolder,
    /// Remove a file or an empty folder.
    Remove,
    /// Give a file or folder another path, where there must be nothing. Both paths lie one behind
    /// the other; `position` is the first one's length.
    Rename,
}

impl Operation {
    /// Returns whether the request's memory holds paths.
    #[inline(always)]
    pub const fn has_path(self) -> bool {
        matches!(self, Self::Open(_) | Self::Stat | Self::MakeFolder | Self::Remove | Self::Rename)
    }

    /// Returns whether the request names an open file, or one to be opened.
    #[inline(always)]
    pub const fn has_file(self) -> bool {
        matches!(self, Self::Open(_) | Self::Close | Self::Read | Self::Write | Self::Commit | Self::List)
    }

    /// Returns whether the request's memory holds data.
    #[inline(always)]
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::List)
    }

    /// Returns whether only who may write can ask for it.
    #[inline(always)]
    pub const fn changes_files(self) -> bool {
        match self {
            Self::Open(mode) => !matches!(mode, Mode::Read),
            Self::Write | Self::Commit | Self::MakeFolder | Self::Remove | Self::Rename => true,
            Self::Close | Self::Read | Self::Stat | Self::List => false,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The client's number for the file; 0 if the operation has none.
    pub file: u8,
    /// The position in the file, in bytes; see the operations.
    pub position: u64,
    /// The first block of its memory; 0 if it has none.
    pub place: u32,
    /// Bytes of data, or of the path or paths.
    pub length: u32,
}

impl Request {
    /// The largest position: 40 bits.
    pub const MAX_POSITION: u64 = (1 << 40) - 1;

    /// The last block of memory that can be named: 24 bits.
    pub const MAX_PLACE: u32 = (1 << 24) - 1;

    /// Returns where its data begins in the client's memory, in bytes.
    #[inline(always)]
    pub const fn offset(&self) -> usize {
        let within = if matches!(self.operation, Operation::Read | Operation::Write) {
            self.position as usize % BLOCK
        } else {
            0
        };
        self.place as usize * BLOCK + within
    }

    /// Returns whether the request keeps to the protocol, for a client with so many bytes of
    /// memory.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if it does not.
    #[inline]
    pub fn check(&self, memory: usize) -> Result<(), Error> {
        let operation = self.operation;
        let (is_file, length) = (operation.has_file(), self.length as usize);
        let fits = if operation.has_data() {
            self.position <= Self::MAX_POSITION
                && (1..=MAX_LENGTH).contains(&self.length)
                && self.offset().saturating_add(length) <= memory
        } else if operation.has_path() {
            let first = self.position as usize;
            let is_placed = match operation {
                Operation::Rename => first > 0 && first < length,
                Operation::Open(Mode::New) => self.position <= Self::MAX_POSITION,
                _ => first == 0,
            };
            let end = (self.place as usize).saturating_add(PATH_BLOCKS as usize).saturating_mul(BLOCK);
            is_placed && (1..=path::SPACE).contains(&length) && end <= memory
        } else {
            (self.position, self.place, self.length) == (0, 0, 0)
        };
        let is_numbered = if is_file { (self.file as usize) < MAX_FILES } else { self.file == 0 };
        if fits && is_numbered { Ok(()) } else { Err(Error::Invalid) }
    }
}

/// An answer to a request that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// How many bytes were read, written or listed.
    pub count: u32,
    /// The file, where the request asked for that: opening it, and stats.
    pub info: Option<Info>,
    /// Where to go on with a list; `None` if that was the end.
    pub next: Option<u64>,
}

impl Done {
    /// Nothing to say.
    pub const NOTHING: Self = Self { count: 0, info: None, next: None };

    /// So many bytes.
    pub const fn bytes(count: u32) -> Self {
        Self { count, ..Self::NOTHING }
    }

    /// A file.
    pub const fn file(info: Info) -> Self {
        Self { info: Some(info), ..Self::NOTHING }
    }
}

/// The reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The request contradicts the protocol, or the file is not open for that.
    Invalid,
    /// The path leads to nothing.
    NotFound,
    /// There is something already.
    Exists,
    /// The path leads to a folder, or through a file; or a file was to be listed.
    WrongKind,
    /// The folder is not empty.
    NotEmpty,
    /// The text is no path, or the file system cannot have such a name.
    Name,
    /// The client or the medium does not allow it.
    ReadOnly,
    /// Another client, or the same one, is writing this.
    Busy,
    /// There is no space left, or the file would be larger than the file system can have.
    Full,
    /// Too many files are open.
    TooMany,
    /// The provider cannot do that.
    Unsupported,
    /// There is no medium. Of a request that was under way when it was taken out, anything may have
    /// been done.
    Absent,
    /// Another medium was put in, or the same one again; the file was on the earlier one.
    Changed,
    /// The provider was restarted, and the file cannot be what it was: what was not committed is
    /// gone, or it is another one. Of a commit, anything may have been done, but no half.
    Lost,
    /// The medium has no file system that the provider knows, or one that contradicts itself.
    Damaged,
    /// The device says that it failed. Of a request that changes something, anything may have been
    /// done.
    Failed,
}

impl Error {
    /// Every reason, in the order of their numbers in a queue.
    pub const ALL: [Self; 16] = [
        Self::Invalid,
        Self::NotFound,
        Self::Exists,
        Self::WrongKind,
        Self::NotEmpty,
        Self::Name,
        Self::ReadOnly,
        Self::Busy,
        Self::Full,
        Self::TooMany,
        Self::Unsupported,
        Self::Absent,
        Self::Changed,
        Self::Lost,
        Self::Damaged,
        Self::Failed,
    ];
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Invalid => "the request is invalid",
            Self::NotFound => "there is no such file or folder",
            Self::Exists => "it is there already",
            Self::WrongKind => "it is a folder where a file is needed, or a file where a folder is needed",
            Self::NotEmpty => "the folder is not empty",
            Self::Name => "there can be no such name",
            Self::ReadOnly => "it can only be read",
            Self::Busy => "it is being written",
            Self::Full => "there is no space left",
            Self::TooMany => "too many files are open",
            Self::Unsupported => "the provider cannot do that",
            Self::Absent => "there is no medium",
            Self::Changed => "another medium is there",
            Self::Lost => "it was lost when the provider was restarted",
            Self::Damaged => "the file system is damaged, or unknown",
            Self::Failed => "the device failed",
        })
    }
}

impl core::error::Error for Error {}
