//! TCP connections: finding the one a segment belongs to, taking a place for a new one, and deciding who goes when all are
//! taken.
//!
//! Every place ("slot") has a socket with its buffers for as long as the component runs. A SYN to a listening port takes a free
//! slot. When none is free, the slot is taken of a connection that is over and only waits (TIME-WAIT), oldest first; else of one that is
//! still half open, oldest first. Where that is young still, a flood is on: it goes only for who asks a second time
//! ([`askers`](super::askers)). So a flood of SYNs pushes out its own, seldom enough that others complete in between, and what is
//! established stays.

use super::Clock;
use super::askers::Askers;
use super::classify::{Key, Segment};
use super::connections::{Event, Stream};
use super::port::Port;
use super::settings::Settings;
use super::timer::Wheel;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use culm::time::{Duration, Instant, ticks};
use smoltcp::iface::{Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};

/// Ports that can be listened on.
const LISTENERS: usize = 8;

/// No slot.
const NONE: u16 = u16::MAX;

/// How finely timers are looked at: below the shortest that matters, the delay of acknowledgements (10 ms).
const STEP: Duration = Duration::from_millis(4);

/// How long a connection may be half open.
const HALF_OPEN: Duration = Duration::from_secs(10);

/// How long a connection may be half open at least, whoever asks for its place for the first time.
const YOUTH: Duration = Duration::from_millis(100);

/// How long a connection that the application released may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(20);

/// How long a connection that is over waits, so that stray segments find nobody else.
const WAITING: Duration = Duration::from_secs(10);

/// Segments that one connection sends in a row before others get their turn.
const BURST: usize = 64;

/// Where a connection is in its life, as far as the slot is concerned. Slots in the same phase form a list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No connection.
    Free,
    /// Asked for, not yet established.
    HalfOpen,
    /// The application's.
    Open,
    /// The application has released it; the goodbye is not complete.
    Closing,
    /// Over; waits only so that stray segments find nobody else.
    Waiting,
}

const PHASES: usize = 5;

#[derive(Clone, Copy)]
struct List {
    first: u16,
    last: u16,
}

struct Slot {
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    key: Key,
    port: u16,
    phase: Phase,
    next: u16,
    previous: u16,
    /// The next slot whose key has the same hash.
    chained: u16,
    /// When a half-open or closing connection is given up.
    limit: Instant,
    /// It is in `touched`.
    touched: bool,
    /// It is in `events`.
    told: bool,
    /// The event that waits is the first one.
    new: bool,
}

impl Slot {
    #[inline(always)]
    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Puts the socket into the set anew: smoltcp remembers there that it waits for its peer's address, which may never come
    /// where the peer made up its own, and lets nothing out for up to a second, though the next peer be well known.
    #[cold]
    fn forget_neighbour(&mut self) {
        // No other kind of socket is in the set.
        let smoltcp::socket::Socket::Tcp(socket) = self.sockets.remove(self.handle) else { return };
        self.handle = self.sockets.add(socket);
    }
}

/// All TCP connections of a stack.
pub(super) struct Tcp {
    slots: Box<[Slot]>,
    lists: [List; PHASES],
    buckets: Box<[u16]>,
    listeners: [u16; LISTENERS],
    /// Slots that may have something to send or a new state.
    touched: Vec<u16>,
    events: VecDeque<u16>,
    wheel: Wheel,
    /// No sockets: smoltcp answers a segment for nobody by itself.
    nobody: SocketSet<'static>,
    secret: u64,
    askers: Askers,
    pub(super) opened: u64,
    pub(super) refused: u64,
    pub(super) evicted: u64,
}

impl Tcp {
    pub(super) fn new(settings: &Settings, secret: u64) -> Self {
        let count = settings.connections.min(usize::from(NONE) - 1);
        let mut tcp = Self {
            slots: (0..count).map(|_| slot(settings)).collect(),
            lists: [List { first: NONE, last: NONE }; PHASES],
            buckets: vec![NONE; (2 * count).next_power_of_two().max(2)].into_boxed_slice(),
            listeners: [0; LISTENERS],
            touched: Vec::with_capacity(count),
            events: VecDeque::with_capacity(count),
            wheel: Wheel::new(count, ticks(STEP), culm::time::now()),
            nobody: SocketSet::new(vec![]),
            secret,
            askers: Askers::new(count),
            opened: 0,
            refused: 0,
            evicted: 0,
        };
        for index in 0..count {
            tcp.append(index, Phase::Free);
        }
        tcp
    }

    pub(super) fn listen(&mut self, port: u16) {
        if let Some(place) = self.listeners.iter_mut().find(|place| **place == 0 || **place == port) {
            *place = port;
        } else {
            culm::error!("port {port} is not listened on: a stack listens on at most {LISTENERS} ports");
        }
    }

    /// Gives a segment to the connection that it belongs to.
    #[inline]
    pub(super) fn ingress(
        &mut self,
        interface: &mut Interface,
        port: &mut Port<'_>,
        segment: &Segment,
        stack_time: smoltcp::time::Instant,
        now: Instant,
    ) {
        let index = match self.find(&segment.key) {
            // A peer that uses the ports of a connection which is over for a new one gets it at once.
            Some(index) if segment.opens && self.slots[index].phase == Phase::Waiting => {
                self.free(index);
                self.open(segment, now)
            }
            Some(index) => Some(index),
            None if segment.opens && self.listeners.contains(&segment.local_port) => self.open(segment, now),
            None => {
                interface.poll_ingress_single(stack_time, port, &mut self.nobody);
                return;
            }
        };
        // Where there is no place, the peer hears nothing and tries again.
        let Some(index) = index else { return };
        interface.poll_ingress_single(stack_time, port, &mut self.slots[index].sockets);
        self.touch(index);
        self.follow(index);
    }

    /// A slot for a new connection, listening.
    #[cold]
    fn open(&mut self, segment: &Segment, now: Instant) -> Option<usize> {
        if segment.local_port == 0 {
            return None;
        }
        let index = self.place(&segment.key, now)?;
        let slot = &mut self.slots[index];
        slot.key = segment.key;
        slot.port = segment.local_port;
        slot.limit = now + HALF_OPEN;
        slot.new = true;
        let limit = slot.limit;
        // It was closed by `free`, so it can listen.
        let _ = slot.socket().listen(segment.local_port);
        let bucket = self.bucket(&segment.key);
        self.slots[index].chained = self.buckets[bucket];
        self.buckets[bucket] = index as u16;
        self.change(index, Phase::HalfOpen);
        self.wheel.set(index, limit);
        Some(index)
    }

    /// A free slot, if need be by ending the least valuable connection.
    fn place(&mut self, key: &Key, now: Instant) -> Option<usize> {
        for phase in [Phase::Free, Phase::Waiting, Phase::HalfOpen] {
            let first = self.lists[phase as usize].first;
            if first != NONE && (phase != Phase::HalfOpen || self.may_replace(first, key, now)) {
                if phase != Phase::Free {
                    self.evicted += 1;
                    self.free(first.into());
                }
                return Some(first.into());
            }
        }
        self.refused += 1;
        None
    }

    /// Whether the half-open connection in slot `oldest` makes way for who asks with this key.
    #[cold]
    fn may_replace(&mut self, oldest: u16, key: &Key, now: Instant) -> bool {
        let is_young = now + HALF_OPEN < self.slots[usize::from(oldest)].limit + YOUTH;
        !is_young || self.askers.again(self.hash(key), now)
    }

    /// Takes a connection out of its slot, without a word to the peer.
    fn free(&mut self, index: usize) {
        let bucket = self.bucket(&self.slots[index].key);
        let after = self.slots[index].chained;
        let mut at = self.buckets[bucket];
        if usize::from(at) == index {
            self.buckets[bucket] = after;
        } else {
            while at != NONE {
                let next = self.slots[usize::from(at)].chained;
                if usize::from(next) == index {
                    self.slots[usize::from(at)].chained = after;
                    break;
                }
                at = next;
            }
        }
        let slot = &mut self.slots[index];
        slot.chained = NONE;
        if slot.phase == Phase::HalfOpen {
            slot.forget_neighbour();
        }
        // An aborted socket says goodbye by a reset; one that listens has nobody to say it to.
        slot.socket().abort();
        let _ = slot.socket().listen(1);
        slot.socket().abort();
        self.wheel.cancel(index);
        self.change(index, Phase::Free);
    }

    /// Notes that a connection may have something to send or a new state.
    #[inline(always)]
    fn touch(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if !slot.touched {
            slot.touched = true;
            self.touched.push(index as u16);
        }
    }

    /// Draws the consequences of a socket's state.
    #[inline]
    fn follow(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let (state, phase) = (slot.socket().state(), slot.phase);
        match (phase, state) {
            (Phase::HalfOpen, State::SynReceived) | (Phase::Free | Phase::Waiting, _) => {}
            (Phase::HalfOpen, State::Closed | State::Listen) => self.free(index),
            (Phase::HalfOpen, _) => {
                self.opened += 1;
                self.change(index, Phase::Open);
                self.tell(index);
            }
            (Phase::Open, _) => self.tell(index),
            (Phase::Closing, State::TimeWait) => self.wait(index),
            (Phase::Closing, _) => {}
        }
    }

    /// Lets the application know.
    #[inline(always)]
    fn tell(&mut self, index: usize) {
        let slot = &mut self.slots[index];
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
            let slot = &mut self.slots[index];
            slot.told = false;
            if slot.phase == Phase::Open {
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
        if self.slots.get(index)?.phase != Phase::Open {
            return None;
        }
        self.touch(index);
        Some(Stream { socket: self.slots[index].socket() })
    }

    pub(super) fn release(&mut self, index: usize) {
        if self.slots.get(index).is_none_or(|slot| slot.phase != Phase::Open) {
            return;
        }
        let limit = culm::time::now() + GOODBYE;
        let slot = &mut self.slots[index];
        slot.limit = limit;
        slot.socket().close();
        self.touch(index);
        self.change(index, Phase::Closing);
        self.wheel.set(index, limit);
    }

    /// Whether [`Self::egress`] has something to do.
    #[inline(always)]
    pub(super) fn is_due(&mut self) -> bool {
        !self.touched.is_empty() || !self.wheel.is_empty()
    }

    /// Sends what connections have to send, and looks after their timers.
    #[inline(never)]
    pub(super) fn egress(
        &mut self,
        interface: &mut Interface,
        port: &mut Port<'_>,
        stack_time: smoltcp::time::Instant,
        now: Instant,
        clock: &Clock,
    ) {
        while let Some(index) = self.wheel.due(now) {
            self.expire(index, now);
            self.touch(index);
        }
        // Those that cannot send for want of a buffer stay in the list, those after them too.
        let mut done = 0;
        while let Some(index) = self.touched.get(done).map(|index| usize::from(*index)) {
            let slot = &mut self.slots[index];
            let mut bursts = BURST;
            while interface.poll_egress(stack_time, port, &mut slot.sockets) == PollResult::SocketStateChanged {
                bursts -= 1;
                if bursts == 0 {
                    break;
                }
            }
            if !port.transmitter.is_ready() {
                break;
            }
            done += 1;
            let next = interface.poll_at(stack_time, &slot.sockets);
            slot.touched = false;
            self.sent(index, next.map(|at| clock.local_time(at)), now);
        }
        self.touched.drain(..done);
    }

    /// Lets a connection wait that is over.
    fn wait(&mut self, index: usize) {
        self.slots[index].limit = culm::time::now() + WAITING;
        self.change(index, Phase::Waiting);
    }

    /// After a connection has sent what it could: its state, and when to look at it again.
    #[inline]
    fn sent(&mut self, index: usize, next: Option<Instant>, now: Instant) {
        let slot = &mut self.slots[index];
        let state = slot.socket().state();
        match (slot.phase, state) {
            (Phase::Closing | Phase::Waiting, State::Closed) => return self.free(index),
            (Phase::Closing, State::TimeWait) => self.wait(index),
            _ => {}
        }
        let limit = match self.slots[index].phase {
            Phase::HalfOpen | Phase::Closing => self.slots[index].limit,
            // It has nothing to send. smoltcp would have it looked at in every step while no router answers, since it
            // takes the next solicitation for the socket's own time.
            Phase::Waiting => return self.wheel.set(index, self.slots[index].limit),
            _ => Instant::NEVER,
        };
        if let Some(next) = next {
            // "Now" means that it waits for something else, a neighbour's address for one: not before the next step.
            self.wheel.set(index, next.max(now));
        }
        self.wheel.set(index, limit);
    }

    /// A connection's time has come: where it is its last, it ends.
    fn expire(&mut self, index: usize, now: Instant) {
        let slot = &mut self.slots[index];
        match slot.phase {
            Phase::HalfOpen | Phase::Waiting if now >= slot.limit => self.free(index),
            Phase::Closing if now >= slot.limit => slot.socket().abort(),
            _ => {}
        }
    }

    #[cfg(test)]
    pub(super) fn free_slots(&self) -> usize {
        self.slots.iter().filter(|slot| slot.phase == Phase::Free).count()
    }

    /// When the next timer is due.
    #[inline(always)]
    pub(super) fn deadline(&self) -> Instant {
        self.wheel.deadline()
    }

    #[inline]
    fn bucket(&self, key: &Key) -> usize {
        self.hash(key) as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn hash(&self, key: &Key) -> u64 {
        let mut hash = self.secret;
        for word in [key.remote[0], key.remote[1], key.local[0] ^ key.local[1], key.ports.into()] {
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        hash
    }

    #[inline]
    fn find(&self, key: &Key) -> Option<usize> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let slot = &self.slots[usize::from(at)];
            if slot.key == *key {
                return Some(at.into());
            }
            at = slot.chained;
        }
        None
    }

    /// Moves a slot to the end of another phase's list.
    fn change(&mut self, index: usize, phase: Phase) {
        let Slot { next, previous, phase: old, .. } = self.slots[index];
        match previous {
            NONE => self.lists[old as usize].first = next,
            previous => self.slots[usize::from(previous)].next = next,
        }
        match next {
            NONE => self.lists[old as usize].last = previous,
            next => self.slots[usize::from(next)].previous = previous,
        }
        self.append(index, phase);
    }

    fn append(&mut self, index: usize, phase: Phase) {
        let last = self.lists[phase as usize].last;
        let slot = &mut self.slots[index];
        (slot.phase, slot.next, slot.previous) = (phase, NONE, last);
        match last {
            NONE => self.lists[phase as usize].first = index as u16,
            last => self.slots[usize::from(last)].next = index as u16,
        }
        self.lists[phase as usize].last = index as u16;
    }
}

/// A free slot with its buffers.
fn slot(settings: &Settings) -> Slot {
    let buffer = |bytes: usize| SocketBuffer::new(vec![0; bytes]);
    let mut socket = Socket::new(buffer(settings.receive_buffer), buffer(settings.send_buffer));
    socket.set_congestion_control(CongestionControl::Reno);
    // What is small is a whole response; waiting for more would only delay it.
    socket.set_nagle_enabled(false);
    let mut sockets = SocketSet::new(Vec::with_capacity(1));
    let handle = sockets.add(socket);
    Slot {
        sockets,
        handle,
        key: Key::default(),
        port: 0,
        phase: Phase::Free,
        next: NONE,
        previous: NONE,
        chained: NONE,
        limit: Instant::NEVER,
        touched: false,
        told: false,
        new: false,
    }
}
