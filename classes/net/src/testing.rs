//! Fakes for host tests of the class's components: packets in ordinary memory, and with [`Peer`]
//! somebody to play the other side.

use crate::{Descriptor, ETHERNET_HEADER, HEADROOM, Mac};
use culm::Region;
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
