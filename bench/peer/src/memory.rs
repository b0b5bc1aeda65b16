//! Loops over instructions and memory: the same as on Culm, in memory as a program has it. Memory
//! past the caches is not to be had without a driver.

use crate::linux::{call, number, write};
use core::ptr::NonNull;
use culm_bench_guest::loops;

/// Runs all loops, those of four instructions for `rounds` rounds.
pub fn run(rounds: u64) -> i32 {
    loops::spin(rounds);
    // Private and anonymous (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS).
    // SAFETY: a fresh mapping, that is never unmapped.
    let memory = unsafe { call(number::MMAP, [0, loops::MEMORY_SIZE, 3, 0x22, usize::MAX, 0]) };
    let Some(memory) = (memory > 0).then(|| NonNull::new(memory as *mut u8)).flatten() else {
        write(2, b"peer: no memory\n");
        return 1;
    };
    // SAFETY: as many bytes as the loops need; nobody else knows of them.
    unsafe { loops::over_memory(memory, 0) };
    write(1, b"peer: loops done\n");
    0
}
