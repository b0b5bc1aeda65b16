//! The short way of a plain packet of an open flow, which most packets are.
//!
//! It changes nothing and refuses nothing before it is certain that the general way would forward
//! the packet just so: over the network that is noted of its flow, to the neighbour whose address
//! is fresh, in one piece. On all else it gives up.

use super::output::count;
use super::{Cards, Router, milliseconds};
#[cfg(test)]
use crate::station::Arrival;
use culm_flow::Plain;
use culm_net::header::{flags, segmentation};
use culm_net::wire::types;
use culm_net::{ETHERNET_HEADER, PacketHeader, checksum};

impl Router {
    /// Takes a frame for this station without a look at the short way.
    #[cfg(test)]
    pub fn take_generally(&mut self, network: usize, header: PacketHeader, frame: &[u8], cards: &mut impl Cards) {
        self.packet(&Arrival { network, header, followed: None }, frame, cards);
    }

    /// Forwards a packet for this station, if it is plain. Returns whether it is.
    #[inline]
    pub fn short(&mut self, network: usize, header: &PacketHeader, frame: &[u8], cards: &mut impl Cards) -> bool {
        self.try_short(network, header, frame, cards).is_some()
    }

    #[inline(always)]
    fn try_short(&mut self, network: usize, header: &PacketHeader, frame: &[u8], cards: &mut impl Cards) -> Option<()> {
        if header.segmentation != segmentation::NONE {
            return None;
        }
        let packet = Plain::read(frame.get(ETHERNET_HEADER..)?)?;
        let now = milliseconds(self.now);
        let found = self.table.find_plain(&packet, now)?;
        let known = self.known.get(found.id.index())?;
        let (there, back) = (&known[found.direction as usize], &known[found.direction.reversed() as usize]);
        let (way, place) = (there.way?, there.place?);
        let length = ETHERNET_HEADER + packet.length;
        let fits = packet.length <= usize::from(self.networks.get(way.network)?.mtu);
        if back.way?.network != network || packet.hops <= 1 || !fits {
            return None;
        }
        let frame = frame.get(..length)?;
        let station = self.stations.get_mut(way.network)?;
        let link = station.at(place, self.now)?;
        let onward = self.table.onward_plain(&found, &packet);
        if onward.is_some() && !packet.is_v4() || !self.table.track_plain(&found, &packet, now) {
            return None;
        }
        let leaves_checksum = header.flags & flags::NEEDS_CHECKSUM != 0;
        let offloads = leaves_checksum && cards.offloads_checksum(way.network);
        let kind = if packet.is_v4() { types::IPV4 } else { types::IPV6 };
        let is_sent = cards.send(way.network, length, |out| {
            out.copy_from_slice(frame);
            station.head(link, kind, out)?;
            packet.rewrite(out.get_mut(ETHERNET_HEADER..)?, onward.as_ref(), leaves_checksum)?;
            Some(if leaves_checksum { checksum::finish(out, header, offloads) } else { PacketHeader::default() })
        });
        count(&mut self.tally, is_sent);
        Some(())
    }
}
