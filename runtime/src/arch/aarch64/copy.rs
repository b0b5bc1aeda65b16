//! Copying and clearing memory that others may change meanwhile, and the routines that the compiler
//! asks for.

use core::ptr::NonNull;

#[cfg(target_feature = "neon")]
core::arch::global_asm!(".set culm_has_vectors, 1", include_str!("memory.s"), options(raw));
#[cfg(not(target_feature = "neon"))]
core::arch::global_asm!(".set culm_has_vectors, 0", include_str!("memory.s"), options(raw));

unsafe extern "C" {
    /// `memcpy` by a name of which the compiler assumes nothing.
    fn culm_copy(destination: *mut u8, source: *const u8, length: usize);
    /// `memset` to zero by a name of which the compiler assumes nothing.
    fn culm_clear(destination: *mut u8, length: usize);
    /// A one's-complement sum: see [`sum`].
    fn culm_sum(bytes: *const u8, length: usize) -> u64;
}

/// Copies bytes, either or both of which others may read and write at the same time. Where the two
/// overlap, what is copied is not defined, but nothing else is touched.
///
/// # Safety
///
/// Both must be mapped for `length` bytes.
#[inline(always)]
pub(crate) unsafe fn shared(destination: NonNull<u8>, source: NonNull<u8>, length: usize) {
    // SAFETY: [A2] mapped by the caller's word; written in assembly, so concurrent changes are no
    // data race of Rust's.
    unsafe { culm_copy(destination.as_ptr(), source.as_ptr(), length) }
}

/// Sets bytes to zero that others may read and write at the same time.
///
/// # Safety
///
/// They must be mapped for `length` bytes.
#[inline(always)]
pub(crate) unsafe fn clear(destination: NonNull<u8>, length: usize) {
    // SAFETY: [A2] as in `shared`.
    unsafe { culm_clear(destination.as_ptr(), length) }
}

/// Returns a one's-complement sum of bytes, as they lie in memory, for the Internet checksum
/// (RFC 1071): its four half words, added with their carries, are the sum of all half words. A last
/// byte without another one beside it counts as if a zero followed. With vector registers it takes
/// an instruction for 12 bytes, without for five.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // SAFETY: [A2] it reads what the slice has.
    unsafe { culm_sum(bytes.as_ptr(), bytes.len()) }
}

/// Writes bytes that caches hold back to memory (Arm ARM, "A64 Cache maintenance instructions": `DC
/// CVAC`).
///
/// # Safety
///
/// They must be mapped for `length` bytes.
pub(crate) unsafe fn clean(first: NonNull<u8>, length: usize) {
    let kind: u64;
    // SAFETY: [A2] CTR_EL0 says how caches are built (DminLine: words of the smallest line, as a
    // power of two); the kernel lets components read it.
    unsafe { core::arch::asm!("mrs {}, ctr_el0", out(reg) kind, options(pure, nomem, nostack, preserves_flags)) };
    let line = 4_usize << (kind >> 16 & 0xf);
    let mut at = first.as_ptr() as usize & !(line - 1);
    let end = first.as_ptr() as usize + length;
    while at < end {
        // SAFETY: [A2] mapped by the caller's word: a line is not larger than a page. It changes no
        // byte.
        unsafe { core::arch::asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags)) };
        at += line;
    }
    // SAFETY: [A2] DSB has no effect but that it waits.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
}
