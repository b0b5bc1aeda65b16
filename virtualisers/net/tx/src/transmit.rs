//! Whose frame is sent next, and where every buffer is.
//!
//! Clients take turns, a bounded number of frames each, and may have a bounded number with the driver ([`Shares`]): one that sends without
//! end delays the others by no more than the others' frames delay it.
//!
//! Nobody waits for sent buffers as long as there are others. So the driver is asked to return them (which may cost an
//! interrupt) only when a client has most of its buffers there, or cannot send for want of its share. That is announced before the
//! frames that bring it about are published: so the driver, having seen the frames, has seen the announcement.

use crate::bounce::Bounce;
use crate::client::{Client, Entry};
use crate::counters;
use alloc::boxed::Box;
use culm::connection::{NetTxClient, NetTxVirtualiser};
use culm::queue::{Consumer, Producer};
use culm::{Channel, Channels, queue};
use culm_net::session::{Event, Marked, Marker};
use culm_net::{DmaDescriptor, HEADROOM, Session, Shares, lendable, put_off};

/// Frames that a client may send before others get their turn.
const BATCH: u32 = 32;

/// Clients that a word has bits for.
const MAX_CLIENTS: usize = 63;

/// A token is the number of a buffer and in the upper half that of the client whose it is, or this: it is one of [`Bounce`]'s.
const BOUNCE: u32 = 0xffff;

/// The driver, as the virtualiser sees it.
struct Driver {
    filled: Producer<DmaDescriptor>,
    free: Consumer<DmaDescriptor>,
    session: Session,
    channel: Channel,
    /// Frames that it has.
    in_flight: u32,
}

/// How a client's turn ended.
#[derive(PartialEq, Eq)]
enum Turn {
    /// It has nothing more to send.
    Done,
    /// It has sent what it may at a time.
    More,
    /// It has its share.
    Limited,
    /// The driver takes no more.
    DriverFull,
}

#[derive(Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    invalid: u64,
    not_held: u64,
    spoofed: u64,
    refused: u64,
}

/// The virtualiser's state.
pub(crate) struct Transmit {
    driver: Driver,
    clients: Box<[Client]>,
    bounce: Bounce,
    shares: Shares,
    /// A bit for each client that may have something to send.
    noted: u64,
    /// A bit for each client that could not send all that it had.
    limited: u64,
    /// A bit for each client whose queues changed in this round.
    active: u64,
    /// A bit for each client that waits for buffers, or may soon.
    short: u64,
    /// The driver was asked for buffers, and none has come since.
    waits: bool,
    /// The driver has notified.
    woken: bool,
    /// How many buffers are taken back at a time while nobody waits for them.
    batch: u32,
    /// The client that has the first turn.
    first: usize,
    tally: Tally,
}

impl Transmit {
    pub(crate) fn new(connection: &NetTxVirtualiser, clients: &[NetTxClient]) -> Self {
        let count = clients.len();
        assert!(count <= MAX_CLIENTS, "{count} clients of one network device: at most {MAX_CLIENTS} can share one");
        let mut filled = queue::producer(connection.driver_filled);
        let session = Session::begin(&mut filled);
        let driver = Driver {
            filled,
            free: queue::consumer(connection.driver_free),
            session,
            channel: Channel::new(connection.driver_channel),
            in_flight: 0,
        };
        let shares = Shares::new(lendable(connection.driver_filled.capacity), count as u32);
        let mut clients: Box<[Client]> =
            clients.iter().map(|client| Client::new(client, connection.buffer_size)).collect();
        for client in &mut clients {
            client.limit(shares.most());
        }
        Self {
            driver,
            clients,
            bounce: Bounce::new(connection),
            shares,
            waits: false,
            noted: (1 << count) - 1,
            limited: 0,
            active: 0,
            short: 0,
            woken: true,
            batch: connection.driver_free.capacity / 8,
            first: 0,
            tally: Tally::default(),
        }
    }

    /// Takes note of who notified.
    #[inline]
    pub(crate) fn note(&mut self, channels: Channels) {
        for channel in channels {
            if let Some(index) = self.clients.iter().position(|client| client.channel() == channel) {
                self.noted |= 1 << index;
            } else {
                self.woken = true;
            }
        }
    }

    /// Moves everything that is there to be moved, publishes it and announces sleep. False: there is more already.
    #[inline]
    pub(crate) fn round(&mut self) -> bool {
        // Nobody waits for the others; they are found when there are more of them.
        if self.driver.in_flight >= self.batch || (self.short | self.limited) != 0 || self.woken {
            self.take_back();
        }
        self.active |= self.noted;
        let driver_full = self.submit();
        self.limited = self.noted;
        if !self.driver.session.is_live() {
            self.settle_driver();
        }
        let clients_asleep = self.publish_to_clients();
        // Before the frames become visible; see above.
        let none_returned = self.wait_for_buffers();
        self.publish_to_driver();
        self.sleep(driver_full) & clients_asleep & none_returned
    }

    /// Takes back what the driver returns.
    #[inline]
    fn take_back(&mut self) {
        self.woken = false;
        self.driver.free.refresh();
        while let Some(entry) = self.driver.free.pop_known() {
            if !self.sent(entry.token) {
                self.examine(entry);
            }
        }
    }

    /// Takes back one buffer. False: the driver does not have it.
    #[inline(always)]
    fn sent(&mut self, token: u32) -> bool {
        let (mut index, number) = (token >> 16, token & 0xffff);
        let bounced = index == BOUNCE;
        if bounced {
            let Some(owner) = self.bounce.sent(number) else { return false };
            index = owner;
        }
        let Some(client) = self.clients.get_mut(index as usize) else { return false };
        if !bounced && !client.sent(number) {
            return false;
        }
        self.shares.give_back(&mut client.in_flight);
        self.driver.in_flight -= 1;
        self.active |= 1 << index;
        self.waits = false;
        true
    }

    /// Deals with an entry of the driver's that is no buffer which it has.
    #[cold]
    fn examine(&mut self, entry: DmaDescriptor) {
        match entry.as_marker() {
            Some(marker) => {
                self.driver.session.receive(marker);
                if matches!(marker, Marker::Welcome(_)) {
                    self.settle_driver();
                }
            }
            None if self.driver.session.is_live() => self.tally.refused += 1,
            None => {}
        }
    }

    /// Answers the driver's markers. Where it starts over, what it had will not be sent any more, and comes back.
    #[cold]
    fn settle_driver(&mut self) {
        if self.driver.session.settle(&mut self.driver.filled) != Event::Renewed {
            return;
        }
        for number in 0..self.bounce.count() {
            self.sent(BOUNCE << 16 | number);
        }
        for index in 0..self.clients.len() {
            for number in 0..self.clients[index].count() {
                self.sent((index as u32) << 16 | number);
            }
        }
        self.noted = self.all();
    }

    /// A bit for each client.
    fn all(&self) -> u64 {
        (1 << self.clients.len()) - 1
    }

    /// Lets clients send in turns. True: the driver takes no more.
    #[inline]
    fn submit(&mut self) -> bool {
        if !self.driver.session.is_live() {
            return false;
        }
        let mut pending = core::mem::take(&mut self.noted);
        while pending != 0 {
            let index = next(pending, self.first);
            self.first = if index + 1 < self.clients.len() { index + 1 } else { 0 };
            match self.take_turn(index) {
                Turn::Done => pending &= !(1 << index),
                Turn::More => {}
                Turn::Limited => {
                    pending &= !(1 << index);
                    self.noted |= 1 << index;
                }
                Turn::DriverFull => {
                    self.noted |= pending;
                    return true;
                }
            }
        }
        false
    }

    /// Lets a client send some frames.
    #[inline(always)]
    fn take_turn(&mut self, index: usize) -> Turn {
        let Some(client) = self.clients.get_mut(index) else { return Turn::Done };
        if client.filled.available() == 0 && client.filled.refresh() == 0 {
            return Turn::Done;
        }
        for _ in 0..BATCH {
            if client.filled.available() == 0 {
                // What came meanwhile is found at the end of the round.
                return Turn::Done;
            }
            if self.driver.filled.free() == 0 && self.driver.filled.refresh() == 0 {
                return Turn::DriverFull;
            }
            if client.only.is_some() && !self.bounce.is_ready() || !self.shares.take(&mut client.in_flight) {
                return Turn::Limited;
            }
            let Some(entry) = client.filled.pop_known() else {
                self.shares.give_back(&mut client.in_flight);
                return Turn::Done;
            };
            let number = match client.examine(entry) {
                Entry::Frame(number) => number,
                other => {
                    self.shares.give_back(&mut client.in_flight);
                    drop_entry(client, &other, &mut self.tally);
                    continue;
                }
            };
            let (address, token) = match client.only {
                None => (client.dma(number), (index as u32) << 16 | number),
                Some(only) => {
                    let packet = client.packet(number, entry.length);
                    let copy = packet.and_then(|packet| self.bounce.copy(&packet, index as u32, only));
                    client.give_back(number);
                    let Some(copy) = copy else {
                        self.shares.give_back(&mut client.in_flight);
                        self.tally.spoofed += 1;
                        continue;
                    };
                    (self.bounce.dma(copy), BOUNCE << 16 | copy)
                }
            };
            // There is space, as just asked.
            let _ = self.driver.filled.push(DmaDescriptor { address, length: entry.length, flags: 0, token });
            self.driver.in_flight += 1;
            self.tally.packets += 1;
            self.tally.bytes += u64::from(entry.length) - HEADROOM as u64;
        }
        Turn::More
    }

    /// Publishes to the clients of this round, and announces sleep to them. False: there is more already.
    #[inline]
    fn publish_to_clients(&mut self) -> bool {
        let mut asleep = true;
        let mut active = core::mem::take(&mut self.active);
        while active != 0 {
            let index = active.trailing_zeros() as usize;
            let bit = active & active.wrapping_neg();
            active ^= bit;
            let Some(client) = self.clients.get_mut(index) else { break };
            if client.is_unsettled() {
                client.settle();
            }
            client.publish();
            self.short = if client.is_short() { self.short | bit } else { self.short & !bit };
            // Those who wait for their share, or for the driver, have something to send already.
            if self.noted & bit == 0 && !(client.sleep() & client.wait_for_space()) {
                self.noted |= bit;
                asleep = false;
            }
        }
        asleep
    }

    /// Where a client waits for buffers, or may soon, asks the driver to return some. False: there are some.
    #[inline]
    fn wait_for_buffers(&mut self) -> bool {
        let needed = (self.short | self.limited) != 0 && self.driver.session.is_live();
        if !needed || self.waits || self.driver.in_flight == 0 {
            return true;
        }
        self.waits = true;
        // It looks for the announcement when it is given frames. Where there are none to give, it is woken to look.
        self.driver.channel.notify();
        self.driver.free.sleep_until(self.driver.in_flight / 2)
    }

    #[inline]
    fn publish_to_driver(&mut self) {
        let Driver { filled, free, session, channel, .. } = &mut self.driver;
        let given = filled.publish();
        let taken = session.may_release() && free.release_many(put_off(free.capacity()));
        if given | taken {
            channel.notify();
        }
        let tally = &mut self.tally;
        if tally.packets > 0 {
            counters::PACKETS.add(core::mem::take(&mut tally.packets));
            counters::BYTES.add(core::mem::take(&mut tally.bytes));
        }
        if tally.invalid | tally.not_held | tally.spoofed | tally.refused != 0 {
            count(tally);
        }
    }

    /// Announces to the driver what is waited for. False: it is there already.
    #[inline]
    fn sleep(&mut self, driver_full: bool) -> bool {
        let Driver { filled, free, session, .. } = &mut self.driver;
        if !session.is_live() {
            session.sleep(filled, free)
        } else if driver_full {
            filled.sleep_until(BATCH.min(filled.capacity() / 2))
        } else {
            true
        }
    }
}

/// Deals with an entry that is no frame.
#[cold]
fn drop_entry(client: &mut Client, entry: &Entry, tally: &mut Tally) {
    match entry {
        Entry::Invalid(number) => {
            client.give_back(*number);
            tally.invalid += 1;
        }
        Entry::NotHeld => tally.not_held += 1,
        Entry::Frame(_) | Entry::Other => {}
    }
}

/// Counts what should not happen often.
#[cold]
fn count(tally: &mut Tally) {
    let tally = core::mem::take(tally);
    counters::DROPS_INVALID.add(tally.invalid);
    counters::DROPS_NOT_HELD.add(tally.not_held);
    counters::DROPS_SPOOFED.add(tally.spoofed);
    counters::REFUSED.add(tally.refused);
}

/// The first bit of `bits`, which is not 0, from bit `from` on, going round.
#[inline(always)]
fn next(bits: u64, from: usize) -> usize {
    let after = bits & (u64::MAX << from);
    if after != 0 { after.trailing_zeros() as usize } else { bits.trailing_zeros() as usize }
}
