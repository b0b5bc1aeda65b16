//! The file that the benchmark of files reads, and how often: the same on both sides.

/// Its path on the volume.
pub const PATH: &str = "/1M.bin";

/// Its bytes, which one request reads.
pub const SIZE: u32 = 1 << 20;

/// Reads of the whole file before those that are measured.
pub const WARM_UP: u32 = 40;

/// Reads that are measured.
pub const READS: u32 = 200;

/// The row of Culm's program, which reads in one way, and of direct reads on Linux.
pub const DIRECT: u64 = 0;

/// The row of reads from Linux's page cache.
pub const CACHED: u64 = 1;
