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

use culm::{Channels, Component, start, time};
use transmit::Transmit;

culm::component!(NetTx);

/// Rounds in one turn before others of the same priority get theirs.
const ROUNDS: u32 = 8;

struct NetTx(Transmit);

impl Component for NetTx {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut this = Self(Transmit::new(&connections.net, start::list(connections.net.clients)));
        this.take_turn();
        this
    }

    fn notified(&mut self, channels: Channels) {
        self.0.note(channels);
        self.take_turn();
    }
}

impl NetTx {
    #[inline(always)]
    fn take_turn(&mut self) {
        for _ in 0..ROUNDS {
            if self.0.round() {
                return;
            }
        }
        culm::wake_at(time::now());
    }
}
