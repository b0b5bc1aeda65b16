//! TCP connections: whose a segment is, how one begins, and what becomes of it.
//!
//! A SYN takes no place: it waits in the [SYN queue](super::syn_queue), and is answered by a
//! [`cookie`](super::cookie). The segment that brings the cookie back has a sender that proved to
//! be where it says; only then a slot is taken ([`places`]). If there is none the segment is
//! dropped: the peer sends it again, so nobody is turned away, but some have to wait.

mod places;

use super::acceptor;
use super::classify::Segment;
use super::connections::{Event, Stream};
use super::cookie::{Cookies, Offer};
use super::handshake::UnmatchedSegment;
use super::paths::Paths;
use super::port::Port;
use super::promises::Promises;
use super::settings::Settings;
use super::syn_queue::SynQueue;
use super::table::{Phase, Table};
use super::timer::Wheel;
use super::{Clock, Secrets};
use crate::Mac;
use crate::client::Transmitter;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use culm::time::{Duration, Instant, ticks};
use smoltcp::iface::PollResult;
use smoltcp::socket::tcp::State;

/// Ports that can be listened on.
const LISTENERS: usize = 8;

/// How finely timers are looked at: below the shortest that matters, the delay of acknowledgements
/// (10 ms).
const STEP: Duration = Duration::from_millis(4);

/// Time after which a place is looked for again, while a client waits for one.
const RETRY: Duration = Duration::from_millis(20);

/// How long a connection that the application released may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(20);

/// How long a connection that is over waits, so that stray segments find nobody else.
const TIME_WAIT: Duration = Duration::from_secs(10);

/// Segments that one connection sends in a row before others get their turn.
const BURST: usize = 64;

/// All TCP connections of a stack.
pub(super) struct Tcp {
    table: Table,
    syn_queue: SynQueue,
    promises: Promises,
    cookies: Cookies,
    mac: Mac,
    receive_buffer: usize,
    listeners: [u16; LISTENERS],
    /// Slots that may have something to send or a new state.
    dirty: Vec<u16>,
    events: VecDeque<u16>,
    wheel: Wheel,
    /// All that had come by this time was looked at.
    pub(super) heard: Instant,
    pub(super) opened: u64,
    /// Handshakes that were complete when there was no place.
    crowded: u64,
    pub(super) evicted: u64,
    pub(super) resets: u64,
}

/// The time, as smoltcp has it and as the system has it.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) stack: smoltcp::time::Instant,
    pub(super) now: Instant,
}

impl Tcp {
    pub(super) fn new(settings: &Settings, mac: Mac, secrets: &Secrets) -> Self {
        let table = Table::new(settings, secrets.table);
        let (count, now) = (table.len(), culm::time::now());
        Self {
            table,
            syn_queue: SynQueue::new(count),
            promises: Promises::new(),
            cookies: Cookies::new(secrets.cookies),
            mac,
            receive_buffer: settings.receive_buffer,
            listeners: [0; LISTENERS],
            dirty: Vec::with_capacity(count),
            events: VecDeque::with_capacity(count),
            wheel: Wheel::new(count, ticks(STEP), now),
            heard: now,
            opened: 0,
            crowded: 0,
            evicted: 0,
            resets: 0,
        }
    }

    pub(super) fn listen(&mut self, port: u16) {
        if let Some(place) = self.listeners.iter_mut().find(|place| **place == 0 || **place == port) {
            *place = port;
        } else {
            culm::error!("port {port} is not listened on: a stack listens on at most {LISTENERS} ports");
        }
    }

    #[inline]
    fn listens(&self, port: u16) -> bool {
        port != 0 && self.listeners.contains(&port)
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

    /// Gives a segment to the connection that it belongs to.
    #[inline]
    pub(super) fn ingress(&mut self, paths: &mut Paths, port: &mut Port<'_>, segment: &Segment, times: Times) {
        if segment.opens() && self.listens(segment.local_port) && self.syn_queue.drops_unread(self.promises.is_flood())
        {
            return;
        }
        match self.table.find(&segment.key) {
            Some(index) if self.table[index].phase() != Phase::TimeWait && !segment.opens() => {
                self.deliver(index, paths, port, times);
            }
            found => self.ingress_unmatched(found, paths, port, segment, times),
        }
    }

    /// Gives the received segment to the connection in a slot.
    #[inline(always)]
    fn deliver(&mut self, index: usize, paths: &mut Paths, port: &mut Port<'_>, times: Times) {
        let slot = &mut self.table[index];
        if port.link != Some(slot.link) {
            self.deliver_from_elsewhere(index, paths, port, times);
        } else {
            paths.plain.poll_ingress_single(times.stack, port, &mut slot.sockets);
        }
        let slot = &mut self.table[index];
        let unacknowledged = slot.socket().send_queue();
        // Looked at here, since an application that fills its buffer again in the same turn hides
        // what was taken.
        if unacknowledged < slot.unacknowledged {
            (slot.since, slot.unacknowledged, slot.fresh) = (times.now, unacknowledged, false);
        }
        self.mark_dirty(index);
        self.apply_socket_state(index);
    }

    /// The same for a frame from another station than before. Only one that brings the connection
    /// on proves that the peer is to be reached through that station now: another one does not know
    /// the sequence numbers.
    #[cold]
    fn deliver_from_elsewhere(&mut self, index: usize, paths: &mut Paths, port: &mut Port<'_>, times: Times) {
        let slot = &mut self.table[index];
        let from = port.link.replace(slot.link);
        let progress = |slot: &mut super::table::Slot| {
            let socket = slot.socket();
            (socket.recv_queue(), socket.send_queue(), socket.state())
        };
        let before = progress(slot);
        paths.plain.poll_ingress_single(times.stack, port, &mut slot.sockets);
        let after = progress(slot);
        if let Some(from) = from.filter(|from| before != after && from[0] & 1 == 0) {
            slot.link = from;
        }
    }

    /// Handles a segment that belongs to no connection, or may begin a new one in place of one that
    /// is over.
    #[cold]
    fn ingress_unmatched(
        &mut self,
        found: Option<usize>,
        paths: &mut Paths,
        port: &mut Port<'_>,
        segment: &Segment,
        times: Times,
    ) {
        let is_over = found.is_none_or(|index| {
            let slot = &mut self.table[index];
            slot.phase() == Phase::TimeWait || slot.socket().state() == State::Closed
        });
        let is_ours = is_over && self.listens(segment.local_port);
        if is_ours && segment.opens() {
            let hash = self.table.hash(&segment.key);
            if let Some(candidate) = self.syn_queue.consider(hash, times.now)
                && let Some(syn) = self.read(port, segment, paths)
            {
                self.syn_queue.push(syn, candidate);
            }
            return;
        }
        if is_ours
            && segment.acknowledges()
            && let Some(last) = self.read(port, segment, paths)
        {
            let (theirs, ours) = (last.sequence.wrapping_sub(1), last.acknowledged.wrapping_sub(1));
            if let Some(offer) = self.cookies.check(&segment.key, theirs, ours, times.now) {
                return self.complete(found, &last, offer, paths, port, times);
            }
            let hash = self.table.hash(&segment.key);
            if found.is_none() && self.syn_queue.has_asked(hash, times.now) {
                // The segment that completes the handshake may have been lost, or dropped because
                // no slot was free. Stay silent: a reset would end the peer's attempt. If its
                // connection has begun, that is over, and the peer may not have heard of it; what
                // only acknowledges, perhaps this side's end, needs no answer.
                if !last.wants_answer || self.syn_queue.may_begin(hash, times.now) {
                    return;
                }
            }
        }
        match found {
            Some(index) => self.deliver(index, paths, port, times),
            None => paths.answer(port, times.stack),
        }
    }

    fn read(&self, port: &Port<'_>, segment: &Segment, paths: &Paths) -> Option<UnmatchedSegment> {
        UnmatchedSegment::read(port.packet.as_ref()?.frame(), segment.key, self.mac, paths.addresses())
    }

    /// Begins the connection whose handshake the received segment completes. `found` is the slot of
    /// one that is over.
    fn complete(
        &mut self,
        found: Option<usize>,
        last: &UnmatchedSegment,
        offer: Offer,
        paths: &mut Paths,
        port: &mut Port<'_>,
        times: Times,
    ) {
        if let Some(index) = found {
            self.free(index);
        }
        self.promises.come(times.now);
        let Some(index) = self.place(paths, port.transmitter, times) else {
            self.crowded += 1;
            return;
        };
        self.table.occupy(index, last.key);
        let slot = &mut self.table[index];
        (slot.link, slot.port) = (last.link, last.local.port);
        (slot.new, slot.fresh, slot.rests) = (true, true, false);
        (slot.since, slot.unacknowledged) = (times.now, 0);
        // It was closed by `free`, so it can listen.
        let _ = slot.socket().listen(last.local.port);
        acceptor::replay(&mut slot.sockets, last, last.acknowledged.wrapping_sub(1), offer, self.mac, times.stack);
        paths.plain.poll_ingress_single(times.stack, port, &mut slot.sockets);
        if matches!(slot.socket().state(), State::Established | State::CloseWait) {
            self.opened += 1;
            self.syn_queue.begin(self.table.hash(&last.key), times.now);
            self.mark_dirty(index);
            self.queue_event(index);
        } else {
            self.free(index);
        }
    }

    /// Answers SYNs that wait, up to `count` of them, as long as there are places and buffers.
    #[inline]
    pub(super) fn answer_syns(&mut self, transmitter: &mut Transmitter, count: usize, now: Instant) {
        if !self.syn_queue.is_empty() {
            self.answer_some_syns(transmitter, count, now);
        }
    }

    #[cold]
    fn answer_some_syns(&mut self, transmitter: &mut Transmitter, count: usize, now: Instant) {
        for _ in 0..count {
            if !transmitter.is_ready() || !self.has_opening(now) {
                return;
            }
            let Some(syn) = self.syn_queue.pop(now) else { return };
            let ours = self.cookies.make(&syn.key, syn.sequence, syn.offer, now);
            if syn.answer(ours, self.receive_buffer, self.mac, transmitter) {
                self.promises.tell(now);
            }
        }
    }

    /// Returns whether SYNs wait that can be answered now. If only a buffer lacks, the client gets
    /// a turn when there is one.
    #[inline]
    pub(super) fn has_answerable_syns(&mut self, transmitter: &mut Transmitter, now: Instant) -> bool {
        !self.syn_queue.is_empty() && transmitter.is_ready() && self.has_opening(now)
    }

    /// Takes a connection out of its slot, without a word to the peer.
    fn free(&mut self, index: usize) {
        self.table.vacate(index);
        let socket = self.table[index].socket();
        // An aborted socket says goodbye by a reset; one that listens has nobody to say it to.
        socket.abort();
        let _ = socket.listen(1);
        socket.abort();
        self.wheel.cancel(index);
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

    /// Draws the consequences of a socket's state: an event, or the beginning of TIME-WAIT.
    #[inline]
    fn apply_socket_state(&mut self, index: usize) {
        let slot = &mut self.table[index];
        match slot.phase() {
            Phase::Open | Phase::Idle | Phase::AwaitingFirstRequest => self.queue_event(index),
            Phase::Closing if slot.socket().state() == State::TimeWait => self.enter_time_wait(index),
            Phase::Closing | Phase::Free | Phase::TimeWait => {}
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
            if slot.is_open() {
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
        (slot.limit, slot.since) = (now + GOODBYE, now);
        let socket = slot.socket();
        // An aborted one still knows whom to send the reset to.
        self.resets += u64::from(socket.state() == State::Closed && socket.remote_endpoint().is_some());
        socket.close();
        slot.writes = true;
        self.mark_dirty(index);
        self.table.change(index, Phase::Closing);
        self.wheel.set(index, now + GOODBYE);
    }

    /// Whether [`Self::egress`] has something to do.
    #[inline(always)]
    pub(super) fn is_due(&mut self) -> bool {
        !self.dirty.is_empty() || !self.wheel.is_empty()
    }

    /// Sends for all connections that have something to send, and serves their timers.
    #[inline(never)]
    pub(super) fn egress(&mut self, paths: &mut Paths, transmitter: &mut Transmitter, times: Times, clock: &Clock) {
        let now = times.now;
        while let Some(index) = self.wheel.due(now) {
            self.expire(index, now);
            self.mark_dirty(index);
        }
        // A connection that cannot send because no buffer is free stays in the list, and so do
        // those after it.
        let mut done = 0;
        while let Some(index) = self.dirty.get(done).map(|index| usize::from(*index)) {
            let slot = &mut self.table[index];
            let mut bursts = BURST;
            // A connection to which something was written has something to send; for others it is
            // cheaper to ask than to try.
            let mut is_due = core::mem::take(&mut slot.writes);
            let next = loop {
                if is_due {
                    let interface = paths.of(slot.socket().send_queue(), transmitter);
                    let mut port = Port::new(transmitter, Some(slot.link));
                    let result = interface.poll_egress(times.stack, &mut port, &mut slot.sockets);
                    bursts -= 1;
                    if result != PollResult::SocketStateChanged {
                        bursts = 0;
                    }
                }
                let next = paths.plain.poll_at(times.stack, &slot.sockets);
                is_due = next.is_some_and(|at| at <= times.stack);
                if !is_due || bursts == 0 {
                    break next;
                }
            };
            if !transmitter.is_ready() {
                break;
            }
            done += 1;
            slot.dirty = false;
            self.after_egress(index, next.map(|at| clock.local_time(at)), now);
        }
        self.dirty.drain(..done);
    }

    /// Keeps the place of a connection that is over for a while.
    fn enter_time_wait(&mut self, index: usize) {
        self.table[index].limit = culm::time::now() + TIME_WAIT;
        self.table.change(index, Phase::TimeWait);
    }

    /// Draws the consequences after a connection has sent what it could: its phase, and when to
    /// look at it again.
    #[inline]
    fn after_egress(&mut self, index: usize, next: Option<Instant>, now: Instant) {
        let slot = &mut self.table[index];
        match (slot.phase(), slot.socket().state()) {
            (Phase::Closing | Phase::TimeWait, State::Closed) => return self.free(index),
            (Phase::Closing, State::TimeWait) => self.enter_time_wait(index),
            (Phase::Open | Phase::Idle | Phase::AwaitingFirstRequest, _) => self.classify_open(index, now),
            _ => {}
        }
        let slot = &self.table[index];
        let limit = match slot.phase() {
            Phase::Closing => slot.limit,
            // It has nothing to send.
            Phase::TimeWait => return self.wheel.set(index, slot.limit),
            _ => Instant::NEVER,
        };
        if let Some(next) = next {
            // "Now" means that the connection waits for something else, such as a window to open:
            // look again in the next step.
            self.wheel.set(index, next.max(now));
        }
        self.wheel.set(index, limit);
    }

    /// Puts an open connection into the list of its phase: open, idle, or awaiting its first
    /// request.
    #[inline]
    fn classify_open(&mut self, index: usize, now: Instant) {
        let slot = &mut self.table[index];
        let unacknowledged = slot.socket().send_queue();
        if unacknowledged != slot.unacknowledged {
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

    /// A connection's time has come: where it is its last, it ends.
    fn expire(&mut self, index: usize, now: Instant) {
        let slot = &mut self.table[index];
        match slot.phase() {
            Phase::TimeWait if now >= slot.limit => self.free(index),
            Phase::Closing if now >= slot.limit => slot.socket().abort(),
            _ => {}
        }
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
