//! The bus class: whether a device on a bus is ready for its driver.
//!
//! The registers of such a device are mapped from the beginning, but nothing answers there before
//! the provider has checked the device and given it its address. So a driver looks at
//! [`Seat::state`] before it touches a register, and again whenever it is notified over
//! [`Seat::channel`]. The provider may be on another core, of any priority, and start later.
//!
//! The provider shows each client one word, and with it what else the driver has to know of its
//! device ([`Details`]). That outlives both sides: a driver that is restarted finds its device
//! ready, and a provider that is restarted knows which devices are in use.
//!
//! A provider that is restarted and finds a device changed withdraws it and makes it ready anew.
//! The number in [`State::Ready`] is another one then: the device has lost all that its driver told
//! it, even if the driver never saw it withdrawn.

#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use culm::connection::{BusClient, BusProviderClient};
use culm::{Channel, Region};

/// Where the word is in what is shown.
const STATE: usize = 0;
/// Where the words about the device itself are.
const DETAILS: usize = 8;

/// The provider's findings in a device that its driver cannot see, in words whose meaning is the
/// bus's; zeroes where there is nothing to tell.
pub type Details = [u64; 5];

/// The word's lower half of a device that is ready; the upper half has its number.
const READY: u32 = 1;
/// The word's lower half of a device that stays off.
const REFUSED: u32 = 2;

/// The state of a device, as its driver is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody has looked at the device yet.
    Waiting,
    /// The device has its addresses. The number says how often it was made ready, modulo 2³².
    Ready(u32),
    /// The device is not the one that the system was built for, and stays off.
    Refused,
}

impl State {
    fn of(word: u64) -> Self {
        match word as u32 {
            READY => Self::Ready((word >> 32) as u32),
            REFUSED => Self::Refused,
            _ => Self::Waiting,
        }
    }
}

/// A driver's view of its device's place on the bus.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    state: &'static AtomicU64,
    details: &'static [AtomicU64],
    channel: Channel,
}

impl Seat {
    /// Creates the client's side of `connection`.
    ///
    /// # Panics
    ///
    /// If `connection` gives no memory, which those of a start block do.
    pub fn new(connection: BusClient) -> Self {
        let (state, details) = words(&Region::read_only(connection.shown));
        Self { state, details, channel: Channel::new(connection.channel) }
    }

    /// Returns the channel over which the provider notifies of a change.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Returns what the device is now. Where it is not [`State::Ready`], registers must be left
    /// alone: an access to an address at which nothing answers may be an error of the machine.
    pub fn state(&self) -> State {
        State::of(self.state.load(Ordering::Acquire))
    }

    /// Returns the details of a device that is [`State::Ready`] with this number, `None` if that
    /// has changed meanwhile, of which the provider notifies.
    pub fn details(&self, number: u32) -> Option<Details> {
        // A detail of another time is seen only together with the state that came before it.
        let details = core::array::from_fn(|index| self.details[index].load(Ordering::Acquire));
        (self.state() == State::Ready(number)).then_some(details)
    }
}

/// A provider's side: what one client reads.
#[derive(Clone, Copy, Debug)]
pub struct Tenant {
    state: &'static AtomicU64,
    details: &'static [AtomicU64],
    channel: Channel,
}

impl Tenant {
    /// Creates the provider's side of one of its clients. What an earlier life showed stays.
    ///
    /// # Panics
    ///
    /// If `client` gives no memory, which those of a start block do.
    pub fn new(client: &BusProviderClient) -> Self {
        let (state, details) = words(&Region::new(client.shown));
        Self { state, details, channel: Channel::new(client.channel) }
    }

    /// Returns what the client was told, by an earlier life perhaps. Only this side writes it.
    pub fn state(&self) -> State {
        State::of(self.state.load(Ordering::Relaxed))
    }

    /// Takes back what was told, and notifies the client: the device is about to be looked at.
    pub fn withdraw(&self) {
        self.show(0, self.number());
    }

    /// Tells the client that its device is ready, and what it is to know of it. What was done to
    /// the device before is done when the client sees that. The device was not ready until now.
    pub fn admit(&self, details: Details) {
        for (word, detail) in self.details.iter().zip(details) {
            word.store(detail, Ordering::Release);
        }
        self.show(READY, self.number().wrapping_add(1));
    }

    /// Tells the client that its device stays off.
    pub fn refuse(&self) {
        self.show(REFUSED, self.number());
    }

    /// Returns how often the device was made ready so far.
    fn number(&self) -> u32 {
        (self.state.load(Ordering::Relaxed) >> 32) as u32
    }

    fn show(&self, state: u32, number: u32) {
        self.state.store(u64::from(number) << 32 | u64::from(state), Ordering::Release);
        self.notify();
    }

    /// Notifies the client. A new life of the provider does so even if nothing has changed: the one
    /// before may have died after it told something, before the client was notified.
    pub fn notify(&self) {
        self.channel.notify();
    }
}

/// Returns the word of the state, and those of the details.
fn words(shown: &Region) -> (&'static AtomicU64, &'static [AtomicU64]) {
    let state = shown.atomic_u64(STATE).expect("a start block gives a page");
    (state, shown.atomics_u64(DETAILS, size_of::<Details>() / 8).expect("a start block gives a page"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_abi::start::Memory;

    extern crate std;

    #[test]
    fn a_driver_sees_what_it_was_told_whoever_was_restarted() {
        let words = std::boxed::Box::leak(std::boxed::Box::new([const { AtomicU64::new(0) }; 8]));
        let shown = Memory { address: words.as_ptr().addr() as u64, size: 64, dma: 0 };
        let client = BusProviderClient {
            shown,
            address: 0x1000_0000,
            size: 0x100,
            slot: 3,
            bar: 0,
            vendor: 0x1b36,
            product: 7,
            channel: 3,
            is_master: 0,
        };
        let seat = || Seat::new(BusClient { shown, channel: 2 });
        let tenant = || Tenant::new(&client);
        assert_eq!((seat().state(), tenant().state()), (State::Waiting, State::Waiting));
        tenant().admit([1, 2, 3, 4, 5]);
        assert_eq!((seat().state(), tenant().state()), (State::Ready(1), State::Ready(1)));
        assert_eq!((seat().details(1), seat().details(2)), (Some([1, 2, 3, 4, 5]), None));
        let _ = culm::testing::signalled();
        tenant().withdraw();
        assert_eq!(seat().state(), State::Waiting);
        assert_eq!(culm::testing::signalled(), [3], "a driver at work is told");
        assert_eq!(seat().details(1), None);
        tenant().admit([0; 5]);
        assert_eq!(seat().state(), State::Ready(2), "a driver that missed it sees that it is another time");
        tenant().refuse();
        assert_eq!((seat().state(), tenant().state()), (State::Refused, State::Refused));
        words[0].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(seat().state(), State::Waiting, "a word that means nothing is no permission");
    }
}
