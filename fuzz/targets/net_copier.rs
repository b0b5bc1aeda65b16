//! The copier between a hostile client and a hostile giver of frames.
//!
//! Both write anything anywhere in the queues that they share with it, and the giver anything into
//! the device's buffers. Whatever they do, loops end, nothing panics, and what the client is told
//! lies in its memory. When both were restarted and are honest, they find the copier, and a frame
//! passes.

#![no_main]

#[path = "../common/peers.rs"]
mod peers;

use culm::Region;
use culm::connection::NetCopier;
use culm::testing::{channels, signalled};
use culm_net::testing::{Peer, frame, memory, ring, write_packet};
use culm_net::{Descriptor, LARGE_BUFFER, Mac};
use libfuzzer_sys::fuzz_target;
use net_copier::Copier;
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
    })
}

/// The copier and its two sides.
struct World {
    connection: NetCopier,
    copier: Copier,
    giver: Peer<Descriptor>,
    client: Peer<Descriptor>,
    reach: [Region; 5],
    /// Somebody has written over what the copier tells the client.
    overwritten: bool,
}

/// Which of the regions that can be written the copier's entries for the client are in.
const FOR_CLIENT: usize = 2;

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
            overwritten: false,
        }
    }

    fn round(&mut self) {
        self.copier.mark_due(channels(&[0, 1]));
        let _ = self.copier.round();
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let peer = if input.byte() & 1 == 0 { &mut self.giver } else { &mut self.client };
        match input.byte() % 8 {
            0 | 1 => self.overwritten |= scribble(&self.reach, input) == FOR_CLIENT,
            2 | 3 => {
                let entries: Vec<_> = (0..1 + input.byte() % 8).map(|_| input.entry(BUFFERS)).collect();
                peer.send(&entries);
            }
            4 => {
                for packet in self.client.take() {
                    let end = packet.offset as usize + usize::from(packet.length);
                    let inside = end <= (BUFFERS * 2048 + LARGE * LARGE_BUFFER) as usize;
                    assert!(inside || self.overwritten, "outside the client's memory");
                }
                let _ = self.giver.take();
            }
            5 => {
                self.giver = Peer::new(self.connection.device_free, self.connection.device_filled);
                self.client = Peer::new(self.connection.client_filled, self.connection.client_free);
                self.overwritten = false;
            }
            _ => self.round(),
        }
    }
}

impl World {
    /// Both sides are restarted, one after the other, and honest from now on.
    fn heal(mut self, client_first: bool) {
        for first in [client_first, !client_first] {
            if first {
                self.client = Peer::new(self.connection.client_filled, self.connection.client_free);
            } else {
                self.giver = Peer::new(self.connection.device_free, self.connection.device_filled);
            }
            for _ in 0..4 {
                self.round();
                let _ = (self.giver.take(), self.client.take());
            }
            let live = if first { self.client.is_live() } else { self.giver.is_live() };
            assert!(live, "the {} finds the copier", if first { "client" } else { "giver" });
        }
        self.client.send(&[Descriptor::empty(2048)]);
        let data = Region::new(self.connection.device_data);
        let length = write_packet(&data, 4096, &frame(Mac::BROADCAST, Mac::BROADCAST, b"content"));
        self.giver.send(&[Descriptor { offset: 4096, length, flags: 0 }]);
        self.round();
        assert_eq!(self.giver.take(), [Descriptor::empty(4096)], "the giver has its buffer back");
        assert_eq!(self.client.take(), [Descriptor { offset: 2048, length, flags: 0 }], "the client has the frame");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let client_first = data.len() & 1 == 0;
    let mut world = World::new(u32::from(input.byte() & 1) * LARGE);
    for _ in 0..4 {
        world.round();
        let _ = (world.giver.take(), world.client.take());
    }
    while !input.is_over() {
        world.step(&mut input);
    }
    world.heal(client_first);
    let _ = signalled();
});
