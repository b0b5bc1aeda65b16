//! A program that runs again and again, or a process that begins and ends: work without devices,
//! between marks.

use crate::linux::{Arguments, call, exit, fork, number, wait, write};
use core::ptr::null;
use culm_bench_guest::mark;

/// Runs the program that the arguments from `first` on name so many times, as row `row`; without
/// one, begins a process that ends at once.
pub fn run(row: u64, rounds: u64, arguments: &Arguments, first: usize) -> i32 {
    let program = arguments.from(first);
    // Once before, so that the emulator has translated everything.
    let mut is_done = round(program);
    mark::begin(row, rounds);
    for _ in 0..rounds {
        is_done &= round(program);
    }
    mark::end(row, rounds);
    if !is_done {
        write(2, b"peer: a program failed\n");
    }
    i32::from(!is_done)
}

/// One process, from its beginning to its end. Returns whether it did what it was to do.
fn round(program: Option<*const *const u8>) -> bool {
    const FAILED: i32 = 127;
    match fork() {
        0 => {
            let Some(program) = program else { exit(0) };
            let environment: [*const u8; 1] = [null()];
            // SAFETY: pointers to strings, and a null pointer behind the last, as Linux has given
            // them; the path is the first of them.
            unsafe {
                let path = *program as usize;
                call(number::EXECVE, [path, program as usize, environment.as_ptr() as usize, 0, 0, 0]);
            }
            exit(FAILED)
        }
        process => process > 0 && wait(process),
    }
}
