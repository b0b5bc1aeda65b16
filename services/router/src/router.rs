//! What becomes of a frame: the way of a packet through the router, from the check of its headers
//! to the frame that leaves.
//!
//! Most packets are of a flow that is known. Of these the flow's number says over which network
//! they leave and which neighbour gets them, so none of the rules, of the routes and of the
//! neighbours is looked up again. Who sends as one end of a flow must come over the network over
//! which the other direction leaves, so that nobody else can take part.
//!
//! Plain packets of open flows take a short way ([`short`]), which does what the general one would
//! do with them, and gives up on all others.
//!
//! A packet is checked where it lies, then written once, into a buffer of the card that sends it,
//! and rewritten there.

mod advertise;
mod answers;
mod local;
mod output;
mod short;

use crate::journal::Journal;
use crate::networks::{Networks, Way, is_nobody};
use crate::policy::{Policy, Translation};
use crate::station::{Arrival, LONGEST_QUESTION, Station, Task};
use advertise::Advertisements;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::sync::atomic::AtomicU64;
use culm_firewall::Action;
use culm_flow::{
    Adopted, Cause, Direction, Flow, Followed, Fragments, Id, Limits, Packet, Problem, Rate, Settings, Table, Timeouts,
    Tracked, Transport, Tuple,
};
use culm_ip::neighbour::Place;
use culm_ip::{Instant, Key};
use culm_net::header::RawHeader;
use culm_net::wire::types;
use culm_net::{ETHERNET_HEADER, PacketHeader};
use output::Change;
pub use output::LONGEST_FRAME;

/// Packets in fragments that are followed at a time.
const FRAGMENTED: usize = 512;

/// Errors to one sender, and to all.
const ERRORS_EACH: Rate = Rate { per_second: 10, burst: 20 };
const ERRORS_ALL: Rate = Rate { per_second: 1000, burst: 200 };

/// Flows that have expired, of which so many are removed at most where a port of NAT is missing.
const EXPIRED: usize = 32;

/// Things that one poll of a station does at most, so that frames get their turn.
const TASKS: usize = 32;

/// The cards, as the router uses them.
pub trait Cards {
    /// Room for a frame, in one of a card's buffers.
    type Room<'a>: Room
    where
        Self: 'a;

    /// Returns room for a frame of `length` bytes; `None` if there is no buffer.
    fn room(&mut self, card: usize, length: usize) -> Option<Self::Room<'_>>;

    /// Sends the frame of `length` bytes that `write` makes, if it makes one. Returns whether it
    /// was sent: not if there is no buffer.
    #[inline]
    fn send(&mut self, card: usize, length: usize, write: impl FnOnce(&mut [u8]) -> Option<PacketHeader>) -> bool {
        let Some(mut room) = self.room(card, length) else { return false };
        let Some(header) = write(room.frame()) else { return false };
        room.send(header);
        true
    }

    /// Sends a frame of this kind of segmentation that the card is to divide into segments of so
    /// many bytes of payload.
    fn send_segments(
        &mut self,
        card: usize,
        length: usize,
        kind: u8,
        payload: u16,
        write: impl FnOnce(&mut [u8]),
    ) -> bool;

    /// Returns whether [`Self::send_segments`] can be used now for that kind.
    fn divides(&mut self, card: usize, kind: u8) -> bool;

    /// Returns whether a card completes checksums.
    fn offloads_checksum(&mut self, card: usize) -> bool;
}

/// Room for a frame. One that is not sent leaves nothing behind.
pub trait Room {
    /// Returns where the frame is to be written.
    fn frame(&mut self) -> &mut [u8];

    /// Sends the frame, with this header.
    fn send(self, header: PacketHeader);

    /// Sends the frame, whose checksum is completed if the header of the one that it was before
    /// asks for that.
    fn send_on(self, header: RawHeader<'_>);
}

/// What was done with packets since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that were forwarded.
    pub forwarded: u64,
    /// Flows that have begun.
    pub begun: u64,
    /// Flows that have ended or expired.
    pub ended: u64,
    /// Flows that made way for others.
    pub made_way: u64,
    /// Packets that the rules did not let pass.
    pub denied: u64,
    /// Packets that come from where their sender is not.
    pub spoofed: u64,
    /// Packets that are none.
    pub malformed: u64,
    /// Packets of no flow that begin none.
    pub stray: u64,
    /// Fragments that belong to no packet, or overlap.
    pub fragments: u64,
    /// Packets for which a buffer was missing, or a port of NAT.
    pub congestion: u64,
    /// Packets that have passed too many routers, are too big, or have no way.
    pub unreachable: u64,
    /// ICMP errors that were sent.
    pub errors: u64,
    /// Echo requests that were answered.
    pub echoes: u64,
}

/// Where packets of one direction of a flow go.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    way: Option<Way>,
    ahead: Option<Ahead>,
}

/// What the short way has to know of packets of one direction of a flow, noted when the general one
/// has sent one on.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// The numbers of the networks over which they come and leave.
    entry: u8,
    exit: u8,
    /// Where the neighbour is known that gets them.
    place: Place,
    /// Bytes of the longest that the latter carries.
    mtu: u16,
    /// Whether they leave with other addresses or ports.
    is_translated: bool,
}

/// Random bits for all that peers must not foresee.
#[derive(Clone, Copy, Debug)]
pub struct Secrets {
    /// Of flows, ports and limits.
    pub flows: culm_flow::Key,
    /// Of neighbours.
    pub neighbours: Key,
}

/// The router.
pub struct Router {
    networks: Networks,
    stations: Vec<Station>,
    table: Table<'static>,
    /// By number of a flow's direction.
    known: Box<[Known]>,
    fragments: Fragments,
    policy: Policy,
    limits: Limits,
    journal: Journal,
    advertisements: Advertisements,
    tally: Tally,
    now: Instant,
    /// The same as the table of flows has it.
    tick: u64,
    /// For what is made before it is sent, and for packets that are divided here.
    scratch: Box<[u8]>,
    /// In place of a frame that has waited.
    spare: Box<[u8]>,
}

impl Router {
    /// A router on these networks, with these rules. What a previous life has left in `memory` goes
    /// on, as far as it can be believed.
    pub fn new(
        networks: Networks,
        mut policy: Policy,
        memory: &'static [AtomicU64],
        most_per_source: u32,
        secrets: &Secrets,
        journal: Journal,
        now: Instant,
    ) -> (Self, Adopted) {
        let stations = networks.all().iter().map(|network| Station::new(network.link, secrets.neighbours)).collect();
        let settings = Settings { key: secrets.flows, timeouts: Timeouts::default(), most_per_source };
        // The rules can be other ones than those by which a flow began.
        let believe = |flow: &Flow| policy.readmit(flow, &networks).map(u64::from);
        let (table, adopted) = Table::adopt(&settings, memory, milliseconds(now), believe);
        let this = Self {
            networks,
            stations,
            known: vec![Known::default(); 2 * table.capacity()].into_boxed_slice(),
            table,
            fragments: Fragments::new(secrets.flows, FRAGMENTED),
            policy,
            limits: Limits::new(secrets.flows, ERRORS_EACH, ERRORS_ALL),
            journal,
            advertisements: Advertisements::new(secrets.neighbours),
            tally: Tally::default(),
            now,
            tick: milliseconds(now),
            scratch: vec![0; LONGEST_FRAME].into_boxed_slice(),
            spare: Station::room(),
        };
        (this, adopted)
    }

    /// Returns the networks that it is on.
    pub fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Has other rules take the place of those in use. Flows that they let be go on as they are,
    /// all others end; returns how many. It takes a time that the table's capacity decides.
    pub fn replace(&mut self, mut policy: Policy) -> usize {
        let Self { networks, table, tally, .. } = self;
        let ended = table.review(|flow| policy.readmit(flow, networks).map(u64::from), |_, _| tally.ended += 1);
        self.policy = policy;
        ended
    }

    /// Returns the rules in use, to have them counted elsewhere.
    pub fn policy_mut(&mut self) -> &mut Policy {
        &mut self.policy
    }

    /// Begins a round at `now`: does what is due about neighbours.
    pub fn begin(&mut self, now: Instant, cards: &mut impl Cards) {
        (self.now, self.tick) = (now, milliseconds(now));
        for network in 0..self.stations.len() {
            self.poll(network, cards);
        }
        self.send_advertisements_due(cards);
    }

    /// Returns when there is something to do if no frame comes.
    pub fn deadline(&self) -> Instant {
        let of_stations = self.stations.iter().map(Station::deadline).min().unwrap_or(Instant::NEVER);
        of_stations.min(self.advertisements.deadline())
    }

    /// Takes what was counted.
    pub fn tally(&mut self) -> Tally {
        core::mem::take(&mut self.tally)
    }

    fn poll(&mut self, network: usize, cards: &mut impl Cards) {
        for _ in 0..TASKS {
            let (Some(station), Some(own)) = (self.stations.get_mut(network), self.networks.get(network)) else {
                return;
            };
            let mut out = [0; LONGEST_QUESTION];
            match station.poll(own, self.now, &mut out) {
                None => return,
                Some(Task::Send(length)) => {
                    let frame = out.get(..length).unwrap_or_default();
                    cards.send(network, length, |bytes| {
                        bytes.copy_from_slice(frame);
                        Some(PacketHeader::default())
                    });
                }
                Some(Task::Take(number)) => {
                    self.with_waiting(network, number, |this, arrival, frame| this.packet(arrival, frame, cards));
                }
                Some(Task::Refuse(number)) => {
                    self.with_waiting(network, number, |this, arrival, frame| {
                        this.refuse(Problem::NoHost, arrival, frame, cards);
                    });
                }
            }
        }
    }

    /// Has `act` look at a frame that has waited.
    fn with_waiting(&mut self, network: usize, number: u8, act: impl FnOnce(&mut Self, &Arrival, &[u8])) {
        let mut frame = core::mem::take(&mut self.spare);
        let taken = self.stations.get_mut(network).and_then(|station| station.take(number, &mut frame));
        if let Some((arrival, length)) = taken
            && let Some(bytes) = frame.get(..length)
        {
            act(self, &arrival, bytes);
        }
        self.spare = frame;
    }

    /// Takes a frame that came over a network.
    #[inline(always)]
    pub fn take(&mut self, network: usize, header: RawHeader<'_>, frame: &[u8], cards: &mut impl Cards) {
        if !self.short(network, header, frame, cards) {
            self.take_raw(network, header, frame, cards);
        }
    }

    /// Takes a frame that the short way of IPv4 has not taken.
    #[inline(never)]
    fn take_raw(&mut self, network: usize, header: RawHeader<'_>, frame: &[u8], cards: &mut impl Cards) {
        let is_v6 = frame.get(12..14).is_some_and(|kind| *kind == types::IPV6.to_be_bytes());
        if !(is_v6 && self.short_v6(network, header, frame, cards)) {
            self.take_generally(network, header.read(), frame, cards);
        }
    }

    /// Takes a frame by the general way.
    #[inline(never)]
    pub fn take_generally(&mut self, network: usize, header: PacketHeader, frame: &[u8], cards: &mut impl Cards) {
        let Some(head) = frame.first_chunk::<ETHERNET_HEADER>() else { return };
        let kind = u16::from_be_bytes([head[12], head[13]]);
        let arrival = Arrival { network, header, followed: None };
        match kind {
            types::IPV4 | types::IPV6 if self.is_own(network, head) => self.packet(&arrival, frame, cards),
            types::ARP => self.arp(&arrival, frame, cards),
            // What is for a group of stations is never forwarded (RFC 1812 §5.3.4).
            types::IPV6 if head[0] & 1 != 0 => self.group(&arrival, frame, cards),
            _ => {}
        }
    }

    /// Returns whether a frame that begins so is for the router's station on a network.
    #[inline(always)]
    fn is_own(&self, network: usize, head: &[u8; ETHERNET_HEADER]) -> bool {
        self.stations.get(network).is_some_and(|station| head[..6] == station.link().0)
    }

    /// Takes a packet for this station.
    #[inline(never)]
    fn packet(&mut self, arrival: &Arrival, frame: &[u8], cards: &mut impl Cards) {
        let bytes = frame.get(ETHERNET_HEADER..).unwrap_or_default();
        let Ok(packet) = Packet::read(bytes) else {
            self.tally.malformed += 1;
            return;
        };
        let tuple = match (packet.fragment, arrival.followed) {
            (None, _) => packet.tuple(),
            (Some(_), Some(followed)) => Some(followed),
            // Who could add to the packets of others would have them refused.
            (Some(_), None) if !self.comes_this_way(arrival.network, packet.source) => {
                self.tally.spoofed += 1;
                return;
            }
            (Some(_), None) => match self.fragments.follow(&packet, milliseconds(self.now)) {
                Followed::Of(tuple) => Some(tuple),
                _ => {
                    self.tally.fragments += 1;
                    return;
                }
            },
        };
        if let Some(tuple) = tuple
            && let Some((id, direction)) = self.table.find(&tuple, milliseconds(self.now))
        {
            self.known(arrival, frame, &packet, &tuple, id, direction, cards);
        } else {
            self.other(arrival, frame, &packet, tuple, cards);
        }
    }

    /// Forwards a packet of a flow.
    #[allow(clippy::too_many_arguments, reason = "all that is known of a packet so far")]
    #[inline]
    fn known(
        &mut self,
        arrival: &Arrival,
        frame: &[u8],
        packet: &Packet,
        tuple: &Tuple,
        id: Id,
        direction: Direction,
        cards: &mut impl Cards,
    ) {
        let Some(onward) = self.table.onward(id, direction) else { return };
        if !self.comes_from_its_end(arrival.network, tuple.source, id, direction) {
            self.tally.spoofed += 1;
            return;
        }
        let Some((way, mtu)) = self.way(id, direction, onward.destination) else {
            return self.refuse(Problem::NoRoute, arrival, frame, cards);
        };
        if packet.hops <= 1 {
            return self.refuse(Problem::TimeExceeded, arrival, frame, cards);
        }
        let is_longer = output::longest_part(&arrival.header, packet) > usize::from(mtu);
        if is_longer && !packet.may_fragment {
            return self.refuse(Problem::TooBig { mtu }, arrival, frame, cards);
        }
        let waiting = Arrival { followed: packet.fragment.map(|_| *tuple), ..*arrival };
        let ahead = self.known.get(id.index_of(direction)).and_then(|known| known.ahead);
        let mut place = ahead.map(|ahead| ahead.place);
        let Some(station) = self.stations.get_mut(way.network) else { return };
        let Some(link) = station.find(way.next, &mut place, &waiting, frame, self.now) else { return };
        match self.track(id, direction, packet) {
            Tracked::Belongs => {}
            Tracked::Outside => {
                self.tally.stray += 1;
                return;
            }
            Tracked::Reopens => return self.other(arrival, frame, packet, Some(*tuple), cards),
        }
        let clamp = match packet.transport {
            Transport::Tcp(segment) if segment.mss_at.is_some() => {
                Some(self.segment_size(arrival.network, &way, packet))
            }
            _ => None,
        };
        // Of a later fragment the ports are those of the first.
        let to = (onward != *tuple).then_some(onward);
        if let (Some(place), Some(known)) = (place, self.known.get_mut(id.index_of(direction))) {
            let (entry, exit) = (arrival.network as u8, way.network as u8);
            known.ahead = Some(Ahead { entry, exit, place, mtu, is_translated: to.is_some() });
        }
        let change = Change::Forward { to, clamp };
        self.emit(way.network, link, arrival, frame, packet, &change, is_longer, cards);
    }

    #[inline]
    fn track(&mut self, id: Id, direction: Direction, packet: &Packet) -> Tracked {
        let Self { table, policy, tally, now, .. } = self;
        table.track(id, direction, packet, milliseconds(*now), |flow, cause| gone(policy, tally, flow, cause))
    }

    /// Returns whether a packet comes over the network over which answers to it leave.
    #[inline]
    fn comes_from_its_end(&mut self, entry: usize, source: IpAddr, id: Id, direction: Direction) -> bool {
        let Some(back) = self.known.get_mut(id.index_of(direction.reversed())) else { return false };
        if back.way.is_none() {
            back.way = self.networks.way(source);
        }
        back.way.is_some_and(|way| way.network == entry)
    }

    /// Returns the way of a flow's packets of a direction, and the longest packet for it.
    #[inline]
    fn way(&mut self, id: Id, direction: Direction, to: IpAddr) -> Option<(Way, u16)> {
        let known = self.known.get_mut(id.index_of(direction))?;
        if known.way.is_none() {
            known.way = self.networks.way(to);
        }
        let way = known.way?;
        Some((way, self.networks.get(way.network)?.mtu))
    }

    /// Returns the largest segment that both networks of a connection carry (RFC 9293 §3.7.1).
    fn segment_size(&self, entry: usize, way: &Way, packet: &Packet) -> u16 {
        let mtu = |network: usize| self.networks.get(network).map_or(u16::MAX, |network| network.mtu);
        let headers = if packet.source.is_ipv4() { 40 } else { 60 };
        mtu(entry).min(mtu(way.network)).saturating_sub(headers)
    }

    /// Takes a packet of no flow.
    #[inline(never)]
    fn other(
        &mut self,
        arrival: &Arrival,
        frame: &[u8],
        packet: &Packet,
        tuple: Option<Tuple>,
        cards: &mut impl Cards,
    ) {
        if let Transport::Error(quoted) = packet.transport {
            return self.error(arrival, frame, packet, &quoted, cards);
        }
        let mut back = None;
        if !self.has_right_ends(arrival, packet, &mut back) {
            return;
        }
        let hit = self.networks.owner(packet.destination);
        let is_lent = matches!(packet.destination, IpAddr::V4(address) if self.policy.lends(address));
        let Some(tuple) = tuple else {
            if hit.is_some() || self.is_link_local_of(arrival.network, packet.destination) {
                return self.local(arrival, frame, packet, cards);
            }
            self.tally.stray += 1;
            return;
        };
        let inward = self.policy.inward(packet, &tuple, arrival.network, hit.is_some());
        if inward.is_none() && (hit.is_some() || self.is_link_local_of(arrival.network, packet.destination)) {
            return self.local(arrival, frame, packet, cards);
        }
        if inward.is_none() && is_lent {
            self.tally.stray += 1;
            return;
        }
        self.first(arrival, frame, packet, &tuple, inward, hit, back, cards);
    }

    /// Begins a flow with its first packet, if the rules let it.
    #[allow(clippy::too_many_arguments, reason = "all that is known of a packet so far")]
    fn first(
        &mut self,
        arrival: &Arrival,
        frame: &[u8],
        packet: &Packet,
        tuple: &Tuple,
        inward: Option<core::net::SocketAddrV4>,
        hit: Option<usize>,
        back: Option<Way>,
        cards: &mut impl Cards,
    ) {
        let seen = match inward {
            Some(to) => Tuple { destination: (*to.ip()).into(), destination_port: to.port(), ..*tuple },
            None => *tuple,
        };
        let Some(way) = self.networks.way(seen.destination) else {
            return self.refuse(Problem::NoRoute, arrival, frame, cards);
        };
        let entry = arrival.network;
        let judgement = self.policy.judge(packet, &seen, entry, Some(way.network));
        if judgement.outcome.logs {
            self.journal.tell(&self.networks, &judgement, packet, &seen, entry, Some(way.network), self.now);
        }
        match judgement.outcome.action {
            Action::Allow => {}
            Action::Deny => {
                self.tally.denied += 1;
                return;
            }
            Action::Reject => {
                self.tally.denied += 1;
                return self.reject(arrival, frame, packet, cards);
            }
        }
        if packet.hops <= 1 {
            return self.refuse(Problem::TimeExceeded, arrival, frame, cards);
        }
        let translation = self.policy.translation(packet, tuple, inward, [entry, way.network], hit);
        let Some(reply) = translation.and_then(|translation| self.answer(tuple, &translation)) else {
            self.tally.congestion += 1;
            return;
        };
        let Self { table, policy, tally, now, .. } = self;
        let gone = |flow: &Flow, cause| gone(policy, tally, flow, cause);
        let id = match table.insert([tuple, &reply], packet, judgement.line.into(), milliseconds(*now), gone) {
            Ok(id) => id,
            Err(_) => {
                policy.release_tuples(tuple, &reply);
                tally.stray += 1;
                return;
            }
        };
        tally.begun += 1;
        for (direction, way) in [(Direction::Original, Some(way)), (Direction::Reply, back)] {
            if let Some(known) = self.known.get_mut(id.index_of(direction)) {
                *known = Known { way, ..Known::default() };
            }
        }
        self.known(arrival, frame, packet, tuple, id, Direction::Original, cards);
    }

    /// Returns what [`Policy::answer`] does. Where no port is left, or NAT follows as many flows as
    /// it can, flows that have expired give theirs back, then the one that makes way for this: the
    /// table, which is asked later, would remove them.
    fn answer(&mut self, tuple: &Tuple, translation: &Translation) -> Option<Tuple> {
        let Self { table, policy, tally, now, .. } = self;
        if let Some(reply) = policy.answer(tuple, translation) {
            return Some(reply);
        }
        let expired = table.expire(milliseconds(*now), EXPIRED, |flow, cause| gone(policy, tally, flow, cause));
        if expired > 0
            && let Some(reply) = policy.answer(tuple, translation)
        {
            return Some(reply);
        }
        let has_way = table.make_way(tuple.source, |flow, cause| gone(policy, tally, flow, cause));
        has_way.then(|| policy.answer(tuple, translation)).flatten()
    }

    /// Returns whether a packet's addresses are such that it may begin something (RFC 1812 §5.3.7,
    /// §5.3.8): of one host each, and the sender's over this network. The way to that is `back`
    /// then, where it is looked up.
    fn has_right_ends(&mut self, arrival: &Arrival, packet: &Packet, back: &mut Option<Way>) -> bool {
        let Packet { source, destination, .. } = *packet;
        if is_nobody(source) || source == destination || self.networks.is_for_all(source) {
            self.tally.spoofed += 1;
            return false;
        }
        let is_local = |address| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        if is_local(source) {
            // What comes from there stays there (RFC 4291 §2.5.6).
            return is_local(destination) || self.networks.owner(destination) == Some(arrival.network);
        }
        *back = self.networks.way(source);
        let comes_this_way = back.is_some_and(|way| way.network == arrival.network);
        if !comes_this_way || self.networks.owner(source).is_some() {
            self.tally.spoofed += 1;
            return false;
        }
        let is_for_one = !is_nobody(destination) && !self.networks.is_for_all(destination);
        if !is_for_one || is_local(destination) && !self.is_link_local_of(arrival.network, destination) {
            self.tally.stray += 1;
            return false;
        }
        true
    }

    /// Returns whether packets of `source` come over a network: answers to it leave there, and it
    /// is no address of the router's.
    pub(super) fn comes_this_way(&self, network: usize, source: IpAddr) -> bool {
        let is_there = match source {
            IpAddr::V6(source) if source.is_unicast_link_local() => true,
            source => self.networks.way(source).is_some_and(|way| way.network == network),
        };
        is_there && self.networks.owner(source).is_none()
    }

    fn is_link_local_of(&self, network: usize, address: IpAddr) -> bool {
        self.networks.get(network).is_some_and(|network| address == IpAddr::V6(network.link_local()))
    }
}

/// Records that a flow is gone.
fn gone(policy: &mut Policy, tally: &mut Tally, flow: &Flow, cause: Cause) {
    policy.release(flow);
    match cause {
        Cause::MadeWay => tally.made_way += 1,
        Cause::Expired | Cause::Reopened | Cause::Removed => tally.ended += 1,
    }
}

/// Time as the table of flows has it.
#[inline(always)]
pub(crate) fn milliseconds(now: Instant) -> u64 {
    now.0 / 1000
}
