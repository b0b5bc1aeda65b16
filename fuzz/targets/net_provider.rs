//! The far end of clients without a device, between two hostile ones.
//!
//! Both write anything anywhere in the queues that they share with the provider, and into what they
//! send, even while it is passed on. Whatever they do, loops end, nothing panics, and what each is
//! told lies in its memory and comes from the other's address. A client that was restarted and is
//! honest finds the provider when its pause is over, and frames pass both ways.

#![no_main]

#[path = "../common/peers.rs"]
mod peers;

use culm::connection::NetProviderClient;
use culm::testing::{channels, deadline, set_time, signalled};
use culm::time::{self, Duration};
use culm::{Channels, Region};
use culm_abi::start::Span;
use culm_net::provider::{Beginning, Port};
use culm_net::testing::{Peer, frame, memory, ring, write_packet};
use culm_net::{Descriptor, HEADROOM, LARGE_BUFFER, Mac};
use libfuzzer_sys::fuzz_target;
use peers::{Input, clear, scribble};
use std::sync::OnceLock;

const BUFFERS: u32 = 16;
const LARGE: u32 = 2;
const MEMORY: usize = (BUFFERS * 2048 + LARGE * LARGE_BUFFER) as usize;
const MACS: [Mac; 2] = [Mac::new([2, 0, 0, 0, 0, 1]), Mac::new([2, 0, 0, 0, 0, 2])];

/// Queues and buffers, the same for each input.
fn ground() -> &'static [NetProviderClient; 2] {
    static GROUND: OnceLock<[NetProviderClient; 2]> = OnceLock::new();
    GROUND.get_or_init(|| {
        [0, 1].map(|client| NetProviderClient {
            rx_filled: ring::<Descriptor>(32),
            rx_free: ring::<Descriptor>(32),
            tx_filled: ring::<Descriptor>(32),
            tx_free: ring::<Descriptor>(32),
            rx_data: memory(MEMORY, 0),
            tx_data: memory(MEMORY, 0),
            rx_large: LARGE,
            tx_large: LARGE,
            rx_channel: 2 * client,
            tx_channel: 2 * client + 1,
            buffer_size: 2048,
            anti_spoof: 1,
            mac: MACS[client as usize].bytes(),
            name: Span::default(),
        })
    })
}

/// Where among the regions that a client can write its transmit buffers are.
const SENT: usize = 4;

/// A client, as hostile as the input makes it.
struct Client {
    connection: NetProviderClient,
    receiving: Peer<Descriptor>,
    sending: Peer<Descriptor>,
    /// The memory that it can write: its queues and, from [`SENT`] on, what it sends. The queue of
    /// what it receives comes first.
    reach: [Region; 5],
    /// It has written over what it is told.
    overwritten: bool,
}

impl Client {
    fn new(connection: NetProviderClient) -> Self {
        let rings = [connection.rx_filled, connection.rx_free, connection.tx_filled, connection.tx_free];
        let [a, b, c, d] = rings.map(clear::<Descriptor>);
        let reach = [a, b, c, d, Region::new(connection.tx_data)];
        let (receiving, sending) = Self::begin(&connection);
        Self { connection, receiving, sending, reach, overwritten: false }
    }

    /// Begins another life.
    fn restart(&mut self) {
        (self.receiving, self.sending) = Self::begin(&self.connection);
        self.overwritten = false;
    }

    fn begin(connection: &NetProviderClient) -> (Peer<Descriptor>, Peer<Descriptor>) {
        let receiving = Peer::new(connection.rx_filled, connection.rx_free);
        (receiving, Peer::new(connection.tx_free, connection.tx_filled))
    }

    /// Takes what it was given: packets from `other`, in its own memory.
    fn take(&mut self, other: Mac) -> Vec<Descriptor> {
        let _ = self.sending.take();
        let packets = self.receiving.take();
        for packet in packets.iter().filter(|_| !self.overwritten) {
            let mut source = [0; 6];
            let data = Region::new(self.connection.rx_data);
            let end = packet.offset as usize + usize::from(packet.length);
            assert!(end <= MEMORY, "outside the client's memory");
            data.read(packet.offset as usize + HEADROOM + 6, &mut source).expect("inside");
            assert_eq!(Mac::new(source), other, "from an address that is not the sender's");
        }
        packets
    }
}

/// A provider that passes everything from each client to the other.
struct World {
    ports: [Port; 2],
    clients: [Client; 2],
}

impl World {
    fn new() -> Self {
        let clients = ground().map(Client::new);
        let ports = clients.each_ref().map(|client| Port::new(&client.connection));
        Self { ports, clients }
    }

    /// A turn, in which a sender may change each frame when it was taken.
    fn turn(&mut self, notified: Channels, input: &mut Input<'_>) {
        for port in &mut self.ports {
            port.mark_due(notified);
            port.begin();
        }
        for sender in 0..2 {
            let [first, second] = &mut self.ports;
            let (from, to) = if sender == 0 { (first, second) } else { (second, first) };
            while let Some(frame) = from.next_frame() {
                if input.byte() & 1 != 0 {
                    scribble(&self.clients[sender].reach[SENT..], input);
                }
                let mut bytes = vec![0; frame.length()];
                assert!(from.read(&frame, Beginning::default(), &mut bytes), "a frame has the length that it says");
                assert_eq!(bytes[6..12], from.mac().bytes());
                to.deliver(from, &frame, Beginning::default());
            }
        }
        for port in &mut self.ports {
            let _ = port.end_round();
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let who = usize::from(input.byte() & 1);
        let client = &mut self.clients[who];
        match input.byte() % 8 {
            0 | 1 => client.overwritten |= scribble(&client.reach, input) == 0,
            2 => {
                let entries: Vec<_> = (0..1 + input.byte() % 8).map(|_| input.entry(BUFFERS)).collect();
                client.receiving.send(&entries);
            }
            3 => {
                let entries: Vec<_> = (0..1 + input.byte() % 8).map(|_| input.entry(BUFFERS)).collect();
                client.sending.send(&entries);
            }
            4 => {
                let _ = client.take(MACS[1 - who]);
            }
            5 => client.restart(),
            6 => self.turn(channels(&[2 * who as u32, 2 * who as u32 + 1]), input),
            _ => {
                set_time(time::now() + Duration::from_millis(input.byte().into()));
                self.turn(Channels::NONE, input);
            }
        }
    }

    /// Both clients are restarted, one after the other, and honest from now on.
    fn heal(mut self, first: usize) {
        for who in [first, 1 - first] {
            self.clients[who].restart();
            for _ in 0..12 {
                if let Some(deadline) = deadline() {
                    set_time(time::now().max(deadline));
                }
                self.turn(Channels::NONE, &mut Input::new(&[]));
                let _ = self.clients[who].take(MACS[1 - who]);
            }
            let client = &self.clients[who];
            assert!(client.receiving.is_live() && client.sending.is_live(), "it finds the provider");
        }
        for who in [first, 1 - first] {
            let [from, to] = [who, 1 - who];
            let data = Region::new(self.clients[from].connection.tx_data);
            let length = write_packet(&data, 4096, &frame(MACS[to], MACS[from], b"content"));
            self.clients[to].receiving.send(&[Descriptor::empty(2048)]);
            self.clients[from].sending.send(&[Descriptor { offset: 4096, length, flags: 0 }]);
            self.turn(Channels::NONE, &mut Input::new(&[]));
            let received = self.clients[to].take(MACS[from]);
            assert_eq!(received, [Descriptor { offset: 2048, length, flags: 0 }], "the other has the frame");
            assert_eq!(self.clients[from].sending.take(), [Descriptor::empty(4096)], "its buffer is back");
        }
    }
}

fuzz_target!(|data: &[u8]| {
    culm::testing::forget();
    let mut input = Input::new(data);
    let first = data.len() & 1;
    let mut world = World::new();
    for _ in 0..4 {
        world.turn(Channels::NONE, &mut Input::new(&[]));
        for who in 0..2 {
            let _ = world.clients[who].take(MACS[1 - who]);
        }
    }
    while !input.is_over() {
        world.step(&mut input);
    }
    world.heal(first);
    let _ = signalled();
});
