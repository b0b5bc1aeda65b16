//! The world of these tests: a domain that dies, its device, and two clients.

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
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

pub(crate) const BUFFERS: u32 = 64;
pub(crate) const SIZE: u32 = 2048;

/// Where the device sees the buffers to fill, those of each client who sends, and those for copies.
pub(crate) const RX: u64 = 0x1000_0000;
pub(crate) const TX: [u64; 2] = [0x2000_0000, 0x3000_0000];
pub(crate) const COPIES: u64 = 0x4000_0000;

pub(crate) const INTERRUPT: u32 = 0;
pub(crate) const RECEIVERS: [u32; 2] = [1, 2];
pub(crate) const SENDERS: [u32; 2] = [3, 4];

/// The source of frames that are received.
pub(crate) const STRANGER: Mac = Mac::new([2, 0, 0, 0, 0, 99]);

pub(crate) fn mac(client: usize) -> Mac {
    Mac::new([2, 0, 0, 0, 0, client as u8])
}

/// The next event of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
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
pub(crate) struct World {
    pub(crate) receive: NetRxVirtualiser,
    pub(crate) receivers: Vec<NetRxClient>,
    pub(crate) transmit: NetTxVirtualiser,
    pub(crate) senders: Vec<NetTxClient>,
    pub(crate) memory: Region,
    pub(crate) state: Rc<State>,
    pub(crate) fused: Option<Fused<FusedNet<Fake, 0, 0>>>,
    pub(crate) lives: u32,
    /// After how many more steps the domain dies, and after how many each of its next lives.
    pub(crate) death: Option<u32>,
    pub(crate) deaths: VecDeque<u32>,
    pub(crate) told: BTreeSet<u32>,
    pub(crate) rx: Vec<Peer<Descriptor>>,
    pub(crate) tx: Vec<Peer<Descriptor>>,
    pub(crate) data: Region,
    pub(crate) sent_data: Vec<Region>,
    pub(crate) copies: Region,
    /// Buffers that the device has to fill, and how often it was reset when they were counted.
    pub(crate) empty: usize,
    pub(crate) resets: u32,
    /// The rest of a frame that the device has announced.
    pub(crate) announced: Option<Vec<u8>>,
    /// Buffers that are on their way to each client, and how many may be: fewer than its share.
    pub(crate) waiting: [usize; 2],
    pub(crate) most: usize,
    /// Buffers to fill that are in use.
    pub(crate) buffers: u32,
    /// Numbers of frames received, of those for each client, and of those that it has read.
    pub(crate) received: u64,
    pub(crate) expected: Vec<Vec<u64>>,
    pub(crate) read: Vec<Vec<u64>>,
    /// A frame of which a client has read the beginning.
    pub(crate) partial: Vec<Vec<u8>>,
    /// Buffers that each client may write, frames that it has sent, and those that were on the
    /// wire.
    pub(crate) free: Vec<VecDeque<Descriptor>>,
    pub(crate) sent: Vec<u64>,
    pub(crate) wire: Vec<Vec<u64>>,
    /// Some frames are lost by design in this run.
    pub(crate) lossy: bool,
    /// A turn is followed by the one for which it set a deadline.
    pub(crate) waits: bool,
}

/// Returns what the receive virtualiser and its clients are given.
fn receive_connections() -> (NetRxVirtualiser, Vec<NetRxClient>) {
    let virtualiser = NetRxVirtualiser {
        driver_free: ring::<Descriptor>(1),
        driver_filled: ring::<Descriptor>(1),
        driver_channel: 0,
        buffer_size: SIZE,
        data: memory((BUFFERS * SIZE) as usize, RX),
        account: memory(16 * 1024, 0),
        clients: Default::default(),
    };
    let client = |client| NetRxClient {
        filled: ring::<Descriptor>(64),
        free: ring::<Descriptor>(64),
        channel: RECEIVERS[client],
        mac: mac(client).bytes(),
        promiscuous: 0,
    };
    (virtualiser, (0..2).map(client).collect())
}

/// Returns what the transmit virtualiser and its clients are given.
fn transmit_connections() -> (NetTxVirtualiser, Vec<NetTxClient>) {
    let virtualiser = NetTxVirtualiser {
        driver_filled: ring::<Descriptor>(1),
        driver_free: ring::<Descriptor>(1),
        driver_channel: 0,
        buffer_size: SIZE,
        bounce: memory(8 * SIZE as usize, COPIES),
        account: memory(16 * 1024, 0),
        bounce_large: 0,
        clients: Default::default(),
    };
    let client = |client| NetTxClient {
        filled: ring::<Descriptor>(64),
        free: ring::<Descriptor>(64),
        data: memory(8 * SIZE as usize, TX[client]),
        channel: SENDERS[client],
        // The first may send from its own address only: its frames are copied.
        anti_spoof: (client == 0).into(),
        large: 0,
        mac: mac(client).bytes(),
    };
    (virtualiser, (0..2).map(client).collect())
}

impl World {
    pub(crate) fn new(queue_size: u32, event_index: bool) -> Self {
        let memory_of_device = device_memory(64 * 1024);
        let fake = Fake::new(Kind::NETWORK, 2, memory_of_device);
        let large = FEATURE_GUEST_CHECKSUM | FEATURE_GUEST_TSO | FEATURE_MERGE;
        let event = if event_index { FEATURE_EVENT_INDEX } else { 0 };
        fake.0.features.set(FEATURE_VERSION_1 | large | event);
        fake.0.queue_size.set(queue_size);
        let (receive, receivers) = receive_connections();
        let (transmit, senders) = transmit_connections();
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
            data: Region::new(receive.data),
            sent_data: senders.iter().map(|client| Region::new(client.data)).collect(),
            copies: Region::new(transmit.bounce),
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
        let mut death = self.death;
        let outcome = crash::outlive(&mut death, || match fused.take() {
            None => self.begin(),
            Some(mut fused) => {
                fused.notified(culm::testing::channels(&told));
                fused
            }
        });
        self.death = death;
        match outcome {
            Some(fused) => {
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
            None => {
                self.lives += 1;
                self.death = self.deaths.pop_front();
                self.turn();
            }
        }
    }

    pub(crate) fn act(&mut self, act: Act) {
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
    pub(crate) fn finish(&mut self) {
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
        // Frames that are still missing were lost in a reset.
        self.waiting = [0; 2];
    }

    /// Nothing was lost, nothing came twice, nothing is missing.
    pub(crate) fn check(&self, context: &str) {
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
    pub(crate) fn check_buffers(&mut self, context: &str) {
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
