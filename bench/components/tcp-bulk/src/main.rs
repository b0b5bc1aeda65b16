//! Takes and sends as many bytes over TCP as it can: `./culm bench tcp`.
//!
//! Data sent to port 9 is dropped (RFC 863); who connects to port 19 is sent bytes for as long
//! as it listens, in the spirit of RFC 864. The content does not matter, so nothing is done to make
//! it, and what is measured is the path.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use culm::{Channels, Component, run_rounds};
use culm_net::stack::{Event, Settings, Stack, Stream};

culm::component!(TcpBulk);

/// Drops what it receives.
const DISCARD: u16 = 9;
/// Sends for as long as somebody listens.
const SOURCE: u16 = 19;

/// The bytes that are sent again and again.
static CONTENT: [u8; 64 * 1024] = [b'c'; 64 * 1024];

/// Rounds of one turn: whatever the network has to offer, other components of this priority get
/// their turn.
const ROUNDS: u32 = 64;

struct TcpBulk {
    stack: Stack,
    /// The port of the connection in each slot, 0 where there is none.
    ports: Vec<u16>,
    /// Bytes of one connection that are sent and not yet acknowledged.
    ahead: usize,
}

impl Component for TcpBulk {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let settings = Settings {
            ipv6: false,
            connections: config.connections as usize,
            receive_buffer: config.receive_buffer as usize,
            largest_receive_buffer: config.largest_receive_buffer as usize,
            receive_pool: config.receive_pool as usize,
            // All that is sent is in memory that stays as it is.
            send_buffer: 0,
            ..Settings::default()
        };
        let settings = settings.with_addresses(config.address, "").unwrap_or_else(|error| {
            culm::error!("address \"{}\": {error}", config.address);
            settings
        });
        let mut stack = Stack::new(culm_net::Client::new(connections.net), settings);
        stack.listen(DISCARD);
        stack.listen(SOURCE);
        let mut bulk = Self { stack, ports: Vec::new(), ahead: config.send_ahead as usize };
        bulk.ports.resize(settings.connections, 0);
        bulk.turn();
        bulk
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl TcpBulk {
    fn turn(&mut self) {
        run_rounds(ROUNDS, || {
            self.stack.receive(&mut |_| {});
            while let Some(event) = self.stack.event() {
                match event {
                    Event::Opened { slot, port } => self.opened(slot, port),
                    Event::Ready { slot } => self.serve(slot),
                }
            }
            self.stack.end_round()
        });
    }

    fn opened(&mut self, slot: usize, port: u16) {
        counters::CONNECTIONS.add(1);
        match self.ports.get_mut(slot) {
            Some(place) => *place = port,
            None => self.stack.release(slot),
        }
        self.serve(slot);
    }

    fn serve(&mut self, slot: usize) {
        let port = self.ports.get(slot).copied().unwrap_or(0);
        let Some(mut stream) = self.stack.stream(slot) else { return };
        if port == SOURCE {
            fill(&mut stream, self.ahead);
        }
        drain(&mut stream);
        if stream.ended() {
            stream.finish();
            self.stack.release(slot);
            if let Some(port) = self.ports.get_mut(slot) {
                *port = 0;
            }
        }
    }
}

fn fill(stream: &mut Stream<'_>, ahead: usize) {
    while stream.unacknowledged() < ahead {
        let sent = stream.send_static(&CONTENT);
        if sent == 0 {
            return;
        }
        counters::SENT_BYTES.add(sent as u64);
    }
}

fn drain(stream: &mut Stream<'_>) {
    let count = stream.received_count();
    if count > 0 {
        stream.consume(count);
        counters::RECEIVED_BYTES.add(count as u64);
    }
}
