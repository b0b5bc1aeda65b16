//! Where the parts of a virtqueue lie in the device's memory.

/// The offsets of a queue's parts in the device's memory.
///
/// The used ring lies at an address that is 4 modulo 8: so its elements, which follow a word of 4
/// bytes, are aligned to 8 and read by one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Descriptors that it has, a power of two.
    pub size: u16,
    /// Offset of the descriptors, a multiple of 16.
    pub descriptors: usize,
    /// Offset of the available ring, which the driver writes.
    pub available: usize,
    /// Offset of the used ring, which the device writes.
    pub used: usize,
    /// Offset of the slots, in which the driver keeps its record of each buffer.
    pub slots: usize,
    /// Offset of the first byte behind all that.
    pub end: usize,
}

impl Layout {
    /// The most descriptors that a queue may have.
    pub const MAX_SIZE: u16 = 1 << 13;

    /// Lays out a queue of `size` descriptors from `start` on.
    pub const fn new(size: u16, start: usize) -> Self {
        let entries = size as usize;
        let descriptors = start.next_multiple_of(64);
        let available = descriptors + 16 * entries;
        // Flags, index, ring, used_event; flags, index, ring, avail_event (§2.7.6, §2.7.8).
        let used = (available + 6 + 2 * entries).next_multiple_of(64) + 4;
        let slots = (used + 6 + 8 * entries).next_multiple_of(64);
        Self { size, descriptors, available, used, slots, end: slots + 8 * entries }
    }
}
