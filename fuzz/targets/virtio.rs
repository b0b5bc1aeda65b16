//! A network device that does anything: it writes anything into the memory that it shares with the
//! driver, at any time, and says anything in its registers. Virtualisers and restarts of the driver
//! come in between.
//!
//! The input is a program: a byte says what happens next, the bytes after it with what. Whatever
//! the device does, the driver neither panics nor goes on for ever, and gives the device only
//! buffers that a virtualiser gave it. A device that only lies in what is its own to write (the
//! used rings, the registers) moves nobody to return a buffer twice.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm::Region;
use culm::connection::NetDriver;
use culm::time::{self, Duration};
use culm_mmio::{Registers, Width};
use culm_net::DmaDescriptor;
use culm_net::testing::{Peer, memory, ring as queue};
use culm_virtio::registers::*;
use culm_virtio::{Layout, checkpoint};
use input::Input;
use libfuzzer_sys::fuzz_target;
use net_virtio::Net;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

const SIZE: usize = 16 * 1024;
const DMA: u64 = 0x7000_0000;
/// Tokens of the two virtualisers: those of the one from 0, of the other from here on.
const SENDING: u32 = 1000;
const BUFFERS: u32 = 12;

/// The device's registers, which say what the input wants.
struct State {
    status: Cell<u32>,
    causes: Cell<u32>,
    features: Cell<u64>,
    half: Cell<u32>,
    queue_size: Cell<u32>,
    /// The value that this one gives instead, at this offset.
    lie: Cell<Option<(usize, u32)>>,
}

#[derive(Clone)]
struct Device(Rc<State>);

impl Registers for Device {
    fn load<W: Width>(&self, offset: usize) -> W {
        let state = &self.0;
        let value = match offset {
            _ if state.lie.get().is_some_and(|(at, _)| at == offset) => state.lie.get().map_or(0, |(_, value)| value),
            0x000 => Magic::VIRT.number(),
            0x004 => Version::MODERN.number(),
            0x008 => Kind::NETWORK.number(),
            0x010 => (state.features.get() >> (32 * (state.half.get() & 1))) as u32,
            0x034 => state.queue_size.get(),
            0x044 => 1,
            0x060 => state.causes.get(),
            0x070 => state.status.get(),
            _ => 0,
        };
        W::truncate(value)
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        let value = value.extend();
        match offset {
            0x014 => self.0.half.set(value),
            0x064 => self.0.causes.set(self.0.causes.get() & !value),
            0x070 => self.0.status.set(value),
            _ => {}
        }
    }
}

/// Memory and queues, made once.
struct Shared {
    memory: Region,
    queues: [Region; 4],
    connection: NetDriver,
}

impl Shared {
    /// All of it empty.
    fn empty() -> &'static Self {
        thread_local! {
            static SHARED: &'static Shared = Box::leak(Box::new(Shared::new()));
        }
        let shared = SHARED.with(|shared| *shared);
        for region in shared.queues.iter().chain([&shared.memory]) {
            region.clear(0, region.len()).expect("inside");
        }
        shared
    }

    fn new() -> Self {
        let rings = [(); 4].map(|()| queue::<DmaDescriptor>(16));
        let bytes = (culm_queue::HEADER_SIZE + 16 * 16) as u64;
        let queues =
            rings.map(|ring| Region::new(culm_abi::start::Memory { address: ring.address, size: bytes, dma: 0 }));
        let [rx_free, rx_filled, tx_filled, tx_free] = rings;
        let connection = NetDriver {
            rx_free,
            rx_filled,
            tx_filled,
            tx_free,
            rx_channel: 1,
            tx_channel: 2,
            mac: [0, 1, 2, 3, 4, 5],
            large_receive: 0,
        };
        Self { memory: Region::new(memory(SIZE, DMA)), queues, connection }
    }
}

/// A virtualiser: what it lends comes back at most once.
struct Virtualiser {
    peer: Peer<DmaDescriptor>,
    base: u32,
    lent: RefCell<BTreeSet<u32>>,
}

impl Virtualiser {
    fn take(&mut self, strict: bool) {
        let renewals = self.peer.renewals;
        let entries = self.peer.take();
        if self.peer.renewals != renewals {
            self.lent.borrow_mut().clear();
        }
        for entry in entries {
            let known = self.lent.borrow_mut().remove(&entry.token);
            assert!(known || !strict, "{} comes back although it was not lent", entry.token);
        }
    }

    fn lend(&mut self) {
        if !self.peer.is_live() {
            return;
        }
        for token in self.base..self.base + BUFFERS {
            if self.lent.borrow_mut().insert(token) {
                let address = 0x1_0000_0000 + u64::from(token) * 2048;
                self.peer.send(&[DmaDescriptor { address, length: 2048, flags: 0, token }]);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    culm::testing::forget();
    let mut input = Input::new(data);
    let Shared { memory, connection, .. } = Shared::empty();
    // The device writes only what is its own to write. (Where it lied and the driver dies, what it
    // returned says nothing any more; virtualisers check for themselves.)
    let mut strict = input.byte() & 1 == 0;
    let mut lied = false;
    let features = FEATURE_VERSION_1 | if input.byte() & 1 == 0 { FEATURE_EVENT_INDEX } else { 0 };
    let state = Rc::new(State {
        status: Cell::new(0),
        causes: Cell::new(0),
        features: Cell::new(features),
        half: Cell::new(0),
        queue_size: Cell::new(8),
        lie: Cell::new(None),
    });
    let start = || Net::new(Device(state.clone()), *memory, connection);
    let Ok(mut net) = start() else { return };
    let mut virtualisers =
        [(connection.rx_filled, connection.rx_free, 0), (connection.tx_free, connection.tx_filled, SENDING)].map(
            |(input, output, base)| Virtualiser { peer: Peer::new(input, output), base, lent: RefCell::default() },
        );
    let layouts = {
        let receive = Layout::new(8, checkpoint::SIZE);
        [receive, Layout::new(8, receive.end)]
    };
    let mut now = time::now();
    while !input.is_over() {
        match input.byte() % 12 {
            0 => {
                let offset = usize::from(half_word(&mut input)) % SIZE;
                let bytes = input.bytes(8);
                if !strict && offset + bytes.len() <= SIZE {
                    memory.write(offset, bytes).expect("inside");
                }
            }
            1 | 2 => {
                // An entry of a used ring.
                lied = true;
                let layout = layouts[usize::from(input.byte() & 1)];
                let place = usize::from(input.byte() % 8);
                let element = [u32::from(input.byte()), u32::from(half_word(&mut input))].map(u32::to_le_bytes);
                memory.write(layout.used + 4 + 8 * place, element.as_flattened()).expect("inside");
            }
            3 | 4 => {
                lied = true;
                let layout = layouts[usize::from(input.byte() & 1)];
                memory.write(layout.used + 2, &half_word(&mut input).to_le_bytes()).expect("inside");
            }
            5 => {
                let offset = usize::from(half_word(&mut input) % 0x108) & !3;
                state.lie.set(
                    (input.byte() & 1 == 0).then(|| (offset, u32::from(half_word(&mut input)) << (input.byte() % 17))),
                );
            }
            6 => {
                state.causes.set(input.byte().into());
                net.interrupted();
            }
            7 => virtualisers.iter_mut().for_each(|virtualiser| virtualiser.take(strict)),
            8 => virtualisers.iter_mut().for_each(Virtualiser::lend),
            9 => {
                now += Duration::from_millis(u64::from(input.byte()) * 8);
                culm::testing::set_time(now);
                net.mark_due(culm::Channels::NONE);
            }
            10 => {
                // The driver dies between two turns, and finds what the device left.
                strict &= !lied;
                drop(net);
                let Ok(next) = start() else { return };
                net = next;
            }
            _ => net.mark_due(testing_channels(input.byte())),
        }
        for _ in 0..8 {
            if net.round().is_asleep() {
                break;
            }
        }
        let _ = culm::testing::deadline();
    }
    let _ = culm::testing::take_log();
});

/// The next number of two bytes.
fn half_word(input: &mut Input<'_>) -> u16 {
    u16::from(input.byte()) | u16::from(input.byte()) << 8
}

/// One of the driver's channels, or both.
fn testing_channels(which: u8) -> culm::Channels {
    culm::testing::channels(match which % 3 {
        0 => &[1],
        1 => &[2],
        _ => &[1, 2],
    })
}
