//! The division of a data region into buffers for packets.
//!
//! Nearly all packets are small or fit the link; the few that carry many segments at once
//! ([`header`](crate::header)) have large buffers.

use crate::{LARGE_BUFFER, MIN_PACKET};
use core::ops::RangeInclusive;
use culm_lending::Geometry;

/// The geometry of packets, packet headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {}

impl Geometry for Packets {
    const SMALL: RangeInclusive<u32> = 2048..=32768;
    const LARGE: u32 = LARGE_BUFFER;
    const SHORTEST: u32 = MIN_PACKET as u32;
    const LONGEST: u32 = LARGEST_PACKET as u32;
}

/// The buffers of a data region.
pub type Slots = culm_lending::Slots<Packets>;

/// The longest packet that a descriptor can describe, packet header included.
pub const LARGEST_PACKET: usize = u16::MAX as usize;
