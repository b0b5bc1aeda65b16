//! FAT16 and FAT32 volumes, read and written without input or output of its own.
//!
//! A [`Volume`] carries out one [`Operation`] at a time. [`Volume::step`] says what the medium is
//! asked for: units to read, runs to write, flushes in between; the caller passes that on, comes
//! back with the answers, and asks again, until the operation has ended. So a component whose turns
//! never wait uses it as well as tests and the fuzzer do:
//!
//! ```text
//! volume.begin(operation)?
//! loop {
//!     match volume.step() {
//!         Step::Read { block, blocks } => read them, then volume.give(block, bytes)
//!         Step::Write { block, bytes } => write them, then volume.wrote(true); meanwhile go on
//!         Step::Flush => flush, then volume.flushed(true)
//!         Step::Wait => answers of earlier steps are outstanding
//!         Step::Done(result) => the operation has ended
//!     }
//! }
//! ```
//!
//! # How
//!
//! The crate `lamfat` lists and edits folders, by calls that wait for nothing. What it reads comes
//! from a bounded cache of sectors. If one is missing, the attempt ends, the sector is read, and
//! the operation is attempted again from its beginning. What it writes goes to an overlay, which is
//! thrown away with the attempt. So an operation is all or nothing in memory, and everything that
//! it changes is known before the first sector is written: it is written in an order that a power
//! cut forgives (`order.rs`). Clusters of files are allocated, found and freed here (`table.rs`),
//! in pieces, so that the size of a file is not bounded by the cache.
//!
//! A file's data never comes here: [`Volume::place`] says where on the medium its bytes lie, and
//! the caller has them moved.
//!
//! # Writing a file
//!
//! [`Operation::Create`] makes a file that nobody sees. [`Operation::Reserve`] gives it space, in
//! memory alone. The caller writes its data to [`Volume::place`]. [`Operation::Publish`] writes the
//! table's links, flushes them and the data, and then writes *one* sector that names the new file
//! where the old one was. A reader, or whoever looks after a power cut, sees the old content or the
//! new. [`Operation::Append`] publishes further bytes of a file in the same way.
//!
//! # Hostile media
//!
//! Anything may stand on the medium. What follows is an [`Error`]; the work of an operation and the
//! memory of a volume are bounded, and nothing panics. Only blocks of the volume are read or
//! written, and a file's bytes lie within its data area.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod attempt;
mod entry;
mod error;
mod file;
mod folder;
mod geometry;
mod medium;
mod operation;
mod order;
mod pages;
mod path;
mod publish;
mod recover;
mod table;
mod time;
mod volume;

#[cfg(test)]
mod tests;

pub use entry::{Entry, Kind};
pub use error::{Error, NotFat};
pub use file::{FileId, Place};
pub use operation::{Answer, Operation, Recovered, Space, Step};
pub use path::upper;
pub use volume::{Options, Volume};

/// Bytes of a block, in which places on the medium are counted here, as in the block class.
pub const BLOCK: usize = 512;

/// The largest granule of a medium, as the binary logarithm of blocks: 4 KiB, a FAT volume's
/// largest sector.
pub const LARGEST_GRANULE: u8 = 3;

/// The most bytes of a name.
pub const MAX_NAME: usize = 255;

/// The most bytes of a path.
pub const MAX_PATH: usize = 512;

/// The most folders of a path, its last name included.
pub const MAX_DEPTH: usize = 16;

/// The largest file, in bytes: its size has 32 bits.
pub const MAX_FILE: u64 = u32::MAX as u64;

/// The most entries of 32 bytes of a folder.
pub const MAX_FOLDER_ENTRIES: u32 = 65_536;

/// The most files that are open at once.
pub const MAX_FILES: usize = 256;
