//! The table of connections: finding one by the addresses and ports of a segment, and by merit
//! where one must go.
//!
//! Every place ("slot") has a socket with its buffers for as long as the component runs. Slots are
//! in lists by what would be lost with them, each oldest first; moving a slot from list to list and
//! finding the first of one costs the same whatever their number.

use super::classify::Key;
use super::connections::Stream;
use super::handshake::Link;
use super::key_hash::KeyHash;
use super::settings::Settings;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use culm::time::Instant;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};

/// No slot.
pub(super) const NONE: u16 = u16::MAX;

/// Where a connection is in its life, which tells how much would be lost with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No connection.
    Free,
    /// Over (TIME-WAIT): keeps its place only so that stray segments meet no other connection.
    TimeWait,
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

const PHASES: usize = 6;

#[derive(Clone, Copy)]
struct List {
    first: u16,
    last: u16,
    count: u16,
}

pub(super) struct Slot {
    pub(super) sockets: SocketSet<'static>,
    handle: SocketHandle,
    pub(super) key: Key,
    /// The station that the peer's frames come from.
    pub(super) link: Link,
    pub(super) port: u16,
    phase: Phase,
    next: u16,
    previous: u16,
    /// The next slot whose key has the same hash.
    chained: u16,
    /// When a connection that closes or waits is given up.
    pub(super) limit: Instant,
    /// When it got on for the last time: came to rest, or had something acknowledged.
    pub(super) since: Instant,
    /// Bytes sent and not acknowledged at that time.
    pub(super) unacknowledged: usize,
    /// Nothing was sent to the peer yet.
    pub(super) fresh: bool,
    /// The application has nothing under way on it, since it was told of the last news.
    pub(super) rests: bool,
    /// The application has written something to it, or closed it.
    pub(super) writes: bool,
    /// It may have something to send or a new state.
    pub(super) dirty: bool,
    /// The application is to be told of news.
    pub(super) told: bool,
    /// The first of which is that there is a connection.
    pub(super) new: bool,
}

impl Slot {
    fn new(settings: &Settings) -> Self {
        let buffer = |bytes: usize| SocketBuffer::new(vec![0; bytes]);
        let mut socket = Socket::new(buffer(settings.receive_buffer), buffer(settings.send_buffer));
        socket.set_congestion_control(CongestionControl::Reno);
        // A small piece is a whole response; waiting for more would only delay it.
        socket.set_nagle_enabled(false);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Self {
            sockets,
            handle,
            key: Key::default(),
            link: Link::default(),
            port: 0,
            phase: Phase::Free,
            next: NONE,
            previous: NONE,
            chained: NONE,
            limit: Instant::NEVER,
            since: Instant::default(),
            unacknowledged: 0,
            fresh: false,
            rests: false,
            writes: false,
            dirty: false,
            told: false,
            new: false,
        }
    }

    #[inline(always)]
    pub(super) fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// The connection, for the application.
    #[inline(always)]
    pub(super) fn stream(&mut self) -> Stream<'_> {
        Stream { socket: self.sockets.get_mut(self.handle), rests: &mut self.rests, writes: &mut self.writes }
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
    pub(super) fn new(settings: &Settings, secrets: [u64; 3]) -> Self {
        let count = settings.connections.min(usize::from(NONE) - 1);
        let mut table = Self {
            slots: (0..count).map(|_| Slot::new(settings)).collect(),
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
    fn bucket(&self, key: &Key) -> usize {
        self.hash(key) as usize & (self.buckets.len() - 1)
    }

    /// The slot of the connection with this key.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<usize> {
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

    /// Gives a free slot to the connection with this key.
    pub(super) fn occupy(&mut self, index: usize, key: Key) {
        let bucket = self.bucket(&key);
        let slot = &mut self.slots[index];
        slot.key = key;
        slot.chained = self.buckets[bucket];
        self.buckets[bucket] = index as u16;
        self.change(index, Phase::Open);
    }

    /// Takes the connection out of its slot.
    pub(super) fn vacate(&mut self, index: usize) {
        let bucket = self.bucket(&self.slots[index].key);
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
