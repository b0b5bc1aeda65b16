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

mod distribution;
mod pieces;
mod stock;

use crate::client::Client;
use crate::resume::Previous;
use alloc::boxed::Box;
use culm::connection::{NetRxClient, NetRxVirtualiser};
use culm::link::Event;
use culm::{Channel, Channels, Link, Progress};
use culm_lending::holders::Holders;
use culm_lending::{ClientSet, LinkAccount, Shares};
use culm_net::driver::{DriverLink, FoundDriver, Queues, Space};
use culm_net::{DmaDescriptor, Slots, lendable};
use distribution::Distribution;
pub(crate) use stock::Stock;

/// Returns the number of buffers for which every queue has space, that to the driver included.
fn limit(driver: u32, clients: &[NetRxClient]) -> u32 {
    let of_clients = clients.iter().flat_map(|client| [client.filled, client.free]);
    lendable(of_clients.map(|ring| ring.capacity).min().unwrap_or(0).min(driver))
}

/// The virtualiser's state.
pub struct Receive<D: DriverLink = Link<DmaDescriptor>> {
    /// Empty buffers go to the driver, filled ones come.
    driver: D,
    /// The account of that, for the next life.
    driver_account: LinkAccount,
    distribution: Distribution,
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
        let mut shares = Shares::new(slots.count(), count as u32);
        let mut lent = 0;
        for (index, client) in clients.iter_mut().enumerate() {
            for _ in holders.all().filter(|(_, holders)| holders.has_client(index)) {
                shares.restore(&mut client.held);
                lent += 1;
            }
        }
        let stock = Stock::new(connection, slots, holders, shares, lent);
        Self { driver, driver_account, distribution: Distribution::new(previous.account, stock, clients) }
    }

    /// Returns the driver.
    #[inline(always)]
    pub fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Returns the channels to the clients.
    pub fn channels(&self) -> impl Iterator<Item = Channel> {
        self.distribution.clients.iter().map(|client| client.link.channel())
    }

    /// Marks the peers that notified.
    #[inline]
    pub fn mark_due(&mut self, channels: Channels) {
        for channel in channels {
            if !self.driver.notifies_over(channel) {
                self.distribution.mark_due(channel);
            }
        }
    }

    /// Moves frames and buffers, publishes them and announces sleep.
    #[inline]
    pub fn round(&mut self) -> Progress {
        self.distribution.look_at_clients();
        let is_live = self.driver.look();
        // Entries that were seen before the driver stopped are given out while there is an account
        // of it.
        self.distribution.distribute(self.driver.drain(), self.driver_account);
        if !is_live {
            self.start_over();
        }
        self.refill();
        self.publish();
        self.sleep()
    }

    /// Takes the next steps towards a live link to the driver. Once it is live, all buffers that
    /// the driver had are here: it could not go on, or the pair starts over for the first time.
    #[cold]
    fn start_over(&mut self) {
        self.driver_account.forget();
        if self.driver.reconnect() == Event::Renewed {
            for (number, holders) in self.distribution.stock.holders.all() {
                if holders.is_driver() {
                    self.distribution.stock.drop_entry(number);
                }
            }
            self.distribution.forget_frame();
            let positions = self.driver.positions();
            for client in &self.distribution.clients {
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
        let stock = &mut self.distribution.stock;
        let few = (stock.idle.len() as u32) < stock.batch && !stock.runs_low();
        // Until a frame is complete, the next life may have to look up its buffers by the entries
        // by which they came: give the driver nothing that may take the place of one.
        if few || self.distribution.frame.is_partial() {
            return;
        }
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
        self.distribution.publish();
        if self.distribution.frame.is_partial() {
            // The entries of a frame stay in the queue until it is complete: the next life reads
            // them again.
            self.driver.publish_output();
        } else {
            self.driver.publish();
        }
        self.distribution.count(D::COUNTERS_BEFORE);
    }

    #[inline]
    fn sleep(&mut self) -> Progress {
        let mut progress = self.driver.sleep();
        if self.driver.is_live() && self.driver.space(0) == 0 {
            // The queue to the driver is full of entries that it has not read: ask to be woken when
            // there is space.
            progress &= self.driver.sleep_for_space(1);
        }
        progress & self.distribution.sleep()
    }
}
