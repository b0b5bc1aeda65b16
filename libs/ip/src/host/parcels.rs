//! Packets that wait for a neighbour's station.

use super::LARGEST;

/// A place for a packet that waits.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    bytes: [u8; LARGEST],
    length: u16,
    is_free: bool,
}

impl Default for Packet {
    fn default() -> Self {
        Self { bytes: [0; LARGEST], length: 0, is_free: true }
    }
}

/// Names a packet that waits; or none, for which there was no place and which is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel(Option<u8>);

impl Parcel {
    /// No packet.
    pub(super) const NONE: Self = Self(None);
}

/// The pool.
#[derive(Debug)]
pub(super) struct Parcels<'a>(&'a mut [Packet]);

impl<'a> Parcels<'a> {
    pub(super) fn new(packets: &'a mut [Packet]) -> Self {
        packets.iter_mut().for_each(|packet| packet.is_free = true);
        Self(packets)
    }

    /// Takes a place; none if all are taken.
    pub(super) fn claim(&mut self) -> Parcel {
        let free = self.0.iter().take(u8::MAX.into()).position(|packet| packet.is_free);
        if let Some(packet) = free.and_then(|index| self.0.get_mut(index)) {
            (packet.is_free, packet.length) = (false, 0);
        }
        Parcel(free.map(|index| index as u8))
    }

    /// Keeps `bytes`, if there is a place and they fit.
    pub(super) fn fill(&mut self, parcel: Parcel, bytes: &[u8]) {
        if let Some(packet) = parcel.0.and_then(|index| self.0.get_mut(usize::from(index)))
            && let Some(place) = packet.bytes.get_mut(..bytes.len())
        {
            place.copy_from_slice(bytes);
            packet.length = bytes.len() as u16;
        }
    }

    /// Returns what was kept.
    pub(super) fn bytes(&self, parcel: Parcel) -> &[u8] {
        let packet = parcel.0.and_then(|index| self.0.get(usize::from(index)));
        packet.and_then(|packet| packet.bytes.get(..packet.length.into())).unwrap_or_default()
    }

    pub(super) fn free(&mut self, parcel: Parcel) {
        if let Some(packet) = parcel.0.and_then(|index| self.0.get_mut(usize::from(index))) {
            packet.is_free = true;
        }
    }
}
