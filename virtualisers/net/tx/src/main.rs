//! Transmit virtualiser of the net class.
//!
//! It takes the clients' frames in turns, checks that each is in a buffer which the client holds,
//! tells the driver where the device finds it, and gives the buffer back when the device has sent
//! it. If a client may send from one address only, its frame is copied before it is checked. See
//! [`transmit`] and [`bounce`].

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod bounce;
mod client;
#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod tests;
mod transmit;

use culm::{Channels, Component, ROUNDS, run_rounds, start};
use transmit::Transmit;

culm::component!(NetTx);

struct NetTx(Transmit);

impl Component for NetTx {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut this = Self(Transmit::new(&connections.net, start::list(connections.net.clients)));
        this.run();
        this
    }

    fn notified(&mut self, channels: Channels) {
        self.0.note(channels);
        self.run();
    }
}

impl NetTx {
    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.0.round());
    }
}
