//! The table of connections: finding one by the addresses and ports of a segment, and by merit
//! where one must go.
//!
//! Every place ("slot") has a connection's memory for as long as the component runs. Slots are
//! in lists by what would be lost with them, each oldest first; moving a slot from list to list and
//! finding the first of one costs the same whatever their number.

use super::classify::Key;
use super::frame::{LONGEST_TRAIN, Link, Route};
use super::key_hash::KeyHash;
use super::settings::Settings;
use super::stream::Stream;
use super::tcp::buffers::{Inbox, Outbox, PIECES};
use super::tcp::opening;
use crate::client::Transmitter;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use culm::time::Instant;
use culm_tcp::{Connection, Header, Placement, Sequence, Storage};

/// Groups of segments that were sent at one time and are not acknowledged, of one connection. Where
/// there are more, neighbours count as one.
const RECORDS: usize = 48;

/// Ranges of bytes that have come before others in front of them, of one connection.
const ISLANDS: usize = 16;

/// No more bytes than these go in single segments: only more is worth being left to the device to
/// divide.
const SHORT: u32 = 536;

/// No slot.
pub(super) const NONE: u16 = u16::MAX;

/// Where a connection is in its life, which tells how much would be lost with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No connection.
    Free,
    /// Open, with nothing under way: the application is done with what came, and the peer has
    /// acknowledged all that was sent.
    Idle,
    /// Open, and nothing was sent to the peer yet: it has connected just now, and its request is
    /// about to come.
    AwaitingFirstRequest,
    /// Open, with work under way.
    Open,
    /// Released by the application; the closing handshake is not complete.
    Closing,
}

const PHASES: usize = 5;

#[derive(Clone, Copy)]
struct List {
    first: u16,
    last: u16,
    count: u16,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) connection: Connection<'static>,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    /// How its segments get to the peer.
    pub(super) route: Route,
    pub(super) key: Key,
    /// The key's, by [`Table::hash`].
    pub(super) hash: u64,
    pub(super) port: u16,
    phase: Phase,
    next: u16,
    previous: u16,
    /// The next slot whose key has the same hash.
    chained: u16,
    /// When it got on for the last time: came to rest, had something acknowledged, or was released.
    pub(super) since: Instant,
    /// Bytes sent and not acknowledged at that time.
    pub(super) unacknowledged: u32,
    /// When the peer was known to have taken something for the last time.
    pub(super) confirmed: Instant,
    /// Nothing was sent to the peer yet.
    pub(super) fresh: bool,
    /// The application has nothing under way on it, since it was told of the last news.
    pub(super) rests: bool,
    /// It may have something to send or a new state.
    pub(super) dirty: bool,
    /// The application is to be told of news.
    pub(super) told: bool,
    /// It has not been told yet that there is a connection ([`Event::Opened`]).
    ///
    /// [`Event::Opened`]: super::stream::Event::Opened
    pub(super) new: bool,
}

/// Returns memory for `count` values for as long as the component runs. A loop that is not inlined,
/// where the count would be known, has less code than `vec!` and `collect`.
#[inline(never)]
pub(super) fn places<T: Default>(count: usize) -> &'static mut [T] {
    let mut places = Vec::with_capacity(count);
    places.resize_with(count, T::default);
    places.leak()
}

impl Slot {
    /// A slot without a connection; `None` if [`RECORDS`] are too few for any.
    fn new(settings: &Settings) -> Option<Self> {
        let storage = Storage { pieces: places(PIECES), records: places(RECORDS), islands: places(ISLANDS) };
        let (bytes, most) = (settings.receive_buffer, settings.largest_receive_buffer);
        Some(Self {
            connection: Connection::closed(opening::settings(0, 0, Inbox::windows(bytes, most)), storage)?,
            inbox: Inbox::new(bytes, most),
            outbox: Outbox::new(settings.send_buffer),
            route: Route::default(),
            key: Key::default(),
            hash: 0,
            port: 0,
            phase: Phase::Free,
            next: NONE,
            previous: NONE,
            chained: NONE,
            since: Instant::default(),
            confirmed: Instant::default(),
            unacknowledged: 0,
            fresh: false,
            rests: false,
            dirty: false,
            told: false,
            new: false,
        })
    }

    /// Begins with another connection, from `port` and along `route`; the application is to hear of
    /// it if it `is_new` to it.
    pub(super) fn begin(&mut self, route: Route, port: u16, is_new: bool, now: Instant) {
        self.outbox.clear();
        (self.route, self.port) = (route, port);
        (self.new, self.fresh, self.rests) = (is_new, true, false);
        (self.since, self.confirmed, self.unacknowledged) = (now, Instant::default(), 0);
    }

    /// Gives the connection a segment of its own, its packet with a mark of congestion if
    /// `is_marked`.
    #[inline(always)]
    pub(super) fn receive(&mut self, header: &Header, payload: &[u8], is_marked: bool, now: culm_tcp::Instant) {
        let unread = self.connection.readable() as usize;
        let outbox = &mut self.outbox;
        let release = |token| outbox.release(token);
        let placement = self.connection.receive(header, payload.len() as u32, is_marked, now, release);
        if let Some(Placement { skip, length, offset, .. }) = placement
            && let Some(bytes) = payload.get(skip as usize..(skip + length) as usize)
        {
            self.inbox.keep(unread + offset as usize, bytes);
        }
    }

    /// Does the same out of line, for the segments of which a connection has few.
    #[inline(never)]
    pub(super) fn receive_rarely(&mut self, header: &Header, payload: &[u8], is_marked: bool, now: culm_tcp::Instant) {
        self.receive(header, payload, is_marked, now);
    }

    /// Does the same for a segment from another station than before. Only one that brings the
    /// connection on proves that the peer is to be reached through that station now: another one
    /// does not know the sequence numbers. Returns whether it has.
    #[cold]
    pub(super) fn receive_from(
        &mut self,
        link: Link,
        header: &Header,
        payload: &[u8],
        is_marked: bool,
        now: culm_tcp::Instant,
    ) -> bool {
        let progress =
            |connection: &Connection<'_>| (connection.readable(), connection.unacknowledged(), connection.state());
        let before = progress(&self.connection);
        self.receive_rarely(header, payload, is_marked, now);
        let brings_on = progress(&self.connection) != before && link[0] & 1 == 0;
        if brings_on {
            self.route.set_link(link);
        }
        brings_on
    }

    /// Drops the first `count` bytes that have come, or all if there are fewer.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.connection.readable() as usize);
        self.inbox.drop(count);
        self.connection.read(count as u32);
    }

    /// Does for the connection what is due.
    pub(super) fn pass_time(&mut self, now: culm_tcp::Instant) {
        let outbox = &mut self.outbox;
        self.connection.pass_time(now, |token| outbox.release(token));
    }

    /// Ends this side after all that was given is sent.
    pub(super) fn close(&mut self) {
        let outbox = &mut self.outbox;
        self.connection.close(|token| outbox.release(token));
    }

    /// Ends the connection, whose address is lost.
    pub(super) fn lose_address(&mut self) {
        let outbox = &mut self.outbox;
        self.connection.lose_address(|token| outbox.release(token));
    }

    /// Takes the message that a segment did not get to the peer; returns whether it is believed.
    pub(super) fn undelivered(&mut self, sequence: Sequence, is_final: bool, now: culm_tcp::Instant) -> bool {
        let outbox = &mut self.outbox;
        self.connection.unreachable(sequence, is_final, now, |token| outbox.release(token))
    }

    /// Ends the connection by a reset.
    pub(super) fn abort(&mut self) {
        let outbox = &mut self.outbox;
        self.connection.abort(|token| outbox.release(token));
    }

    /// Sends a segment, or as many as the device divides at once. Returns whether there was one;
    /// what there was needs the buffer that the transmitter is ready with. Much is not sent in
    /// single segments where a large buffer comes back soon: [`Self::awaits_large`].
    #[inline(always)]
    pub(super) fn transmit(&mut self, transmitter: &mut Transmitter, now: culm_tcp::Instant) -> bool {
        let is_long = self.connection.unacknowledged() > SHORT && transmitter.divides(self.route.segmentation());
        let has_large = is_long && transmitter.has_large();
        self.connection.set_longest_train(if has_large { LONGEST_TRAIN } else { 0 });
        self.connection.set_train_awaited(is_long && !has_large);
        // Where it is: it is large.
        let Some(sent) = &self.connection.transmit(now) else { return false };
        let each = if sent.length > sent.segment { sent.segment as u16 } else { 0 };
        let (connection, outbox) = (&mut self.connection, &self.outbox);
        self.route.send(transmitter, &sent.header, sent.length as usize, each, sent.is_ect, |mut place| {
            connection.parts(sent, |part| place = outbox.copy(part, core::mem::take(&mut place)));
        });
        true
    }

    /// Returns whether [`Self::transmit`] has left something for a large buffer.
    #[inline(always)]
    pub(super) fn awaits_large(&self) -> bool {
        self.connection.is_held()
    }

    /// Returns the peer's address and port.
    pub(super) fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.key.addresses(self.route.is_version_4()).0, self.key.remote_port())
    }

    /// The connection, for the application.
    #[inline(always)]
    pub(super) fn stream(&mut self) -> Stream<'_> {
        Stream { slot: self }
    }

    #[inline(always)]
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the connection is the application's.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Idle | Phase::AwaitingFirstRequest)
    }
}

/// All slots.
pub(super) struct Table {
    slots: Box<[Slot]>,
    lists: [List; PHASES],
    buckets: Box<[u16]>,
    hash: KeyHash,
}

impl core::ops::Index<usize> for Table {
    type Output = Slot;

    #[inline(always)]
    fn index(&self, index: usize) -> &Slot {
        &self.slots[index]
    }
}

impl core::ops::IndexMut<usize> for Table {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }
}

impl Table {
    /// Free slots, as many as the settings ask for. `secrets` are numbers that peers do not
    /// know.
    pub(super) fn new(settings: &Settings, secrets: [u64; 4]) -> Self {
        let count = settings.connections.min(usize::from(NONE) - 1);
        let mut slots = Vec::with_capacity(count);
        for _ in 0..count {
            slots.extend(Slot::new(settings));
        }
        let mut table = Self {
            slots: slots.into_boxed_slice(),
            lists: [List { first: NONE, last: NONE, count: 0 }; PHASES],
            buckets: vec![NONE; (2 * count).next_power_of_two().max(2)].into_boxed_slice(),
            hash: KeyHash::new(secrets),
        };
        for index in 0..count {
            table.append(index, Phase::Free);
        }
        table
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index)
    }

    /// How many slots are in this phase.
    #[inline]
    pub(super) fn count(&self, phase: Phase) -> usize {
        self.lists[phase as usize].count.into()
    }

    /// The slots in this phase, longest first.
    pub(super) fn all(&self, phase: Phase) -> impl Iterator<Item = usize> {
        let after = |index: &usize| Some(self.slots[*index].next).filter(|next| *next != NONE).map(usize::from);
        core::iter::successors(self.first(phase), after)
    }

    /// The slot that is longest in this phase.
    #[inline]
    pub(super) fn first(&self, phase: Phase) -> Option<usize> {
        let first = self.lists[phase as usize].first;
        (first != NONE).then_some(first.into())
    }

    /// A number for a key, which only this table knows.
    #[inline]
    pub(super) fn hash(&self, key: &Key) -> u64 {
        self.hash.hash(key)
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// The slot of the connection with this key, whose [`Self::hash`] is given too.
    #[inline]
    pub(super) fn find(&self, key: &Key, hash: u64) -> Option<usize> {
        let mut at = self.buckets[self.bucket(hash)];
        while at != NONE {
            let slot = &self.slots[usize::from(at)];
            if slot.key == *key {
                return Some(at.into());
            }
            at = slot.chained;
        }
        None
    }

    /// Gives a free slot to the connection with this key, whose [`Self::hash`] is given too.
    pub(super) fn occupy(&mut self, index: usize, key: Key, hash: u64) {
        let bucket = self.bucket(hash);
        let slot = &mut self.slots[index];
        (slot.key, slot.hash) = (key, hash);
        slot.chained = self.buckets[bucket];
        self.buckets[bucket] = index as u16;
        self.change(index, Phase::Open);
    }

    /// Takes the connection out of its slot.
    pub(super) fn vacate(&mut self, index: usize) {
        let bucket = self.bucket(self.slots[index].hash);
        let after = core::mem::replace(&mut self.slots[index].chained, NONE);
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
        self.change(index, Phase::Free);
    }

    /// Moves a slot to the end of a phase's list, be it the one that it is in.
    pub(super) fn change(&mut self, index: usize, phase: Phase) {
        let Slot { next, previous, phase: old, .. } = self.slots[index];
        self.lists[old as usize].count -= 1;
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
        let list = &mut self.lists[phase as usize];
        let last = core::mem::replace(&mut list.last, index as u16);
        list.count += 1;
        let slot = &mut self.slots[index];
        (slot.phase, slot.next, slot.previous) = (phase, NONE, last);
        match last {
            NONE => list.first = index as u16,
            last => self.slots[usize::from(last)].next = index as u16,
        }
    }
}
