//! Copying and clearing memory that others may change meanwhile, and the routines that the compiler
//! asks for.

use core::ptr::NonNull;

core::arch::global_asm!(include_str!("memory.s"));

unsafe extern "C" {
    /// `memcpy` by a name of which the compiler assumes nothing.
    fn culm_copy(destination: *mut u8, source: *const u8, length: usize);
    /// `memset` to zero by a name of which the compiler assumes nothing.
    fn culm_clear(destination: *mut u8, length: usize);
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
