//! Copier of the net class: all of it but the entry point.
//!
//! The device writes frames of all clients into the same buffers. A copier stands between those and
//! one client: it alone of the two maps them, and copies each frame, packet header included, into a
//! buffer of the client's own. See [`Copier`].

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

mod copier;
#[cfg(test)]
mod tests;

pub use copier::Copier;

use culm::{Channels, Component, ROUNDS, run_rounds};

culm::manifest!();

impl Component for Copier {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut copier = Self::new(&connections.net);
        run_rounds(ROUNDS, || copier.round());
        copier
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        self.mark_due(channels);
        run_rounds(ROUNDS, || self.round());
    }
}
