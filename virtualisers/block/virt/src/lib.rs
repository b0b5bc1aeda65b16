//! Virtualiser of the block class: all of it but the entry point.
//!
//! It gives each client the disk, a partition of it or a range of blocks, as a disk of its own: the
//! same protocol on both sides. A request goes on with its blocks and its memory translated; the
//! data is never mapped here. What a client can name lies within its part, whatever it writes.
//!
//! It has a few requests of all clients under way at the driver and leaves the others in their
//! queues, so that it can choose whose is next (`turns`).
//!
//! It has no state that outlives it but a word on failed flushes (`account`). A restarted driver
//! is sent again what it has not answered ([`culm_block::Client`]). The clients of a restarted
//! virtualiser send again what was not answered, after the driver has ended what the previous life
//! sent.
//!
//! It is the same program in a domain of its own and in that of its driver
//! ([`culm_block::driver`]).
//!
//! `virtualiser` moves requests and answers, `medium` finds out where the clients' parts are.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod account;
mod client;
mod medium;
mod part;
#[cfg(test)]
mod tests;
mod turns;
mod unflushed;
mod virtualiser;

pub use virtualiser::{Tag, Virtualiser};

use culm::time::Instant;
use culm::{Channels, Component, ROUNDS, run_rounds, start};

culm::manifest!();

impl Component for Virtualiser {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        culm::wake_at(Instant::default());
        Self::new(&connections.block, start::list(connections.block.clients))
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        self.mark_due(channels);
        run_rounds(
            ROUNDS,
            #[inline(always)]
            || self.round(),
        );
    }
}
