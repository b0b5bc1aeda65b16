//! Copying and clearing memory that other threads of a test may change meanwhile.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Copies bytes, either or both of which others may read and write at the same time. Where the two
/// overlap, what is copied is not defined, but nothing else is touched.
///
/// # Safety
///
/// Both must be mapped for `length` bytes.
pub(crate) unsafe fn shared(destination: NonNull<u8>, source: NonNull<u8>, length: usize) {
    for index in 0..length {
        // SAFETY: [A2] mapped by the caller's word; an atomic of one byte is always aligned.
        unsafe {
            let byte = source.add(index).cast::<AtomicU8>().as_ref().load(Relaxed);
            destination.add(index).cast::<AtomicU8>().as_ref().store(byte, Relaxed);
        }
    }
}

/// Sets bytes to zero that others may read and write at the same time.
///
/// # Safety
///
/// They must be mapped for `length` bytes.
pub(crate) unsafe fn clear(destination: NonNull<u8>, length: usize) {
    for index in 0..length {
        // SAFETY: [A2] as in `shared`.
        unsafe { destination.add(index).cast::<AtomicU8>().as_ref().store(0, Relaxed) };
    }
}

/// Returns a one's-complement sum of bytes, as they lie in memory, for the Internet checksum
/// (RFC 1071): its four half words, added with their carries, are the sum of all half words. A last
/// byte without another one beside it counts as if a zero followed.
pub fn sum(bytes: &[u8]) -> u64 {
    // Bytes that fit into an address space are too few for a carry.
    bytes.chunks(4).fold(0, |sum, part| {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        sum + u64::from(u32::from_le_bytes(word))
    })
}

/// Does nothing: on the host nobody reads memory without its caches.
///
/// # Safety
///
/// As elsewhere: they must be mapped for `length` bytes.
pub(crate) unsafe fn clean(_first: NonNull<u8>, _length: usize) {}
