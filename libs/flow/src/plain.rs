//! The short way of most packets: plain TCP and UDP of a flow that is open, read once and rewritten
//! by words.
//!
//! [`Plain::read`] gives up on whatever is not plain, [`Table::find_plain`] on flows that are not
//! there, and [`Table::track_plain`] on everything that would change more of a flow than how far
//! its ends are. Who is given up on goes the general way, [`crate::Packet`]'s, which alone knows
//! what to do with it: the short one refuses nothing, and what it does the general one would do.

use crate::flow::{Direction, State};
use crate::header::{V4, V6};
use crate::record::Packed;
use crate::table::{Id, Table};
use crate::transport::flags;
use crate::tuple::{TCP, UDP};
use culm_packet::checksum::Sum;
use culm_packet::ip::V4_PLAIN;
use culm_packet::wire::{array, ipv4, ipv6, tcp, udp};

/// A packet of TCP or UDP, whole, without options of IPv4 and extension headers of IPv6; of TCP one
/// that neither begins nor ends a connection.
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

/// What TCP's header says in the midst of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub sequence: u32,
    pub acknowledgement: u32,
    pub window: u16,
    pub data: u16,
}

/// With which addresses and ports a packet leaves that is translated.
#[derive(Clone, Copy, Debug)]
pub struct Onward(Packed);

impl Plain {
    /// Reads the packet at the beginning of `bytes`; `None` if it is not plain, or none at all.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        match *bytes.first()? {
            V4_PLAIN => Self::read_v4(bytes),
            first if first >> 4 == 6 => Self::read_v6(bytes),
            _ => None,
        }
    }

    #[inline(always)]
    fn read_v4(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; V4] = bytes.first_chunk()?;
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

    #[inline(always)]
    fn read_v6(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; V6] = bytes.first_chunk()?;
        let first = word(header, 0)?;
        let length = V6 + usize::from(((first >> 32) as u16).swap_bytes());
        let (protocol, hops) = ((first >> 48) as u8, (first >> 56) as u8);
        let (ports, segment) = read_transport(protocol, bytes.get(V6..length)?)?;
        let address = |at| Some(u64::from_be_bytes(*array(header, at)?));
        let [a, b, c, d] = [address(8)?, address(16)?, address(24)?, address(32)?];
        let tuple = Packed([u64::from(protocol) | Packed::BOTH_V6 | ports, a, b, c, d]);
        Some(Self { tuple, length, payload: V6, hops, segment })
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
    #[inline]
    pub fn rewrite(&self, bytes: &mut [u8], onward: Option<&Onward>, leaves_checksum: bool) -> Option<()> {
        let Self { payload, length, .. } = *self;
        let bytes = bytes.get_mut(..length)?;
        let left = self.hops.checked_sub(1).filter(|left| *left != 0)?;
        let protocol = self.tuple.0[0] as u8;
        let place = payload + if protocol == TCP { tcp::CHECKSUM } else { udp::CHECKSUM };
        let addresses = if self.is_v4() {
            *bytes.get_mut(ipv4::TIME_TO_LIVE)? = left;
            let own = word(bytes, ipv4::SOURCE)?;
            let mut difference = Sum::ZERO;
            let new = match onward {
                None => own,
                Some(Onward(to)) => {
                    let new = (to.0[1] as u32).swap_bytes() as u64 | ((to.0[3] as u32).swap_bytes() as u64) << 32;
                    difference = difference.add_word(!own).add_word(new);
                    put(bytes, ipv4::SOURCE, new.to_le_bytes())?;
                    let old_ports = u32::from_le_bytes(*array(bytes, payload)?);
                    let ports = ((to.0[0] >> 32) as u32).rotate_left(16).to_be();
                    put(bytes, payload, ports.to_le_bytes())?;
                    if !leaves_checksum {
                        let sum = difference.add_word(!u64::from(old_ports)).add_word(ports.into());
                        correct(bytes, place, sum, protocol)?;
                    }
                    new
                }
            };
            // The time to live is the upper byte of its number: one less of it.
            let old = u16::from_be_bytes(*array(bytes, ipv4::CHECKSUM)?);
            let sum = difference.add_number(!0x0100).add_number(!old);
            put(bytes, ipv4::CHECKSUM, sum.checksum().to_be_bytes())?;
            Sum::ZERO.add_word(new)
        } else {
            if onward.is_some() {
                return None;
            }
            *bytes.get_mut(ipv6::HOP_LIMIT)? = left;
            let addresses: &[u8; 32] = array(bytes, ipv6::SOURCE)?;
            if leaves_checksum { Sum::ZERO.add_bytes(addresses) } else { Sum::ZERO }
        };
        if leaves_checksum {
            let sum = addresses.add_number(protocol.into()).add_number((length - payload) as u16);
            put(bytes, place, sum.fold().to_le_bytes())?;
        }
        Some(())
    }
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
            if size < tcp::HEADER || own & (flags::ACK | flags::SYN | flags::FIN | flags::RST) != flags::ACK {
                return None;
            }
            let segment = Segment {
                sequence: u32::from_be_bytes([s0, s1, s2, s3]),
                acknowledgement: u32::from_be_bytes([a0, a1, a2, a3]),
                window: u16::from_be_bytes([w0, w1]),
                data: data as u16,
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
pub struct Found {
    /// The flow.
    pub id: Id,
    /// In which direction the packet goes.
    pub direction: Direction,
    state: State,
    /// Whether it is to be moved among those of its age.
    is_late: bool,
}

impl Table<'_> {
    /// Returns the flow of a packet.
    #[inline]
    pub fn find_plain(&self, packet: &Plain, now: u64) -> Option<Found> {
        let (slot, direction) = self.find_packed(&packet.tuple)?;
        let state = self.records().state(slot)?;
        let (age, timeout, slack) = self.age(slot, state, packet.tuple.0[0] as u8, now);
        // As [`Table::find`]: a flow is dropped then.
        let is_there = age < timeout + slack;
        is_there.then_some(Found { id: Id(slot), direction, state, is_late: age > slack })
    }

    /// Returns the addresses and ports with which a packet of a flow leaves, if they are others
    /// than those with which it came.
    #[inline]
    pub fn onward_plain(&self, found: &Found, packet: &Plain) -> Option<Onward> {
        let onward = self.records().packed(found.id.0, found.direction.reversed()).reversed();
        (onward != packet.tuple).then_some(Onward(onward))
    }

    /// Follows a packet of a flow that was just found, as [`Self::track`] does, if that leaves the
    /// flow in its state. Returns whether it does; otherwise nothing has changed.
    #[inline]
    pub fn track_plain(&mut self, found: &Found, packet: &Plain, now: u64) -> bool {
        let Found { id: Id(slot), direction, state, is_late } = *found;
        let goes_on = match (packet.segment, state) {
            (Some(segment), State::Established) => self.records().follow_plain(slot, direction, &segment),
            (None, State::BothWays) => true,
            (None, State::OneWay) => direction == Direction::Original,
            _ => false,
        };
        if goes_on {
            self.records().count(slot, direction, packet.length);
            if is_late {
                self.refresh(slot, state, state, now);
            }
        }
        goes_on
    }
}
