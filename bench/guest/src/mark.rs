//! Marks that the counting plugin (`bench/plugin`) records: unallocated hints, which are no
//! operation to a processor (Arm ARM C6.2.130), with two values in registers.

/// A row's loop begins: `rounds` rounds.
#[cfg(target_os = "none")]
#[inline(always)]
pub fn begin(row: u64, rounds: u64) {
    // SAFETY: no operation; it touches neither memory, flags nor registers.
    unsafe {
        core::arch::asm!("hint #96", in("x0") row, in("x1") rounds, options(nomem, nostack, preserves_flags));
    }
}

/// A part of a row's loop has ended, after `rounds` rounds in all.
#[cfg(target_os = "none")]
#[inline(always)]
pub fn lap(row: u64, rounds: u64) {
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("hint #98", in("x0") row, in("x1") rounds, options(nomem, nostack, preserves_flags));
    }
}

/// A client of several has done so many requests in all.
#[cfg(target_os = "none")]
#[inline(always)]
pub fn beat(client: u64, requests: u64) {
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("hint #99", in("x0") client, in("x1") requests, options(nomem, nostack, preserves_flags));
    }
}

/// A row's loop ends.
#[cfg(target_os = "none")]
#[inline(always)]
pub fn end(row: u64, rounds: u64) {
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("hint #97", in("x0") row, in("x1") rounds, options(nomem, nostack, preserves_flags));
    }
}

/// On the host nobody counts.
#[cfg(not(target_os = "none"))]
pub fn begin(_: u64, _: u64) {}

/// On the host nobody counts.
#[cfg(not(target_os = "none"))]
pub fn lap(_: u64, _: u64) {}

/// On the host nobody counts.
#[cfg(not(target_os = "none"))]
pub fn beat(_: u64, _: u64) {}

/// On the host nobody counts.
#[cfg(not(target_os = "none"))]
pub fn end(_: u64, _: u64) {}
