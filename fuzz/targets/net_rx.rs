//! The receive virtualiser between a driver whose device writes anything, an honest client and a
//! hostile one.
//!
//! The hostile client writes anything anywhere in its queues, also between two lives of the
//! virtualiser, the device any packet into the buffers that it has, and the driver says of any
//! buffer that it was filled. Whatever they do, a buffer that the honest client holds is not the
//! driver's, and in the end the honest client receives what is for it.

#![no_main]

#[path = "../common/peers.rs"]
mod peers;

use culm::Region;
use culm::connection::{NetRxClient, NetRxVirtualiser};
use culm::testing::{channels, set_time, signalled};
use culm::time::{self, Duration};
use culm_abi::lending::account_size;
use culm_net::testing::{Peer, frame, memory, ring, write_packet};
use culm_net::{Descriptor, DmaDescriptor, HEADROOM, Mac};
use libfuzzer_sys::fuzz_target;
use net_rx::Receive;
use peers::{Input, clear, scribble};
use std::sync::OnceLock;

const BUFFERS: u32 = 24;
const DMA: u64 = 0x8000_0000;
const ACCOUNT: u64 = account_size(3, BUFFERS);

fn mac(client: usize) -> Mac {
    Mac::new([2, 0, 0, 0, 0, client as u8])
}

/// Queues and buffers, the same for each input. The hostile client is the promiscuous one.
fn ground() -> &'static (NetRxVirtualiser, [NetRxClient; 2]) {
    static GROUND: OnceLock<(NetRxVirtualiser, [NetRxClient; 2])> = OnceLock::new();
    GROUND.get_or_init(|| {
        let virtualiser = NetRxVirtualiser {
            driver_free: ring::<DmaDescriptor>(64),
            driver_filled: ring::<DmaDescriptor>(64),
            data: memory((BUFFERS * 2048) as usize, DMA),
            account: memory(ACCOUNT as usize, 0),
            buffer_size: 2048,
            driver_channel: 0,
            clients: Default::default(),
        };
        let client = |index: usize| NetRxClient {
            filled: ring::<Descriptor>(64),
            free: ring::<Descriptor>(64),
            channel: 1 + index as u32,
            mac: mac(index).bytes(),
            promiscuous: index as u32,
        };
        (virtualiser, [client(0), client(1)])
    })
}

/// The virtualiser and its peers. Client 0 is honest, client 1 is not.
struct World {
    virtualiser: Receive,
    clients: [NetRxClient; 2],
    driver: Peer<DmaDescriptor>,
    honest: Peer<Descriptor>,
    hostile: Peer<Descriptor>,
    reach: [Region; 2],
    data: Region,
    /// Buffers that the driver has, and those that the honest client has.
    empty: Vec<DmaDescriptor>,
    held: Vec<Descriptor>,
}

impl World {
    fn new() -> Self {
        let (connection, clients) = ground();
        clear::<DmaDescriptor>(connection.driver_free);
        clear::<DmaDescriptor>(connection.driver_filled);
        Region::new(connection.account).clear(0, ACCOUNT as usize).expect("inside");
        let [_, reach] =
            clients.each_ref().map(|client| [clear::<Descriptor>(client.filled), clear::<Descriptor>(client.free)]);
        Self {
            virtualiser: Receive::new(connection, clients),
            driver: Peer::new(connection.driver_free, connection.driver_filled),
            honest: Peer::new(clients[0].filled, clients[0].free),
            hostile: Peer::new(clients[1].filled, clients[1].free),
            reach,
            data: Region::new(connection.data),
            clients: *clients,
            empty: Vec::new(),
            held: Vec::new(),
        }
    }

    fn round(&mut self) {
        self.virtualiser.mark_due(channels(&[0, 1, 2]));
        let _ = self.virtualiser.round();
        self.held.extend(self.honest.take());
        self.empty.extend(self.driver.take());
        for entry in &self.empty {
            let offset = (entry.address - DMA) as u32;
            assert!(offset < BUFFERS * 2048 && offset.is_multiple_of(2048), "no buffer");
            assert!(self.held.iter().all(|held| held.offset != offset), "the honest client reads it");
        }
        let mut offsets: Vec<u32> = self.held.iter().map(|held| held.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), self.held.len(), "lent twice");
    }

    /// The device has received something.
    fn receive(&mut self, length: u16, write: impl FnOnce(&Region, usize)) {
        if self.empty.is_empty() {
            return;
        }
        let entry = self.empty.remove(0);
        write(&self.data, (entry.address - DMA) as usize);
        self.driver.send(&[DmaDescriptor { address: 0, length, flags: 0, token: entry.token }]);
    }

    fn give_back(&mut self, count: usize) {
        let count = count.min(self.held.len());
        let entries: Vec<_> = self.held.drain(..count).map(|held| Descriptor::empty(held.offset)).collect();
        self.honest.send(&entries);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 13 {
            0 | 1 => {
                scribble(&self.reach, input);
            }
            2 | 3 => {
                let entries: Vec<_> = (0..1 + input.byte() % 8).map(|_| input.entry(BUFFERS)).collect();
                self.hostile.send(&entries);
            }
            4 => {
                let _ = self.hostile.take();
            }
            5 => {
                // Any header and address, and of the lengths more often one that can be.
                let length = if input.byte() & 3 == 0 { input.number() as u16 } else { 60 + u16::from(input.byte()) };
                let pieces = input.byte() % 40;
                let bytes = input.bytes(HEADROOM + 6);
                self.receive(length, |data, offset| {
                    data.write(offset, bytes).expect("inside");
                    data.write(offset + 10, &[pieces, 0]).expect("inside");
                });
            }
            6 => {
                let to = [mac(0), mac(1), Mac::BROADCAST, mac(7)][usize::from(input.byte() % 4)];
                let pieces = input.byte() % 40;
                self.receive(100, |data, offset| {
                    write_packet(data, offset as u32, &frame(to, mac(9), &[0; 74]));
                    data.write(offset + 10, &[pieces, 0]).expect("inside");
                });
            }
            7 => {
                let token = input.number();
                if self.empty.iter().all(|entry| entry.token != token) {
                    self.driver.send(&[DmaDescriptor { token, length: 60, ..DmaDescriptor::default() }]);
                }
            }
            8 => self.give_back(input.byte().into()),
            9 => self.hostile = Peer::new(self.clients[1].filled, self.clients[1].free),
            11 => self.virtualiser = Receive::new(&ground().0, &self.clients),
            10 => set_time(time::now() + Duration::from_millis(input.byte().into())),
            _ => self.round(),
        }
    }

    /// The hostile client is restarted, honest from now on, and finds the virtualiser.
    fn restart_hostile(&mut self) {
        self.hostile = Peer::new(self.clients[1].filled, self.clients[1].free);
        for _ in 0..20 {
            // One that has used up its allowance waits for a while.
            set_time(time::now() + Duration::from_millis(25));
            self.round();
            let _ = self.hostile.take();
        }
        assert!(self.hostile.is_live(), "the restarted client finds the virtualiser");
    }

    /// The hostile client is quiet; the honest one receives what is for it.
    fn heal(mut self) {
        for _ in 0..200 {
            set_time(time::now() + Duration::from_millis(10));
            self.give_back(usize::MAX);
            self.round();
            // The rest of a frame in several buffers comes, and is perhaps for nobody.
            self.receive(100, |data, offset| {
                write_packet(data, offset as u32, &frame(mac(7), mac(9), &[0; 74]));
            });
        }
        self.round();
        self.give_back(usize::MAX);
        self.receive(100, |data, offset| {
            write_packet(data, offset as u32, &frame(mac(0), mac(9), &[0; 74]));
        });
        self.round();
        assert_eq!(
            self.held.iter().map(|held| held.length).collect::<Vec<_>>(),
            [100],
            "a frame for the honest client"
        );
    }
}

fuzz_target!(|data: &[u8]| {
    culm::testing::forget();
    let mut input = Input::new(data);
    let mut world = World::new();
    for _ in 0..4 {
        world.round();
        let _ = world.hostile.take();
    }
    while !input.is_over() {
        world.step(&mut input);
    }
    world.restart_hostile();
    world.heal();
    let _ = signalled();
});
