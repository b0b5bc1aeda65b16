//! A server's connections: whose turn it is, and which one took too long. Which one goes when a new
//! one comes is decided by the transport, which knows what the peers have acknowledged; it is told
//! here which ones rest.

use crate::connection::{Connection, Scratch, Shared, Step, Tally};
use crate::decision::LastRequest;
use crate::documents::{Documents, Renderer};
use crate::files::Files;
use crate::limits::Timeouts;
use crate::response::Date;
use crate::site::Site;
use crate::transport::{Stream, Transport};
use alloc::boxed::Box;
use alloc::vec;

struct Slot {
    connection: Option<Connection>,
    /// Outlives the connection: the next one in the slot is often by the same client.
    last: LastRequest,
    queued: bool,
}

/// The connections of one server, and what they serve.
pub struct Server<R, F = ()> {
    slots: Box<[Slot]>,
    open: usize,
    queue: Queue,
    timeouts: Timeouts,
    shared: Shared<R, F>,
}

impl<R: Renderer> Server<R> {
    /// A server of up to `capacity` connections.
    pub fn new(site: Site, renderer: R, capacity: usize, timeouts: Timeouts) -> Self {
        Self::with_files(site, renderer, (), capacity, timeouts)
    }
}

impl<R: Renderer, F: Files> Server<R, F> {
    /// A server of up to `capacity` connections, which looks for what the site has not among
    /// `files`.
    pub fn with_files(site: Site, renderer: R, files: F, capacity: usize, timeouts: Timeouts) -> Self {
        let offer = files.offer();
        let documents = Documents::new(renderer, timeouts.fresh);
        let (scratch, tally, date) = (Box::<Scratch>::default(), Tally::default(), Date::default());
        let shared = Shared { site, documents, files, offer, scratch, tally, now: 0, is_crowded: false, date };
        let slots =
            (0..capacity).map(|_| Slot { connection: None, last: LastRequest::default(), queued: false }).collect();
        Self { slots, open: 0, queue: Queue::new(capacity), timeouts, shared }
    }

    /// Slots for connections.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Connections open.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Returns the counts so far.
    pub fn tally(&self) -> &Tally {
        &self.shared.tally
    }

    /// Sets the time of day, as HTTP writes it, for all responses from now on.
    pub fn set_date(&mut self, time: core::fmt::Arguments) {
        self.shared.date.set(time);
    }

    /// Who renders the documents.
    pub fn renderer(&mut self) -> &mut R {
        self.shared.documents.renderer()
    }

    /// The files that are not in memory.
    pub fn files(&mut self) -> &mut F {
        &mut self.shared.files
    }

    /// Returns the bytes that the heap is short of for all renderings of documents: with fewer,
    /// clients that ask for one are sent away earlier.
    pub fn shortage(&self) -> usize {
        self.shared.documents.shortage()
    }

    /// The transport has a new connection in `slot`. One that was there has made way for it.
    pub fn opened(&mut self, slot: usize, now: u64) {
        let Some(place) = self.slots.get_mut(slot) else { return };
        match place.connection.replace(Connection::new(slot as u16, now)) {
            Some(mut former) => former.forget(&mut self.shared),
            None => self.open += 1,
        }
        self.shared.tally.connections += 1;
        self.ready(slot);
    }

    /// The transport has news of the connection in `slot`: bytes, room, or its end.
    #[inline]
    pub fn ready(&mut self, slot: usize) {
        let Some(place) = self.slots.get_mut(slot) else { return };
        if place.connection.is_some() && !place.queued {
            place.queued = true;
            self.queue.push(slot as u16);
        }
    }

    /// Gives up to `turns` turns, in the order in which connections became ready; one that has more
    /// to do goes to the end. Returns whether some are still waiting for a turn.
    #[inline]
    pub fn run<T: Transport>(&mut self, transport: &mut T, now: u64, turns: usize) -> bool {
        (self.shared.now, self.shared.is_crowded) = (now, transport.is_crowded());
        for _ in 0..turns {
            let Some(slot) = self.queue.pop() else { return false };
            let slot = usize::from(slot);
            let Slot { connection, last, queued } = &mut self.slots[slot];
            *queued = false;
            let Some(connection) = connection else { continue };
            let step = match transport.stream(slot) {
                Some(mut stream) => {
                    let step = connection.advance(&mut stream, &mut self.shared, last);
                    if step == Step::Wait && connection.rests() {
                        Stream::rest(&mut stream);
                    }
                    step
                }
                None => Step::Over,
            };
            self.follow(step, slot, transport);
        }
        !self.queue.is_empty()
    }

    #[inline]
    fn follow<T: Transport>(&mut self, step: Step, slot: usize, transport: &mut T) {
        match step {
            Step::Wait => {}
            Step::Again => self.ready(slot),
            Step::Over => self.remove(slot, transport),
        }
    }

    fn remove<T: Transport>(&mut self, slot: usize, transport: &mut T) {
        if let Some(mut connection) = self.slots[slot].connection.take() {
            connection.forget(&mut self.shared);
            self.open -= 1;
        }
        transport.release(slot);
    }

    /// Ends connections that took too long. Returns the earliest time at which another one will
    /// have.
    pub fn expire<T: Transport>(&mut self, transport: &mut T, now: u64) -> Option<u64> {
        self.shared.now = now;
        let mut next = None;
        for slot in 0..self.slots.len() {
            let Some(connection) = &mut self.slots[slot].connection else { continue };
            if connection.deadline(&self.timeouts) <= now {
                let step = match transport.stream(slot) {
                    Some(mut stream) => connection.expire(&mut stream, &mut self.shared),
                    None => Step::Over,
                };
                self.follow(step, slot, transport);
            }
            if let Some(connection) = &self.slots[slot].connection {
                let deadline = connection.deadline(&self.timeouts);
                next = Some(next.map_or(deadline, |next: u64| next.min(deadline)));
            }
        }
        next
    }
}

/// A first-in-first-out queue of slots, each at most once in it, so that it never overflows.
struct Queue {
    slots: Box<[u16]>,
    mask: usize,
    head: usize,
    tail: usize,
}

impl Queue {
    fn new(capacity: usize) -> Self {
        let size = capacity.max(1).next_power_of_two();
        Self { slots: vec![0; size].into(), mask: size - 1, head: 0, tail: 0 }
    }

    fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    fn push(&mut self, slot: u16) {
        self.slots[self.tail & self.mask] = slot;
        self.tail = self.tail.wrapping_add(1);
    }

    fn pop(&mut self) -> Option<u16> {
        if self.is_empty() {
            return None;
        }
        let slot = self.slots[self.head & self.mask];
        self.head = self.head.wrapping_add(1);
        Some(slot)
    }
}
