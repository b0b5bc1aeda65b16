//! A server for iperf3, the program by which people measure networks: TCP and UDP, several streams,
//! both ways (`./culm run iperf3`).
//!
//! It speaks the protocol of iperf3's server ([`protocol`]) to clients as they come with Linux
//! distributions. [`server`] has the order of things, [`progress`] how far a test is;
//! [`exchange`], [`parameters`] and [`json`] read what a client says, [`flow`] counts, [`results`]
//! tells. The content of streams over TCP does not
//! matter, so that nothing is done to make or to keep it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod exchange;
mod flow;
mod json;
mod parameters;
mod progress;
mod protocol;
mod results;
mod server;
mod usage;

use culm::{Channels, Component, Progress, ROUNDS, run_rounds, time};
use culm_net::Client;
use culm_net::stack::{Settings, Stack};
use server::Server;
use usage::Usage;

culm::component!(Iperf3);

/// Bytes of a stream that have come and are not yet taken.
const RECEIVE_BUFFER: usize = 256 * 1024;

/// Bytes of copied content on the way: states and results, of which there is little.
const SEND_BUFFER: usize = 4096;

/// Connections beside those of streams: the control connection, and those of clients that are told
/// to wait.
const OTHERS: usize = 4;

struct Iperf3 {
    stack: Stack,
    server: Server,
}

impl Component for Iperf3 {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        if let Some(entropy) = &connections.entropy {
            let _ = culm_entropy::take_seed(entropy);
        }
        let streams = config.streams as usize;
        let slots = streams + OTHERS;
        let settings = Settings {
            connections: slots,
            receive_buffer: RECEIVE_BUFFER,
            send_buffer: SEND_BUFFER,
            ..Settings::default()
        };
        let (address, gateway) = (config.address.unwrap_or(""), config.gateway.unwrap_or(""));
        let settings = match settings.with_addresses(address, gateway) {
            Ok(settings) => settings,
            Err(error) => panic!("address = {address:?}, gateway = {gateway:?}: {error}"),
        };
        let mut stack = Stack::new(Client::new(connections.net), settings);
        stack.listen(config.port);
        stack.bind(config.port);
        culm::info!("serves tests of up to {streams} streams on port {}", config.port);
        let mut this = Self { stack, server: Server::new(config.port, slots, streams, Usage::new()) };
        this.run();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl Iperf3 {
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.round());
        if let Some(due) = self.server.due(time::now()) {
            culm::wake_at(due);
        }
    }

    fn round(&mut self) -> Progress {
        let Self { stack, server } = self;
        let now = time::now();
        stack.receive(&mut |datagram| server.datagram(datagram, now));
        while let Some(event) = stack.event() {
            server.event(stack, event, now);
        }
        let more = server.step(stack, now);
        stack.end_round() & Progress::more_if(more)
    }
}
