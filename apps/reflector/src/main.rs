//! Answers ARP, ping and UDP echo: what a network card can do for a machine that runs nothing else.
//!
//! It is the example of a client that has a device to itself (`bare = true`): the driver's queues
//! are its own, and no virtualiser stands in between. The same program shares a card where the
//! description says so, so that the difference is what virtualisers and copier cost (row `bare` of
//! `culm bench steps`).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod responder;

use core::net::Ipv4Addr;
use culm::{Channels, Component, Progress, ROUNDS, run_rounds};
use culm_net::{BufferEntry, Client, Descriptor, DmaDescriptor};
use responder::{Question, Responder};

culm::component!(Reflector);

/// On a card of its own, or on one that it shares.
enum Reflector {
    Bare(Station<DmaDescriptor>),
    Shared(Station),
}

/// A station on the network.
struct Station<E: BufferEntry = Descriptor> {
    client: Client<E>,
    responder: Responder,
}

impl Component for Reflector {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let address = config.address.parse::<Ipv4Addr>().expect("the build tool lets only addresses pass").octets();
        let mut this = match (connections.card, connections.net) {
            (Some(card), None) => Self::Bare(Station::new(Client::bare(card), address, config.port)),
            (None, Some(net)) => Self::Shared(Station::new(Client::new(net), address, config.port)),
            (Some(_), Some(_)) => panic!("connect `card` or `net`, not both"),
            (None, None) => panic!("connect `card` (of a device with `bare = true`) or `net`"),
        };
        this.run();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl Reflector {
    fn run(&mut self) {
        match self {
            Self::Bare(station) => run_rounds(ROUNDS, || station.round()),
            Self::Shared(station) => run_rounds(ROUNDS, || station.round()),
        }
    }
}

impl<E: BufferEntry> Station<E> {
    fn new(client: Client<E>, address: [u8; 4], port: u16) -> Self {
        let responder = Responder::new(client.mac(), address, port);
        Self { client, responder }
    }

    /// Answers what was received, as far as there are buffers for answers.
    fn round(&mut self) -> Progress {
        let (mut arp_requests, mut pings, mut datagrams, mut ignored) = (0, 0, 0, 0);
        self.client.begin();
        let Client { receiver, transmitter, .. } = &mut self.client;
        // A frame that cannot be answered yet is better left where it is.
        while transmitter.is_ready() {
            let Some(packet) = receiver.receive() else { break };
            let frame = packet.frame();
            let answer = if packet.is_intact() { self.responder.answer(frame) } else { None };
            let Some(answer) = answer else {
                ignored += 1;
                continue;
            };
            let sent = transmitter.send_with_checksum(answer.length, |bytes| answer.write(frame, bytes));
            match answer.question {
                _ if sent.is_none() => ignored += 1,
                Question::Arp => arp_requests += 1,
                Question::Ping => pings += 1,
                Question::Datagram => datagrams += 1,
            }
        }
        for (counter, count) in [
            (&counters::ARP_REQUESTS, arp_requests),
            (&counters::PINGS, pings),
            (&counters::DATAGRAMS, datagrams),
            (&counters::IGNORED, ignored),
        ] {
            counter.add(count);
        }
        self.client.end_round()
    }
}
