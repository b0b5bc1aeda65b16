//! A network driver and its two virtualisers in one protection domain.
//!
//! They are the same components as in domains of their own, with the same queues between them; but
//! nobody else maps those, and what one notifies another is delivered by a call within the turn.
//! Each of them goes on by itself after a restart, so that one of all three loses no more than one
//! of each.
//!
//! A program for a chip is the driver's component as the type parameter, and a manifest that lists
//! the connections and the counters of all three: first the driver's, then those of `net-rx`, then
//! those of `net-tx`.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

#[cfg(test)]
mod tests;

use culm::connection::{NetDriver, NetRxClient, NetRxVirtualiser, NetTxClient, NetTxVirtualiser};
use culm::time::{self, Instant};
use culm::{Channels, Component, Progress, ROUNDS, counters, run_rounds, start};
use net_rx::Receive;
use net_tx::Transmit;

/// Counters of both virtualisers.
pub const COUNTERS: usize = net_rx::counters::COUNTERS + net_tx::counters::COUNTERS;

/// The connections of a driver and its virtualisers in one domain.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// The driver's, to the two virtualisers.
    pub driver: NetDriver,
    /// The receive virtualiser's.
    pub receive: NetRxVirtualiser,
    /// The transmit virtualiser's.
    pub transmit: NetTxVirtualiser,
}

/// The channels of each part among the first 63, as bits.
#[derive(Clone, Copy)]
struct Masks {
    receive: u64,
    transmit: u64,
    /// The driver's ends of the channels to the virtualisers. Their other ends are the next bits.
    inner: u64,
}

impl Masks {
    fn new(connections: &Connections, clients: (&[NetRxClient], &[NetTxClient])) -> Self {
        let Connections { driver, receive, transmit } = connections;
        let is_next =
            driver.rx_channel + 1 == receive.driver_channel && driver.tx_channel + 1 == transmit.driver_channel;
        assert!(
            is_next && transmit.driver_channel < 63,
            "both ends of a channel within a domain come first, side by side"
        );
        let bit = |channel: u32| if channel < 63 { 1 << channel } else { 0 };
        Self {
            receive: clients.0.iter().fold(bit(receive.driver_channel), |all, client| all | bit(client.channel)),
            transmit: clients.1.iter().fold(bit(transmit.driver_channel), |all, client| all | bit(client.channel)),
            inner: bit(driver.rx_channel) | bit(driver.tx_channel),
        }
    }

    /// Returns the other ends of the channels between the parts.
    #[inline(always)]
    const fn other_ends(&self, ends: u64) -> u64 {
        (ends & self.inner) << 1 | (ends >> 1) & self.inner
    }
}

/// The first counters of the virtualisers; the driver's are the first of all.
#[derive(Clone, Copy)]
struct FirstCounters {
    receive: usize,
    transmit: usize,
}

/// The driver `D` and its virtualisers.
pub struct Fused<D> {
    driver: D,
    receive: Receive,
    transmit: Transmit,
    masks: Masks,
    first: FirstCounters,
    /// Channels that were notified, and whose part was not told yet.
    due: u64,
    /// When each part wants its next turn, as of its last one. A turn's deadline is forgotten when
    /// any notification ends the wait, and a part that had no turn then would not ask again.
    deadlines: [Option<Instant>; 3],
    /// The earliest of them.
    earliest: Option<Instant>,
}

/// Position in [`Fused::deadlines`].
const DRIVER: usize = 0;
const RECEIVE: usize = 1;
const TRANSMIT: usize = 2;

impl<D: Component> Fused<D> {
    /// Creates all three. `driver` makes the driver, which has `driver_counters` counters.
    ///
    /// # Panics
    ///
    /// If the channels between the three are not the first ones, as the build tool makes them.
    pub fn new(connections: &Connections, driver_counters: usize, driver: impl FnOnce() -> D) -> Self {
        let Connections { receive, transmit, .. } = *connections;
        let clients = (start::list(receive.clients), start::list(transmit.clients));
        let receive_counters = net_rx::counters::COUNTERS;
        let first = FirstCounters { receive: driver_counters, transmit: driver_counters + receive_counters };
        let mut fused = Self {
            driver: driver(),
            receive: counters::with_first(first.receive, || {
                Receive::init(net_rx::Config {}, net_rx::Connections { net: receive })
            }),
            transmit: counters::with_first(first.transmit, || {
                Transmit::init(net_tx::Config {}, net_tx::Connections { net: transmit })
            }),
            masks: Masks::new(connections, clients),
            first,
            due: 0,
            // Which of the three asked is not known: each gets that turn.
            deadlines: [culm::withdraw_deadline(); 3],
            earliest: None,
        };
        fused.withdraw();
        fused.deliver();
        fused
    }

    /// Takes a turn of those parts that were notified.
    #[inline(always)]
    pub fn notified(&mut self, channels: Channels) {
        // Under load every wait may end by a notification, and none by its deadline.
        if !channels.is_empty() && self.earliest.is_some_and(|earliest| earliest <= time::now()) {
            self.notify_all(Channels::NONE);
        }
        match channels.near_bits() {
            Some(bits) if bits != 0 => self.due |= bits,
            _ => self.notify_all(channels),
        }
        self.deliver();
    }

    /// Tells all parts that a deadline passed, which may be any part's; or both virtualisers that
    /// some of many clients notified, since they leave alone what is no channel of theirs.
    #[cold]
    fn notify_all(&mut self, channels: Channels) {
        if channels.is_empty() {
            self.notify_driver(channels);
        }
        self.notify_receive(channels);
        self.notify_transmit(channels);
    }

    /// Tells parts what they are to know, and what they notify each other of meanwhile, for a
    /// bounded number of rounds.
    #[inline(always)]
    fn deliver(&mut self) {
        let masks = self.masks;
        run_rounds(ROUNDS, || {
            // The driver first: what it has received is dealt with in the same round, and what is
            // to be sent in the next.
            let due = self.take(!(masks.receive | masks.transmit));
            if due != 0 {
                self.notify_driver(Channels::near(due));
            }
            let due = self.take(masks.receive);
            if due != 0 {
                self.notify_receive(Channels::near(due));
            }
            let due = self.take(masks.transmit);
            if due != 0 {
                self.notify_transmit(Channels::near(due));
            }
            Progress::more_if(self.due != 0)
        });
        self.earliest = self.deadlines.iter().flatten().min().copied();
        if let Some(earliest) = self.earliest {
            culm::wake_at(earliest);
        }
    }

    /// Takes what is due of these channels.
    #[inline(always)]
    fn take(&mut self, channels: u64) -> u64 {
        let due = self.due & channels;
        self.due ^= due;
        due
    }

    #[inline(always)]
    fn notify_driver(&mut self, channels: Channels) {
        self.driver.notified(channels);
        self.collect(DRIVER);
    }

    #[inline(always)]
    fn notify_receive(&mut self, channels: Channels) {
        counters::with_first(self.first.receive, || self.receive.notified(channels));
        self.collect(RECEIVE);
    }

    #[inline(always)]
    fn notify_transmit(&mut self, channels: Channels) {
        counters::with_first(self.first.transmit, || self.transmit.notified(channels));
        self.collect(TRANSMIT);
    }

    /// Takes what a part has asked for in its turn.
    #[inline(always)]
    fn collect(&mut self, part: usize) {
        self.deadlines[part] = culm::withdraw_deadline();
        self.withdraw();
    }

    /// Takes what the parts have notified each other of.
    #[inline(always)]
    fn withdraw(&mut self) {
        let ends = culm::withdraw(self.masks.inner | self.masks.inner << 1);
        self.due |= self.masks.other_ends(ends);
    }
}
