//! The packet header: what is known about a packet besides its bytes.
//!
//! The class adopts virtio-net's header as it is (VIRTIO 1.2 §5.1.6, little-endian, 12 bytes since `num_buffers` is
//! always there in a modern device).

use crate::{ETHERNET_HEADER, HEADROOM, MTU};

/// Bits of [`PacketHeader::flags`] (VIRTIO 1.2 §5.1.6).
pub mod flags {
    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum from `checksum_start` on is to be completed. On a received packet: the sender
    /// was on this machine and left it out, the packet was never on a wire.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// `VIRTIO_NET_HDR_F_DATA_VALID`: the device has verified the checksum.
    pub const CHECKSUM_VALID: u8 = 2;
}

/// Values of [`PacketHeader::segmentation`] (VIRTIO 1.2 §5.1.6).
pub mod segmentation {
    /// The packet is what it looks like.
    pub const NONE: u8 = 0;
    /// `VIRTIO_NET_HDR_GSO_TCPV4`: it carries many segments of TCP over IPv4.
    pub const TCP_4: u8 = 1;
}

/// The least payload of a segment that a sender may ask for: who asks for less makes the device send more headers than payload. No
/// stack offers less (RFC 9293 §3.7.1 has 536 for who says nothing).
pub const LEAST_SEGMENT: u16 = 48;

/// The longest frame that the link takes as it is, with a VLAN tag (IEEE 802.3 §3.2.7).
const LONGEST_FRAME: usize = ETHERNET_HEADER + 4 + MTU;

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
    /// Where summing begins, counted from the frame's first byte.
    pub checksum_start: u16,
    /// Where the checksum lies, counted from `checksum_start`.
    pub checksum_offset: u16,
    /// Buffers that a received packet takes, as the device wrote it. Only the first one has a header.
    /// Means nothing once a copier has put them together.
    pub buffers: u16,
}

impl PacketHeader {
    /// The header in the first bytes of a packet.
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

    /// Whether a transmitted packet of `frame` bytes asks for nothing that could lead a device out of it.
    pub fn is_sane(&self, frame: usize) -> bool {
        let asks = self.flags & flags::NEEDS_CHECKSUM != 0;
        let last = usize::from(self.checksum_start) + usize::from(self.checksum_offset) + 2;
        let divides = match self.segmentation {
            segmentation::NONE => frame <= LONGEST_FRAME,
            segmentation::TCP_4 => {
                let headers = usize::from(self.header_length);
                asks && headers > usize::from(self.checksum_start)
                    && headers >= last
                    && headers <= frame
                    && self.segment_size >= LEAST_SEGMENT
            }
            _ => false,
        };
        self.flags & !flags::NEEDS_CHECKSUM == 0 && divides && (!asks || last <= frame)
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
    }

    #[test]
    fn a_checksum_beyond_the_frame_is_not_sane() {
        let ask = |checksum_start| PacketHeader { flags: 1, checksum_start, checksum_offset: 6, ..Default::default() };
        assert!(ask(34).is_sane(42));
        assert!(!ask(35).is_sane(42));
        assert!(!ask(u16::MAX).is_sane(42));
        assert!(!PacketHeader { segmentation: 1, ..Default::default() }.is_sane(42));
        assert!(!PacketHeader { segmentation: 3, ..ask(34) }.is_sane(42));
        assert!(PacketHeader { checksum_start: 500, ..Default::default() }.is_sane(42));
    }

    #[test]
    fn segments_need_headers_and_payload() {
        let good = PacketHeader {
            flags: flags::NEEDS_CHECKSUM,
            segmentation: segmentation::TCP_4,
            header_length: 54,
            segment_size: 1460,
            checksum_start: 34,
            checksum_offset: 16,
            buffers: 0,
        };
        assert!(good.is_sane(60_000));
        assert!(!PacketHeader::default().is_sane(60_000) && PacketHeader::default().is_sane(1514));
        for bad in [
            PacketHeader { flags: 0, ..good },
            PacketHeader { segmentation: 4, ..good },
            PacketHeader { header_length: 34, ..good },
            PacketHeader { header_length: 51, ..good },
            PacketHeader { header_length: 60_001, ..good },
            PacketHeader { segment_size: 0, ..good },
            PacketHeader { segment_size: LEAST_SEGMENT - 1, ..good },
            PacketHeader { checksum_start: 59_999, ..good },
        ] {
            assert!(!bad.is_sane(60_000), "{bad:?}");
        }
    }
}
