//! File service: all of it but the entry point.
//!
//! It is a client of a disk and a provider of the file class. What a FAT volume is, and how it is
//! changed so that a power cut forgives, is in `culm_fat`, which carries out one operation at a
//! time and reads and writes by way of the service. Data of files does not pass through the
//! service: its requests to the disk name the clients' own memory, which is a part of the memory
//! that the disk reaches. Only blocks that a file has not all of, at the ends of what is read or
//! written, are moved in the service's own memory and copied.
//!
//! * `service` has the rounds: what is taken from clients and disk, and what is due.
//! * `job` is an operation of the volume's for a client's request: one at a time, in turn of the
//!   clients. A read of an open file needs none, and goes past them.
//! * `transfer` is the data of one request on its way. Those of different clients take turns too.
//! * `wire` passes the volume's own reads, writes and flushes on.
//! * `open` is what clients have open.
//!
//! It has no state that outlives it: clients open their files again ([`culm_file`]).

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod client;
mod errors;
mod job;
mod open;
mod service;
mod slots;
#[cfg(test)]
mod tests;
mod transfer;
mod wire;

pub use service::Service;

use culm::{Channels, Component, ROUNDS, run_rounds, start};
use culm_clock::Clock;

culm::manifest!();

impl Component for Service {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let clients = start::list(connections.clients.clients);
        let clock = connections.clock.map(Clock::new);
        let mut service = Self::new(&connections.disk, clients, clock, config.cache as usize);
        service.turn();
        service
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl Service {
    fn turn(&mut self) {
        run_rounds(ROUNDS, || self.round());
        self.ask_for_time();
    }
}
