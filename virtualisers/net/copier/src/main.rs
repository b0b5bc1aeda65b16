//! Copier of the net class.
//!
//! The device writes frames of all clients into the same buffers. A copier stands between those and
//! one client: it alone of the two maps them, and copies each frame, packet header included, into a
//! buffer of the client's own. See [`copier`].

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod copier;
#[cfg(test)]
mod restart_tests;
#[cfg(test)]
mod tests;

use copier::Copier;
use culm::{Channels, Component, ROUNDS, run_rounds};

culm::component!(NetCopier);

struct NetCopier(Copier);

impl Component for NetCopier {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut this = Self(Copier::new(&connections.net));
        this.run();
        this
    }

    fn notified(&mut self, channels: Channels) {
        self.0.note(channels);
        self.run();
    }
}

impl NetCopier {
    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.0.round());
    }
}
