//! smoltcp's view of the client: at most one received packet, and the transmitter.

use super::handshake::Link;
use crate::client::{Packet, Transmitter};
use crate::{ETHERNET_HEADER, MTU};
use alloc::vec;
use core::num::{NonZeroU16, NonZeroUsize};
use smoltcp::phy::{self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium, PacketMeta};
use smoltcp::time::Instant;

/// Bytes of the largest frame.
const FRAME: usize = MTU + ETHERNET_HEADER;

/// Bytes of the largest frame that is left to the device to divide: headers without options, and 44
/// segments of the size that Ethernet's MTU gives, so that none of them is a short one.
pub(super) const LARGE_FRAME: NonZeroUsize = NonZeroUsize::new(FRAME - SEGMENT + 44 * SEGMENT).expect("not zero");

/// Bytes in a segment of TCP over IPv4 that fills Ethernet's MTU.
pub(super) const SEGMENT: usize = MTU - 20 - 20;

const _: () = assert!(LARGE_FRAME.get() + crate::HEADROOM <= crate::slots::LARGEST_PACKET);

/// Returns the device's capabilities for smoltcp.
pub(super) fn capabilities(large: bool) -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ethernet;
    capabilities.max_transmission_unit = MTU + ETHERNET_HEADER;
    // Those of TCP and UDP are made and checked outside of smoltcp: by the device where it does
    // that, else 8 bytes at a step.
    let mut checksum = ChecksumCapabilities::default();
    checksum.tcp = Checksum::None;
    checksum.udp = Checksum::None;
    capabilities.checksum = checksum;
    if large {
        // smoltcp drops large packets of IPv6 at the interface, so those stay as small as the link
        // wants them.
        capabilities.segmentation.tcpv4 = Some(LARGE_FRAME);
    }
    capabilities
}

/// A device for one call of smoltcp.
pub(super) struct Port<'a> {
    /// The packet that it finds received.
    pub(super) packet: Option<Packet<'a>>,
    /// Where it sends.
    pub(super) transmitter: &'a mut Transmitter,
    /// The station that all frames are for; none: the one that smoltcp says.
    pub(super) link: Option<Link>,
}

impl<'a> Port<'a> {
    /// A device that has received nothing.
    #[inline(always)]
    pub(super) fn new(transmitter: &'a mut Transmitter, link: Option<Link>) -> Self {
        Self { packet: None, transmitter, link }
    }
}

/// A received packet, read in its buffer.
pub(super) struct Received<'a>(Packet<'a>);

/// The right to send one frame, written in its buffer.
pub(super) struct Outgoing<'a> {
    transmitter: &'a mut Transmitter,
    link: Option<Link>,
    /// Bytes in each segment, where the device is to divide it.
    segment: Option<NonZeroU16>,
}

impl<'a> Outgoing<'a> {
    #[inline(always)]
    fn new(transmitter: &'a mut Transmitter, link: Option<Link>) -> Self {
        Self { transmitter, link, segment: None }
    }
}

impl phy::RxToken for Received<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0.frame())
    }
}

impl phy::TxToken for Outgoing<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut write = Some(write);
        let mut take = |frame: &mut [u8]| {
            let result = write.take().map(|write| write(frame));
            if let (Some(link), Some(destination)) = (self.link, frame.first_chunk_mut()) {
                *destination = link;
            }
            result
        };
        let sent = match self.segment {
            None => self.transmitter.send_with_checksum(length, &mut take),
            Some(segment) => self.transmitter.send_segments(length, segment.get(), &mut take),
        };
        match (sent.flatten(), write) {
            (Some(result), _) => result,
            (None, Some(write)) => discard(length, write),
            // `send` has called `write`, or not; never neither.
            (None, None) => unreachable!("a frame is either sent or discarded"),
        }
    }

    #[inline]
    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment = meta.segmentation_offload_size;
    }
}

/// Lets smoltcp write a frame for which there is no buffer, and forgets it: networks lose packets.
#[cold]
fn discard<R>(length: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
    write(&mut vec![0; length])
}

impl phy::Device for Port<'_> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Outgoing<'b>
    where
        Self: 'b;

    #[inline]
    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Outgoing<'_>)> {
        // Where nothing can be sent, an answer is lost, but what was received is not.
        Some((Received(self.packet.take()?), Outgoing::new(self.transmitter, self.link)))
    }

    #[inline]
    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        // Where smoltcp is to make large packets, there is a large buffer: see `Paths::of`.
        if self.transmitter.is_ready() { Some(Outgoing::new(self.transmitter, self.link)) } else { None }
    }

    #[inline]
    fn capabilities(&self) -> DeviceCapabilities {
        // smoltcp asks for them at each call, and keeps what it was told when the interface was
        // made.
        capabilities(false)
    }
}
