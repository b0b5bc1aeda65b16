//! Reads of a file of a FAT volume: direct ones, as dd does with `iflag=direct`, and from the page
//! cache. Culm's `file-bench` reads the same file as often.

use crate::linux::{call, number, write};
use culm_bench_guest::file::{CACHED, DIRECT, READS, SIZE, WARM_UP};
use culm_bench_guest::mark;

/// The file, which is `culm_bench_guest::file::PATH` where the peer mounts the volume.
const PATH: &core::ffi::CStr = c"/site/1M.bin";

/// Runs both rows and says so.
pub fn run() -> i32 {
    // O_RDONLY | O_DIRECT, and O_RDONLY.
    for (row, flags) in [(DIRECT, 0o200_000), (CACHED, 0)] {
        if !read(row, flags) {
            write(2, b"peer: the file cannot be read\n");
            return 1;
        }
    }
    write(1, b"peer: file rows done\n");
    0
}

/// Reads the file that is opened with `flags` again and again. Returns false if a read failed.
fn read(row: u64, flags: usize) -> bool {
    const HERE: usize = -100_isize as usize;
    let bytes = SIZE as usize;
    // SAFETY: the path ends in zero, and Linux reads no further; the memory is a fresh mapping
    // (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE) that is never unmapped.
    let (file, memory) = unsafe {
        (
            call(number::OPENAT, [HERE, PATH.as_ptr() as usize, flags, 0, 0, 0]),
            call(number::MMAP, [0, bytes, 3, 0x8022, usize::MAX, 0]),
        )
    };
    if file < 0 || memory < 0 {
        return false;
    }
    for index in 0..WARM_UP + READS {
        if index == WARM_UP {
            mark::begin(row, READS.into());
        }
        // SAFETY: Linux writes so many bytes of `memory`, which is as long.
        let count = unsafe { call(number::PREAD64, [file as usize, memory as usize, bytes, 0, 0, 0]) };
        if count != bytes as isize {
            return false;
        }
    }
    mark::end(row, READS.into());
    true
}
