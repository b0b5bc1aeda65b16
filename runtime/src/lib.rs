//! The library that every component links: entry, turns, channels, log, configuration.
//!
//! A component is a type that implements [`Component`] in a crate whose `component.toml` says what
//! it needs:
//!
//! ```text
//! #![cfg_attr(target_os = "none", no_std, no_main)]
//! #![forbid(unsafe_code)]
//!
//! culm::component!(Hello);
//!
//! struct Hello;
//!
//! impl culm::Component for Hello {
//!     type Config = Config;
//!     type Connections = Connections;
//!
//!     fn init(config: Config, connections: Connections) -> Self {
//!         culm::info!("hello");
//!         Self
//!     }
//!
//!     fn notified(&mut self, channels: culm::Channels) {}
//! }
//! ```
//!
//! [`component!`] reads the manifest and makes `Config` (the configuration as typed fields),
//! `Connections` (the component's peers, devices and files), `counters` and the entry point.
//! Everything else happens in turns: the component gets the channels that were notified, or a call;
//! its notifications and requests of a turn ([`Channel::notify`], [`Interrupt::enable`],
//! [`wake_at`], the reply) are collected and leave by one system call when it returns.
//!
//! On the host the same crate compiles for tests, with [`testing`] in the kernel's place.
//!
//! # Linking
//!
//! A component is linked by `runtime/link.ld`, which puts `.data`'s load image into the read-only
//! part; the code in [`entry`](mod@entry) makes the writable part from it at every start. The build
//! tool passes these flags to the compiler:
//!
//! * `-Clink-arg=-T<path of link.ld>`;
//! * `-Cforce-frame-pointers=yes`, since the supervisor's backtraces follow them;
//! * `-Ctarget-feature=-strict-align`: components run with translation on, where normal memory may
//!   be read unaligned.
//!
//! # Unsafe code
//!
//! Unsafe code is in the modules `arch`, `cyclic`, `region`, `queue`, `start` and `observe`, and
//! nowhere else; components forbid it. The argument in short: memory that the start block describes
//! as shared lies above everything that the compiler knows of, so no access to it can break an
//! assumption of Rust's; and it is only accessed through atomics or copied by assembly.

#![cfg_attr(target_os = "none", no_std)]

mod arch;
mod channel;
mod cyclic;
#[cfg(any(test, target_os = "none"))]
mod exhaustion;
mod turn;

pub mod archive;
pub mod config;
pub mod counters;
pub mod device;
pub mod entry;
pub mod link;
pub mod log;
pub mod message;
pub mod observe;
pub mod order;
pub mod queue;
pub mod random;
pub mod region;
pub mod rounds;
pub mod start;
pub mod supervision;
pub mod time;
pub mod trouble;

pub use arch::offered::*;
pub use arch::sum;
pub use channel::{Channel, Channels, Interrupt};
pub use counters::Counter;
pub use culm_runtime_macros::{component, entry, manifest};
pub use cyclic::Cyclic;
pub use device::Device;
pub use entry::restarts;
pub use link::Link;
pub use message::{CalleeGone, Message};
pub use region::{Exclusive, Region};
pub use rounds::{Progress, ROUNDS, run_rounds};
pub use start::observation;
pub use turn::{is_to_be_woken, wake_at};

/// The types of connections, by the names of their kinds' structures: the structure itself or, if
/// this crate wraps it, the type that does.
pub mod connection {
    pub use crate::{Channel, Device, Region};
    pub use culm_abi::connection::*;
}

/// The page of a guest's virtual CPU, for a component that runs one.
pub mod guest {
    pub use culm_abi::guest::*;
}

/// A component. This is the trait to implement.
///
/// One value of the type lives in each protection domain that the system description makes of the
/// component.
pub trait Component: Sized {
    /// Its configuration; `culm::component!` makes the type `Config`.
    type Config: start::FromStart;
    /// Its connections; `culm::component!` makes the type `Connections`.
    type Connections: start::FromStart;

    /// Creates the component, at the system's start and after each restart. Hazard: peers may have
    /// been at work already, and after a restart notifications may have been lost with the previous
    /// life. So look into each queue once before returning, or ask for a turn at once by
    /// `wake_at(Instant::default())`. That is cheaper in all later turns: if turns are taken at one
    /// place of the program only, the compiler makes them part of the loop that waits for events.
    /// When it returns, the interrupts of the component's devices are enabled. A passive protection
    /// domain is made when it is first called, and must not ask.
    fn init(config: Self::Config, connections: Self::Connections) -> Self;

    /// Takes a turn: these channels were notified; none means that the deadline given to
    /// [`wake_at`] passed. (A deadline may also pass just before a notification comes: look at the
    /// time, not only at the set.)
    fn notified(&mut self, channels: Channels);

    /// Takes a turn: the peer of `channel` calls and waits for the reply. Only channels that the
    /// description lets be called come here. The default replies with an empty message.
    fn called(&mut self, channel: Channel, message: Message) -> Message {
        let _ = (channel, message);
        Message::EMPTY
    }
}
