//! TCP connections: whose a segment is, how one begins, and what becomes of it.
//!
//! A SYN takes no place: it is answered by a [`cookie`](super::cookie), at once or after it has
//! waited in the [SYN queue](super::syn_queue). The segment that brings the cookie back has a
//! sender that proved to be where it says; only then a slot is taken ([`places`]). If there is none
//! the segment is dropped: the peer sends it again, so nobody is turned away, but some have to
//! wait.

pub(super) mod buffers;
pub(super) mod connecting;
pub(super) mod opening;
mod places;
mod pool;
mod reports;
pub(super) mod unmatched;

use super::classify::{self, Key, Segment};
use super::cookie::Cookies;
use super::frame::{LONGEST_PACKET, usual_segment};
use super::promises::Promises;
use super::settings::Settings;
use super::spent_cookies::SpentCookies;
use super::station::Station;
use super::stream::{Event, Stream};
use super::syn_queue::SynQueue;
use super::table::{Phase, Table};
use super::time_wait::TimeWaits;
use super::timer::Wheel;
use super::{Clock, Secrets};
use crate::client::Transmitter;
use crate::wire::{self, ethernet};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use buffers::Inbox;
use core::net::IpAddr;
use culm::time::{Duration, Instant, ticks};
use culm_tcp::{Ending, Header, State};
use pool::Pool;

/// Ports that can be listened on.
const LISTENERS: usize = 8;

/// How finely timers are looked at: below the shortest that matters, the delay of acknowledgements
/// (40 ms).
const STEP: Duration = Duration::from_millis(4);

/// Time after which a place is looked for again, while a client waits for one.
const RETRY: Duration = Duration::from_millis(20);

/// Bytes that a peer has to acknowledge to get on, where they are not all: as many as one takes in
/// a segment that does not say, over IPv4 (RFC 9293 §3.7.1).
const SHORTEST_STEP: u32 = usual_segment(true) as u32;

/// Segments that one connection sends in a row before others get their turn: fewer in tests, which
/// have not that many buffers.
const BURST: usize = if cfg!(test) { 2 } else { 64 };

/// All TCP connections of a stack.
pub(super) struct Tcp {
    table: Table,
    syn_queue: SynQueue,
    promises: Promises,
    cookies: Cookies,
    spent_cookies: SpentCookies,
    time_waits: TimeWaits,
    station: Station,
    /// Bytes that a connection keeps for the application to read, at first and at most.
    windows: [u32; 2],
    /// Where what is between them comes from.
    pool: Pool,
    /// How long the peer of a released connection may acknowledge nothing.
    release_timeout: Duration,
    stamp_offset: u32,
    listeners: [Listener; LISTENERS],
    /// Slots that may have something to send or a new state.
    dirty: Vec<u16>,
    events: VecDeque<u16>,
    wheel: Wheel,
    /// Whether a client waits and there was no place for it.
    pub(super) is_crowded: bool,
    /// SYNs that are still to be answered in this round, at most.
    syn_budget: usize,
    /// All that had come by this time was looked at.
    pub(super) heard: Instant,
    pub(super) opened: u64,
    /// Connections that this side has tried to open.
    connects: u32,
    /// Handshakes that were complete when there was no place.
    crowded: u64,
    pub(super) evicted: u64,
    pub(super) resets: u64,
}

/// A port that is listened on.
#[derive(Clone, Copy, Default)]
struct Listener {
    /// 0 for none.
    port: u16,
    /// Whether its clients speak first, and so a connection begins with what they say.
    awaits_request: bool,
}

/// What became of a frame.
pub(super) enum Ingress {
    /// It was a segment of TCP.
    Taken,
    /// It was a SYN, and as many wait as can be answered soon.
    Refused,
    /// It was, and its checksum is wrong.
    Broken,
    /// It is something else.
    Other,
}

/// The time, as connections have it and as the system has it.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) tcp: culm_tcp::Instant,
    pub(super) now: Instant,
}

impl Tcp {
    pub(super) fn new(settings: &Settings, secrets: &Secrets) -> Self {
        let table = Table::new(settings, secrets.table);
        let (count, now) = (table.len(), culm::time::now());
        Self {
            table,
            syn_queue: SynQueue::new(count),
            promises: Promises::new(),
            cookies: Cookies::new(secrets.cookies),
            spent_cookies: SpentCookies::new(count),
            time_waits: TimeWaits::new(count),
            station: Station::default(),
            windows: Inbox::windows(settings.receive_buffer, settings.largest_receive_buffer),
            pool: Pool::new(settings.receive_pool, settings.receive_buffer),
            release_timeout: settings.release_timeout,
            stamp_offset: secrets.stamps,
            listeners: [Listener::default(); LISTENERS],
            dirty: Vec::with_capacity(count),
            events: VecDeque::with_capacity(count),
            wheel: Wheel::new(count, ticks(STEP), now),
            is_crowded: false,
            syn_budget: 0,
            heard: now,
            opened: 0,
            connects: 0,
            crowded: 0,
            evicted: 0,
            resets: 0,
        }
    }

    /// Listens on `port`, whose clients speak first if it `awaits_request`.
    #[inline(never)]
    pub(super) fn listen(&mut self, port: u16, awaits_request: bool) {
        assert!(port != 0, "port 0 is no port to listen on");
        assert!(
            self.table.len() != 0,
            "nobody who connects to port {port} could be served: the stack's settings have 0 connections"
        );
        if let Some(place) = self.listeners.iter_mut().find(|place| [0, port].contains(&place.port)) {
            *place = Listener { port, awaits_request };
            self.syn_queue.begin_listening(awaits_request);
        } else {
            culm::error!("port {port} is not listened on: a stack listens on at most {LISTENERS} ports");
        }
    }

    #[inline]
    fn listener(&self, port: u16) -> Option<&Listener> {
        self.listeners.iter().find(|listener| port != 0 && listener.port == port)
    }

    #[inline]
    fn listens(&self, port: u16) -> bool {
        self.listener(port).is_some()
    }

    /// Begins a round, in which up to `syns` SYNs are answered.
    #[inline]
    pub(super) fn begin_round(&mut self, syns: usize) {
        self.syn_budget = syns;
    }

    /// Has a round that leaves something received for the next answer no more than `syns` SYNs.
    #[inline]
    pub(super) fn limit_syns(&mut self, syns: usize) {
        self.syn_budget = self.syn_budget.min(syns);
    }

    /// SYNs that came.
    pub(super) fn attempts(&self) -> u64 {
        self.syn_queue.attempts
    }

    /// Returns the attempts that were not answered, or could not be completed because no place was
    /// free, so that the peer must repeat them.
    pub(super) fn attempts_refused(&self) -> u64 {
        self.syn_queue.unanswered + self.crowded
    }

    /// Sets this station's addresses.
    pub(super) fn set_station(&mut self, station: Station) {
        self.station = station;
    }

    /// Sets the hop limit of new connections over IPv6 (RFC 4861 §6.3.4).
    pub(super) fn set_hop_limit(&mut self, hop_limit: u8) {
        self.station.hop_limit = hop_limit;
    }

    /// Gives the TCP segment in `frame`, if there is one, to the connection that it belongs to.
    /// `is_verified` says that nobody need look at its checksum.
    #[inline(never)]
    pub(super) fn ingress(
        &mut self,
        frame: &[u8],
        is_verified: bool,
        transmitter: &mut Transmitter,
        times: Times,
    ) -> Ingress {
        let Some(segment) = &classify::segment(frame) else { return Ingress::Other };
        if !is_verified && !segment.is_intact(frame) {
            return Ingress::Broken;
        }
        if segment.opens() && self.listens(segment.local_port) && self.syn_queue.drop_unread(self.promises.is_flood()) {
            return Ingress::Refused;
        }
        let hash = self.table.hash(&segment.key);
        match self.table.find(&segment.key, hash) {
            Some(index) if !self.makes_way(index, segment) => self.deliver(index, frame, segment, times),
            _ => self.ingress_unmatched(hash, frame, segment, transmitter, times),
        }
        Ingress::Taken
    }

    /// Returns whether the connection in a slot is over, and a segment may ask for another one or
    /// begin it.
    #[inline(always)]
    fn makes_way(&self, index: usize, segment: &Segment) -> bool {
        self.table[index].connection.state() == State::Closed
            && (segment.opens() || segment.acknowledges())
            && self.listens(segment.local_port)
    }

    /// Gives the received segment to the connection in a slot.
    #[inline(always)]
    fn deliver(&mut self, index: usize, frame: &[u8], segment: &Segment, times: Times) {
        let bytes = segment.of(frame);
        let header = &mut Header::default();
        let Ok(length) = header.read(bytes) else { return };
        let payload = bytes.get(length..).unwrap_or_default();
        let slot = &mut self.table[index];
        let is_marked = segment.is_marked;
        match wire::array(frame, ethernet::SOURCE) {
            Some(link) if !slot.route.is_through(link) => {
                if slot.receive_from(*link, header, payload, is_marked, times.tcp) {
                    slot.confirmed = times.now;
                }
            }
            _ => slot.receive(header, payload, is_marked, times.tcp),
        }
        self.after_ingress(index, times.now);
    }

    /// Draws the consequences of a segment that a connection was given.
    #[inline(always)]
    fn after_ingress(&mut self, index: usize, now: Instant) {
        let slot = &mut self.table[index];
        let unacknowledged = slot.connection.unacknowledged();
        // Looked at here, since an application that fills its buffer again in the same turn hides
        // what was taken.
        if unacknowledged < slot.unacknowledged {
            (slot.confirmed, slot.fresh) = (now, false);
            // Who takes a byte now and then does not get on.
            if unacknowledged == 0 || slot.unacknowledged - unacknowledged >= SHORTEST_STEP {
                (slot.since, slot.unacknowledged) = (now, unacknowledged);
            }
        }
        match slot.phase() {
            phase @ (Phase::Open | Phase::Idle | Phase::AwaitingFirstRequest) => {
                if slot.connection.takes_more() {
                    self.widen(index);
                }
                // Before the application looks at it, and so before it would make way for who comes
                // in the same round: what came is acknowledged with its end.
                if phase != Phase::Open && self.table[index].connection.readable() > 0 {
                    self.table[index].since = now;
                    self.table.change(index, Phase::Open);
                }
                self.queue_event(index);
            }
            Phase::Closing => {
                // Nobody reads it any more.
                slot.consume(usize::MAX);
                if !slot.dirty && slot.connection.settle_if_quiet() && self.retire(index, now) {
                    return;
                }
            }
            Phase::Free => {}
        }
        self.mark_dirty(index);
    }

    /// Keeps a record in place of a released connection, where that is enough, and frees its slot.
    /// Returns whether it did. Only for one that has sent all it has to.
    fn retire(&mut self, index: usize, now: Instant) -> bool {
        let slot = &self.table[index];
        let Some(rest) = slot.connection.time_wait() else { return false };
        self.time_waits.keep(slot.hash, rest, now);
        self.free(index);
        true
    }

    /// Gives a connection more memory for what comes, as far as the pool has some for its peer.
    #[cold]
    fn widen(&mut self, index: usize) {
        let peer = match self.table[index].remote().ip() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => IpAddr::from((address.to_bits() >> 64 << 64).to_be_bytes()),
        };
        let hash = self.table.hash(&Key::new((peer, 0), (peer, 0)));
        let slot = &mut self.table[index];
        slot.inbox.grow(&mut self.pool, hash);
        slot.connection.keep_up_to(slot.inbox.capacity() as u32);
    }

    /// Takes a connection out of its slot, without a word to the peer. Its timer stays: taking it
    /// off the wheel and setting the next one's would cost each short connection more than one look
    /// in vain, or one wake-up, does.
    fn free(&mut self, index: usize) {
        self.table[index].inbox.give_back(&mut self.pool);
        self.table.vacate(index);
    }

    /// Records that a connection may have something to send or a new state.
    #[inline(always)]
    fn mark_dirty(&mut self, index: usize) {
        let slot = &mut self.table[index];
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(index as u16);
        }
    }

    /// Tells the application of the connection, if it is not going to be told already.
    #[inline(always)]
    fn queue_event(&mut self, index: usize) {
        let slot = &mut self.table[index];
        slot.rests = false;
        if !slot.told {
            slot.told = true;
            self.events.push_back(index as u16);
        }
    }

    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    pub(super) fn event(&mut self) -> Option<Event> {
        loop {
            let index = usize::from(self.events.pop_front()?);
            let slot = &mut self.table[index];
            slot.told = false;
            // What is under way has no news: they were the connection's that had the slot before.
            if slot.is_open() && slot.connection.state() != State::SynSent {
                let (slot_number, port) = (index, slot.port);
                return Some(if core::mem::take(&mut slot.new) {
                    Event::Opened { slot: slot_number, port }
                } else {
                    Event::Ready { slot: slot_number }
                });
            }
        }
    }

    pub(super) fn stream(&mut self, index: usize) -> Option<Stream<'_>> {
        if !self.table.get(index)?.is_open() {
            return None;
        }
        self.mark_dirty(index);
        Some(self.table[index].stream())
    }

    pub(super) fn release(&mut self, index: usize) {
        if self.table.get(index).is_none_or(|slot| !slot.is_open()) {
            return;
        }
        let now = culm::time::now();
        let slot = &mut self.table[index];
        (slot.since, slot.unacknowledged) = (now, slot.connection.unacknowledged());
        self.resets += u64::from(slot.connection.ending() == Some(Ending::Aborted));
        slot.close();
        slot.consume(usize::MAX);
        self.mark_dirty(index);
        self.table.change(index, Phase::Closing);
    }

    /// Whether [`Self::egress`] has something to do.
    #[inline(always)]
    pub(super) fn is_due(&mut self) -> bool {
        !self.dirty.is_empty() || !self.wheel.is_empty()
    }

    /// Whether a connection waits to send.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Sends for all connections that have something to send, and serves their timers. The SYNs of
    /// those that this side opens go to `find`, as packets of IP whose station is to be found.
    #[inline(never)]
    pub(super) fn egress(
        &mut self,
        transmitter: &mut Transmitter,
        times: Times,
        clock: &Clock,
        mut find: impl FnMut(&[u8], &mut Transmitter),
    ) {
        while let Some(index) = self.wheel.due(times.now) {
            if self.table[index].phase() != Phase::Free && !self.put_off(index, clock, times.now) {
                self.expire(index, times);
                self.mark_dirty(index);
            }
        }
        // A connection that cannot send because no buffer is free stays in the list, and so do
        // those after it. One that waits for a large buffer stays too, but those after it go on.
        let (mut done, mut kept) = (0, 0);
        while let Some(index) = self.dirty.get(done).map(|index| usize::from(*index)) {
            let slot = &mut self.table[index];
            let mut left = BURST;
            // A reset may go first. Like the SYN, it goes to a peer whose station is not known.
            while slot.connection.state() == State::SynSent
                && transmitter.becomes_ready()
                && let Some(syn) = slot.connection.transmit(times.tcp)
            {
                let mut packet = [0; LONGEST_PACKET];
                let length = slot.route.packet(&syn.header, &mut packet);
                find(&packet[..length], transmitter);
            }
            let mut is_stuck = false;
            while left > 0 && !slot.connection.settle_if_quiet() {
                is_stuck = !transmitter.is_ready();
                if is_stuck || !slot.transmit(transmitter, times.tcp) {
                    break;
                }
                left -= 1;
            }
            if is_stuck {
                break;
            }
            done += 1;
            if left == 0 {
                // The list has a place for each connection. A connection can be in it twice only
                // if its first place is done with: such places are given up if no other is left.
                if self.dirty.len() == self.dirty.capacity() {
                    self.dirty.drain(kept..done);
                    done = kept;
                }
                self.dirty.push(index as u16);
                continue;
            }
            slot.dirty = slot.awaits_large();
            if slot.dirty {
                transmitter.wait_for_large();
                self.dirty[kept] = index as u16;
                kept += 1;
            }
            let deadline = slot.connection.deadline();
            self.after_egress(index, deadline.map(|at| clock.local_time(at)), times.now);
        }
        self.dirty.drain(kept..done);
    }

    /// Draws the consequences after a connection has sent what it could: its phase, and when to
    /// look at it again.
    #[inline(always)]
    fn after_egress(&mut self, index: usize, next: Option<Instant>, now: Instant) {
        let slot = &mut self.table[index];
        match (slot.phase(), slot.connection.state()) {
            (Phase::Closing, State::Closed) => return self.free(index),
            // Nothing is left to be sent.
            (Phase::Closing, _) if self.retire(index, now) => return,
            (Phase::Open | Phase::Idle | Phase::AwaitingFirstRequest, _) => self.classify_open(index, now),
            _ => {}
        }
        let slot = &self.table[index];
        let next = next.unwrap_or(Instant::NEVER);
        let is_closing = slot.phase() == Phase::Closing;
        self.wheel.set(index, if is_closing { next.min(slot.since + self.release_timeout) } else { next });
    }

    /// Puts an open connection into the list of its phase: open, idle, or awaiting its first
    /// request.
    #[inline]
    fn classify_open(&mut self, index: usize, now: Instant) {
        let slot = &mut self.table[index];
        let unacknowledged = slot.connection.unacknowledged();
        if unacknowledged > slot.unacknowledged {
            slot.unacknowledged = unacknowledged;
            slot.since = now;
            slot.fresh = false;
        }
        let phase = match slot.rests && unacknowledged == 0 {
            false => Phase::Open,
            true if slot.fresh => Phase::AwaitingFirstRequest,
            true => Phase::Idle,
        };
        if phase != slot.phase() {
            slot.since = now;
            self.table.change(index, phase);
        }
    }

    /// Puts off an open connection on which nothing is due yet: sets the wheel to when something
    /// is. Returns whether it did, as in most cases: what the wheel was set for was acknowledged
    /// meanwhile.
    #[inline(always)]
    fn put_off(&mut self, index: usize, clock: &Clock, now: Instant) -> bool {
        let slot = &self.table[index];
        if !slot.is_open() {
            return false;
        }
        let next = slot.connection.deadline().map_or(Instant::NEVER, |at| clock.local_time(at));
        let is_early = next > now;
        if is_early {
            self.wheel.set(index, next);
        }
        is_early
    }

    /// A connection's time has come: it does what is due, and if it is its last, it ends.
    fn expire(&mut self, index: usize, times: Times) {
        let slot = &mut self.table[index];
        match slot.phase() {
            Phase::Closing if times.now >= slot.since + self.release_timeout => {
                slot.abort();
                self.resets += 1;
            }
            _ => slot.pass_time(times.tcp),
        }
        if slot.is_open() && slot.connection.state() == State::Closed {
            self.queue_event(index);
        }
    }

    /// Chunks that are free, and the bytes of the buffer in a slot.
    #[cfg(test)]
    pub(super) fn room(&self, index: usize) -> (usize, usize) {
        (self.pool.count(), self.table[index].inbox.capacity())
    }

    #[cfg(test)]
    pub(super) fn space(&self) -> usize {
        self.dirty.capacity()
    }

    #[cfg(test)]
    pub(super) fn port(&self, index: usize) -> u16 {
        self.table[index].port
    }

    #[cfg(test)]
    pub(super) fn time_waits(&self) -> usize {
        self.time_waits.count(culm::time::now())
    }

    #[cfg(test)]
    pub(super) fn count(&self, phase: Phase) -> usize {
        self.table.count(phase)
    }

    /// Returns the time at which the next timer is due, or at which to look again for a place for
    /// clients that wait.
    #[inline(always)]
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        let timer = self.wheel.deadline();
        if self.syn_queue.is_empty() { timer } else { timer.min(now + RETRY) }
    }
}
