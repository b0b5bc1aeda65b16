//! The distribution of received frames, and the record of each buffer's holders.
//!
//! For each buffer there is a word that says who has it ([`Holders`]): nobody, the driver, or one
//! or more clients. A frame for one client makes that its holder; a broadcast makes holders of all
//! clients who have room for it, and the buffer is free when the last one has returned it. A return
//! counts only if the client is a holder. So a client can neither return a buffer that it does not
//! hold, nor the same one twice, nor free one that others still read; and the buffers that it keeps
//! count against its own share ([`Shares`]), a broadcast as much as a frame of its own.
//!
//! A frame that is too long for one buffer lies in several, which are lent together: see
//! [`pieces`].
//!
//! If a client has used up its share, or its queue is full, frames for it are dropped here, before
//! any work is spent on them. A single client's share is all buffers: then only the device drops
//! frames, which costs nothing.
//!
//! Returned buffers are taken back in batches: when the client holds a number of buffers and is
//! given another one, and when the driver runs low. Only then must clients notify for a return. The
//! driver gets them in batches too. Its stock shrinks only by frames that pass here, so this side
//! sees when it runs low.
//!
//! A client can cause the virtualiser work without use by notifications, by entries that are no
//! buffers that it holds, and by starting over. Each has an allowance for that
//! ([`Allowance`](culm_lending::Allowance)); the queues of a client that has used it up are not
//! looked at for a while.

mod pieces;

use crate::client::Client;
use crate::counters;
use crate::resume::Previous;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use culm::connection::{NetRxClient, NetRxVirtualiser};
use culm::link::Event;
use culm::{Channel, Channels, Link, Progress, Region};
use culm_lending::holders::{Entry, Holders, Record};
use culm_lending::{Account, ClientSet, LinkAccount, Paused, Shares};
use culm_net::descriptor::flags::DEVICE;
use culm_net::driver::{DriverLink, FoundDriver, Queues, Space};
use culm_net::{Descriptor, DmaDescriptor, HEADROOM, MIN_PACKET, Mac, Slots, lendable, release_batch};
use pieces::Frame;

/// The buffers.
pub(crate) struct Stock {
    data: Region,
    /// The words of the data, in which packets' headers are read.
    words: &'static [AtomicU64],
    slots: Slots,
    /// Each buffer's holders.
    holders: Record,
    /// Buffers that nobody holds.
    idle: Vec<u32>,
    shares: Shares,
    /// Buffers lent to clients, a broadcast counted for each.
    lent: u32,
    /// The driver runs low of buffers if more are lent than this.
    plenty: u32,
    /// Buffers that are taken back, or given to the driver, at a time.
    batch: u32,
}

impl Stock {
    /// Buffers of a frame at most.
    pub(crate) const MAX_PIECES: u32 = pieces::MAX as u32;

    /// Returns the record of the buffer `number`, if the driver has that.
    #[inline(always)]
    fn with_driver(&self, number: u32) -> Option<Entry> {
        self.holders.entry(number).filter(|entry| entry.get().is_driver())
    }

    /// Returns the offset of a buffer: all are small ones.
    #[inline(always)]
    fn offset(&self, number: u32) -> u32 {
        self.slots.small_offset(number)
    }

    /// Takes a buffer back that one client held, and that `others` hold still. It still counts as
    /// lent.
    #[inline(always)]
    fn take_back(&mut self, number: u32, entry: Entry, others: Holders) {
        entry.set(others);
        if others == Holders::NOBODY {
            self.idle.push(number);
        }
    }
}

/// Events of a round, for the counters.
#[derive(Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    unknown: u64,
    share: u64,
    full: u64,
    invalid: u64,
    buffers_refused: u64,
}

/// Returns the number of buffers for which every queue has space, that to the driver included.
fn limit(driver: u32, clients: &[NetRxClient]) -> u32 {
    let of_clients = clients.iter().flat_map(|client| [client.filled, client.free]);
    lendable(of_clients.map(|ring| ring.capacity).min().unwrap_or(0).min(driver))
}

/// The virtualiser's state.
pub struct Receive<D: DriverLink = Link<DmaDescriptor>> {
    /// Empty buffers go to the driver, filled ones come.
    driver: D,
    /// The account for the next life, and the part of it that is about the driver.
    account: Account,
    driver_account: LinkAccount,
    stock: Stock,
    clients: Box<[Client]>,
    /// The clients whose queues are to be looked at in this round whether or not a frame is for
    /// them.
    due: ClientSet,
    /// The clients that were given something or looked at in this round.
    active: ClientSet,
    /// The clients whose links are not live.
    disconnected: ClientSet,
    /// The clients that have used up their allowances.
    paused: Paused,
    /// The client that the last frame was for: often the next one is too.
    last: usize,
    /// A frame of which buffers are still to come.
    frame: Frame,
    tally: Tally,
}

impl Receive {
    /// Creates the virtualiser of the device of `connection`, shared by `clients`. The driver is a
    /// domain of its own.
    ///
    /// # Panics
    ///
    /// As [`Self::with_driver`].
    pub fn new(connection: &NetRxVirtualiser, clients: &[NetRxClient]) -> Self {
        let NetRxVirtualiser { driver_free, driver_filled, driver_channel, .. } = *connection;
        let place = Queues { output: driver_free, input: driver_filled, channel: driver_channel };
        Self::with_driver(place, connection, clients)
    }
}

impl<D: DriverLink> Receive<D> {
    /// Creates the virtualiser of the device of `connection`, whose driver is at `place`, shared by
    /// `clients`.
    ///
    /// # Panics
    ///
    /// If there are more clients than [`ClientSet::MAX`], which the build tool refuses.
    pub fn with_driver(
        place: impl FoundDriver<Driver = D>,
        connection: &NetRxVirtualiser,
        clients: &[NetRxClient],
    ) -> Self {
        let count = clients.len();
        let most = ClientSet::MAX;
        assert!(count <= most, "{count} clients of one network device: at most {most} can share one");
        let slots = Slots::new(connection.data.size, connection.buffer_size, limit(place.capacity(), clients));
        let mut previous = Previous::find(connection, clients, slots.count());
        let (driver, driver_account) = (previous.driver(place), previous.driver_account());
        let connect = |(index, connection): (usize, &NetRxClient)| {
            let (link, account) = (previous.client_link(index), previous.client_account(index));
            Client::new(connection, slots.count(), link, account)
        };
        let mut clients: Box<[Client]> = clients.iter().enumerate().map(connect).collect();
        previous.account.end_run();
        let holders = previous.holders;
        let is_idle = |(number, holders): (u32, Holders)| (holders == Holders::NOBODY).then_some(number);
        let mut shares = Shares::new(slots.count(), count as u32);
        let mut lent = 0;
        for (index, client) in clients.iter_mut().enumerate() {
            for _ in holders.all().filter(|(_, holders)| holders.has_client(index)) {
                shares.restore(&mut client.held);
                lent += 1;
            }
        }
        let data = Region::read_only(connection.data);
        let stock = Stock {
            data,
            words: data.atomics_u64(0, data.len() / 8).unwrap_or_default(),
            slots,
            holders,
            idle: holders.all().rev().filter_map(is_idle).collect(),
            shares,
            lent,
            plenty: slots.count() - slots.count() / 4,
            batch: release_batch(slots.count()).min(shares.guarantee() / 2).max(1),
        };
        let all = ClientSet::first(count);
        Self {
            driver,
            account: previous.account,
            driver_account,
            stock,
            clients,
            due: all,
            active: ClientSet::EMPTY,
            disconnected: all,
            paused: Paused::NONE,
            last: 0,
            frame: Frame::new(),
            tally: Tally::default(),
        }
    }

    /// Returns the driver.
    #[inline(always)]
    pub fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Returns the channels to the clients.
    pub fn channels(&self) -> impl Iterator<Item = Channel> {
        self.clients.iter().map(|client| client.link.channel())
    }

    /// Marks the peers that notified.
    #[inline]
    pub fn mark_due(&mut self, channels: Channels) {
        for channel in channels {
            if !self.driver.notifies_over(channel)
                && let Some(index) = self.clients.iter().position(|client| client.link.channel() == channel)
            {
                self.due.insert(index);
                if let Some(client) = self.clients.get_mut(index) {
                    client.allowance.spend(1);
                }
            }
        }
    }

    /// Moves frames and buffers, publishes them and announces sleep.
    #[inline]
    pub fn round(&mut self) -> Progress {
        self.due |= self.disconnected;
        if self.runs_low() {
            self.due = self.all();
        }
        if !self.paused.is_empty() {
            self.look_at_paused();
        }
        let due = self.due.take();
        self.active |= due;
        for index in due {
            self.take_returned(index);
        }
        let is_live = self.driver.look();
        // What was seen before the driver stopped is given out while there is an account of it.
        self.distribute();
        if !is_live {
            self.start_over();
        }
        self.refill();
        self.publish();
        self.sleep()
    }

    /// Leaves clients whose allowance is not back yet out of this round, and asks to be woken for
    /// them.
    #[cold]
    fn look_at_paused(&mut self) {
        let clients = &mut self.clients;
        let is_back = |index| clients.get_mut(index).is_none_or(|client: &mut Client| client.allowance.replenish());
        self.paused.look(&mut self.due, is_back);
    }

    /// Leaves the queues of a client alone until its allowance is back.
    #[cold]
    fn pause(&mut self, index: usize) {
        self.due.remove(index);
        if let Some(client) = self.clients.get_mut(index) {
            self.paused.pause(index, &mut client.allowance);
        }
    }

    /// Returns all clients.
    fn all(&self) -> ClientSet {
        ClientSet::first(self.clients.len())
    }

    /// Returns whether the driver has few buffers left: then every return counts.
    #[inline(always)]
    fn runs_low(&self) -> bool {
        self.stock.lent > self.stock.plenty
    }

    /// Gives every received frame to its destination.
    #[inline]
    fn distribute(&mut self) {
        let (mut packets, mut bytes) = (0, 0);
        while let Some(DmaDescriptor { token: number, length, flags, .. }) = self.driver.pop() {
            let Some(entry) = self.stock.with_driver(number) else {
                self.refuse();
                continue;
            };
            if self.frame.is_partial() {
                self.add_piece(number, length);
                continue;
            }
            let offset = self.stock.offset(number);
            let Some((destination, buffers)) = self.destination(offset, length) else {
                self.tally.invalid += 1;
                self.drop_entry(number);
                continue;
            };
            if buffers > 1 {
                self.begin_frame(number, length, flags, destination, buffers.into());
                continue;
            }
            let frame = Descriptor { offset, length, flags: flags & DEVICE };
            let holders = if destination.is_group() {
                self.deliver_to_all(frame)
            } else if let Some(index) = self.find(destination) {
                self.deliver(index, frame)
            } else {
                self.tally.unknown += 1;
                Holders::NOBODY
            };
            if holders == Holders::NOBODY {
                self.drop_entry(number);
            } else {
                entry.set(holders);
                packets += 1;
                bytes += u64::from(length) - HEADROOM as u64;
            }
        }
        self.tally.packets += packets;
        self.tally.bytes += bytes;
    }

    /// Makes a buffer idle whose frame nobody is given.
    fn drop_entry(&mut self, number: u32) {
        self.stock.holders.set(number, Holders::NOBODY);
        self.stock.idle.push(number);
    }

    /// Skips an entry of a buffer that the driver does not have.
    #[cold]
    fn refuse(&mut self) {
        self.tally.buffers_refused += 1;
        if self.frame.is_partial() {
            // The account can describe a frame only if its entries follow each other.
            self.forget_frame();
        }
        self.driver_account.skip();
    }

    /// Returns the destination of a frame and the number of its buffers, or `None` if it is no
    /// valid frame.
    #[inline(always)]
    fn destination(&self, offset: u32, length: u16) -> Option<(Mac, u16)> {
        if !self.stock.slots.small_holds(length) {
            return None;
        }
        const { assert!(HEADROOM == 12 && MIN_PACKET >= HEADROOM + 8) };
        // First the header's last four bytes (`checksum_offset`, `buffers`) and the address's first
        // four; then the address's last two and the bytes behind it.
        let at = offset as usize / 8 + 1;
        let high = self.stock.words.get(at + 1)?.load(Relaxed);
        let low = self.stock.words.get(at)?.load(Relaxed);
        Some((Mac::from_word(low >> 32 | high << 32), (low >> 16) as u16))
    }

    /// Returns the client with this address.
    #[inline(always)]
    fn find(&mut self, mac: Mac) -> Option<usize> {
        if self.clients.get(self.last).is_some_and(|client| client.mac == mac) {
            return Some(self.last);
        }
        self.last = self.clients.iter().position(|client| client.mac == mac)?;
        Some(self.last)
    }

    fn deliver_to_all(&mut self, frame: Descriptor) -> Holders {
        let mut holders = Holders::NOBODY;
        for index in 0..self.clients.len() {
            holders = holders.and(self.deliver(index, frame));
        }
        holders
    }

    /// Gives a frame to a client, if it has room for the frame. Returns the client then, and nobody
    /// if not.
    #[inline(always)]
    fn deliver(&mut self, index: usize, frame: Descriptor) -> Holders {
        if !self.active.contains(index) {
            self.activate(index);
        }
        let Some(client) = self.clients.get_mut(index) else { return Holders::NOBODY };
        if !client.link.is_live() || !self.stock.shares.take(&mut client.held) {
            return self.deliver_after_returns(index, frame);
        }
        if !client.give(frame, self.driver.positions().input) {
            return self.undo_share(index);
        }
        self.stock.lent += 1;
        Holders::client(index)
    }

    /// Marks a client that is given something in this round. Takes back what it has returned, if it
    /// holds many buffers.
    #[inline(never)]
    fn activate(&mut self, index: usize) {
        self.active.insert(index);
        if self.clients.get(index).is_some_and(|client| client.held >= self.stock.batch) {
            self.take_returned(index);
        }
    }

    /// Does what [`Self::deliver`] does, for a client whose link is not live, or that has used up
    /// its share unless it has returned buffers since it was last looked at.
    #[cold]
    fn deliver_after_returns(&mut self, index: usize, frame: Descriptor) -> Holders {
        if !self.clients.get(index).is_some_and(|client| client.link.is_live()) {
            self.tally.full += 1;
            return Holders::NOBODY;
        }
        self.take_returned(index);
        let Some(client) = self.clients.get_mut(index) else { return Holders::NOBODY };
        if !self.stock.shares.take(&mut client.held) {
            self.tally.share += 1;
            return Holders::NOBODY;
        }
        if !client.give(frame, self.driver.positions().input) {
            return self.undo_share(index);
        }
        self.stock.lent += 1;
        Holders::client(index)
    }

    /// Takes back the share for a frame for which the client's queue has no space. Returns nobody.
    #[cold]
    fn undo_share(&mut self, index: usize) -> Holders {
        if let Some(client) = self.clients.get_mut(index) {
            self.stock.shares.repay(&mut client.held);
        }
        self.tally.full += 1;
        Holders::NOBODY
    }

    /// Takes back the buffers that a client returned; if the pair starts over, all that it held. A
    /// returned buffer pays for the notification of it.
    #[inline]
    fn take_returned(&mut self, index: usize) {
        if self.paused.contains(index) {
            return;
        }
        let Some(client) = self.clients.get_mut(index) else { return };
        if !client.link.look() && client.start_over() {
            self.take_all_back(index);
        }
        let Some(client) = self.clients.get_mut(index) else { return };
        let (stock, before) = (&mut self.stock, client.held);
        // The compiler keeps these in registers, which it cannot do with what is in memory that the
        // records' stores might change.
        let (slots, record, mut held) = (stock.slots, stock.holders, before);
        let mut idle = core::mem::take(&mut stock.idle);
        let known = client.link.input.available();
        for entry in client.link.input.drain(known) {
            // All buffers are small ones.
            let number = slots.candidate(entry.offset);
            if entry.flags == 0
                && let Some(record) = record.entry(number)
                && record.get().has_client(index)
            {
                stock.shares.repay(&mut held);
                let others = record.get().without(index);
                record.set(others);
                if others == Holders::NOBODY {
                    idle.push(number);
                }
                continue;
            }
            self.tally.buffers_refused += 1;
            client.account.skip();
            client.allowance.spend(1);
            if client.allowance.is_spent() {
                break;
            }
        }
        stock.idle = idle;
        client.held = held;
        let returned = before - held;
        stock.lent -= returned;
        client.allowance.earn(2 * returned);
        self.disconnected.set(index, !client.link.is_live());
        if client.allowance.is_spent() {
            self.pause(index);
        }
    }

    /// Takes back all buffers that a client held: the pair starts over, and is live.
    #[cold]
    fn take_all_back(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        for (number, holders) in self.stock.holders.all() {
            if holders.has_client(index)
                && let Some(record) = self.stock.holders.entry(number)
            {
                self.stock.shares.repay(&mut client.held);
                self.stock.take_back(number, record, holders.without(index));
                self.stock.lent -= 1;
            }
        }
        client.keep(self.stock.slots.count());
    }

    /// Takes the next steps towards a live link to the driver. Once it is live, all buffers that
    /// the driver had are here: it could not go on, or the pair starts over for the first time.
    #[cold]
    fn start_over(&mut self) {
        self.driver_account.forget();
        if self.driver.reconnect() == Event::Renewed {
            for (number, holders) in self.stock.holders.all() {
                if holders.is_driver() {
                    self.drop_entry(number);
                }
            }
            self.forget_frame();
            let positions = self.driver.positions();
            for client in &self.clients {
                // The indices of the driver's entries begin anew. Clients' entries that are written
                // and not published came by none of these.
                client.account.set_progress(client.link.output.position(), positions.input);
            }
            self.driver_account.keep(self.driver.generations(), positions);
        }
    }

    /// Gives idle buffers to the driver.
    #[inline]
    fn refill(&mut self) {
        let few = (self.stock.idle.len() as u32) < self.stock.batch && !self.runs_low();
        // Until a frame is complete, the next life may have to look up its buffers by the entries
        // by which they came: give the driver nothing that may take the place of one.
        if few || self.frame.is_partial() {
            return;
        }
        let stock = &mut self.stock;
        let (slots, holders) = (stock.slots, stock.holders);
        let (base, length) = (stock.data.dma(), slots.buffer_size() as u16);
        let mut index = self.driver.positions().output;
        let mut space = self.driver.reserve(stock.idle.len() as u32);
        let kept = stock.idle.len() - (space.left() as usize).min(stock.idle.len());
        for number in stock.idle.drain(kept..).rev() {
            let address = base + u64::from(slots.small_offset(number));
            space.push(DmaDescriptor { address, length, flags: 0, token: number });
            holders.set(number, Holders::driver(index));
            index = index.wrapping_add(1);
        }
    }

    #[inline]
    fn publish(&mut self) {
        for index in self.active.take() {
            if let Some(client) = self.clients.get_mut(index) {
                client.link.publish();
            }
        }
        if self.frame.is_partial() {
            // The entries of a frame stay in the queue until it is complete: the next life reads
            // them again.
            self.driver.publish_output();
        } else {
            self.driver.publish();
        }
        let tally = &mut self.tally;
        if tally.packets > 0 {
            counters::PACKETS.behind(D::COUNTERS_BEFORE).add(core::mem::take(&mut tally.packets));
            counters::BYTES.behind(D::COUNTERS_BEFORE).add(core::mem::take(&mut tally.bytes));
        }
        if tally.unknown | tally.share | tally.full | tally.invalid | tally.buffers_refused != 0 {
            count(tally, D::COUNTERS_BEFORE);
        }
    }

    #[inline]
    fn sleep(&mut self) -> Progress {
        let mut progress = self.driver.sleep();
        if self.driver.is_live() && self.driver.space(0) == 0 {
            // The queue to the driver is full of entries that it has not read: ask to be woken when
            // there is space.
            progress &= self.driver.sleep_for_space(1);
        }
        if !self.disconnected.is_empty() || self.runs_low() {
            progress &= self.wait_for_clients();
        }
        progress & Progress::more_if(!self.due.is_empty())
    }

    /// Asks clients to notify for the buffers that they return.
    #[cold]
    fn wait_for_clients(&mut self) -> Progress {
        let low = self.runs_low();
        let mut progress = Progress::Asleep;
        for (index, client) in self.clients.iter_mut().enumerate() {
            // A paused client is looked at when its allowance is back.
            let waits = !client.link.is_live() || low && client.held > 0;
            if waits && !self.paused.contains(index) {
                progress &= client.link.sleep();
            }
        }
        progress
    }
}

/// Counts events that should not happen often.
#[cold]
fn count(tally: &mut Tally, first: usize) {
    let tally = core::mem::take(tally);
    counters::IGNORED.behind(first).add(tally.unknown);
    counters::DROPS_SHARE.behind(first).add(tally.share);
    counters::DROPS_FULL.behind(first).add(tally.full);
    counters::DROPS_INVALID.behind(first).add(tally.invalid);
    counters::BUFFERS_REFUSED.behind(first).add(tally.buffers_refused);
}
