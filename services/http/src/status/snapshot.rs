//! The system's state at one moment, as plain data.

use crate::crashes::{self, Crash};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use culm::observe::DomainState;

/// A span of time, in ticks of the system counter and with their frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Ticks.
    pub ticks: u64,
    /// Ticks per second.
    pub frequency: u64,
}

impl Ticks {
    const GREATEST: Self = Self { ticks: u64::MAX, frequency: 1 };

    /// Whole seconds, and the rest in microseconds.
    pub fn parts(self) -> (u64, u64) {
        let frequency = self.frequency.max(1);
        (self.ticks / frequency, self.ticks % frequency * 1_000_000 / frequency)
    }
}

/// A part of a whole, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(pub u32);

impl Fraction {
    /// `part` of `whole`, never more than all.
    pub fn of(part: u64, whole: u64) -> Self {
        let millionths = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
        Self(millionths.min(1_000_000) as u32)
    }
}

/// How often something happens, in thousandths a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl Rate {
    /// `count` times in `span`.
    pub fn of(count: u64, span: Ticks) -> Self {
        let thousandths = u128::from(count) * u128::from(span.frequency) * 1000 / u128::from(span.ticks.max(1));
        Self(u64::try_from(thousandths).unwrap_or(u64::MAX))
    }
}

impl core::ops::Add for Rate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// How often something has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// In all.
    pub total: u64,
    /// Over the window; of what fell, or began anew at a restart, nothing.
    pub rate: Rate,
}

impl Tally {
    const GREATEST: Self = Self { total: u64::MAX, rate: Rate(u64::MAX) };
}

impl core::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { total: self.total.wrapping_add(other.total), rate: self.rate + other.rate }
    }
}

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The system's name.
    pub system: &'static str,
    /// The board's name.
    pub board: &'static str,
    /// Time since the machine was switched on.
    pub uptime: Ticks,
    /// The time over which shares were taken.
    pub window: Ticks,
    /// Cores.
    pub cores: Vec<Core>,
    /// Protection domains, in image order.
    pub domains: Vec<Domain>,
    /// Queues between them.
    pub queues: Vec<Queue>,
    /// Crash reports, the newest first; `None` if none are kept.
    pub crashes: Option<Vec<Crash>>,
}

impl Snapshot {
    /// Gives every figure that changes the greatest value that it may have, and every crash report
    /// its greatest length.
    #[must_use]
    pub fn with_greatest_numbers(mut self) -> Self {
        let all = Fraction(1_000_000);
        (self.uptime, self.window) = (Ticks::GREATEST, Ticks::GREATEST);
        self.crashes = self.crashes.map(|_| vec![Crash::longest(); crashes::SHOWN]);
        for core in &mut self.cores {
            (core.load, core.idle, core.interrupts) = (all, Ticks::GREATEST, Tally::GREATEST);
            (core.ipis_sent, core.timer, core.sleeps) = (u64::MAX, u64::MAX, u64::MAX);
        }
        for domain in &mut self.domains {
            // The longest word.
            domain.state = DomainState::Faulted;
            (domain.share, domain.used) = (all, Ticks::GREATEST);
            (domain.system_calls, domain.switches) = (u64::MAX, u64::MAX);
            (domain.preemptions, domain.throttles) = (u64::MAX, u64::MAX);
            (domain.faults, domain.restarts) = (u32::MAX, u32::MAX);
            domain.trouble = "\"".repeat(culm::trouble::LENGTH);
            domain.counters.iter_mut().for_each(|(_, tally)| *tally = Tally::GREATEST);
        }
        for queue in &mut self.queues {
            (queue.depth, queue.entries) = (u32::MAX, Tally::GREATEST);
        }
        self
    }
}

/// One core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Share of the window in which it was not idle.
    pub load: Fraction,
    /// Time without anything to run.
    pub idle: Ticks,
    /// Interrupts taken.
    pub interrupts: Tally,
    /// Inter-processor interrupts sent to other cores.
    pub ipis_sent: u64,
    /// Timer expiries.
    pub timer: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
}

/// One protection domain, which is an instance of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// The instance's name.
    pub name: &'static str,
    /// The component's name.
    pub component: &'static str,
    /// Its core.
    pub core: u32,
    /// Its priority.
    pub priority: u32,
    /// Nanoseconds that it may run in each period, and the period; none without limit.
    pub budget: Option<(u64, u64)>,
    /// Whether it runs on its callers' time.
    pub passive: bool,
    /// Its state.
    pub state: DomainState,
    /// Its share of its core over the window.
    pub share: Fraction,
    /// Time that it has used.
    pub used: Ticks,
    /// System calls.
    pub system_calls: u64,
    /// Times it left the core.
    pub switches: u64,
    /// Times it was preempted.
    pub preemptions: u64,
    /// Times it was throttled, because nobody had budget to pay for it: its own, or a passive one's
    /// callers'.
    pub throttles: u64,
    /// Faults.
    pub faults: u32,
    /// Restarts.
    pub restarts: u32,
    /// The trouble that it tells of what it serves; empty if nothing is wrong.
    pub trouble: String,
    /// Its own counters, by name.
    pub counters: Vec<(&'static str, Tally)>,
}

impl Domain {
    /// The sum of its counters of packets; none where it has no such counter. A driver that shares
    /// its domain with its virtualisers counts each packet a second time, as theirs (`rx_packets`).
    pub fn packets(&self) -> Option<Tally> {
        let counts = |name: &str| name == "packets" || name.ends_with("_packets");
        self.sum(|name| counts(name) && !matches!(name, "rx_packets" | "tx_packets"))
    }

    /// The sum of its counters of what it dropped or refused; none where it has no such counter.
    pub fn drops(&self) -> Option<Tally> {
        self.sum(is_of_drops)
    }

    /// Of its counters of what it dropped or refused, the one that grows fastest, or else the
    /// greatest; none where all are zero.
    pub fn main_drop(&self) -> Option<(&'static str, Tally)> {
        let some = self.counters.iter().filter(|(name, tally)| is_of_drops(name) && tally.total > 0);
        some.copied().max_by_key(|(_, tally)| (tally.rate, tally.total))
    }

    /// Its counter of this name; zero where it has none.
    pub fn counter(&self, name: &str) -> Tally {
        self.counters.iter().find(|(candidate, _)| *candidate == name).map_or(Tally::default(), |(_, tally)| *tally)
    }

    /// Whether it is a server such as this one, whose counters say how HTTP fares.
    pub fn serves_http(&self) -> bool {
        self.component == env!("CARGO_PKG_NAME")
    }

    fn sum(&self, is_meant: impl Fn(&str) -> bool) -> Option<Tally> {
        let meant = self.counters.iter().filter(|(name, _)| is_meant(name));
        meant.map(|(_, tally)| *tally).reduce(core::ops::Add::add)
    }
}

/// Whether a counter of this name counts what is lost to somebody.
fn is_of_drops(name: &str) -> bool {
    name.split('_').any(|word| matches!(word, "drops" | "dropped" | "refused"))
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The name of what travels in it.
    pub name: &'static str,
    /// The instance that produces.
    pub producer: &'static str,
    /// The instance that consumes.
    pub consumer: &'static str,
    /// Entries queued.
    pub depth: u32,
    /// Entries that it holds.
    pub capacity: u32,
    /// All entries that ever went in.
    pub entries: Tally,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_of_packets_counts() {
        let tally = |total| Tally { total, rate: Rate(0) };
        let names = ["packets", "forwarded_packets", "packets_seen", "late"];
        let counters = names.into_iter().zip([1, 2, 4, 8].map(tally)).collect();
        assert_eq!(Domain { counters, ..Domain::default() }.packets(), Some(tally(3)));
    }

    #[test]
    fn a_fused_driver_counts_each_packet_once() {
        let tally = |total| Tally { total, rate: Rate(0) };
        let names = ["received_packets", "sent_packets", "rx_packets", "tx_packets", "tx_drops_spoofed"];
        let counters = names.into_iter().zip([tally(5), tally(3), tally(5), tally(3), tally(1)]).collect();
        let domain = Domain { counters, ..Domain::default() };
        assert_eq!(domain.packets(), Some(tally(8)));
        assert_eq!(domain.drops(), Some(tally(1)));
    }
}
