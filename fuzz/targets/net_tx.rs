//! The transmit virtualiser between an honest client, a hostile one, and a driver.
//!
//! The hostile client writes anything anywhere in its queues and buffers, at any time between two
//! rounds, and between two lives of the virtualiser. Whatever it does, only its own memory (or the
//! virtualiser's, where its frames are copied) reaches the device, nothing twice at a time, where
//! its sender is checked every frame names it, and in the end every frame of the honest client was
//! sent and all its buffers are back.

#![no_main]

#[path = "../common/peers.rs"]
mod peers;

use culm::Region;
use culm::connection::{NetTxClient, NetTxVirtualiser};
use culm::testing::{channels, set_time, signalled};
use culm::time::{self, Duration};
use culm_abi::lending::account_size;
use culm_net::testing::{Peer, frame, memory, ring, write_packet};
use culm_net::{Descriptor, DmaDescriptor, HEADROOM, LARGE_BUFFER, Mac};
use libfuzzer_sys::fuzz_target;
use net_tx::Transmit;
use peers::{Input, clear, scribble};
use std::sync::OnceLock;

const BUFFERS: u32 = 16;
const LARGE: u32 = 2;
const BYTES: u64 = (BUFFERS * 2048 + LARGE * LARGE_BUFFER) as u64;
const BOUNCE: u64 = 0x9000_0000;
const ACCOUNT: u64 = account_size(3, 3 * (BUFFERS + LARGE));

fn mac(client: usize) -> Mac {
    Mac::new([2, 0, 0, 0, 0, client as u8])
}

fn dma(client: usize) -> u64 {
    0x8000_0000 + client as u64 * 0x10_0000
}

/// Queues and buffers, the same for each input.
fn ground() -> &'static (NetTxVirtualiser, [NetTxClient; 2]) {
    static GROUND: OnceLock<(NetTxVirtualiser, [NetTxClient; 2])> = OnceLock::new();
    GROUND.get_or_init(|| {
        let virtualiser = NetTxVirtualiser {
            driver_filled: ring::<DmaDescriptor>(32),
            driver_free: ring::<DmaDescriptor>(32),
            driver_channel: 0,
            buffer_size: 2048,
            bounce: memory(BYTES as usize, BOUNCE),
            account: memory(ACCOUNT as usize, 0),
            clients: Default::default(),
            bounce_large: LARGE,
        };
        let client = |index: usize| NetTxClient {
            filled: ring::<Descriptor>(32),
            free: ring::<Descriptor>(32),
            data: memory(BYTES as usize, dma(index)),
            channel: 1 + index as u32,
            anti_spoof: 0,
            large: LARGE,
            mac: mac(index).bytes(),
        };
        (virtualiser, [client(0), client(1)])
    })
}

/// The virtualiser and its peers. Client 0 is honest, client 1 is not.
struct World {
    virtualiser: Transmit,
    clients: [NetTxClient; 2],
    driver: Peer<DmaDescriptor>,
    honest: Peer<Descriptor>,
    hostile: Peer<Descriptor>,
    /// The memory that the hostile client can write.
    reach: [Region; 3],
    /// Buffers that the honest client has.
    free: Vec<Descriptor>,
    with_driver: Vec<DmaDescriptor>,
    bounce: Region,
    checked: bool,
    handed: u32,
    sent: u32,
}

impl World {
    fn new(checked: bool) -> Self {
        let (connection, clients) = ground();
        clear::<DmaDescriptor>(connection.driver_filled);
        clear::<DmaDescriptor>(connection.driver_free);
        let mut clients = *clients;
        let [(_, _), (filled, free)] =
            clients.each_ref().map(|client| (clear::<Descriptor>(client.filled), clear::<Descriptor>(client.free)));
        clients[1].anti_spoof = checked.into();
        Region::new(connection.account).clear(0, ACCOUNT as usize).expect("inside");
        Self {
            virtualiser: Transmit::new(connection, &clients),
            driver: Peer::new(connection.driver_filled, connection.driver_free),
            honest: Peer::new(clients[0].free, clients[0].filled),
            hostile: Peer::new(clients[1].free, clients[1].filled),
            reach: [filled, free, Region::new(clients[1].data)],
            free: Vec::new(),
            with_driver: Vec::new(),
            bounce: Region::new(connection.bounce),
            clients,
            checked,
            handed: 0,
            sent: 0,
        }
    }

    fn round(&mut self) {
        self.virtualiser.mark_due(channels(&[0, 1, 2]));
        let _ = self.virtualiser.round();
        self.free.extend(self.honest.take());
        for entry in self.driver.take() {
            self.check(entry);
            self.with_driver.push(entry);
        }
    }

    fn check(&mut self, entry: DmaDescriptor) {
        let end = entry.address + u64::from(entry.length);
        let inside = |start: u64| entry.address >= start && end <= start + BYTES;
        assert!(self.with_driver.iter().all(|other| other.address != entry.address), "sent twice at a time");
        self.sent += u32::from(inside(dma(0)));
        if inside(BOUNCE) {
            let mut source = [0; 6];
            self.bounce.read((entry.address - BOUNCE) as usize + HEADROOM + 6, &mut source).expect("inside");
            assert!(self.checked && source == mac(1).bytes(), "sent in another's name");
        } else {
            assert!(inside(dma(0)) || inside(dma(1)) && !self.checked, "nobody's memory is sent");
        }
    }

    fn complete(&mut self, count: usize) {
        let count = count.min(self.with_driver.len());
        let done: Vec<_> = self.with_driver.drain(..count).collect();
        self.driver.send(&done);
    }

    fn send(&mut self) {
        let Some(buffer) = self.free.pop() else { return };
        let data = Region::new(self.clients[0].data);
        let length = write_packet(&data, buffer.offset, &frame(mac(9), mac(0), b"content"));
        self.honest.send(&[Descriptor { length, ..buffer }]);
        self.handed += 1;
    }

    /// Does what the input says next.
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 13 {
            0 | 1 => {
                scribble(&self.reach, input);
            }
            2..=4 => {
                let entries: Vec<_> = (0..1 + input.byte() % 8).map(|_| input.entry(BUFFERS)).collect();
                self.hostile.send(&entries);
            }
            5 => {
                let _ = self.hostile.take();
            }
            6 => self.send(),
            7 => self.complete(input.byte().into()),
            8 => set_time(time::now() + Duration::from_millis(input.byte().into())),
            9 => self.hostile = Peer::new(self.clients[1].free, self.clients[1].filled),
            10 => self.virtualiser = Transmit::new(&ground().0, &self.clients),
            _ => self.round(),
        }
    }

    /// The hostile client is restarted, honest from now on, and finds the virtualiser.
    fn restart_hostile(&mut self) {
        self.hostile = Peer::new(self.clients[1].free, self.clients[1].filled);
        for _ in 0..20 {
            // One that has used up its allowance waits for a while, and what it had sent before is
            // sent first.
            self.complete(usize::MAX);
            set_time(time::now() + Duration::from_millis(25));
            self.round();
            let _ = self.hostile.take();
        }
        assert!(self.hostile.is_live(), "the restarted client finds the virtualiser");
    }

    /// The hostile client is quiet; the honest one gets on.
    fn heal(mut self) {
        for _ in 0..100 {
            set_time(time::now() + Duration::from_millis(10));
            self.complete(usize::MAX);
            self.round();
        }
        assert_eq!(self.sent, self.handed, "frames of the honest client");
        assert_eq!(self.free.len() as u32, BUFFERS + LARGE, "buffers of the honest client");
    }
}

fuzz_target!(|data: &[u8]| {
    culm::testing::forget();
    let mut input = Input::new(data);
    let mut world = World::new(input.byte() & 1 != 0);
    for _ in 0..4 {
        world.round();
    }
    while !input.is_over() {
        world.step(&mut input);
    }
    world.restart_hostile();
    world.heal();
    let _ = signalled();
});
