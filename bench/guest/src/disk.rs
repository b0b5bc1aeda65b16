//! The rows of the benchmarks of disks and cards: what a program in the guest sends. They are here
//! once, for Culm's program and the peer's, and for the harness, which names them.
//!
//! A row's number in its marks ([`crate::mark`]) is its place in [`DISK`] or [`CARD`].

use core::fmt;

/// Bytes of a block.
pub const BLOCK: u32 = 512;

/// The blocks over which each row goes, again and again: 32 MiB.
pub const SPAN: u64 = 32 << 11;

/// The most requests under way.
pub const MAX_DEPTH: u32 = 32;

/// Blocks of the largest request: 1 MiB.
pub const MAX_BLOCKS: u32 = 2048;

/// The requests of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Writes, each made durable by a flush before the next: every other request is a flush. A
    /// flush that follows no write is answered without the device.
    WriteFlush,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The requests.
    pub operation: Operation,
    /// Blocks of each request.
    pub blocks: u32,
    /// Requests that are under way at the same time.
    pub depth: u32,
    /// Requests before those that are measured, so that the emulator has translated everything.
    pub warm_up: u32,
    /// Requests that are measured.
    pub requests: u32,
}

impl Row {
    /// Returns the row of requests of so many blocks that has as many requests as move `budget`
    /// blocks; `least` at least and `most` at most.
    const fn new(operation: Operation, blocks: u32, depth: u32, [least, most, budget]: [u32; 3]) -> Row {
        let fitting = budget / blocks;
        let requests = if fitting > most { most } else { fitting };
        // Answers come many at a time if there are many requests: the row is to be much longer.
        let least = if least < 8 * (depth - 1) { 8 * (depth - 1) } else { least };
        let requests = if requests < least { least } else { requests };
        let warm_up = if depth > requests / 5 { depth + 1 } else { requests / 5 };
        Row { operation, blocks, depth, warm_up, requests }
    }

    /// Returns where the request of this index begins on the disk.
    pub const fn block(&self, index: u32) -> u64 {
        index as u64 * self.blocks as u64 % SPAN
    }

    /// Returns whether the time that the requests so far took is to be marked, after so many that
    /// are measured: a busy host holds up some of eight parts, but hardly all. Many at a time come
    /// too unevenly for that.
    pub const fn is_lap(&self, measured: u32) -> bool {
        let part = if self.requests < 8 { 1 } else { self.requests / 8 };
        self.depth == 1 && measured.is_multiple_of(part)
    }

    /// Returns whether the request of this index is a flush.
    pub const fn is_flush(&self, index: u32) -> bool {
        matches!(self.operation, Operation::WriteFlush) && index % 2 == 1
    }
}

/// `read-4k-d32`: the operation, the size of a request, and how many are under way.
impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::WriteFlush => "write-flush",
        };
        let bytes = self.blocks * BLOCK;
        match bytes >> 10 {
            0 => write!(formatter, "{operation}-{bytes}-d{}", self.depth),
            1024 => write!(formatter, "{operation}-1m-d{}", self.depth),
            kilobytes => write!(formatter, "{operation}-{kilobytes}k-d{}", self.depth),
        }
    }
}

/// Sizes of requests: each power of two from a block to [`MAX_BLOCKS`].
const SIZES: usize = MAX_BLOCKS.ilog2() as usize + 1;

/// Rows of each operation and size, one at a time; of the first sizes, so that there are `COUNT`
/// rows, many at a time; in the end one of flushes.
const fn rows<const COUNT: usize>(bounds: [u32; 3]) -> [Row; COUNT] {
    let mut rows = [Row::new(Operation::WriteFlush, 8, 1, bounds); COUNT];
    let mut index = 0;
    while index < COUNT - 1 {
        let operation = if index.is_multiple_of(2) { Operation::Read } else { Operation::Write };
        let depth = if index < 2 * SIZES { 1 } else { MAX_DEPTH };
        rows[index] = Row::new(operation, 1 << (index / 2 % SIZES), depth, bounds);
        index += 1;
    }
    rows
}

/// The rows of a virtio disk.
pub static DISK: [Row; 4 * SIZES + 1] = rows([128, 2000, 64 << 11]);

/// The rows of a card. QEMU moves it block by block, for a tenth of a millisecond each, and one
/// request at a time: many at a time are rows up to 16 KiB, and a row moves 2 MiB, unless eight
/// requests move more.
pub static CARD: [Row; 2 * SIZES + 2 * 6 + 1] = rows([8, 500, 2 << 11]);

/// The rows of a virtio disk that a Linux reads and writes, once as a guest of Culm's and once with
/// the machine to itself.
pub static GUEST: [Row; 7] = {
    const BOUNDS: [u32; 3] = [128, 2000, 64 << 11];
    [
        Row::new(Operation::Read, 8, 1, BOUNDS),
        Row::new(Operation::Write, 8, 1, BOUNDS),
        Row::new(Operation::Read, 8, MAX_DEPTH, BOUNDS),
        Row::new(Operation::Read, 128, 1, BOUNDS),
        Row::new(Operation::Read, MAX_BLOCKS, 1, BOUNDS),
        Row::new(Operation::Write, MAX_BLOCKS, 1, BOUNDS),
        Row::new(Operation::WriteFlush, 8, 1, BOUNDS),
    ]
};

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;
    use std::string::{String, ToString};

    #[test]
    fn rows_have_names_of_their_own() {
        let names: BTreeSet<String> = DISK.iter().map(Row::to_string).collect();
        assert_eq!(names.len(), DISK.len());
        assert!(CARD.iter().chain(&GUEST).all(|row| names.contains(&row.to_string())));
        for name in ["read-512-d1", "write-4k-d32", "read-128k-d1", "write-1m-d32", "write-flush-4k-d1"] {
            assert!(names.contains(name), "{name} in {names:?}");
        }
    }

    #[test]
    fn a_row_begins_to_be_measured_with_all_its_requests_under_way() {
        for row in DISK.iter().chain(&CARD).chain(&GUEST) {
            assert!(row.warm_up >= row.depth && row.requests >= 4, "{row}");
        }
    }
}
