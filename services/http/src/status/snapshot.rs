//! The system's state at one moment, as plain data.

use alloc::vec::Vec;
use culm_abi::accounting::DomainState;

/// A span of time, in ticks of the system counter and with their frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Ticks.
    pub ticks: u64,
    /// Ticks per second.
    pub frequency: u64,
}

impl Ticks {
    /// Whole seconds, and the rest in microseconds.
    pub fn parts(self) -> (u64, u64) {
        let frequency = self.frequency.max(1);
        (self.ticks / frequency, self.ticks % frequency * 1_000_000 / frequency)
    }
}

/// A share of a whole, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u32);

impl Share {
    /// `part` of `whole`, never more than all.
    pub fn of(part: u64, whole: u64) -> Self {
        let millionths = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
        Self(millionths.min(1_000_000) as u32)
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
    /// Component instances, in image order.
    pub components: Vec<Component>,
    /// Queues between them.
    pub queues: Vec<Queue>,
}

/// One core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Share of the window in which it was not idle.
    pub load: Share,
    /// Time without anything to run.
    pub idle: Ticks,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Signals sent to other cores.
    pub signals_sent: u64,
    /// Timer expiries.
    pub timer: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
}

/// One component instance: a protection domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Component {
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
    /// What it is doing.
    pub state: DomainState,
    /// Its share of its core over the window.
    pub share: Share,
    /// Time that it has used.
    pub used: Ticks,
    /// System calls.
    pub system_calls: u64,
    /// Times it was switched to.
    pub switches: u64,
    /// Times it was preempted.
    pub preemptions: u64,
    /// Times its budget ran out.
    pub throttles: u64,
    /// Faults.
    pub faults: u32,
    /// Restarts.
    pub restarts: u32,
    /// Its own counters, by name.
    pub counters: Vec<(&'static str, u64)>,
}

impl Component {
    /// The sum of its counters of packets; none where it has no such counter.
    pub fn packets(&self) -> Option<u64> {
        self.sum(|name| name == "packets" || name.ends_with("_packets"))
    }

    /// The sum of its counters of what it dropped; none where it has no such counter.
    pub fn drops(&self) -> Option<u64> {
        self.sum(|name| name.split('_').any(|word| matches!(word, "drops" | "dropped")))
    }

    fn sum(&self, is_meant: impl Fn(&str) -> bool) -> Option<u64> {
        let meant = self.counters.iter().filter(|(name, _)| is_meant(name));
        meant.map(|(_, value)| *value).reduce(u64::wrapping_add)
    }
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// What travels in it.
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
    pub total: u64,
}
