//! Loops over instructions and over memory, row after row, each between marks: the numbers of rows,
//! for whoever runs them and for whoever reads the marks. `target` has the loops.

#[cfg(target_os = "none")]
mod target;

#[cfg(target_os = "none")]
pub use target::{over_memory, spin};

/// The first of the rows with loops of four instructions: one for each alignment, then the one
/// across pages.
pub const SPIN: u64 = 200;
/// Alignments of those loops.
pub const ALIGNMENTS: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];
/// The first of the rows over memory.
pub const MEMORY: u64 = 300;
/// Between the rows of one kind of memory and of the next.
pub const KIND: u64 = 100;
/// Between the rows of one operation and of the next.
pub const OPERATION: u64 = 10;

/// The operations on memory, in the order of the rows: copies are to an aligned place, or one that
/// is 8 bytes or 1 byte further, by pairs of registers; or one byte at a time.
pub const OPERATIONS: [&str; 6] = ["read", "write", "copy", "copy-by-8", "copy-by-1", "copy-bytes"];
/// Bytes of the pieces of memory that are read, written and copied.
pub const SIZES: [usize; 4] = [256, 4 << 10, 64 << 10, 1 << 20];
/// From the start of what is copied to the start of where: the largest piece, and a page, since an
/// emulator's TLB finds addresses by their lower bits, and pages that far apart would drive each
/// other out of it.
pub const DISTANCE: usize = SIZES[3] + 4096;
/// Bytes that a kind of memory must have: both pieces, and some more, for copies that are not
/// aligned.
pub const MEMORY_SIZE: usize = DISTANCE + SIZES[3] + 64;
/// On the host there is nothing to measure.
#[cfg(not(target_os = "none"))]
pub fn spin(_: u64) {}

/// On the host there is nothing to measure.
///
/// # Safety
///
/// Always.
#[cfg(not(target_os = "none"))]
pub unsafe fn over_memory(_: core::ptr::NonNull<u8>, _: u64) {}
