//! Partition tables: MBR and GPT, read from media that nobody vouches for.
//!
//! A [`Scan`] says which blocks it wants to see and is given them: it does no input, so that a
//! virtualiser, which never waits, uses it as well as tests and the fuzzer do. What comes out is
//! a [`Table`]. Its work and its memory are bounded whatever is on the medium.
//!
//! A partition that reaches outside the disk, or overlaps another, cannot be found by
//! [`Table::find`], which says why; the others of its table can. What is wrong with the table
//! itself and was worked around ([`Flaw`]) is there to be told to whoever can repair it.
//!
//! Libraries that know these formats either read by calls that wait, with an allocating standard
//! library, or have the structures alone, which are the smaller part of this.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bytes;
mod gpt;
mod mbr;
mod scan;
mod selector;
mod table;
#[cfg(test)]
mod tests;

pub use gpt::HeaderProblem;
pub use scan::{Read, Scan};
pub use selector::{BadSelector, Selector};
pub use table::{Flaw, Kind, NoTable, NotFound, Partition, Problem, Table, Uuid};

/// Bytes of a block, in which disks and partitions are counted here.
pub const BLOCK: usize = 512;

/// The most blocks that a scan wants at once: as many as the largest logical block has.
pub const MAX_READ: u32 = 128;

/// The most partitions of a table. Further ones are ignored, with a [`Flaw`].
pub const MAX_PARTITIONS: usize = 256;
