//! The short way of most packets: plain TCP and UDP of a flow that is open, read once and rewritten
//! by words.
//!
//! [`Plain::read_v4`] and [`Plain::read_v6`] give up on whatever is not plain,
//! [`Table::find_plain`] on flows that are not there, and [`Table::track_plain`] on what does not
//! belong to its flow. Who is given up on goes the general way, [`crate::Packet`]'s, which alone
//! knows what to do with it: the short one refuses nothing, and what it does the general one would
//! do.
//!
//! All of it is in one piece where it is used, once for each version of IP: so nothing that was
//! read of a packet lies in memory on its way.

use crate::flow::{Direction, State};
use crate::header::{V4, V6};
use crate::record::{Packed, Words};
use crate::table::{Id, Table};
use crate::tcp::Meaning;
use crate::transport::{Segment, flags};
use crate::tuple::{TCP, UDP};
use culm_packet::checksum::Sum;
use culm_packet::ip::V4_PLAIN;
use culm_packet::wire::{array, ipv4, ipv6, tcp, udp};

/// A packet of TCP or UDP, whole, without options of IPv4 and extension headers of IPv6; of TCP one
/// that does not begin a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    tuple: Packed,
    /// Bytes of the packet.
    pub length: usize,
    /// Bytes of the IP header.
    payload: usize,
    /// Routers that the packet may still pass, this one included.
    pub hops: u8,
    segment: Option<Segment>,
}

/// With which addresses and ports a packet leaves that is translated.
#[derive(Clone, Copy, Debug)]
pub struct Onward(Packed);

impl Plain {
    /// Reads the packet of IPv4 at the beginning of `bytes`; `None` if it is not plain, or none at
    /// all.
    #[inline(always)]
    pub fn read_v4(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; V4] = bytes.first_chunk().filter(|header| header[0] == V4_PLAIN)?;
        let (first, second) = (word(header, 0)?, word(header, 8)?);
        let destination = u32::from_le_bytes(*array(header, 16)?);
        if !Sum::ZERO.add_word(first).add_word(second).add_word(destination.into()).is_intact() {
            return None;
        }
        // Whether more fragments follow, and the fragment's place (RFC 791 §3.1).
        let place = (first >> 48) as u16 & 0xff3f;
        if place != 0 {
            return None;
        }
        let length = usize::from(((first >> 16) as u16).swap_bytes());
        let (hops, protocol) = (second as u8, (second >> 8) as u8);
        let source = ((second >> 32) as u32).swap_bytes();
        let (ports, segment) = read_transport(protocol, bytes.get(V4..length)?)?;
        let tuple = Packed([u64::from(protocol) | ports, source.into(), 0, destination.swap_bytes().into(), 0]);
        Some(Self { tuple, length, payload: V4, hops, segment })
    }

    /// Does what [`Self::read_v4`] does, for IPv6.
    #[inline(always)]
    pub fn read_v6(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; V6] = bytes.first_chunk().filter(|header| header[0] >> 4 == 6)?;
        let first = word(header, 0)?;
        let length = V6 + usize::from(((first >> 32) as u16).swap_bytes());
        let (protocol, hops) = ((first >> 48) as u8, (first >> 56) as u8);
        let (ports, segment) = read_transport(protocol, bytes.get(V6..length)?)?;
        let address = |at| Some(u64::from_be_bytes(*array(header, at)?));
        let [a, b, c, d] = [address(8)?, address(16)?, address(24)?, address(32)?];
        let tuple = Packed([u64::from(protocol) | Packed::BOTH_V6 | ports, a, b, c, d]);
        Some(Self { tuple, length, payload: V6, hops, segment })
    }

    /// Returns the segment of TCP in it; `None` if it is of UDP.
    #[inline(always)]
    pub fn segment(&self) -> Option<Segment> {
        self.segment
    }

    /// Returns the packet with that segment again, for who has told TCP from UDP by it.
    #[inline(always)]
    #[must_use]
    pub fn with(self, segment: Option<Segment>) -> Self {
        Self { segment, ..self }
    }

    /// Returns whether the packet is one of IPv4.
    #[inline(always)]
    pub fn is_v4(&self) -> bool {
        self.payload == V4
    }

    /// Writes to the packet's `bytes` what becomes of it on its way on: one router less to pass,
    /// and other addresses and ports if it is translated. `leaves_checksum` says that TCP's or
    /// UDP's checksum is left to the device, for which the field has the sum of the pseudo-header
    /// (VIRTIO 1.2 §5.1.6.2). `None`: this is not to be sent.
    #[inline(always)]
    pub fn rewrite(&self, bytes: &mut [u8], onward: Option<&Onward>, leaves_checksum: bool) -> Option<()> {
        let left = self.hops.checked_sub(1).filter(|left| *left != 0)?;
        if !self.is_v4() {
            *bytes.get_mut(ipv6::HOP_LIMIT)? = left;
            return onward.is_none().then_some(());
        }
        let (header, message) = bytes.split_first_chunk_mut::<V4>()?;
        header[ipv4::TIME_TO_LIVE] = left;
        let old = u16::from_le_bytes(*array(header, ipv4::CHECKSUM)?);
        let Some(Onward(to)) = onward else { return put(header, ipv4::CHECKSUM, less_a_hop(old).to_le_bytes()) };
        let own = word(header, ipv4::SOURCE)?;
        let new = u64::from((to.0[1] as u32).swap_bytes()) | u64::from((to.0[3] as u32).swap_bytes()) << 32;
        put(header, ipv4::SOURCE, new.to_le_bytes())?;
        let addresses = Sum::ZERO.add_word(!own).add_word(new);
        // The time to live is the upper byte of its number: one less of it.
        let sum = addresses.add_number(!0x0100).add_word((!old).into());
        put(header, ipv4::CHECKSUM, sum.checksum().to_be_bytes())?;
        let protocol = self.tuple.0[0] as u8;
        let old_ports = u32::from_le_bytes(*array(message, 0)?);
        let ports = ((to.0[0] >> 32) as u32).rotate_left(16).to_be();
        put(message, 0, ports.to_le_bytes())?;
        let place = if protocol == TCP { tcp::CHECKSUM } else { udp::CHECKSUM };
        if leaves_checksum {
            let sum = Sum::ZERO.add_word(new).add_number(protocol.into()).add_number((self.length - V4) as u16);
            return put(message, place, sum.fold().to_le_bytes());
        }
        correct(message, place, addresses.add_word((!old_ports).into()).add_word(ports.into()), protocol)
    }
}

/// Returns the checksum of a header of IPv4, as it lies in memory, when one is taken off its time
/// to live, the upper byte of its number (RFC 1624 §3; RFC 1141).
#[inline(always)]
fn less_a_hop(checksum: u16) -> u16 {
    let sum = u32::from(checksum) + 1;
    // Of both zeros that there are it is the one that an addition makes.
    (sum + u32::from(sum >= 0xffff)) as u16
}

/// Corrects the checksum of TCP or UDP at `place` by what changes have made.
#[inline(always)]
fn correct(bytes: &mut [u8], place: usize, changes: Sum, protocol: u8) -> Option<()> {
    let old = u16::from_be_bytes(*array(bytes, place)?);
    // RFC 768: no checksum was made, and one that comes out as zero is sent as its complement.
    if protocol == UDP && old == 0 {
        return Some(());
    }
    let new = match changes.add_number(!old).checksum() {
        0 if protocol == UDP => 0xffff,
        new => new,
    };
    put(bytes, place, new.to_be_bytes())
}

/// Returns eight bytes as they lie in memory.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(|word| u64::from_le_bytes(*word))
}

#[inline(always)]
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = value;
    Some(())
}

/// Reads the ports, where a packed tuple has them, and what else is followed of TCP.
#[inline(always)]
fn read_transport(protocol: u8, message: &[u8]) -> Option<(u64, Option<Segment>)> {
    let ports = |bytes: [u8; 4]| u64::from(u32::from_be_bytes(bytes).rotate_left(16)) << 32;
    match protocol {
        TCP => {
            let [a, b, c, d, s0, s1, s2, s3, a0, a1, a2, a3, offset, own, w0, w1, ..]: [u8; tcp::HEADER] =
                *message.first_chunk()?;
            let size = usize::from(offset >> 4) * 4;
            let data = message.len().checked_sub(size)?;
            if size < tcp::HEADER || own & flags::SYN != 0 || own & (flags::ACK | flags::RST) == 0 {
                return None;
            }
            let segment = Segment {
                source: u16::from_be_bytes([a, b]),
                destination: u16::from_be_bytes([c, d]),
                sequence: u32::from_be_bytes([s0, s1, s2, s3]),
                acknowledgement: u32::from_be_bytes([a0, a1, a2, a3]),
                flags: own,
                window: u16::from_be_bytes([w0, w1]),
                data: data as u16,
                scale: None,
                mss_at: None,
            };
            Some((ports([a, b, c, d]), Some(segment)))
        }
        UDP => {
            let [a, b, c, d, length_high, length_low, ..]: [u8; udp::HEADER] = *message.first_chunk()?;
            let length = usize::from(u16::from_be_bytes([length_high, length_low]));
            (udp::HEADER..=message.len()).contains(&length).then_some((ports([a, b, c, d]), None))
        }
        _ => None,
    }
}

/// A flow as [`Table::find_plain`] has found it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The flow.
    pub id: Id,
    /// In which direction the packet goes.
    pub direction: Direction,
    words: Words<'a>,
}

impl Found<'_> {
    /// Returns the addresses and ports with which packets of this direction leave.
    #[inline(always)]
    pub fn onward(&self) -> Onward {
        Onward(self.words.packed(self.direction.reversed()).reversed())
    }
}

impl<'a> Table<'a> {
    /// Returns the flow of a packet, which may have expired.
    #[inline(always)]
    pub fn find_plain(&self, packet: &Plain) -> Option<Found<'a>> {
        let (slot, direction) = self.find_packed(&packet.tuple)?;
        Some(Found { id: Id(slot), direction, words: self.records().words(slot)? })
    }

    /// Follows a packet of a flow that was just found, as [`Self::track`] does. Returns whether it
    /// belongs to the flow, and that has not expired; otherwise nothing has changed.
    #[inline(always)]
    pub fn track_plain(&mut self, found: &Found<'_>, packet: &Plain, now: u64) -> bool {
        let Found { id: Id(slot), direction, words } = *found;
        // Nothing but how far the ends are changes of a flow that was used lately.
        let stays =
            |state, protocol| words.is_in(state) && now.wrapping_sub(words.used()) <= self.slack(state, protocol);
        let goes_on = match &packet.segment {
            Some(segment) => {
                let is_amidst = segment.flags & (flags::ACK | flags::FIN | flags::RST) == flags::ACK;
                is_amidst && stays(State::Established, TCP) && words.follow(direction, segment)
            }
            None => stays(State::BothWays, UDP) || direction == Direction::Original && stays(State::OneWay, UDP),
        };
        if goes_on {
            words.count(direction, packet.length);
            return true;
        }
        self.track_change(slot, direction, packet.segment, packet.length, now)
    }

    /// Follows a packet by which the flow's state changes, or its place among those of its age.
    #[inline(never)]
    fn track_change(
        &mut self,
        slot: u32,
        direction: Direction,
        segment: Option<Segment>,
        length: usize,
        now: u64,
    ) -> bool {
        if self.has_expired(slot, now) {
            return false;
        }
        let meaning = self.advance(slot, direction, segment.map(|segment| (segment, false)), length, now);
        matches!(meaning, Meaning::Belongs(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_less_is_what_the_difference_says() {
        for old in 0..=u16::MAX {
            let sum = Sum::ZERO.add_number(!0x0100).add_number(!old);
            assert_eq!(less_a_hop(old.swap_bytes()).swap_bytes(), sum.checksum(), "{old:#x}");
        }
    }
}
