//! Fakes for host tests of the class's components: packets in ordinary memory, connections with
//! queues and buffers of their own, and with [`Peer`] and [`Far`] somebody to play the other side.

use crate::checksum::{self, Sum};
use crate::wire::tcp;
use crate::{BUFFER_SIZE, Descriptor, ETHERNET_HEADER, HEADROOM, Mac};
use culm::Region;
use culm::connection::{NetClient, NetProviderClient};
pub use culm::testing::{Peer, memory, ring};
use std::vec::Vec;

/// Writes a packet with this frame and an empty header into a buffer; returns its length.
///
/// # Panics
///
/// Where it does not fit.
pub fn write_packet(region: &Region, offset: u32, frame: &[u8]) -> u16 {
    region.clear(offset as usize, HEADROOM).expect("inside");
    region.write(offset as usize + HEADROOM, frame).expect("inside");
    (HEADROOM + frame.len()) as u16
}

/// The frame of a packet.
///
/// # Panics
///
/// Where it lies outside.
pub fn read_frame(region: &Region, packet: Descriptor) -> Vec<u8> {
    let mut frame = std::vec![0; usize::from(packet.length) - HEADROOM];
    region.read(packet.offset as usize + HEADROOM, &mut frame).expect("inside");
    frame
}

/// A frame with these addresses and this content, of no protocol in particular (IEEE 802, local
/// experimental type).
pub fn frame(to: Mac, from: Mac, content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET_HEADER + content.len());
    frame.extend(to.bytes());
    frame.extend(from.bytes());
    frame.extend([0x88, 0xb5]);
    frame.extend(content);
    frame
}

/// A segment of TCP over IPv4 that a station sends, with an otherwise empty header.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The receiver's hardware address, IPv4 address and port.
    pub to: ([u8; 6], [u8; 4], u16),
    /// The sender's.
    pub from: ([u8; 6], [u8; 4], u16),
    /// Its sequence number, and the number that it acknowledges.
    pub numbers: (u32, u32),
    /// TCP's flags.
    pub flags: u8,
    /// The sender's window.
    pub window: u16,
    /// The bytes that it brings.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// The frame that brings it, with right checksums.
    pub fn frame(&self) -> Vec<u8> {
        let headers = 20 + tcp::HEADER;
        let mut frame = [self.to.0, self.from.0].concat();
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(((headers + self.payload.len()) as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        frame.extend([self.from.1, self.to.1].concat());
        let sum = !Sum::ZERO.add_bytes(&frame[ETHERNET_HEADER..]).fold();
        frame[24..26].copy_from_slice(&sum.to_le_bytes());
        frame.extend([self.from.2.to_be_bytes(), self.to.2.to_be_bytes()].concat());
        frame.extend([self.numbers.0.to_be_bytes(), self.numbers.1.to_be_bytes()].concat());
        frame.extend([0x50, self.flags]);
        frame.extend(self.window.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(self.payload);
        checksum::complete(&mut frame);
        frame
    }
}

/// A client's connection, with queues and with `buffers` buffers of `size` bytes each way that are
/// its own. Its channels have the numbers 0 and 1.
pub fn client(mac: [u8; 6], buffers: u32, size: u32) -> NetClient {
    let entries = 2 * buffers.next_power_of_two();
    NetClient {
        mac,
        promiscuous: 0,
        owns_rx: 1,
        linked: 0,
        rx_large: 0,
        tx_large: 0,
        buffer_size: size,
        rx_buffer_size: size,
        rx_filled: ring::<Descriptor>(entries),
        rx_free: ring::<Descriptor>(entries),
        tx_filled: ring::<Descriptor>(entries),
        tx_free: ring::<Descriptor>(entries),
        rx_data: memory((buffers * size) as usize, 0),
        tx_data: memory((buffers * size) as usize, 0),
        rx_channel: 0,
        tx_channel: 1,
    }
}

/// The provider's end of a client's connection, which holds the client to its address. Its channels
/// have these numbers.
pub fn provider_of(client: &NetClient, rx_channel: u32, tx_channel: u32) -> NetProviderClient {
    NetProviderClient {
        rx_filled: client.rx_filled,
        rx_free: client.rx_free,
        tx_filled: client.tx_filled,
        tx_free: client.tx_free,
        rx_data: client.rx_data,
        tx_data: client.tx_data,
        rx_large: client.rx_large,
        tx_large: client.tx_large,
        rx_channel,
        tx_channel,
        buffer_size: client.buffer_size,
        anti_spoof: 1,
        mac: client.mac,
        name: Default::default(),
    }
}

/// The far side of a client's network: what brings its frames and takes those that it sends.
pub struct Far {
    rx: Peer<Descriptor>,
    tx: Peer<Descriptor>,
    rx_data: Region,
    tx_data: Region,
    /// Receive buffers that the client provides.
    pub empty: Vec<Descriptor>,
}

impl Far {
    /// The far side of a client of this connection.
    pub fn new(client: &NetClient) -> Self {
        Self {
            rx: Peer::new(client.rx_free, client.rx_filled),
            tx: Peer::new(client.tx_filled, client.tx_free),
            rx_data: Region::new(client.rx_data),
            tx_data: Region::new(client.tx_data),
            empty: Vec::new(),
        }
    }

    /// Lends the client its first `buffers` buffers of [`BUFFER_SIZE`] bytes to send.
    pub fn lend(&mut self, buffers: u32) {
        let number = |number| Descriptor::empty(number * BUFFER_SIZE);
        self.tx.send(&(0..buffers).map(number).collect::<Vec<_>>());
    }

    /// Takes the frames that the client has sent, and the receive buffers that it is done with.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.empty.extend(self.rx.take());
        let packets = self.tx.take();
        let frames = packets.iter().map(|packet| read_frame(&self.tx_data, *packet)).collect();
        self.tx.send(&packets.iter().map(|packet| Descriptor::empty(packet.offset)).collect::<Vec<_>>());
        frames
    }

    /// Brings the client a frame, if it has provided a buffer; returns whether it has.
    pub fn bring(&mut self, frame: &[u8]) -> bool {
        let Some(buffer) = self.empty.pop() else { return false };
        let length = write_packet(&self.rx_data, buffer.offset, frame);
        self.rx.send(&[Descriptor { length, ..buffer }]);
        true
    }
}
