//! A network driver and its two virtualisers in one protection domain.
//!
//! The virtualisers are the same programs as in domains of their own. Only what they have for a
//! driver ([`culm_net::driver`]) is not a pair of queues, but the device's own queue: they work in
//! that, and what is left of the driver's work is the [`Chip`]'s. Each of them goes on by its
//! account after a restart, which is one of all three: so that loses no more than one of each.
//!
//! A program for a chip is that type as the parameter, and a manifest that lists the connections
//! and the counters of all three: first the driver's, then those of `net-rx`, then those of
//! `net-tx`.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

use culm::time::Instant;
use culm::{Channel, Channels, Interrupt, Progress, ROUNDS, run_rounds};
use culm_net::driver::Chip;
pub use net_rx::Receive;
pub use net_tx::Transmit;

/// How many counters stand before those of the transmit virtualiser, if `driver` are the driver's.
pub const fn before_transmit(driver: usize) -> usize {
    driver + net_rx::counters::COUNTERS
}

/// How many counters there are, if `driver` are the driver's.
pub const fn counters(driver: usize) -> usize {
    before_transmit(driver) + net_tx::counters::COUNTERS
}

/// The parts of the domain that have something to do, as bits.
type Parts = u32;

const RECEIVE: Parts = 1;
const TRANSMIT: Parts = 2;
const BOTH: Parts = RECEIVE | TRANSMIT;

/// The virtualisers of a device, and its driver.
pub struct Fused<C: Chip> {
    chip: C,
    receive: Receive<C::Receive>,
    transmit: Transmit<C::Transmit>,
    interrupt: Interrupt,
    /// The channels of the clients who receive, and who send, of the first 63, as bits.
    receive_channels: u64,
    transmit_channels: u64,
    /// The parts that get a round at the next turn, whatever causes it: one of them had asked to be
    /// woken, and any earlier turn cancels that.
    due: Parts,
}

impl<C: Chip> Fused<C> {
    /// Takes the device `chip` into use, which both virtualisers have for a driver, and asks for
    /// the first turn at once.
    ///
    /// # Panics
    ///
    /// If the device cannot be used.
    pub fn new(
        mut chip: C,
        interrupt: Interrupt,
        mut receive: Receive<C::Receive>,
        mut transmit: Transmit<C::Transmit>,
    ) -> Self {
        if let Err(reason) = chip.start(receive.driver(), transmit.driver()) {
            panic!("{reason}");
        }
        let bits = |channels: &mut dyn Iterator<Item = Channel>| {
            channels.filter_map(|channel| Channels::from(channel).near_bits()).fold(0, |all, bit| all | bit)
        };
        let (receive_channels, transmit_channels) = (bits(&mut receive.channels()), bits(&mut transmit.channels()));
        // The turn is not taken here: so there is one place only that takes turns, and the compiler
        // makes one piece of it and what leads there.
        culm::wake_at(Instant::default());
        Self { chip, receive, transmit, interrupt, receive_channels, transmit_channels, due: BOTH }
    }

    /// Takes a turn of those parts that were notified.
    #[inline(always)]
    pub fn notified(&mut self, channels: Channels) {
        let interrupted = channels.contains(self.interrupt.channel());
        let mut due = self.due;
        if interrupted {
            due |= RECEIVE;
            if self.chip.interrupted(self.transmit.driver()) {
                self.transmit.mark_driver_due();
                due |= TRANSMIT;
            }
        }
        due |= match channels.near_bits() {
            Some(bits) => self.mark_due(bits),
            None => self.mark_due_far(channels),
        };
        self.run(due);
        if interrupted {
            self.interrupt.enable();
        }
    }

    /// Tells the virtualisers which clients notified. Returns those parts that have something to
    /// do.
    #[inline(always)]
    fn mark_due(&mut self, channels: u64) -> Parts {
        let (received, sent) = (channels & self.receive_channels, channels & self.transmit_channels);
        let mut due = 0;
        if received != 0 {
            self.receive.mark_due(Channels::near(received));
            due |= RECEIVE;
        }
        if sent != 0 {
            self.transmit.mark_due(Channels::near(sent));
            due |= TRANSMIT;
        }
        due
    }

    /// Tells both virtualisers that some of many clients notified: each leaves alone what is no
    /// channel of its own.
    #[cold]
    fn mark_due_far(&mut self, channels: Channels) -> Parts {
        self.receive.mark_due(channels);
        self.transmit.mark_due(channels);
        BOTH
    }

    /// Takes rounds of those parts that have something to do.
    #[inline(always)]
    fn run(&mut self, mut due: Parts) {
        run_rounds(ROUNDS, || {
            if due & RECEIVE != 0 && self.receive.round().is_asleep() {
                due &= !RECEIVE;
            }
            if due & TRANSMIT != 0 && self.transmit.round().is_asleep() {
                due &= !TRANSMIT;
            }
            if self.chip.finish(self.receive.driver(), self.transmit.driver()).is_more() {
                // The device is another one to both. A round to send looks at it only if it is due.
                self.transmit.mark_driver_due();
                due = BOTH;
            }
            Progress::more_if(due != 0)
        });
        self.due = if culm::is_to_be_woken() { BOTH } else { 0 };
    }
}
