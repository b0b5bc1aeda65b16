//! What host tests of the class's components need: queues and buffers in ordinary memory, and peers to play the other side.

use crate::session::{Marked, Marker};
use crate::{Descriptor, ETHERNET_HEADER, HEADROOM, Mac, Session};
use core::sync::atomic::AtomicU64;
use culm::Region;
use culm::queue::{Consumer, Producer, consumer, producer};
use culm_abi::connection::Ring;
use culm_abi::start::Memory;
use std::boxed::Box;
use std::vec::Vec;

/// A cache line.
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// Zeroed memory for as long as the test runs.
fn lines(bytes: usize) -> &'static [Line] {
    let lines: Vec<Line> = (0..bytes.div_ceil(64)).map(|_| Line([const { AtomicU64::new(0) }; 8])).collect();
    Box::leak(lines.into_boxed_slice())
}

/// An empty queue of `capacity` entries of `T`.
///
/// # Panics
///
/// Where there can be no such queue.
pub fn ring<T: Marked>(capacity: u32) -> Ring {
    let bytes = culm_queue::layout(capacity, size_of::<T>()).expect("a power of two");
    Ring { address: lines(bytes).as_ptr().addr() as u64, capacity, reserved: 0 }
}

/// Zeroed memory of `size` bytes that devices see at `dma`.
pub fn memory(size: usize, dma: u64) -> Memory {
    let lines = lines(size);
    debug_assert!(lines.first().is_none_or(|line| line.0.len() == 8));
    Memory { address: lines.as_ptr().addr() as u64, size: size as u64, dma }
}

/// The other side of a pair of queues, honest unless a test makes it do otherwise.
#[derive(Debug)]
pub struct Peer<T: Marked> {
    /// What is sent to this side.
    pub input: Consumer<T>,
    /// What this side sends.
    pub output: Producer<T>,
    /// Where the two are.
    pub session: Session,
    /// How often the pair has started over, as seen from here.
    pub renewals: u32,
}

impl<T: Marked> Peer<T> {
    /// The peer that reads `input` and writes `output`.
    pub fn new(input: Ring, output: Ring) -> Self {
        let mut output = producer(output);
        let session = Session::begin(&mut output);
        let mut peer = Self { input: consumer(input), output, session, renewals: 0 };
        let _ = peer.output.publish();
        peer
    }

    /// Takes all entries, and answers markers.
    pub fn take(&mut self) -> Vec<T> {
        let mut entries = Vec::new();
        while let Some(entry) = self.input.pop() {
            match entry.as_marker() {
                Some(marker) => {
                    self.session.receive(marker);
                    if matches!(marker, Marker::Welcome(_)) {
                        self.settle(&mut entries);
                    }
                }
                None if self.session.is_live() => entries.push(entry),
                None => {}
            }
        }
        self.settle(&mut entries);
        let _ = self.output.publish();
        if self.session.may_release() {
            let _ = self.input.release();
        }
        entries
    }

    fn settle(&mut self, entries: &mut Vec<T>) {
        if self.session.settle(&mut self.output) == crate::session::Event::Renewed {
            entries.clear();
            self.renewals += 1;
        }
    }

    /// Sends entries, as many as there is space for.
    pub fn send(&mut self, entries: &[T]) {
        let _ = self.output.push_slice(entries);
        let _ = self.output.publish();
    }

    /// Announces that this side sleeps; returns whether there was nothing to read.
    pub fn sleep(&mut self) -> bool {
        self.input.sleep()
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

/// A frame with these addresses and this content, of no protocol in particular (IEEE 802, local experimental type).
pub fn frame(to: Mac, from: Mac, content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET_HEADER + content.len());
    frame.extend(to.bytes());
    frame.extend(from.bytes());
    frame.extend([0x88, 0xb5]);
    frame.extend(content);
    frame
}
