//! Receive virtualiser of the net class.
//!
//! It gives each received frame to its destination clients, in the buffer that the device wrote:
//! nothing is copied, and only the first bytes are read. It records the holders of every buffer, so
//! no client can return a buffer that it does not hold, and the count that every client holds, so
//! no client can starve the others. See [`receive`].

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod client;
#[cfg(test)]
mod piece_tests;
mod receive;
#[cfg(test)]
mod tests;

use culm::{Channels, Component, ROUNDS, run_rounds, start};
use receive::Receive;

culm::component!(NetRx);

struct NetRx(Receive);

impl Component for NetRx {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut this = Self(Receive::new(&connections.net, start::list(connections.net.clients)));
        this.run();
        this
    }

    fn notified(&mut self, channels: Channels) {
        self.0.note(channels);
        self.run();
    }
}

impl NetRx {
    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.0.round());
    }
}
