//! The domain of driver and virtualisers dies before every step whose effect outlives it, under
//! traffic in both directions, and its next life goes on.
//!
//! A step is a store to a queue, to a virtqueue, to an account or to the checkpoint, or an access
//! to a register ([`culm_queue::crash`]). The device and the clients act only on what they are
//! told. A buffer is written when the device receives something, and read when the client takes it
//! or the device sends it: so a buffer that is lent too early shows as a torn frame.

use culm::connection::{NetRxClient, NetRxVirtualiser, NetTxClient, NetTxVirtualiser};
use culm::testing::{deadline, set_time, signalled};
use culm::time::{self, Duration};
use culm::{Channel, Interrupt, Region};
use culm_lending::Account;
use culm_lending::holders::{Holders, Record};
use culm_net::descriptor::flags::CONTINUES;
use culm_net::testing::{Peer, frame, memory, ring, write_packet};
use culm_net::{Descriptor, HEADROOM, Mac, PacketHeader, lendable};
use culm_queue::crash;
use culm_virtio::registers::*;
use culm_virtio::testing::{Fake, State, memory as device_memory};
use net_fused::{Fused, Receive, Transmit};
use net_virtio::fused::FusedNet;
use net_virtio::registers::*;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

const BUFFERS: u32 = 64;
const SIZE: u32 = 2048;

/// Where the device sees the buffers to fill, those of each client who sends, and those for copies.
const RX: u64 = 0x1000_0000;
const TX: [u64; 2] = [0x2000_0000, 0x3000_0000];
const COPIES: u64 = 0x4000_0000;

const INTERRUPT: u32 = 0;
const RECEIVERS: [u32; 2] = [1, 2];
const SENDERS: [u32; 2] = [3, 4];

/// The source of frames that are received.
const STRANGER: Mac = Mac::new([2, 0, 0, 0, 0, 99]);

fn mac(client: usize) -> Mac {
    Mac::new([2, 0, 0, 0, 0, client as u8])
}

/// The next event of a run.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The device receives a frame for a client (for all if there is none of this number), in so
    /// many buffers; if these are three, one after the other.
    Receive(usize, usize),
    /// A client reads all its frames, and returns their buffers.
    Read(usize),
    /// A client sends so many frames, as far as it has buffers.
    Send(usize, usize),
    /// The device sends so many frames, from the oldest on.
    Sent(usize),
    /// The domain's turn, if somebody told it something.
    Turn,
    /// The device fills the first two buffers of a frame in three for a client. The third follows
    /// before the next frame, unless a reset comes first.
    Announce(usize),
    /// The device meets an error that only a reset ends.
    Fail,
}

/// A domain that dies, a device that does not notice, and two clients who receive and send.
struct World {
    receive: NetRxVirtualiser,
    receivers: Vec<NetRxClient>,
    transmit: NetTxVirtualiser,
    senders: Vec<NetTxClient>,
    memory: Region,
    state: Rc<State>,
    fused: Option<Fused<FusedNet<Fake, 0, 0>>>,
    lives: u32,
    /// After how many more steps the domain dies, and after how many each of its next lives.
    death: Option<u32>,
    deaths: VecDeque<u32>,
    told: BTreeSet<u32>,
    rx: Vec<Peer<Descriptor>>,
    tx: Vec<Peer<Descriptor>>,
    data: Region,
    sent_data: Vec<Region>,
    copies: Region,
    /// Buffers that the device has to fill, and how often it was reset when they were counted.
    empty: usize,
    resets: u32,
    /// The rest of a frame that the device has announced.
    announced: Option<Vec<u8>>,
    /// Buffers that are on their way to each client, and how many may be: fewer than its share.
    waiting: [usize; 2],
    most: usize,
    /// Buffers to fill that are in use.
    buffers: u32,
    /// Numbers of frames received, of those for each client, and of those that it has read.
    received: u64,
    expected: Vec<Vec<u64>>,
    read: Vec<Vec<u64>>,
    /// A frame of which a client has read the beginning.
    partial: Vec<Vec<u8>>,
    /// Buffers that each client may write, frames that it has sent, and those that were on the
    /// wire.
    free: Vec<VecDeque<Descriptor>>,
    sent: Vec<u64>,
    wire: Vec<Vec<u64>>,
    /// Some frames are lost by design in this run.
    lossy: bool,
    /// A turn is followed by the one for which it set a deadline.
    waits: bool,
}

impl World {
    fn new(queue_size: u32, event_index: bool) -> Self {
        let memory_of_device = device_memory(64 * 1024);
        let fake = Fake::new(Kind::NETWORK, 2, memory_of_device);
        let large = FEATURE_GUEST_CHECKSUM | FEATURE_GUEST_SEGMENTS | FEATURE_MERGE;
        let event = if event_index { FEATURE_EVENT_INDEX } else { 0 };
        fake.0.features.set(FEATURE_VERSION_1 | large | event);
        fake.0.queue_size.set(queue_size);
        let (data, copies) = (memory((BUFFERS * SIZE) as usize, RX), memory(8 * SIZE as usize, COPIES));
        let receive = NetRxVirtualiser {
            driver_free: ring::<Descriptor>(1),
            driver_filled: ring::<Descriptor>(1),
            driver_channel: 0,
            buffer_size: SIZE,
            data,
            account: memory(16 * 1024, 0),
            clients: Default::default(),
        };
        let transmit = NetTxVirtualiser {
            driver_filled: ring::<Descriptor>(1),
            driver_free: ring::<Descriptor>(1),
            driver_channel: 0,
            buffer_size: SIZE,
            bounce: copies,
            account: memory(16 * 1024, 0),
            bounce_large: 0,
            clients: Default::default(),
        };
        let rings = || ring::<Descriptor>(64);
        let receivers: Vec<_> = (0..2)
            .map(|client| NetRxClient {
                filled: rings(),
                free: rings(),
                channel: RECEIVERS[client],
                mac: mac(client).bytes(),
            })
            .collect();
        let senders: Vec<_> = (0..2)
            .map(|client| NetTxClient {
                filled: rings(),
                free: rings(),
                data: memory(8 * SIZE as usize, TX[client]),
                channel: SENDERS[client],
                // The first may send from its own address only: its frames are copied.
                anti_spoof: (client == 0).into(),
                large: 0,
                mac: mac(client).bytes(),
            })
            .collect();
        let mut world = Self {
            memory: memory_of_device,
            state: fake.0.clone(),
            fused: None,
            lives: 0,
            death: None,
            deaths: VecDeque::new(),
            told: BTreeSet::new(),
            rx: receivers.iter().map(|client| Peer::new(client.filled, client.free)).collect(),
            tx: senders.iter().map(|client| Peer::new(client.free, client.filled)).collect(),
            data: Region::new(data),
            sent_data: senders.iter().map(|client| Region::new(client.data)).collect(),
            copies: Region::new(copies),
            empty: 0,
            resets: 0,
            announced: None,
            waiting: [0; 2],
            most: queue_size as usize / 16 * 3,
            buffers: lendable(queue_size.min(BUFFERS)),
            received: 0,
            expected: vec![Vec::new(); 2],
            read: vec![Vec::new(); 2],
            partial: vec![Vec::new(); 2],
            free: vec![VecDeque::new(); 2],
            sent: vec![0; 2],
            wire: vec![Vec::new(); 2],
            lossy: false,
            waits: true,
            receive,
            receivers,
            transmit,
            senders,
        };
        for _ in 0..6 {
            world.act(Act::Turn);
            (0..2).for_each(|client| world.exchange(client));
        }
        assert!(world.free.iter().all(|free| free.len() == 8), "all buffers are lent");
        world
    }

    fn begin(&self) -> Fused<FusedNet<Fake, 0, 0>> {
        let found = FusedNet::find(Fake(self.state.clone()), self.memory, true);
        let (chip, to_fill, to_send) = found.expect("a device that works");
        let receive = Receive::with_driver(to_fill, &self.receive, &self.receivers);
        let transmit = Transmit::with_driver(to_send, &self.transmit, &self.senders);
        Fused::new(chip, Interrupt::new(Channel::new(INTERRUPT)), receive, transmit)
    }

    /// The domain's turn; if it dies, its next life begins.
    fn turn(&mut self) {
        if self.state.causes.get() != Causes::ZERO {
            self.told.insert(INTERRUPT);
        }
        if self.fused.is_some() && self.told.is_empty() {
            return;
        }
        set_time(time::now() + Duration::from_millis(1));
        let told: Vec<u32> = self.told.iter().copied().collect();
        let mut fused = self.fused.take();
        let turn = AssertUnwindSafe(|| match fused.take() {
            None => self.begin(),
            Some(mut fused) => {
                fused.notified(culm::testing::channels(&told));
                fused
            }
        });
        let armed = self.death;
        if let Some(steps) = armed {
            crash::die_after(steps);
        }
        let outcome = catch_unwind(turn);
        self.death = crash::disarm();
        match outcome {
            Ok(fused) => {
                self.fused = Some(fused);
                self.told.clear();
                let _ = signalled();
                if self.waits
                    && let Some(deadline) = deadline()
                {
                    set_time(deadline);
                    self.fused.as_mut().expect("alive").notified(culm::Channels::NONE);
                }
            }
            Err(panic) => {
                assert!(armed.is_some() && self.death.is_none(), "a panic that no test asked for: {panic:?}");
                self.lives += 1;
                self.death = self.deaths.pop_front();
                self.turn();
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Turn => self.turn(),
            Act::Receive(to, pieces) => {
                self.complete();
                let Some(packet) = self.next_packet(to, pieces) else { return };
                for bytes in packet.chunks(SIZE as usize) {
                    self.fill(bytes);
                    if pieces > 2 {
                        // A turn finds the frame before it is complete.
                        self.told.extend(RECEIVERS);
                        self.turn();
                    }
                }
            }
            Act::Announce(to) => {
                self.complete();
                let Some(mut packet) = self.next_packet(to, 3) else { return };
                self.announced = Some(packet.split_off(2 * SIZE as usize));
                packet.chunks(SIZE as usize).for_each(|bytes| self.fill(bytes));
                self.told.extend(RECEIVERS);
            }
            Act::Read(client) => self.exchange(client),
            Act::Send(client, count) => {
                for _ in 0..count {
                    let Some(entry) = self.free[client].pop_front() else { break };
                    let content = [&self.sent[client].to_le_bytes()[..], &[self.sent[client] as u8; 20]].concat();
                    let frame = frame(STRANGER, mac(client), &content);
                    let length = write_packet(&self.sent_data[client], entry.offset, &frame);
                    self.tx[client].send(&[Descriptor { length, ..entry }]);
                    self.sent[client] += 1;
                }
                self.tell(client);
            }
            Act::Sent(count) => {
                if self.state.rung(QUEUE_TRANSMIT) {
                    self.state.take(QUEUE_TRANSMIT);
                }
                for _ in 0..count {
                    let Some(given) = self.state.use_next(QUEUE_TRANSMIT, 0) else { break };
                    self.on_the_wire(given.buffer().address);
                }
            }
            Act::Fail => {
                self.state.status.set(self.state.status.get().set(Status::NEEDS_RESET));
                self.state.raise(Causes::CHANGE);
                self.lossy = true;
            }
        }
    }

    /// Counts the buffers that the device has to fill.
    fn count_empty(&mut self) {
        if self.state.resets.get() != self.resets {
            (self.resets, self.empty, self.announced) = (self.state.resets.get(), 0, None);
        }
        if self.state.rung(QUEUE_RECEIVE) {
            self.empty += self.state.take(QUEUE_RECEIVE).len();
        }
    }

    /// Returns the next packet that the device receives, unless it has too few buffers for it or
    /// the client too small a share.
    fn next_packet(&mut self, to: usize, pieces: usize) -> Option<Vec<u8>> {
        self.count_empty();
        let receivers = || (0..2).filter(|client| to >= 2 || to == *client);
        // Frames beyond a client's share are dropped.
        if self.empty < pieces || receivers().any(|client| self.waiting[client] + pieces > self.most) {
            return None;
        }
        let number = self.received;
        let address = if to < 2 { mac(to) } else { Mac::BROADCAST };
        let content = [&number.to_le_bytes()[..], &vec![number as u8; 20 + (pieces - 1) * SIZE as usize]].concat();
        let mut header = [0; HEADROOM];
        PacketHeader { buffers: pieces as u16, ..PacketHeader::default() }.write(&mut header);
        for client in receivers() {
            self.expected[client].push(number);
            self.waiting[client] += pieces;
        }
        self.received += 1;
        Some([&header[..], &frame(address, STRANGER, &content)].concat())
    }

    /// The device fills a buffer, unless a reset has taken all from it.
    fn fill(&mut self, bytes: &[u8]) {
        if self.state.resets.get() != self.resets {
            return;
        }
        let given = self.state.use_next(QUEUE_RECEIVE, bytes.len() as u32).expect("enough buffers");
        self.empty -= 1;
        self.data.write((given.buffer().address - RX) as usize, bytes).expect("inside");
    }

    /// The device fills the last buffer of the frame that it has announced, if it still can.
    fn complete(&mut self) {
        self.count_empty();
        if let Some(bytes) = self.announced.take() {
            self.fill(&bytes);
        }
    }

    /// Returns who holds each buffer to fill, by the virtualiser's account.
    fn holders(&self) -> Record {
        Record::new(Account::new(self.receive.account, 3, self.buffers).buffers(0, self.buffers))
    }

    /// A frame leaves the device.
    fn on_the_wire(&mut self, address: u64) {
        let regions = [(&self.sent_data[0], TX[0]), (&self.sent_data[1], TX[1]), (&self.copies, COPIES)];
        let is_in = |(region, start): &(&Region, u64)| (*start..start + region.len() as u64).contains(&address);
        let (region, start) = regions.into_iter().find(is_in).expect("a buffer");
        let mut packet = [0; HEADROOM + 14 + 28];
        region.read((address - start) as usize, &mut packet).expect("inside");
        let frame = &packet[HEADROOM..];
        let client = usize::from(frame[11]);
        let number = u64::from_le_bytes(frame[14..22].try_into().expect("eight bytes"));
        assert!(frame[22..].iter().all(|byte| *byte == number as u8), "a torn frame of client {client}");
        self.wire[client].push(number);
    }

    /// A client takes what there is for it, both ways, and returns buffers.
    fn exchange(&mut self, client: usize) {
        let entries = self.rx[client].take();
        self.waiting[client] -= entries.len();
        for entry in &entries {
            let holders = self.holders().get(entry.offset / SIZE).expect("a buffer");
            assert!(holders.has_client(client), "client {client} reads what it was not lent: {holders:?}");
            let mut bytes = vec![0; entry.length.into()];
            self.data.read(entry.offset as usize, &mut bytes).expect("inside");
            self.partial[client].extend(bytes);
            if entry.flags & CONTINUES == 0 {
                let packet = core::mem::take(&mut self.partial[client]);
                let content = &packet[HEADROOM + 14..];
                let number = u64::from_le_bytes(content[..8].try_into().expect("eight bytes"));
                assert!(content[8..].iter().all(|byte| *byte == number as u8), "a torn frame for client {client}");
                self.read[client].push(number);
            }
        }
        let returned: Vec<_> = entries.iter().map(|entry| Descriptor::empty(entry.offset)).collect();
        self.rx[client].send(&returned);
        let _ = self.rx[client].sleep();
        let free = self.tx[client].take();
        for entry in free {
            assert!(!self.free[client].contains(&entry), "buffer {entry:?} of client {client} comes back twice");
            self.free[client].push_back(entry);
        }
        let _ = self.tx[client].sleep();
        self.tell(client);
    }

    /// A client's notifications arrive.
    fn tell(&mut self, client: usize) {
        for (peer, channel) in [(&mut self.rx[client], RECEIVERS[client]), (&mut self.tx[client], SENDERS[client])] {
            if core::mem::take(&mut peer.rang) {
                self.told.insert(channel);
            }
        }
    }

    /// Everything under way arrives.
    fn finish(&mut self) {
        self.complete();
        for _ in 0..20 {
            for act in [Act::Turn, Act::Sent(64), Act::Turn, Act::Read(0), Act::Read(1)] {
                self.act(act);
            }
        }
        // Buffers are taken back in batches: something happens that has them looked for.
        self.told.extend(SENDERS);
        self.told.extend(RECEIVERS);
        self.act(Act::Turn);
        // What is still missing was lost in a reset.
        self.waiting = [0; 2];
    }

    /// Nothing was lost, nothing came twice, nothing is missing.
    fn check(&self, context: &str) {
        assert!(self.lossy || self.state.resets.get() == 1, "the device was reset, {context}");
        for client in 0..2 {
            if self.lossy {
                assert!(self.read[client].is_sorted_by(|one, next| one < next), "frames come twice, {context}");
                assert!(self.wire[client].is_sorted_by(|one, next| one < next), "frames go twice, {context}");
            } else {
                assert_eq!(self.read[client], self.expected[client], "frames for client {client}, {context}");
                let all: Vec<u64> = (0..self.sent[client]).collect();
                assert_eq!(self.wire[client], all, "frames of client {client}, {context}");
            }
            assert_eq!((self.rx[client].renewals, self.tx[client].renewals), (1, 1), "a client noticed, {context}");
        }
    }

    /// All buffers are still there: the domain can pass on as many frames as at first.
    fn check_buffers(&mut self, context: &str) {
        self.lossy |= self.state.resets.get() > 1;
        for round in 0..12 {
            for client in 0..2 {
                self.act(Act::Receive(client, 1));
                self.act(Act::Send(client, 8));
            }
            self.finish();
            let free: Vec<usize> = self.free.iter().map(VecDeque::len).collect();
            assert!(free.iter().all(|free| *free == 8) || round == 0, "{free:?} of 8 buffers are free, {context}");
            // The clients have returned everything.
            let lost = |holders: Holders| (0..2).any(|client| holders.has_client(client));
            let lost = self.holders().all().filter(|(_, holders)| lost(*holders)).count();
            assert_eq!(lost, 0, "buffers are lost, {context}");
        }
    }
}

/// A run that goes through all that can happen without a failure of the device.
const STORY: &[Act] = {
    use Act::*;
    &[
        Receive(0, 1),
        Receive(1, 1),
        Turn,
        Send(0, 2),
        Send(1, 3),
        Turn,
        Receive(2, 1),
        Sent(3),
        Turn,
        Read(0),
        Receive(1, 3),
        Receive(0, 1),
        Send(1, 5),
        Turn,
        Read(1),
        Sent(9),
        Send(0, 6),
        Turn,
        Receive(0, 2),
        Sent(4),
        Turn,
        Read(0),
        Read(1),
        Turn,
        Send(0, 3),
        Send(1, 8),
        Sent(20),
        Turn,
        Receive(2, 2),
        Turn,
        Read(0),
        Read(1),
        Receive(0, 3),
        Receive(1, 3),
        Turn,
    ]
};

/// Plays a story in which the domain dies after so many steps. Returns whether it did.
fn play(story: &[Act], size: u32, event_index: bool, deaths: &[u32]) -> bool {
    let mut world = World::new(size, event_index);
    let context = format!("queues of {size}, event index {event_index}, deaths at {deaths:?}");
    world.deaths = deaths.iter().copied().collect();
    world.death = world.deaths.pop_front();
    for act in story {
        world.act(*act);
    }
    let all_died = world.death.is_none() && world.deaths.is_empty();
    world.death = None;
    world.finish();
    world.check(&context);
    world.check_buffers(&context);
    all_died
}

#[test]
fn a_death_at_any_step_loses_and_doubles_nothing() {
    for (size, event_index) in [(64, true), (64, false), (16, true)] {
        let steps = (0..).take_while(|steps| play(STORY, size, event_index, &[*steps])).count();
        assert!(steps > 250, "{steps} steps only");
    }
}

/// The second life dies too, while it finds its place or soon after.
#[test]
fn a_death_soon_after_a_death_loses_and_doubles_nothing() {
    for first in (0..).step_by(7) {
        let mut died = false;
        for second in (0..40).step_by(3) {
            died |= play(STORY, 64, true, &[first, second]);
        }
        if !died {
            return;
        }
    }
}

#[test]
fn a_device_that_is_reset_doubles_nothing_and_goes_on() {
    let story: Vec<Act> =
        STORY[..14].iter().copied().chain([Act::Fail, Act::Turn]).chain(STORY.iter().copied()).collect();
    for steps in (0..).step_by(3) {
        if !play(&story, 64, true, &[steps]) {
            return;
        }
    }
}

/// A reset comes while a frame is incomplete, and buffers are lent that came by the entries before.
#[test]
fn a_death_in_a_reset_takes_no_buffer_from_a_client() {
    use Act::*;
    let before = [Receive(0, 1), Turn, Read(0)].repeat(9);
    let after = [
        [Receive(0, 1), Announce(1), Turn, Fail, Turn, Read(0)],
        [Receive(0, 1), Announce(1), Fail, Turn, Read(0), Turn],
    ];
    for after in after {
        let story = [&before[..], &after].concat();
        let steps = (0..).take_while(|steps| play(&story, 64, true, &[*steps])).count();
        assert!(steps > 100, "{steps} steps only");
    }
}

/// The device fails in the round in which a frame arrives.
#[test]
fn a_death_while_the_device_fails_shows_no_frame_that_is_not_lent() {
    use Act::*;
    let [one, fail] = [[Receive(0, 1), Turn, Read(0), Turn], [Receive(0, 1), Fail, Turn, Read(0)]];
    let returns_unread = [&one[..3], &fail].concat();
    let in_three = vec![Receive(0, 1), Fail, Announce(2), Receive(0, 1), Turn];
    for story in [[one, fail].concat(), returns_unread, in_three] {
        let steps = (0..).take_while(|steps| play(&story, 64, true, &[*steps])).count();
        assert!(steps > 10, "{steps} steps only");
        // The next life dies too: soon, while it finds its place, or in the reset.
        for first in 0..steps as u32 {
            let soon = (0..40).chain((40 + first % 4..).step_by(4));
            let _ = soon.take_while(|second| play(&story, 64, true, &[first, *second])).count();
        }
    }
}

/// A reset gives frames' buffers back at once, even if a client is left alone for a while.
#[test]
fn a_reset_does_not_wait_for_a_client_that_has_used_up_its_allowance() {
    let mut world = World::new(64, true);
    world.waits = false;
    world.act(Act::Send(1, 8));
    world.act(Act::Turn);
    let none = Descriptor { offset: 64 * SIZE, ..Descriptor::empty(0) };
    let is_left_alone = (0..12).any(|_| {
        // The client is lent 8 buffers of its queue of 64, so there is space for these.
        world.tx[0].send(&[none; 32]);
        world.told.insert(SENDERS[0]);
        world.act(Act::Turn);
        deadline().is_some()
    });
    assert!(is_left_alone);
    world.act(Act::Fail);
    world.act(Act::Turn);
    assert_eq!(world.state.resets.get(), 2);
    world.act(Act::Read(1));
    assert_eq!(world.free[1].len(), 8);
}

/// A life that waited for sent frames asked for interrupts; one that does not wait gets none.
#[test]
fn a_wish_for_interrupts_ends_with_the_life_that_had_it() {
    let mut world = World::new(64, false);
    for act in [Act::Send(1, 8), Act::Turn, Act::Sent(8)] {
        world.act(act);
    }
    assert_ne!(world.state.causes.get(), Causes::ZERO, "the domain waits for sent frames");
    world.death = Some(0);
    for act in [Act::Turn, Act::Read(1), Act::Send(1, 2), Act::Turn] {
        world.act(act);
    }
    assert_eq!(world.lives, 1);
    let before = world.state.interrupts.get();
    for act in [Act::Sent(1), Act::Sent(1)] {
        world.act(act);
    }
    assert_eq!(world.state.interrupts.get(), before, "nobody waits for these");
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3_usize, prop_oneof![3 => Just(1_usize), 1 => 2..4_usize])
            .prop_map(|(to, pieces)| Act::Receive(to, pieces)),
        3 => (0..2_usize).prop_map(Act::Read),
        4 => (0..2_usize, 1..5_usize).prop_map(|(client, count)| Act::Send(client, count)),
        3 => (1..8_usize).prop_map(Act::Sent),
        6 => Just(Act::Turn),
        1 => (0..3_usize).prop_map(Act::Announce),
        1 => Just(Act::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_a_death_loses_and_doubles_nothing(
        acts in prop::collection::vec(act(), 1..60),
        deaths in prop::collection::vec(0_u32..200, 1..4),
        event_index: bool,
    ) {
        play(&acts, 64, event_index, &deaths);
    }
}
