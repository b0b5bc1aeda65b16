//! smoltcp's view of the client: at most one received packet, and the transmitter.

use super::frame::Link;
use crate::client::{Packet, Transmitter};
use crate::{ETHERNET_HEADER, MTU};
use alloc::vec;
use smoltcp::phy::{self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Returns the device's capabilities for smoltcp.
pub(super) fn capabilities() -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ethernet;
    capabilities.max_transmission_unit = MTU + ETHERNET_HEADER;
    // UDP's are made and checked outside of smoltcp: by the device where it does that, else 8 bytes
    // at a step.
    let mut checksum = ChecksumCapabilities::default();
    checksum.tcp = Checksum::None;
    checksum.udp = Checksum::None;
    capabilities.checksum = checksum;
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
}

impl<'a> Outgoing<'a> {
    #[inline(always)]
    fn new(transmitter: &'a mut Transmitter, link: Option<Link>) -> Self {
        Self { transmitter, link }
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
        let sent = self.transmitter.send_with_checksum(length, &mut take);
        match (sent.flatten(), write) {
            (Some(result), _) => result,
            (None, Some(write)) => discard(length, write),
            // `send` has called `write`, or not; never neither.
            (None, None) => unreachable!("a frame is either sent or discarded"),
        }
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
        if self.transmitter.is_ready() { Some(Outgoing::new(self.transmitter, self.link)) } else { None }
    }

    #[inline]
    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}
