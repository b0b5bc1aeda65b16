//! The short way of a plain packet of an open flow, which most packets are.
//!
//! It changes nothing and refuses nothing before it is certain that the general way would forward
//! the packet just so: over the networks that are noted of its flow's direction, to the neighbour
//! whose address is fresh, in one piece. On all else it gives up.

use super::{Ahead, Cards, Room, Router};
#[cfg(test)]
use crate::station::Arrival;
use culm_flow::Plain;
use culm_net::ETHERNET_HEADER;
use culm_net::header::RawHeader;
use culm_net::wire::types;
#[cfg(test)]
use culm_net::{HEADROOM, PacketHeader};

impl Router {
    /// Takes a frame for this station without a look at the short way.
    #[cfg(test)]
    pub fn take_the_long_way(&mut self, network: usize, header: PacketHeader, frame: &[u8], cards: &mut impl Cards) {
        self.packet(&Arrival { network, header, followed: None }, frame, cards);
    }

    /// Takes a frame with this header, which lies nowhere.
    #[cfg(test)]
    pub fn take_with(&mut self, network: usize, header: PacketHeader, frame: &[u8], cards: &mut impl Cards) {
        let mut bytes = [0; HEADROOM];
        header.write(&mut bytes);
        self.take(network, RawHeader(&bytes), frame, cards);
    }

    /// Forwards a packet of either version by the short way. Returns whether it could be.
    #[cfg(test)]
    pub fn takes_short_way(
        &mut self,
        network: usize,
        header: PacketHeader,
        frame: &[u8],
        cards: &mut impl Cards,
    ) -> bool {
        let mut bytes = [0; HEADROOM];
        header.write(&mut bytes);
        let header = RawHeader(&bytes);
        self.short(network, header, frame, cards) || self.short_v6(network, header, frame, cards)
    }

    /// Forwards a frame with a packet of IPv4 for this station, if that is plain. Returns whether
    /// it is.
    #[inline(always)]
    pub fn short(&mut self, network: usize, header: RawHeader<'_>, frame: &[u8], cards: &mut impl Cards) -> bool {
        let Some((head, bytes)) = frame.split_first_chunk() else { return false };
        if [head[12], head[13]] != types::IPV4.to_be_bytes() || !self.is_own(network, head) {
            return false;
        }
        let Some(packet) = Plain::read_v4(bytes) else { return false };
        self.pass_either(packet, network, header, frame, cards).is_some()
    }

    /// Does the same with a packet of IPv6.
    #[inline(never)]
    pub(super) fn short_v6(
        &mut self,
        network: usize,
        header: RawHeader<'_>,
        frame: &[u8],
        cards: &mut impl Cards,
    ) -> bool {
        let Some((head, bytes)) = frame.split_first_chunk() else { return false };
        if !self.is_own(network, head) {
            return false;
        }
        let packet = Plain::read_v6(bytes);
        packet.and_then(|packet| self.pass(packet, network, header, frame, cards)).is_some()
    }

    /// Forwards a packet, by code of its own for each protocol: so nothing of TCP lies in memory
    /// where UDP passes.
    #[inline(always)]
    fn pass_either(
        &mut self,
        packet: Plain,
        network: usize,
        header: RawHeader<'_>,
        frame: &[u8],
        cards: &mut impl Cards,
    ) -> Option<()> {
        match packet.segment() {
            Some(segment) => self.pass(packet.with(Some(segment)), network, header, frame, cards),
            None => self.pass(packet.with(None), network, header, frame, cards),
        }
    }

    #[inline(always)]
    fn pass(
        &mut self,
        packet: Plain,
        network: usize,
        header: RawHeader<'_>,
        frame: &[u8],
        cards: &mut impl Cards,
    ) -> Option<()> {
        let found = self.table.find_plain(&packet)?;
        let known = self.known.get(found.id.index_of(found.direction))?;
        let Ahead { entry, exit, place, mtu, is_translated } = known.ahead?;
        let is_one = header.is_one_segment() && packet.length <= usize::from(mtu);
        if usize::from(entry) != network || packet.hops <= 1 || !is_one {
            return None;
        }
        let exit = usize::from(exit);
        let frame = frame.get(..ETHERNET_HEADER + packet.length)?;
        let station = self.stations.get_mut(exit)?;
        let link = station.at(place, self.now)?;
        if is_translated && !packet.is_v4() || !self.table.track_plain(&found, &packet, self.tick) {
            return None;
        }
        let Some(mut room) = cards.room(exit, frame.len()) else {
            self.tally.congestion += 1;
            return Some(());
        };
        let out = room.frame();
        out.copy_from_slice(frame);
        let kind = if packet.is_v4() { types::IPV4 } else { types::IPV6 };
        station.head(link, kind, out)?;
        let onward = is_translated.then(|| found.onward());
        packet.rewrite(out.get_mut(ETHERNET_HEADER..)?, onward.as_ref(), header.needs_checksum())?;
        room.send_on(header);
        self.tally.forwarded += 1;
        Some(())
    }
}
