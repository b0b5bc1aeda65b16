//! The router's station on one network: who its neighbours are, and the frames that wait until that
//! is known.
//!
//! A frame waits as it came, and begins its way anew when its next hop is known: what is rewritten
//! and counted is so once, and an error about it quotes what its sender knows.

use crate::networks::Network;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use culm_flow::Tuple;
use culm_ip::neighbour::arp::{self, Arp};
use culm_ip::neighbour::{Action, Cache, Entry, LONGEST, Place, Resolution, discovery};
use culm_ip::{Instant, Key, LinkAddress};
use culm_net::wire::types;
use culm_net::{ETHERNET_HEADER, PacketHeader};

/// Neighbours that are known at a time.
const NEIGHBOURS: usize = 512;

/// Frames that wait for one neighbour, and for all of a network.
const EACH: usize = 4;
const ALL: u8 = 64;

/// Bytes of the longest frame that waits. A packet of many segments is dropped: its sender repeats
/// it, and it was the first to a neighbour that nobody has sent anything to.
const ROOM: usize = 2048;

/// The number of no frame: one that found no room.
const NOWHERE: u8 = u8::MAX;

/// How a frame came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The number of the network.
    pub network: usize,
    /// What the card says of it.
    pub header: PacketHeader,
    /// The flow of a fragment, which was followed before it waited.
    pub followed: Option<Tuple>,
}

#[derive(Clone, Debug)]
struct Waiting {
    arrival: Arrival,
    length: usize,
    frame: Box<[u8]>,
}

/// Neighbours and what waits for them.
#[derive(Debug)]
pub struct Station {
    link: LinkAddress,
    cache: Cache<'static, u8, EACH>,
    /// The neighbour that was looked up last, and where it is: most new flows go to the same.
    last: Option<(IpAddr, Place)>,
    waiting: Vec<Waiting>,
    free: Vec<u8>,
}

/// Something to be done by the router.
#[derive(Debug, PartialEq, Eq)]
pub enum Task {
    /// To send this many bytes of the buffer as they are.
    Send(usize),
    /// To take the frame of this number again: its next hop is known, or is not to be had.
    Take(u8),
    /// To tell the sender of the frame of this number that nobody has the address.
    Refuse(u8),
}

impl Station {
    /// A station without neighbours. The key is of random bits.
    pub fn new(link: LinkAddress, key: Key) -> Self {
        let entries: Vec<Entry<u8, EACH>> = (0..NEIGHBOURS).map(|_| Entry::default()).collect();
        let header = PacketHeader::default();
        let arrival = Arrival { network: 0, header, followed: None };
        let none = Waiting { arrival, length: 0, frame: vec![0; ROOM].into_boxed_slice() };
        let free = (0..ALL).collect();
        Self { link, cache: Cache::new(entries.leak(), key), last: None, waiting: vec![none; ALL.into()], free }
    }

    /// Returns the router's station.
    pub fn link(&self) -> LinkAddress {
        self.link
    }

    /// Returns the neighbours, for what they say of themselves.
    pub fn cache(&mut self) -> &mut Cache<'static, u8, EACH> {
        &mut self.cache
    }

    /// Returns where to send what is for the neighbour `next`, who was at `place` the last time.
    /// `None`: a frame of this arrival waits now, or is lost.
    #[inline]
    pub fn find(
        &mut self,
        next: IpAddr,
        place: &mut Option<Place>,
        arrival: &Arrival,
        frame: &[u8],
        now: Instant,
    ) -> Option<LinkAddress> {
        if let Some(link) = place.and_then(|place| self.at(place, now)) {
            return Some(link);
        }
        if let Some((last, known)) = self.last
            && last == next
            && let Some(link) = self.at(known, now)
        {
            *place = Some(known);
            return Some(link);
        }
        self.look_up(next, place, arrival, frame, now)
    }

    /// Returns where to send what is for the neighbour at `place`; `None` if it has to be looked
    /// up.
    #[inline(always)]
    pub fn at(&mut self, place: Place, now: Instant) -> Option<LinkAddress> {
        self.cache.at(place, now)
    }

    #[inline(never)]
    fn look_up(
        &mut self,
        next: IpAddr,
        place: &mut Option<Place>,
        arrival: &Arrival,
        frame: &[u8],
        now: Instant,
    ) -> Option<LinkAddress> {
        let number = if frame.len() <= ROOM { self.free.pop().unwrap_or(NOWHERE) } else { NOWHERE };
        match self.cache.resolve(next, number, now) {
            Resolution::Known(number, link, known) => {
                self.release(number);
                (*place, self.last) = (Some(known), Some((next, known)));
                return Some(link);
            }
            Resolution::Waiting(other) => {
                if let Some(waiting) = self.waiting.get_mut(usize::from(number))
                    && let Some(room) = waiting.frame.get_mut(..frame.len())
                {
                    room.copy_from_slice(frame);
                    (waiting.arrival, waiting.length) = (*arrival, frame.len());
                }
                other.into_iter().for_each(|other| self.release(other));
            }
            Resolution::Refused(number) => self.release(number),
        }
        None
    }

    /// Returns a frame that has waited, in place of which `other` is kept.
    pub fn take(&mut self, number: u8, other: &mut Box<[u8]>) -> Option<(Arrival, usize)> {
        let waiting = self.waiting.get_mut(usize::from(number))?;
        core::mem::swap(&mut waiting.frame, other);
        let found = (waiting.arrival, waiting.length);
        self.release(number);
        Some(found)
    }

    /// A buffer for [`Self::take`].
    pub fn room() -> Box<[u8]> {
        vec![0; ROOM].into_boxed_slice()
    }

    fn release(&mut self, number: u8) {
        if number < ALL {
            // There is room for all numbers there are.
            self.free.push(number);
        }
    }

    /// Returns when there is something to be done.
    pub fn deadline(&self) -> Instant {
        self.cache.deadline()
    }

    /// Returns the next thing that is to be done by `now`, with the frame to be sent in `out`.
    pub fn poll(&mut self, network: &Network, now: Instant, out: &mut [u8]) -> Option<Task> {
        loop {
            match self.cache.poll(now)? {
                Action::Ask { address, to } => {
                    if let Some(length) = self.question(network, address, to, out) {
                        return Some(Task::Send(length));
                    }
                }
                Action::Send { packet: NOWHERE, .. }
                | Action::Unreachable { packet: NOWHERE, .. }
                | Action::Gone { .. } => {}
                Action::Send { packet, .. } => return Some(Task::Take(packet)),
                Action::Unreachable { packet, .. } => return Some(Task::Refuse(packet)),
            }
        }
    }

    /// Writes the frame that asks who has `address`.
    fn question(&self, network: &Network, address: IpAddr, to: Option<LinkAddress>, out: &mut [u8]) -> Option<usize> {
        match address {
            IpAddr::V4(address) => {
                let own = network.v4?.address;
                let question = Arp::request(self.link, own, address);
                self.arp(&question, to.unwrap_or(LinkAddress::BROADCAST), out)
            }
            IpAddr::V6(address) => {
                let IpAddr::V6(own) = network.own(address.into())? else { return None };
                let question = discovery::question(own, self.link, address, to);
                let station = discovery::station(question.destination, to)?;
                let length = question.write(out.get_mut(ETHERNET_HEADER..)?)?;
                self.head(station, types::IPV6, out)?;
                Some(ETHERNET_HEADER + length)
            }
        }
    }

    /// Writes a frame with a message of ARP.
    pub fn arp(&self, message: &Arp, to: LinkAddress, out: &mut [u8]) -> Option<usize> {
        out.get_mut(ETHERNET_HEADER..ETHERNET_HEADER + arp::LENGTH)?.copy_from_slice(&message.bytes());
        self.head(to, types::ARP, out)?;
        Some(ETHERNET_HEADER + arp::LENGTH)
    }

    /// Writes the header of a frame for a station.
    #[inline(always)]
    pub fn head(&self, to: LinkAddress, kind: u16, out: &mut [u8]) -> Option<()> {
        let header: &mut [u8; ETHERNET_HEADER] = out.first_chunk_mut()?;
        header[..6].copy_from_slice(&to.0);
        header[6..12].copy_from_slice(&self.link.0);
        header[12..].copy_from_slice(&kind.to_be_bytes());
        Some(())
    }
}

/// Bytes that frames of [`Station::poll`] have at most.
pub const LONGEST_QUESTION: usize = ETHERNET_HEADER + LONGEST;
