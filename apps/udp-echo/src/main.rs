//! Answers every UDP datagram of a client with itself (RFC 862): what the benchmarks of the network
//! path talk to.
//!
//! Other servers' ports get no answer ([`is_client_port`]), so that a forged datagram does not make
//! two servers answer each other for ever. An echo server on another port from 1024 on cannot be
//! told from a client: where strangers can forge addresses, let none of those be within reach.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::time::Instant;
use culm::{Channels, Component, Progress, ROUNDS, run_rounds};
use culm_net::Client;
use culm_net::stack::{Datagram, Settings, Stack};
use culm_net::wire::is_client_port;

culm::component!(UdpEcho);

struct UdpEcho {
    stack: Stack,
    port: u16,
}

impl Component for UdpEcho {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let settings = Settings { ipv6: config.ipv6, ..Settings::default() };
        let (address, gateway) = (config.address.unwrap_or(""), config.gateway.unwrap_or(""));
        let settings = match settings.with_addresses(address, gateway) {
            Ok(settings) => settings,
            Err(error) => panic!("address = {address:?}, gateway = {gateway:?}: {error}"),
        };
        let mut stack = Stack::new(Client::new(connections.net), settings);
        stack.bind(config.port);
        // The first turn looks into the queues. It is not taken here, so that all turns are taken
        // in one place, of which the compiler makes one piece.
        culm::wake_at(Instant::default());
        Self { stack, port: config.port }
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl UdpEcho {
    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.round());
    }

    /// Answers what was received.
    #[inline(always)]
    fn round(&mut self) -> Progress {
        let (mut received, mut datagrams, mut bytes) = (0, 0, 0);
        let port = self.port;
        self.stack.receive(&mut |datagram: Datagram<'_>| {
            received += 1;
            let length = datagram.payload().len();
            let answered = is_client_port(datagram.remote_port(), port)
                && datagram.answer(length, |answer, request| answer.copy_from_slice(request));
            if answered {
                datagrams += 1;
                bytes += length as u64;
            }
        });
        counters::DATAGRAMS.add(datagrams);
        counters::BYTES.add(bytes);
        counters::DROPS.add(received - datagrams);
        self.stack.end_round()
    }
}
