//! The file class: the protocol between a provider of files and its clients, and both sides of it.
//!
//! # Requests and answers
//!
//! A client sends [`Request`]s over one queue and takes answers from another. Each request gets one
//! answer, under the token that its client gave it, in any order. Many may be under way.
//!
//! * A client sees one folder, its root, which the system file gives it, and may write there if the
//!   system file says so. Paths are described in [`path`].
//! * A client numbers its open files itself, from 0 to [`MAX_FILES`] - 1.
//! * Data lies in the client's own memory, which the device reads and writes: nobody copies whole
//!   blocks. A request names the first block ([`BLOCK`] bytes) of its memory; the data begins
//!   within that block where it begins within its block of the file: at `position % BLOCK`. So
//!   memory and file can be moved block by block, whatever the position. Bytes that the file does
//!   not have are never written to the client's memory.
//! * A request with a path has [`PATH_BLOCKS`] blocks of memory: the path in front, and room for
//!   what the provider says of the file behind it ([`info`]).
//! * Until a request is answered, its memory belongs to the provider and the device.
//! * The first entry that a provider sends says which [`Volume`] is there, and it sends another
//!   whenever that changes.
//!
//! # Order
//!
//! Requests that change something (writes, commits, new folders, removals, new names, opening and
//! closing) are carried out in the order in which a client sent them. Reads, lists and stats have
//! no order: they may pass others. Whoever needs one waits for the answer.
//!
//! # What is durable
//!
//! * After the answer to a new folder, a removal or a new name it is done, and stays so after a
//!   power cut.
//! * After that to the [`Operation::Commit`] of a new file ([`Mode::New`]), its path leads to all
//!   of the new content, also after a power cut. Until then it leads to what was there before;
//!   after a cut in between to one of the two.
//! * After that to the commit of a file that is appended to, all that was written before the commit
//!   was sent is in the file, also after a power cut.
//! * A write that was answered says nothing yet: who opens the file sees what was committed.
//!
//! A new file that is closed before its commit, or whose client dies, is given back: nobody ever
//! sees it. A file that is appended to is committed when it is closed, or its client dies.
//! Who has a file open for reading when another takes its place, or when it is removed, goes on
//! reading the old one.
//!
//! # Restart
//!
//! Either side may be restarted at any time. The [`Client`] sends again what was not answered, and
//! opens again what was open, under the same number, if that is sound: a file that is read and is
//! still the same one ([`Info::is_same`]), and one that is appended to and has exactly what was
//! committed. What else was open is lost: its requests are answered by [`Error::Lost`], until it is
//! closed. A removal, a new folder or a new name that was sent again and finds its work done is
//! done.
//!
//! # Files
//!
//! [`request`] and [`info`] say what is asked and answered; [`entry`] how it lies in a queue.
//! [`client`] is the side that asks, [`provider`] the side that answers. [`testing`] has files in
//! memory, for host tests of clients.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod client;
pub mod entry;
pub mod info;
pub mod listing;
pub mod path;
pub mod provider;
pub mod request;
#[cfg(not(target_os = "none"))]
pub mod testing;

#[cfg(test)]
mod tests;

pub use client::{Client, Completion, File, NotSent};
pub use culm_abi::connection::file::PATHS;
pub use entry::{Answer, AnswerEntry, RequestEntry};
pub use info::{Info, Volume};
pub use listing::{Item, Listing};
pub use provider::{Port, Taken};
pub use request::{Done, Error, Mode, Operation, Request};

/// Bytes of a block.
pub const BLOCK: usize = culm_abi::connection::block::BLOCK;

/// The most files that a client has open.
pub const MAX_FILES: usize = 32;

/// The most bytes that one request reads, writes or lists: 1 MiB.
pub const MAX_LENGTH: u32 = 1 << 20;

/// Blocks of memory that a request with a path has.
pub const PATH_BLOCKS: u32 = 2;

/// Returns how many requests of a client's user can be under way over queues of these capacities:
/// their answers, that of one which the client itself has sent, and a few entries that say which
/// volume is there, always have space.
pub const fn depth(requests: u32, answers: u32) -> u32 {
    let least = if requests < answers { requests } else { answers };
    culm_queue::lendable(least).saturating_sub(3)
}
