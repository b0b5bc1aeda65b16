//! Operations on a volume, their answers, and the steps by which the caller carries them out.

use crate::entry::Entry;
use crate::error::Error;
use crate::file::{FileId, Place};
#[cfg(doc)]
use crate::volume::Volume;
use alloc::string::String;
use alloc::vec::Vec;

/// An operation on a volume.
///
/// Paths begin at the volume's root, with or without `/`, their names between `/`. Upper and lower
/// case are the same in names that are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads the boot sector. First of all, and again with another medium, or if a failed
    /// write has left none ([`Volume::is_mounted`]): all files are closed.
    Mount,
    /// Looks for what a power cut has left, and repairs it, if [`Volume::is_marked`]: right after
    /// mounting. [`Error::NotReady`] if files are open.
    Recover,
    /// Says what a path is.
    Find {
        /// The path.
        path: String,
    },
    /// Opens a file for reading.
    Open {
        /// The path.
        path: String,
    },
    /// Opens a new file for writing, which takes the name when it is published, in place of the
    /// file that has it then. [`Error::Busy`] if that file is written under another of its names.
    Create {
        /// The path.
        path: String,
    },
    /// Opens a file for writing behind its end; a new one if there is none.
    Append {
        /// The path.
        path: String,
    },
    /// Finds out where the byte at this offset of an open file lies, for [`Volume::place`].
    Locate {
        /// The file.
        file: FileId,
        /// The offset.
        offset: u64,
    },
    /// Sees to it that a file that is written has space for so many bytes, and a new one also for
    /// its name, where its folder has to grow for that. Nothing is written.
    Reserve {
        /// The file.
        file: FileId,
        /// The bytes from its beginning.
        size: u64,
    },
    /// Makes this the size of a file that is written, after all its data has been written to its
    /// places. It is durable after [`Self::Sync`]. If a new file cannot take its name, it is given
    /// up: it can be closed, and neither written nor published again ([`Error::BadFile`]).
    Publish {
        /// The file.
        file: FileId,
        /// Its bytes: no fewer than before, no more than it has space for.
        size: u64,
    },
    /// Closes a file. What was not published is given up.
    Close {
        /// The file.
        file: FileId,
    },
    /// Lists a folder.
    List {
        /// The path.
        path: String,
        /// Where to go on, as an earlier answer said; 0 at the beginning.
        from: u64,
        /// The most entries.
        most: usize,
    },
    /// Makes a folder.
    MakeFolder {
        /// The path.
        path: String,
    },
    /// Removes a file or an empty folder. Who reads the file goes on reading it.
    Remove {
        /// The path.
        path: String,
    },
    /// Gives a file or a folder another path.
    Rename {
        /// The path.
        from: String,
        /// The other path.
        to: String,
        /// Whether a file takes the place of one that has that path.
        replace: bool,
    },
    /// Counts free clusters.
    Count,
    /// Gives some clusters free of what was removed, if [`Volume::is_freeing`].
    Free,
    /// Makes everything durable.
    Sync,
    /// Makes everything durable and says on the volume that it is whole. The next change takes that
    /// back, by a write and a flush of its own: do it when nothing has changed for a while.
    Rest,
}

/// The space of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Of files and folders.
    pub total: u64,
    /// Free bytes.
    pub free: u64,
    /// Of a cluster: files take multiples of it.
    pub cluster: u32,
}

/// The outcome of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Clusters that nothing named, and that are free now.
    pub freed: u32,
    /// Entries of the table's second copy that were not like the first.
    pub copied: u32,
    /// Names and parts of names that were removed or corrected.
    pub names: u32,
    /// Whether the volume is whole now. If not, there was something that no power cut causes, or
    /// more than the memory allows to look at, and nothing was changed.
    pub is_whole: bool,
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The file or folder.
    Found(Entry),
    /// The file is open.
    Opened {
        /// Its number.
        file: FileId,
        /// Its bytes.
        size: u64,
    },
    /// Where the byte lies; `None` behind the end.
    Located(Option<Place>),
    /// Entries of a folder, and where to go on if there are more.
    Listed {
        /// The entries.
        entries: Vec<Entry>,
        /// Where to go on.
        next: Option<u64>,
    },
    /// The space.
    Counted(Space),
    /// The repairs.
    Recovered(Recovered),
}

/// A thing that the caller does next.
#[derive(Debug)]
pub enum Step<'a> {
    /// Read these blocks, and pass them to [`Volume::give`].
    Read {
        /// The first block.
        block: u64,
        /// How many: 512 at most.
        blocks: u32,
    },
    /// Write these blocks, and say so by [`Volume::wrote`]. Further writes may follow meanwhile, in
    /// any order.
    Write {
        /// The first block.
        block: u64,
        /// Their bytes.
        bytes: &'a [u8],
    },
    /// Flush, and say so by [`Volume::flushed`].
    Flush,
    /// Earlier steps have not been answered.
    Wait,
    /// The operation has ended.
    Done(Result<Answer, Error>),
}
