//! The copier between a hostile client and a hostile giver of frames.
//!
//! Both write anything anywhere in the queues that they share with it, and the giver anything into the device's buffers.
//! Whatever they do, loops end, nothing panics, and what the client is told lies in its memory.

#![no_main]

#[path = "../../virtualisers/net/copier/src/copier.rs"]
mod copier;
#[path = "../common/peers.rs"]
mod peers;

/// The counters of the component, which nobody reads here.
mod counters {
    use culm::Counter;
    pub const PACKETS: Counter = Counter::new(0);
    pub const BYTES: Counter = Counter::new(1);
    pub const DROPS_INVALID: Counter = Counter::new(2);
    pub const REFUSED: Counter = Counter::new(3);
}

use copier::Copier;
use culm::Region;
use culm::connection::NetCopier;
use culm::testing::{channels, signalled};
use culm_net::testing::{Peer, memory, ring};
use culm_net::{Descriptor, LARGE_BUFFER};
use libfuzzer_sys::fuzz_target;
use peers::{Input, clear, scribble};
use std::sync::OnceLock;

const BUFFERS: u32 = 16;
const LARGE: u32 = 2;

/// Queues and buffers, the same for each input.
fn ground() -> &'static NetCopier {
    static GROUND: OnceLock<NetCopier> = OnceLock::new();
    GROUND.get_or_init(|| NetCopier {
        device_filled: ring::<Descriptor>(32),
        device_free: ring::<Descriptor>(32),
        device_data: memory((BUFFERS * 2048) as usize, 0),
        client_filled: ring::<Descriptor>(32),
        client_free: ring::<Descriptor>(32),
        client_data: memory((BUFFERS * 2048 + LARGE * LARGE_BUFFER) as usize, 0),
        device_buffer_size: 2048,
        client_buffer_size: 2048,
        device_channel: 0,
        client_channel: 1,
        client_large: LARGE,
        reserved: 0,
    })
}

/// The copier and its two sides.
struct World {
    connection: NetCopier,
    copier: Copier,
    giver: Peer<Descriptor>,
    client: Peer<Descriptor>,
    reach: [Region; 5],
}

impl World {
    fn new(large: u32) -> Self {
        let connection = NetCopier { client_large: large, ..*ground() };
        let rings =
            [connection.device_filled, connection.device_free, connection.client_filled, connection.client_free];
        let [a, b, c, d] = rings.map(clear::<Descriptor>);
        Self {
            copier: Copier::new(&connection),
            giver: Peer::new(connection.device_free, connection.device_filled),
            client: Peer::new(connection.client_filled, connection.client_free),
            reach: [a, b, c, d, Region::new(connection.device_data)],
            connection,
        }
    }

    fn round(&mut self) {
        self.copier.note(channels(&[0, 1]));
        let _ = self.copier.round();
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let peer = if input.byte() & 1 == 0 { &mut self.giver } else { &mut self.client };
        match input.byte() % 8 {
            0 | 1 => scribble(&self.reach, input),
            2 | 3 => {
                let entries: Vec<_> = (0..1 + input.byte() % 8).map(|_| input.entry(BUFFERS)).collect();
                peer.send(&entries);
            }
            4 => {
                for packet in self.client.take() {
                    let end = packet.offset as usize + usize::from(packet.length);
                    assert!(end <= (BUFFERS * 2048 + LARGE * LARGE_BUFFER) as usize, "outside the client's memory");
                }
                let _ = self.giver.take();
            }
            5 => {
                self.giver = Peer::new(self.connection.device_free, self.connection.device_filled);
                self.client = Peer::new(self.connection.client_filled, self.connection.client_free);
            }
            _ => self.round(),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let mut world = World::new(u32::from(input.byte() & 1) * LARGE);
    for _ in 0..4 {
        world.round();
        let _ = (world.giver.take(), world.client.take());
    }
    while !input.is_over() {
        world.step(&mut input);
    }
    for _ in 0..8 {
        world.round();
    }
    let _ = signalled();
});
