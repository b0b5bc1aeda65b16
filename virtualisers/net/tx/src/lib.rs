//! Transmit virtualiser of the net class: all of it but the entry point.
//!
//! It takes the clients' frames in turns, checks that each is in a buffer which the client holds,
//! tells the driver where the device finds it, and gives the buffer back when the device has sent
//! it. If a client may send from one address only, its frame is copied before it is checked. A
//! restarted virtualiser goes on where its previous life stopped. See [`Transmit`].

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod bounce;
mod buffers;
mod client;
mod resume;
#[cfg(test)]
mod tests;
mod transmit;

pub use transmit::Transmit;

use culm::{Channels, Component, ROUNDS, run_rounds, start};

culm::manifest!();

impl Component for Transmit {
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
