//! What host tests of the class's components need: queues and buffers in ordinary memory, and peers
//! to play the other side.

use crate::{Descriptor, ETHERNET_HEADER, HEADROOM, Mac};
use culm::link::Event;
use culm::queue::{Consumer, Entry, Producer};
pub use culm::testing::memory;
use culm::{Link, Progress, Region};
use culm_abi::connection::Ring;
use std::vec::Vec;

/// An empty queue of `capacity` entries of `T`.
///
/// # Panics
///
/// Where there can be no such queue.
pub fn ring<T: Entry>(capacity: u32) -> Ring {
    let bytes = culm_queue::layout(capacity, size_of::<T>()).expect("a power of two");
    Ring { address: memory(bytes, 0).address, capacity, reserved: 0 }
}

/// The channel that a peer has; those of the component under test have other numbers.
const CHANNEL: u32 = 63;

/// The other side of a pair of queues, honest unless a test makes it do otherwise.
#[derive(Debug)]
pub struct Peer<T: Entry> {
    /// This side's end.
    pub link: Link<T>,
    /// How often the pair has started over, as seen from here.
    pub renewals: u32,
    /// This side has notified the other; a test takes it back.
    pub rang: bool,
}

impl<T: Entry> Peer<T> {
    /// The peer that reads `input` and writes `output`.
    pub fn new(input: Ring, output: Ring) -> Self {
        Self { link: Link::new(output, input, CHANNEL), renewals: 0, rang: false }
    }

    /// Whether the two sides have found each other.
    pub fn is_live(&self) -> bool {
        self.link.is_live()
    }

    /// What is sent to this side.
    pub fn input(&mut self) -> &mut Consumer<T> {
        &mut self.link.input
    }

    /// What this side sends.
    pub fn output(&mut self) -> &mut Producer<T> {
        &mut self.link.output
    }

    /// Takes all entries.
    pub fn take(&mut self) -> Vec<T> {
        if self.link.begin() == Event::Renewed {
            self.renewals += 1;
        }
        let entries = core::iter::from_fn(|| self.link.input.pop()).collect();
        self.rang |= self.link.output.publish() | self.link.input.release();
        entries
    }

    /// Sends entries, as many as there is space for.
    pub fn send(&mut self, entries: &[T]) {
        let _ = self.link.output.push_slice(entries);
        self.rang |= self.link.output.publish();
    }

    /// Announces that this side sleeps.
    pub fn sleep(&mut self) -> Progress {
        self.link.sleep()
    }
}

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
