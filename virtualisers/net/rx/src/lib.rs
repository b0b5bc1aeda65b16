//! Receive virtualiser of the net class: all of it but the entry point.
//!
//! It gives each received frame to its destination clients, in the buffer that the device wrote:
//! nothing is copied, and only the first bytes are read. It records the holders of every buffer, so
//! no client can return a buffer that it does not hold, and the count that every client holds, so
//! no client can starve the others. A restarted virtualiser goes on where its previous life
//! stopped.
//! See [`Receive`].

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod client;
mod receive;
mod resume;
#[cfg(test)]
mod tests;

pub use receive::Receive;

use culm::{Channels, Component, ROUNDS, run_rounds, start};

culm::manifest!();

impl Component for Receive {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut virtualiser = Self::new(&connections.net, start::list(connections.net.clients));
        run_rounds(ROUNDS, || virtualiser.round());
        virtualiser
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        self.mark_due(channels);
        run_rounds(ROUNDS, || self.round());
    }
}
