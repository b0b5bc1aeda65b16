//! smoltcp's view of the client: at most one received packet, and the transmitter.

use crate::client::{Packet, Transmitter};
use crate::{HEADROOM, MTU};
use smoltcp::phy::{self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Bytes of the largest frame.
const FRAME: usize = MTU + crate::ETHERNET_HEADER;

/// A device for one call of smoltcp.
pub(super) struct Port<'a> {
    /// What it finds received.
    pub(super) packet: Option<Packet<'a>>,
    /// Where it sends.
    pub(super) transmitter: &'a mut Transmitter,
}

impl<'a> Port<'a> {
    /// A device that has received nothing.
    #[inline(always)]
    pub(super) fn new(transmitter: &'a mut Transmitter) -> Self {
        Self { packet: None, transmitter }
    }
}

/// A received packet, read in its buffer.
pub(super) struct Received<'a>(Packet<'a>);

/// The right to send one frame, written in its buffer.
pub(super) struct Outgoing<'a>(&'a mut Transmitter);

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
        let sent = self.0.send_with_checksum(length, |frame| write.take().map(|write| write(frame)));
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
    let mut frame = [0; 2048 - HEADROOM];
    write(&mut frame[..length.min(2048 - HEADROOM)])
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
        Some((Received(self.packet.take()?), Outgoing(self.transmitter)))
    }

    #[inline]
    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        if self.transmitter.is_ready() { Some(Outgoing(self.transmitter)) } else { None }
    }

    #[inline]
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        // Those of TCP and UDP are made and checked outside of smoltcp: by the device where it does that, else 8 bytes at a step.
        let mut checksum = ChecksumCapabilities::default();
        checksum.tcp = Checksum::None;
        checksum.udp = Checksum::None;
        capabilities.checksum = checksum;
        capabilities
    }
}
