//! The packet header: metadata of a packet.
//!
//! The class adopts virtio-net's header as it is (VIRTIO 1.2 §5.1.6, little-endian, 12 bytes since
//! `num_buffers` is always there in a modern device).

use crate::HEADROOM;

/// Bits of [`PacketHeader::flags`] (VIRTIO 1.2 §5.1.6).
pub mod flags {
    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum from `checksum_start` on is to be completed. On
    /// a received packet: the sender was on this machine and left it out, the packet was never on a
    /// wire.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// `VIRTIO_NET_HDR_F_DATA_VALID`: the device has verified the checksum.
    pub const CHECKSUM_VALID: u8 = 2;
}

/// Values of [`PacketHeader::segmentation`] (VIRTIO 1.2 §5.1.6).
pub mod segmentation {
    /// The packet is one segment.
    pub const NONE: u8 = 0;
    /// `VIRTIO_NET_HDR_GSO_TCPV4`: it carries many segments of TCP over IPv4.
    pub const TCP_4: u8 = 1;
    /// `VIRTIO_NET_HDR_GSO_TCPV6`: it carries many segments of TCP over IPv6.
    pub const TCP_6: u8 = 4;
}

/// The packet header in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader {
    /// [`flags`].
    pub flags: u8,
    /// Kind of [`segmentation`].
    pub segmentation: u8,
    /// Bytes of all headers, with segmentation.
    pub header_length: u16,
    /// Bytes of payload in each segment.
    pub segment_size: u16,
    /// Offset at which summing begins, from the frame's first byte.
    pub checksum_start: u16,
    /// Offset of the checksum from `checksum_start`.
    pub checksum_offset: u16,
    /// Buffers that a received packet takes, as the device wrote it. Only the first one has a
    /// header. It means nothing after a copier has assembled the packet.
    pub buffers: u16,
}

/// The header of a packet where it lies, of which little is asked: most packets pass without all
/// of it.
#[derive(Clone, Copy, Debug)]
pub struct RawHeader<'a>(pub &'a [u8; HEADROOM]);

impl RawHeader<'_> {
    /// Returns all of it.
    #[inline(always)]
    pub fn read(self) -> PacketHeader {
        PacketHeader::read(self.0)
    }

    /// Returns whether the packet is one segment.
    #[inline(always)]
    pub fn is_one_segment(self) -> bool {
        self.0[1] == segmentation::NONE
    }

    /// Returns whether its checksum is to be completed.
    #[inline(always)]
    pub fn needs_checksum(self) -> bool {
        self.0[0] & flags::NEEDS_CHECKSUM != 0
    }

    /// Writes what this one says of a checksum that is to be completed into the header of another
    /// packet of one segment: where it is.
    #[inline(always)]
    pub fn write_checksum(self, bytes: &mut [u8; HEADROOM]) {
        let [.., a, b, c, d, _, _] = *self.0;
        bytes[..8].copy_from_slice(&[flags::NEEDS_CHECKSUM, 0, 0, 0, 0, 0, a, b]);
        bytes[8..].copy_from_slice(&[c, d, 0, 0]);
    }
}

impl PacketHeader {
    /// Reads the header in the first bytes of a packet.
    #[inline(always)]
    pub fn read(bytes: &[u8; HEADROOM]) -> Self {
        let word = |index: usize| u16::from_le_bytes([bytes[index], bytes[index + 1]]);
        Self {
            flags: bytes[0],
            segmentation: bytes[1],
            header_length: word(2),
            segment_size: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
            buffers: word(10),
        }
    }

    /// Writes the header into the first bytes of a packet.
    #[inline(always)]
    pub fn write(&self, bytes: &mut [u8; HEADROOM]) {
        let first = u32::from(self.flags) | u32::from(self.segmentation) << 8 | u32::from(self.header_length) << 16;
        let second = u32::from(self.segment_size) | u32::from(self.checksum_start) << 16;
        let third = u32::from(self.checksum_offset) | u32::from(self.buffers) << 16;
        bytes[..4].copy_from_slice(&first.to_le_bytes());
        bytes[4..8].copy_from_slice(&second.to_le_bytes());
        bytes[8..].copy_from_slice(&third.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_what_it_writes(bytes: [u8; HEADROOM]) {
            let mut copy = [0; HEADROOM];
            PacketHeader::read(&bytes).write(&mut copy);
            prop_assert_eq!(copy, bytes);
        }

        #[test]
        fn a_raw_header_says_what_the_whole_one_does(bytes: [u8; HEADROOM]) {
            let (raw, header) = (RawHeader(&bytes), PacketHeader::read(&bytes));
            prop_assert_eq!(raw.read(), header);
            prop_assert_eq!(raw.is_one_segment(), header.segmentation == segmentation::NONE);
            prop_assert_eq!(raw.needs_checksum(), header.flags & flags::NEEDS_CHECKSUM != 0);
            let mut written = [0xff; HEADROOM];
            raw.write_checksum(&mut written);
            let (checksum_start, checksum_offset) = (header.checksum_start, header.checksum_offset);
            let flags = flags::NEEDS_CHECKSUM;
            let expected = PacketHeader { flags, checksum_start, checksum_offset, ..PacketHeader::default() };
            prop_assert_eq!(PacketHeader::read(&written), expected);
        }
    }
}
