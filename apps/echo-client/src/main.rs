//! Connects to echo services (RFC 862) over TCP, by names or addresses, all at once; sends each
//! bytes, and checks that they come back. The log says of each how it went.
//!
//! It is an example of a client: [`call`] finds a host's addresses, opens a connection to one after
//! the other until one answers, uses it and ends it, and has an end in any case.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod call;
mod service;

use alloc::vec::Vec;
use call::Call;
use core::net::IpAddr;
use culm::{Channels, Component, Progress, ROUNDS, run_rounds, time};
use culm_net::Client;
use culm_net::stack::{Event, Settings, Stack};

culm::component!(EchoClient);

/// Bytes of each connection's buffers, each way.
const BUFFER: usize = 32 * 1024;

struct EchoClient {
    stack: Stack,
    calls: Vec<Call>,
    /// Whether the log has the sum.
    said: bool,
}

impl Component for EchoClient {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        if let Some(entropy) = &connections.entropy {
            let _ = culm_entropy::take_seed(entropy);
        }
        let (address, gateway) = (config.address.unwrap_or(""), config.gateway.unwrap_or(""));
        // A place more than there are services: an answer of a name server's may need one.
        let connections_count = config.services.len() + 1;
        let settings = Settings {
            connections: connections_count,
            receive_buffer: BUFFER,
            send_buffer: BUFFER,
            ..Settings::default()
        };
        let settings = match settings.with_addresses(address, gateway) {
            Ok(settings) => settings,
            Err(error) => panic!("address = {address:?}, gateway = {gateway:?}: {error}"),
        };
        let mut stack = Stack::new(Client::new(connections.net), settings);
        let read = |text: &'static str| -> IpAddr {
            text.parse().unwrap_or_else(|_| panic!("name_servers: {text:?} is no address"))
        };
        let name_servers: Vec<IpAddr> = config.name_servers.iter().map(read).collect();
        if !name_servers.is_empty() {
            stack.set_name_servers(&name_servers);
        }
        let limit = time::now() + config.patience;
        let call = |text: &'static str| match text.parse() {
            Ok(service) => Call::new(text, service, config.bytes, limit),
            Err(error) => panic!("services: {text:?} is no service: {error}"),
        };
        let mut this = Self { stack, calls: config.services.iter().map(call).collect(), said: false };
        this.run();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl EchoClient {
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.round());
    }

    fn round(&mut self) -> Progress {
        let Self { stack, calls, .. } = self;
        stack.receive(&mut |_| {});
        while let Some((lookup, outcome)) = stack.found() {
            calls.iter_mut().for_each(|call| call.take_addresses(lookup, outcome));
        }
        while let Some(Event::Opened { slot, .. } | Event::Ready { slot }) = stack.event() {
            if let Some(call) = calls.iter_mut().find(|call| call.slot() == Some(slot)) {
                call.go_on(stack);
            }
        }
        let now = time::now();
        calls.iter_mut().for_each(|call| call.step(stack, now));
        if !self.said && self.calls.iter().all(Call::is_over) {
            self.said = true;
            let answered = self.calls.iter().filter(|call| call.has_answered()).count();
            culm::info!("{answered} of {} services have answered", self.calls.len());
        }
        let progress = self.stack.end_round();
        let due = self.calls.iter().filter_map(Call::due).min();
        due.into_iter().for_each(culm::wake_at);
        progress
    }
}
