//! Queue entries: plain values that their reader copies out once and checks.

use culm::time::Instant;
use culm_abi::connection::net::{DMA_ENTRY_SIZE, ENTRY_SIZE};
use culm_queue::Entry;

// The build tool lays the queues out by these.
const _: () = assert!(size_of::<Descriptor>() == ENTRY_SIZE as usize);
const _: () = assert!(size_of::<DmaDescriptor>() == DMA_ENTRY_SIZE as usize);

/// A packet or an empty buffer, between virtualisers, copiers and clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Offset of the buffer in its data region.
    pub offset: u32,
    /// Bytes in it: packet header and frame. 0 for an empty buffer, or with [`flags::REFUSED`] the
    /// [`moment`] at which what was in it was dropped.
    pub length: u16,
    /// [`flags`].
    pub flags: u16,
}

/// A packet or an empty buffer, between driver and virtualisers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmaDescriptor {
    /// Address at which the device sees the buffer. It means nothing on the way back from the
    /// driver.
    pub address: u64,
    /// Bytes in the buffer; of an empty one its size.
    pub length: u16,
    /// [`flags`].
    pub flags: u16,
    /// The virtualiser's name for the buffer. The driver returns it unchanged.
    pub token: u32,
}

/// Bits of a descriptor's flags. Those of the device's offloads travel with every received packet,
/// so that a client needs no other way to learn them, and learns of a change after a restart of the
/// driver.
pub mod flags {
    /// The device completes a checksum of TCP or UDP for which the packet header asks
    /// ([`NEEDS_CHECKSUM`](crate::header::flags::NEEDS_CHECKSUM)).
    pub const CHECKSUM_OFFLOAD: u16 = 1 << 0;
    /// The device divides a packet of TCP over IPv4 that is longer than the link takes into
    /// segments, if the packet header asks for that
    /// ([`TCP_4`](crate::header::segmentation::TCP_4)). It completes checksums too.
    pub const SEGMENTATION_OFFLOAD_4: u16 = 1 << 1;
    /// How often the card's link has come up since the driver began, modulo 8: where the number
    /// changes, the client may be in another network now.
    pub const LINK_COUNT: u16 = 7 << LINK_COUNT_SHIFT;
    /// The lowest bit of [`LINK_COUNT`].
    pub const LINK_COUNT_SHIFT: u16 = 2;
    /// The device divides packets of TCP over IPv6
    /// ([`TCP_6`](crate::header::segmentation::TCP_6)) as [`SEGMENTATION_OFFLOAD_4`] says of IPv4.
    pub const SEGMENTATION_OFFLOAD_6: u16 = 1 << 5;
    /// The packet continues in the buffer of the next entry. Only between receive virtualiser and
    /// copier, or a client that takes packets in pieces and has none.
    pub const CONTINUES: u16 = 1 << 8;
    /// The first packet that the device has received since it was reset: if it was in the middle of
    /// a frame in several buffers before, the rest does not come. Only from driver to receive
    /// virtualiser.
    pub const AFTER_RESET: u16 = 1 << 9;
    /// Of an empty buffer that a client returns: it dropped the SYN in there unread, since as many
    /// wait already as it can answer soon. The receive virtualiser may drop the next ones, which
    /// costs less there. Nobody has to look at this.
    pub const REFUSED: u16 = 1 << 10;
    /// All bits that describe the device.
    pub const DEVICE: u16 = CHECKSUM_OFFLOAD | SEGMENTATION_OFFLOAD_4 | SEGMENTATION_OFFLOAD_6 | LINK_COUNT;
}

/// Bits of the system counter below those of a [`moment`].
const BELOW_MOMENT: u32 = 16;

/// Returns a time as marks have it: bits 16 to 31 of the system counter. One is a millisecond where
/// that has 62.5 MHz, and they begin anew after a minute: what is a whole number of such rounds old
/// looks young.
#[inline]
pub fn moment(time: Instant) -> u16 {
    (time.ticks() >> BELOW_MOMENT) as u16
}

/// Returns how long ago a [`moment`] was: ticks of the system counter.
#[inline]
pub fn ticks_since(at: u16, now: Instant) -> u64 {
    u64::from(moment(now).wrapping_sub(at)) << BELOW_MOMENT
}

/// An entry of the queues between a client and whoever serves it: a buffer of the client's, by its
/// offset in the data region, which begins at `base` as the device sees it.
pub trait BufferEntry: Entry {
    /// Whether nobody stands between client and driver.
    const BARE: bool;

    /// Creates the entry of an empty buffer of `size` bytes.
    fn of_empty(offset: u32, size: usize, base: u64) -> Self;

    /// Creates the entry of a packet of `length` bytes.
    fn of_packet(offset: u32, length: u16, base: u64) -> Self;

    /// Returns offset, length and flags.
    fn parts(self) -> Descriptor;

    /// Returns the entry with the mark [`flags::REFUSED`] of something dropped at this [`moment`],
    /// where somebody may look at that.
    fn refused(self, at: u16) -> Self;
}

impl BufferEntry for Descriptor {
    const BARE: bool = false;

    #[inline(always)]
    fn of_empty(offset: u32, _: usize, _: u64) -> Self {
        Self::empty(offset)
    }

    #[inline(always)]
    fn of_packet(offset: u32, length: u16, _: u64) -> Self {
        Self { offset, length, flags: 0 }
    }

    #[inline(always)]
    fn parts(self) -> Descriptor {
        self
    }

    #[inline(always)]
    fn refused(self, at: u16) -> Self {
        Self { length: at, flags: self.flags | flags::REFUSED, ..self }
    }
}

/// The token is the offset. The address that comes back from the driver is not looked at.
impl BufferEntry for DmaDescriptor {
    const BARE: bool = true;

    #[inline(always)]
    fn of_empty(offset: u32, size: usize, base: u64) -> Self {
        Self::of_packet(offset, size as u16, base)
    }

    #[inline(always)]
    fn of_packet(offset: u32, length: u16, base: u64) -> Self {
        Self { address: base + u64::from(offset), length, flags: 0, token: offset }
    }

    #[inline(always)]
    fn parts(self) -> Descriptor {
        Descriptor { offset: self.token, length: self.length, flags: self.flags }
    }

    /// A driver drops no frames.
    #[inline(always)]
    fn refused(self, _: u16) -> Self {
        self
    }
}

impl Descriptor {
    /// Creates the entry of an empty buffer.
    #[inline(always)]
    pub const fn empty(offset: u32) -> Self {
        Self { offset, length: 0, flags: 0 }
    }
}

impl Entry for Descriptor {
    type Word = u64;

    #[inline(always)]
    fn into_word(self) -> u64 {
        u64::from(self.offset) | u64::from(self.length) << 32 | u64::from(self.flags) << 48
    }

    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self { offset: word as u32, length: (word >> 32) as u16, flags: (word >> 48) as u16 }
    }
}

impl Entry for DmaDescriptor {
    type Word = [u64; 2];

    #[inline(always)]
    fn into_word(self) -> [u64; 2] {
        [self.address, u64::from(self.token) | u64::from(self.length) << 32 | u64::from(self.flags) << 48]
    }

    #[inline(always)]
    fn from_word([address, word]: [u64; 2]) -> Self {
        Self { address, token: word as u32, length: (word >> 32) as u16, flags: (word >> 48) as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn descriptors_keep_their_fields(offset: u32, length: u16, flags: u16) {
            let descriptor = Descriptor { offset, length, flags };
            prop_assert_eq!(Descriptor::from_word(descriptor.into_word()), descriptor);
        }

        #[test]
        fn dma_descriptors_keep_their_fields(address: u64, length: u16, flags: u16, token: u32) {
            let descriptor = DmaDescriptor { address, length, flags, token };
            prop_assert_eq!(DmaDescriptor::from_word(descriptor.into_word()), descriptor);
        }
    }
}
