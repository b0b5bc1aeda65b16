//! The loops themselves, in assembly (`loops.s`), and the marks around them.

use super::{ALIGNMENTS, DISTANCE, KIND, MEMORY, OPERATION, SIZES, SPIN};
use crate::mark;
use core::ptr::NonNull;

/// Bytes that each row over memory reads, writes or copies, but those that take one byte at a time:
/// a sixteenth.
const TOTAL: usize = 64 << 20;

core::arch::global_asm!(include_str!("loops.s"));

unsafe extern "C" {
    fn culm_spin_4(rounds: u64);
    fn culm_spin_8(rounds: u64);
    fn culm_spin_16(rounds: u64);
    fn culm_spin_32(rounds: u64);
    fn culm_spin_64(rounds: u64);
    fn culm_spin_128(rounds: u64);
    fn culm_spin_256(rounds: u64);
    fn culm_spin_pages(rounds: u64);
    fn culm_read(from: *const u8, bytes: usize);
    fn culm_write(to: *mut u8, bytes: usize);
    fn culm_copy_pairs(to: *mut u8, from: *const u8, bytes: usize);
    fn culm_copy_bytes(to: *mut u8, from: *const u8, bytes: usize);
}

/// Runs the loops of four instructions, each for `rounds` rounds: at alignments 4 to 256, then
/// across two pages, which an emulator takes so much longer for that a sixteenth has to do.
pub fn spin(rounds: u64) {
    let loops: [unsafe extern "C" fn(u64); ALIGNMENTS.len() + 1] = [
        culm_spin_4,
        culm_spin_8,
        culm_spin_16,
        culm_spin_32,
        culm_spin_64,
        culm_spin_128,
        culm_spin_256,
        culm_spin_pages,
    ];
    for (index, (row, spin)) in (SPIN..).zip(loops).enumerate() {
        let rounds = if index == loops.len() - 1 { rounds / 16 } else { rounds }.max(1);
        // SAFETY: the loop touches only registers that a call may change.
        unsafe {
            spin(rounds.min(1000));
            mark::begin(row, rounds);
            spin(rounds);
        }
        mark::end(row, rounds);
    }
}

/// Reads, writes and copies pieces of `memory`, the kind that is number `kind`.
///
/// # Safety
///
/// `memory` is the start of [`MEMORY_SIZE`] bytes that may be read and written, and nobody else
/// reads what is written.
pub unsafe fn over_memory(memory: NonNull<u8>, kind: u64) {
    let here = memory.as_ptr();
    // SAFETY: within the bytes that the caller promises.
    let there = unsafe { here.add(DISTANCE) };
    let first = MEMORY + kind * KIND;
    for (index, size) in (0..).zip(SIZES) {
        let row = |operation: u64| first + operation * OPERATION + index;
        // SAFETY: `here` and `there` are the starts of pieces of at least `size` bytes, `size` is a
        // multiple of 64, and with the offsets of 1 and 8 the pieces still end within the 64 bytes
        // that there are more.
        unsafe {
            measure(row(0), size, TOTAL, || culm_read(here, size));
            measure(row(1), size, TOTAL, || culm_write(here, size));
            measure(row(2), size, TOTAL, || culm_copy_pairs(there, here, size));
            measure(row(3), size, TOTAL, || culm_copy_pairs(there.add(8), here, size));
            measure(row(4), size, TOTAL, || culm_copy_pairs(there.add(1), here, size));
            measure(row(5), size, TOTAL / 16, || culm_copy_bytes(there, here, size));
        }
    }
}

/// Repeats `work` on `size` bytes until it was `total`. A round is a KiB.
fn measure(row: u64, size: usize, total: usize, work: impl Fn()) {
    work();
    mark::begin(row, (total >> 10) as u64);
    for _ in 0..total / size {
        work();
    }
    mark::end(row, (total >> 10) as u64);
}
