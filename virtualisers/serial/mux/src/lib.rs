//! Virtualiser of the serial class: shares one serial port among clients. All of it but the entry
//! point.
//!
//! It prints clients' lines whole and in turns, never one inside another (`line`). Clients that
//! take input are consoles: the operator chooses by keys (`keys`) which one is in focus, that is,
//! which is given what is typed and has its output go out as it is ([`Mux`]). Clients that ask for
//! the log are given it ([`Listener`]). A client that floods it, or breaks the rules
//! of its queues, gets its turn like any other and delays no other. A client that prints faster
//! than the port can send fills its own queue; the runtime's log then drops lines and counts them.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod client;
mod keys;
mod line;
mod listener;
mod mux;
mod plain;
mod screen;
#[cfg(test)]
mod tests;

pub use client::Client;
pub use listener::Listener;
pub use mux::{Done, Mux};

use alloc::vec::Vec;
use culm::connection::SerialVirtualiserClient;
use culm::{Channel, Channels, Component, queue, start, time};
use culm_clock::Clock;

culm::manifest!();

/// The virtualiser.
#[derive(Debug)]
pub struct SerialVirtualiser {
    mux: Mux,
}

impl Component for SerialVirtualiser {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let serial = connections.serial;
        let clients = start::list::<SerialVirtualiserClient>(serial.clients);
        let listeners = clients.iter().filter(|client| client.listens());
        let listeners = listeners.map(|client| Listener::new(Channel::new(client.channel), queue::producer(client.rx)));
        let listeners = listeners.collect();
        let focus = clients.iter().position(|client| client.begins_in_focus());
        let clients = clients.iter().map(|client| {
            let rx = (client.rx.capacity > 0 && !client.listens()).then(|| queue::producer(client.rx));
            let name = start::text(client.name).as_bytes();
            let commands = (client.commands.capacity > 0).then(|| queue::producer(client.commands));
            let tx = queue::consumer(client.tx);
            Client::new(name, Channel::new(client.channel), client.may_notify(), tx, rx).with_commands(commands)
        });
        let clients: Vec<Client> = clients.collect();
        let driver = Channel::new(serial.driver_channel);
        let mux =
            Mux::new(driver, queue::producer(serial.driver_tx), queue::consumer(serial.driver_rx), clients, focus);
        let mux = mux.with_clock(connections.clock.map(Clock::new)).with_listeners(listeners);
        let mut virtualiser = Self { mux };
        if culm::restarts() > 0 {
            virtualiser.mux.discard_input();
        }
        virtualiser.serve();
        virtualiser
    }

    fn notified(&mut self, channels: Channels) {
        channels.for_each(|channel| self.mux.notified(channel));
        self.serve();
    }
}

impl SerialVirtualiser {
    fn serve(&mut self) {
        let done = self.mux.serve(time::now());
        counters::LINES.add(done.lines);
        counters::BYTES.add(done.bytes);
        counters::INPUT.add(done.input);
        counters::INPUT_DROPPED.add(done.input_dropped);
        counters::MISSING.add(done.missing);
        counters::VIOLATIONS.set(self.mux.violations());
    }
}
