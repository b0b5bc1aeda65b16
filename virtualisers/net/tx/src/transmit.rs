//! A round of the transmit virtualiser, from the buffers that the driver returns to the frames and
//! buffers that are published.
//!
//! [`turns`] decides whose frame is sent next. No client waits for sent buffers as long as it has
//! others. So the driver is asked to return them (which may cost an interrupt) only if a client has
//! most of its buffers there, or has used up its share. That is announced before the frames that
//! cause it are published: a driver that has seen the frames has seen the announcement.
//!
//! A client can cause the virtualiser work without use by notifications, by entries that are no
//! frames, and by starting over. Each has an allowance for that ([`culm_lending::allowance`]); a
//! client that has used it up is not looked at for a while. A client that starts over is lent its
//! buffers a few at a time, between others' frames.

mod turns;

use crate::bounce::Bounce;
use crate::buffers::{BOUNCE, token};
use crate::client::Client;
use crate::counters;
use crate::resume::Previous;
use alloc::boxed::Box;
use culm::connection::{NetTxClient, NetTxVirtualiser};
use culm::link::Event;
use culm::{Channel, Channels, Link, Progress};
use culm_lending::{ClientSet, LinkAccount, Paused, Shares};
use culm_net::driver::{DriverLink, FoundDriver, Queues};
use culm_net::{DmaDescriptor, lendable};

/// Frames for which the driver's queue must have space before the virtualiser is woken.
const BATCH: u32 = 32;

/// The least that a frame with the driver counts of its client's share, in bytes, so that no client
/// takes all places in the driver's queue with small frames. All clients together share as many
/// times that as there are places.
const MIN_CHARGE: u32 = 512;

/// The driver, as the virtualiser sees it.
struct Driver<D> {
    /// Frames go over it to the driver, sent buffers come back.
    link: D,
    /// The account of that, for the next life.
    account: LinkAccount,
    /// Frames that the driver has; `most` is how many it may have.
    in_flight: u32,
    most: u32,
}

/// The virtualiser's state.
pub struct Transmit<D: DriverLink = Link<DmaDescriptor>> {
    driver: Driver<D>,
    clients: Box<[Client]>,
    bounce: Bounce,
    shares: Shares,
    /// The clients that may have something to send.
    due: ClientSet,
    /// The clients that could not send all that they had.
    limited: ClientSet,
    /// The clients whose queues changed in this round.
    active: ClientSet,
    /// The clients that wait for buffers, or may soon.
    short: ClientSet,
    /// The clients that have used up their allowances.
    paused: Paused,
    /// Whether the driver was asked for buffers, and none has come since.
    waits: bool,
    /// Whether the driver has notified.
    woken: bool,
    /// Buffers that are taken back at a time while no client waits for them.
    batch: u32,
    /// The client that has the first turn.
    first: usize,
}

impl Transmit {
    /// Creates the virtualiser of the device of `connection`, shared by `clients`. The driver is a
    /// domain of its own.
    ///
    /// # Panics
    ///
    /// As [`Self::with_driver`].
    pub fn new(connection: &NetTxVirtualiser, clients: &[NetTxClient]) -> Self {
        let NetTxVirtualiser { driver_filled, driver_free, driver_channel, .. } = *connection;
        let place = Queues { output: driver_filled, input: driver_free, channel: driver_channel };
        Self::with_driver(place, connection, clients)
    }
}

impl<D: DriverLink> Transmit<D> {
    /// Creates the virtualiser of the device of `connection`, whose driver is at `place`, shared by
    /// `clients`.
    ///
    /// # Panics
    ///
    /// If there are more clients than [`ClientSet::MAX`], which the build tool refuses.
    pub fn with_driver(
        place: impl FoundDriver<Driver = D>,
        connection: &NetTxVirtualiser,
        clients: &[NetTxClient],
    ) -> Self {
        let count = clients.len();
        let bound = ClientSet::MAX;
        assert!(count <= bound, "{count} clients of one network device: at most {bound} can share one");
        let (capacity, most) = (place.capacity(), lendable(place.capacity()));
        let previous = Previous::find(connection, clients, most);
        let (link, account) = (previous.driver(place), previous.driver_account());
        let mut driver = Driver { link, account, in_flight: 0, most };
        // A single client shares with no other: only the places in the queue bound it.
        let stock = if count > 1 { driver.most * MIN_CHARGE } else { u32::MAX };
        let mut shares = Shares::new(stock, count as u32);
        let connect = |(index, connection): (usize, &NetTxClient)| {
            let (link, account) = (previous.client_link(index), previous.client_account(index));
            Client::new(connection, previous.buffers[index], link, account)
        };
        let mut clients: Box<[Client]> = clients.iter().enumerate().map(connect).collect();
        for client in &mut clients {
            client.limit(driver.most.min(shares.most() / MIN_CHARGE));
            for length in client.lengths_in_flight() {
                shares.restore_amount(&mut client.share, share_cost(length));
                driver.in_flight += 1;
            }
        }
        let checked = clients.iter().filter(|client| client.only.is_some()).count() as u32;
        let mut bounce = Bounce::new(connection, previous.owners, checked);
        for copy in bounce.in_flight() {
            let client = &mut clients[copy.client];
            client.count_sent(1);
            shares.restore_amount(&mut client.share, share_cost(copy.length));
            if copy.large {
                bounce.restore(&mut client.large_copies);
            }
            driver.in_flight += 1;
        }
        let mut short = ClientSet::EMPTY;
        for (index, client) in clients.iter().enumerate() {
            short.set(index, client.is_short());
        }
        Self {
            driver,
            clients,
            bounce,
            shares,
            waits: false,
            due: ClientSet::first(count),
            limited: ClientSet::EMPTY,
            active: ClientSet::EMPTY,
            short,
            paused: Paused::NONE,
            woken: true,
            batch: capacity / 8,
            first: 0,
        }
    }

    /// Returns the driver.
    #[inline(always)]
    pub fn driver(&mut self) -> &mut D {
        &mut self.driver.link
    }

    /// Returns the channels to the clients.
    pub fn channels(&self) -> impl Iterator<Item = Channel> {
        self.clients.iter().map(|client| client.link.channel())
    }

    /// Records that the driver may have given something.
    #[inline(always)]
    pub fn mark_driver_due(&mut self) {
        self.woken = true;
    }

    /// Marks the peers that notified. A client that could not send everything it had is known
    /// already, so its notification is charged to its allowance.
    #[inline]
    pub fn mark_due(&mut self, channels: Channels) {
        for channel in channels {
            if let Some(index) = self.clients.iter().position(|client| client.link.channel() == channel) {
                if self.limited.contains(index) {
                    self.note_again(index);
                }
                self.due.insert(index);
            } else {
                self.woken = true;
            }
        }
    }

    /// Charges a client for a notification that nothing asked for.
    #[cold]
    fn note_again(&mut self, index: usize) {
        if let Some(client) = self.clients.get_mut(index) {
            client.allowance.spend(1);
        }
    }

    /// Moves frames and buffers, publishes them and announces sleep.
    #[inline]
    pub fn round(&mut self) -> Progress {
        if !self.paused.is_empty() && self.look_at_paused().is_asleep() {
            return Progress::Asleep;
        }
        // Take buffers back only if a client waits for them, the driver notified, or a whole batch
        // is out. The others stay queued until then.
        if self.driver.in_flight >= self.batch || !(self.short | self.limited).is_empty() || self.woken {
            self.take_back();
        }
        self.active |= self.due;
        let driver_full = self.submit();
        self.limited = self.due;
        // Announce this before the frames become visible; see the header.
        let returned = self.wait_for_buffers();
        // Publish frames before their entries are released, and before a buffer whose frame was
        // copied is given back: see `resume`.
        self.driver.link.publish();
        let clients = self.publish_to_clients();
        // Buffers that are there already are taken back in the next round, even if that has nothing
        // else to do.
        self.woken |= returned.is_more();
        self.sleep(driver_full) & clients & returned
    }

    /// Marks the clients whose allowance is back, and asks to be woken for the others. Asleep if
    /// there is nothing to do except for those.
    #[cold]
    fn look_at_paused(&mut self) -> Progress {
        let clients = &mut self.clients;
        let is_back = |index| clients.get_mut(index).is_none_or(|client: &mut Client| client.allowance.replenish());
        self.paused.look(&mut self.due, is_back);
        Progress::more_if(self.woken | !self.due.is_empty())
    }

    /// Takes back the buffers that the driver returns.
    #[inline]
    fn take_back(&mut self) {
        self.woken = false;
        self.favour_limited();
        if !self.driver.link.look() {
            self.start_over();
        }
        let (mut taken, mut last) = (0, usize::MAX);
        let Self { driver, clients, bounce, shares, active, .. } = self;
        for entry in driver.link.drain() {
            if let Some(index) = sent(clients, bounce, shares, entry.token) {
                taken += 1;
                if index != last {
                    active.insert(index);
                    last = index;
                }
            } else {
                driver.account.skip();
                counters::BUFFERS_REFUSED.behind(D::COUNTERS_BEFORE).add(1);
            }
        }
        self.count_taken(taken);
    }

    /// Records that the driver has so many frames less.
    #[inline(always)]
    fn count_taken(&mut self, count: u32) {
        self.driver.in_flight -= count;
        self.waits &= count == 0;
    }

    /// Takes the next steps towards a live link to the driver.
    #[cold]
    fn start_over(&mut self) {
        self.driver.account.forget();
        if self.driver.link.reconnect() == Event::Renewed {
            self.take_all_back();
            self.driver.account.keep(self.driver.link.generations(), self.driver.link.positions());
        }
    }

    /// Takes back all buffers that the driver had, because the pair of queues starts over: they
    /// will not be sent any more.
    #[cold]
    fn take_all_back(&mut self) {
        let mut taken = 0;
        for number in 0..self.bounce.count() {
            taken += u32::from(self.sent(BOUNCE << 16 | number));
        }
        for index in 0..self.clients.len() {
            for number in 0..self.clients[index].count() {
                taken += u32::from(self.sent(token(index, number)));
            }
        }
        self.count_taken(taken);
        self.due = self.all();
    }

    /// Takes back one buffer. Returns whether the driver had it: call [`Self::count_taken`] for it.
    fn sent(&mut self, token: u32) -> bool {
        let index = sent(&mut self.clients, &mut self.bounce, &mut self.shares, token);
        if let Some(index) = index {
            self.active.insert(index);
        }
        index.is_some()
    }

    /// Returns all clients.
    fn all(&self) -> ClientSet {
        ClientSet::first(self.clients.len())
    }

    /// Publishes to the clients of this round, and announces sleep to them.
    #[inline]
    fn publish_to_clients(&mut self) -> Progress {
        let mut progress = Progress::Asleep;
        for index in self.active.take() {
            let Some(client) = self.clients.get_mut(index) else { break };
            if client.needs_lending() {
                progress &= self.publish_after_lending(index);
                continue;
            }
            client.link.publish();
            self.short.set(index, client.is_short());
            // Clients that wait for their share, or for the driver, have something to send already.
            if !(self.due | self.paused.clients()).contains(index) && client.link.sleep().is_more() {
                self.due.insert(index);
                progress = Progress::More;
            }
        }
        progress
    }

    /// Does what [`Self::publish_to_clients`] does, for a client that starts over, or whose queue
    /// has no space for the buffers that are to be given to it.
    #[cold]
    fn publish_after_lending(&mut self, index: usize) -> Progress {
        let Some(client) = self.clients.get_mut(index) else { return Progress::Asleep };
        // While the driver starts over, the device may still read buffers of a previous life
        // without an account. The round in which that ends looks at all clients.
        let lends = self.driver.link.is_live();
        let more = !self.paused.contains(index) && client.lend(lends).is_more();
        client.link.publish();
        self.short.set(index, client.is_short());
        if client.allowance.is_spent() {
            self.pause(index);
        } else if !self.due.contains(index) && (more || client.sleep(lends).is_more()) {
            self.due.insert(index);
            return Progress::More;
        }
        Progress::Asleep
    }

    /// Leaves a client alone until its allowance is back.
    #[cold]
    fn pause(&mut self, index: usize) {
        self.due.remove(index);
        if let Some(client) = self.clients.get_mut(index) {
            self.paused.pause(index, &mut client.allowance);
        }
    }

    /// Asks the driver to return buffers, if a client waits for some or may soon.
    #[inline]
    fn wait_for_buffers(&mut self) -> Progress {
        let needed = !(self.short | self.limited).is_empty() && self.driver.link.is_live();
        if !needed || self.waits || self.driver.in_flight == 0 {
            return Progress::Asleep;
        }
        self.waits = true;
        self.driver.link.ask_for(self.driver.in_flight / 2)
    }

    /// Announces to the driver that this side waits for space, or for a new life of the link.
    #[inline]
    fn sleep(&mut self, driver_full: bool) -> Progress {
        let link = &mut self.driver.link;
        let progress = if driver_full {
            let space = BATCH.min(link.capacity() / 2);
            link.sleep_for_space(space)
        } else if link.is_live() {
            Progress::Asleep
        } else {
            link.sleep()
        };
        self.woken |= progress.is_more();
        progress
    }
}

/// Takes back one buffer. Returns whose frame was in it, if the driver had it.
#[inline(always)]
fn sent(clients: &mut [Client], bounce: &mut Bounce, shares: &mut Shares, token: u32) -> Option<usize> {
    let (index, number) = (token >> 16, token & 0xffff);
    if index == BOUNCE {
        return sent_copy(clients, bounce, shares, number);
    }
    let client = clients.get_mut(index as usize)?;
    let length = client.sent(number)?;
    shares.repay_amount(&mut client.share, share_cost(length));
    Some(index as usize)
}

/// Does what [`sent`] does, for one of the virtualiser's own buffers.
#[inline(never)]
fn sent_copy(clients: &mut [Client], bounce: &mut Bounce, shares: &mut Shares, number: u32) -> Option<usize> {
    let sent = bounce.sent(number)?;
    let Some(client) = clients.get_mut(sent.client) else { return Some(sent.client) };
    client.sent_copy();
    if sent.large {
        bounce.free_large(&mut client.large_copies);
    }
    shares.repay_amount(&mut client.share, share_cost(sent.length));
    Some(sent.client)
}

/// Returns what a packet of `length` bytes with the driver counts of its client's share.
#[inline(always)]
fn share_cost(length: u16) -> u32 {
    u32::from(length).max(MIN_CHARGE)
}
