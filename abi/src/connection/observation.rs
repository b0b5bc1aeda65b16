//! Observation: the connection of a component that sees the whole system.

use super::{Form, Start};
use core::sync::atomic::AtomicU64;
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// The right to see the whole system, given by `observe = true`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 49, name = "observation", role = Granted)]
#[repr(C)]
pub struct Observation<F: Form = Start> {
    /// Where the [`crate::accounting::CoreAccount`]s are.
    pub core_accounts: F::Memory,
    /// Where the [`crate::accounting::DomainAccount`]s are, in image order.
    pub domain_accounts: F::Memory,
    /// The protection domains and, like them, the virtual CPUs of guests, in image order.
    pub domains: F::List<ObservedDomain<F>>,
    /// The queues whose content is no one's secret.
    pub rings: F::List<ObservedRing<F>>,
    /// The system's picture, an SVG file (bytes), mapped like a file of the configuration.
    pub picture: F::Memory,
    /// The system's name.
    pub system: F::Text,
    /// The board's name.
    pub board: F::Text,
}

/// One domain, as an observer sees it.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct ObservedDomain<F: Form = Start> {
    /// Its name.
    pub name: F::Text,
    /// Its component.
    pub component: F::Text,
    /// Its core.
    pub core: u32,
    /// Its priority.
    pub priority: u32,
    /// Nanoseconds it may run in each period, 0 for no limit.
    pub budget: u64,
    /// The period in nanoseconds.
    pub period: u64,
    /// Its [`Counters`], read-only.
    pub counters: F::Optional<F::Memory>,
    /// Names of the counters.
    pub counter_names: F::List<CounterName<F>>,
    /// Whether it is passive.
    pub passive: F::Flag,
}

/// The name of one counter.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct CounterName<F: Form = Start> {
    /// The name.
    pub name: F::Text,
}

/// One ring, as an observer sees it.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct ObservedRing<F: Form = Start> {
    /// The ring, mapped read-only.
    pub ring: F::Ring,
    /// Index of the producing domain.
    pub producer: u32,
    /// Index of the consuming domain.
    pub consumer: u32,
    /// The name of what travels, for example `rx_filled`.
    pub name: F::Text,
}

/// The most counters that a component can have.
pub const MAX_COUNTERS: usize = 480;

/// The page of counters that a component's manifest names, and of what is wrong: it alone writes,
/// observers read.
#[repr(C)]
#[derive(Debug)]
pub struct Counters {
    /// One word per name, in the manifest's order.
    pub values: [AtomicU64; MAX_COUNTERS],
    /// The trouble that the component tells of.
    pub trouble: Trouble,
}

impl Counters {
    /// A page of zeros.
    #[allow(clippy::new_without_default, reason = "it is made where nothing else but constants can be")]
    pub const fn new() -> Self {
        let trouble = Trouble { changes: AtomicU64::new(0), text: [const { AtomicU64::new(0) }; TROUBLE_WORDS] };
        Self { values: [const { AtomicU64::new(0) }; MAX_COUNTERS], trouble }
    }
}

/// Words of eight bytes that a [`Trouble`] has for its text: what the page has left.
pub const TROUBLE_WORDS: usize = 31;

/// What a component says is wrong with what it serves; no words if nothing is.
#[repr(C)]
#[derive(Debug)]
pub struct Trouble {
    /// How often the text began or ended to change: while it does, this is odd.
    pub changes: AtomicU64,
    /// The text, padded with zeros, its first byte the lowest of the first word.
    pub text: [AtomicU64; TROUBLE_WORDS],
}

const _: () = assert!(size_of::<Counters>() == crate::memory::PAGE_SIZE as usize);
