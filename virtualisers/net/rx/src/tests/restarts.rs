//! The virtualiser dies at every step that outlives it, under traffic, and its next life goes on.
//!
//! A step is a store to a queue or to the account ([`culm_queue::crash`]). Driver and clients act
//! only on what is in their queues, and the virtualiser only on what it is told. The card writes a
//! buffer as soon as it receives something, and a client reads it when it takes it: so a buffer
//! that is lent too early shows as a torn frame.

use crate::receive::Receive;
use crate::tests::{DMA, SIZE, STRANGER, connections, mac};
use culm::Region;
use culm::connection::{NetRxClient, NetRxVirtualiser};
use culm::testing::{deadline, set_time, signalled};
use culm::time::{self, Duration};
use culm_lending::Account;
use culm_lending::holders::{Holders, Record};
use culm_net::descriptor::flags::CONTINUES;
use culm_net::testing::{Peer, frame};
use culm_net::{Descriptor, DmaDescriptor, HEADROOM, Mac, PacketHeader};
use culm_queue::crash::{Mortal, at_every_step};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const BUFFERS: u32 = 64;

/// Buffers that may be on their way to clients: fewer than each client's share.
const MAX_UNDER_WAY: usize = 12;

/// The next event of a run.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The card receives a frame for a client (the group of all if there is none of this number),
    /// in so many buffers.
    Receive(usize, usize),
    /// The driver passes on so many buffers that the card has filled.
    Pass(usize),
    /// The driver passes on an entry of a buffer that it does not have.
    PassNonsense,
    /// The driver takes empty buffers.
    Take,
    /// The virtualiser's turn, if somebody told it something.
    Turn,
    /// A client reads what it has, and keeps the buffers.
    Read(usize),
    /// A client returns up to so many buffers, and one that it does not hold.
    Return(usize, usize),
    /// A client is restarted.
    Restart(usize),
}

/// A virtualiser that dies, and peers who do not notice.
struct World {
    connection: NetRxVirtualiser,
    client_connections: Vec<NetRxClient>,
    virtualiser: Mortal<Receive>,
    /// Channels that were notified and not served.
    told: BTreeSet<u32>,
    data: Region,
    driver: Peer<DmaDescriptor>,
    clients: Vec<Peer<Descriptor>>,
    /// Buffers that the driver has, and those that the card has filled.
    empty: VecDeque<DmaDescriptor>,
    filled: VecDeque<DmaDescriptor>,
    /// Buffers that each client has.
    held: Vec<VecDeque<Descriptor>>,
    /// Frames received, the numbers of those for each client, and of those that it has read.
    received: u64,
    expected: Vec<Vec<u64>>,
    read: Vec<Vec<u64>>,
    /// A frame of which a client has read the beginning.
    partial: Vec<Vec<u8>>,
    /// Clients that were restarted: some frames for them are lost.
    restarted: BTreeSet<usize>,
}

impl World {
    fn new() -> Self {
        let clients = 2;
        let (connection, client_connections) = connections(clients, BUFFERS, 128);
        let mut world = Self {
            virtualiser: Mortal::NEW,
            told: BTreeSet::new(),
            data: Region::new(connection.data),
            driver: Peer::new(connection.driver_free, connection.driver_filled),
            clients: client_connections.iter().map(|client| Peer::new(client.filled, client.free)).collect(),
            empty: VecDeque::new(),
            filled: VecDeque::new(),
            held: vec![VecDeque::new(); clients],
            received: 0,
            expected: vec![Vec::new(); clients],
            read: vec![Vec::new(); clients],
            partial: vec![Vec::new(); clients],
            restarted: BTreeSet::new(),
            connection,
            client_connections,
        };
        for _ in 0..6 {
            world.act(Act::Turn);
            world.act(Act::Take);
            (0..clients).for_each(|client| world.act(Act::Read(client)));
        }
        assert_eq!(world.empty.len() as u32, BUFFERS);
        world
    }

    /// The virtualiser's turn; if it dies, its next life begins.
    fn turn(&mut self) {
        if self.virtualiser.life.is_some() && self.told.is_empty() {
            return;
        }
        set_time(time::now() + Duration::from_millis(1));
        let told: Vec<u32> = self.told.iter().copied().collect();
        let (connection, clients) = (&self.connection, &self.client_connections);
        let asleep = self.virtualiser.turn(|life| {
            let mut virtualiser = match life {
                None => Receive::new(connection, clients),
                Some(mut virtualiser) => {
                    virtualiser.mark_due(culm::testing::channels(&told));
                    virtualiser
                }
            };
            let asleep = (0..8).any(|_| virtualiser.round().is_asleep());
            (virtualiser, asleep)
        });
        match asleep {
            Some(asleep) => {
                self.told.clear();
                if !asleep {
                    self.told.extend(0..=self.clients.len() as u32);
                }
            }
            None => {
                self.turn();
            }
        }
    }

    /// Buffers on their way from the card to a client that has not read them.
    fn under_way(&self) -> usize {
        let unread = |client: usize| self.expected[client].len() - self.read[client].len();
        let held: usize = self.held.iter().map(VecDeque::len).sum();
        (0..self.clients.len()).map(unread).sum::<usize>() * 3 + held
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Turn => self.turn(),
            Act::Receive(to, buffers) => {
                // A restarted client has lost some.
                if self.empty.len() >= buffers && (self.under_way() < MAX_UNDER_WAY || !self.restarted.is_empty()) {
                    self.receive(to, buffers);
                }
            }
            Act::Pass(count) => {
                let count = count.min(self.filled.len());
                for entry in self.filled.drain(..count) {
                    self.driver.send(&[entry]);
                }
            }
            Act::PassNonsense => {
                if let Some(held) = self.held.iter().flatten().next() {
                    // Only between two frames: a card fills the buffers of one in order.
                    let token = held.offset / SIZE;
                    let begins = self.filled.front().is_none_or(|entry| entry.flags == 0);
                    if begins {
                        self.driver.send(&[DmaDescriptor { token, length: 60, ..DmaDescriptor::default() }]);
                    }
                }
            }
            Act::Take => {
                self.empty.extend(self.driver.take());
                let _ = self.driver.sleep();
            }
            Act::Read(client) => self.read(client),
            Act::Return(client, count) => {
                let count = count.min(self.held[client].len());
                let mut entries: Vec<_> = self.held[client].drain(..count).collect();
                entries.iter_mut().for_each(|entry| *entry = Descriptor::empty(entry.offset));
                entries.push(Descriptor::empty(7));
                self.clients[client].send(&entries);
            }
            Act::Restart(client) => {
                let connection = &self.client_connections[client];
                self.clients[client] = Peer::new(connection.filled, connection.free);
                self.clients[client].rang = true;
                self.held[client].clear();
                self.partial[client].clear();
                self.restarted.insert(client);
            }
        }
        if core::mem::take(&mut self.driver.rang) {
            self.told.insert(0);
        }
        for (client, channel) in self.clients.iter_mut().zip(1..) {
            if core::mem::take(&mut client.rang) {
                self.told.insert(channel);
            }
        }
        let _ = signalled();
    }

    /// The card fills buffers with a frame.
    fn receive(&mut self, to: usize, buffers: usize) {
        let number = self.received;
        self.received += 1;
        let address = if to < self.clients.len() { mac(to) } else { Mac::BROADCAST };
        for client in (0..self.clients.len()).filter(|client| to >= self.clients.len() || to == *client) {
            self.expected[client].push(number);
        }
        let content = [&number.to_le_bytes()[..], &vec![number as u8; 20 + (buffers - 1) * SIZE as usize]].concat();
        let mut header = [0; HEADROOM];
        PacketHeader { buffers: buffers as u16, ..PacketHeader::default() }.write(&mut header);
        let packet = [&header[..], &frame(address, STRANGER, &content)].concat();
        for (at, bytes) in packet.chunks(SIZE as usize).enumerate() {
            let entry = self.empty.pop_front().expect("enough, as asked");
            self.data.write((entry.address - DMA) as usize, bytes).expect("inside");
            // The flag is this test's own: nobody else reads it.
            let flags = u16::from(at > 0) << 15;
            self.filled.push_back(DmaDescriptor { address: 0, length: bytes.len() as u16, flags, token: entry.token });
        }
    }

    /// A client reads frames.
    fn read(&mut self, client: usize) {
        let renewals = self.clients[client].renewals;
        let entries = self.clients[client].take();
        if self.clients[client].renewals != renewals {
            self.held[client].clear();
        }
        for entry in entries {
            let mut bytes = vec![0; entry.length.into()];
            self.data.read(entry.offset as usize, &mut bytes).expect("inside");
            self.held[client].push_back(entry);
            self.partial[client].extend(bytes);
            if entry.flags & CONTINUES == 0 {
                let packet = core::mem::take(&mut self.partial[client]);
                let (number, rest) = packet[HEADROOM + 14..].split_first_chunk().expect("eight bytes and more");
                let number = u64::from_le_bytes(*number);
                assert!(rest.iter().all(|byte| *byte == number as u8), "frame {number} is torn");
                self.read[client].push(number);
            }
        }
        let _ = self.clients[client].sleep();
    }

    /// Everything under way arrives.
    fn finish(&mut self) {
        for _ in 0..40 {
            for act in [Act::Pass(100), Act::Turn, Act::Take] {
                self.act(act);
            }
            for client in 0..self.clients.len() {
                self.act(Act::Read(client));
                self.act(Act::Return(client, 100));
                self.told.insert(1 + client as u32);
            }
            // A deadline passes.
            if let Some(deadline) = deadline() {
                set_time(deadline);
                self.told.insert(0);
            }
        }
        self.act(Act::Turn);
        self.act(Act::Take);
    }

    /// Nothing was lost, nothing came twice, nothing is missing.
    fn check(&self, context: &str) {
        for client in 0..self.clients.len() {
            assert_eq!(self.read[client], self.expected[client], "frames for client {client}, {context}");
            assert_eq!(self.clients[client].renewals, 1, "a link started over, {context}");
        }
        self.check_buffers(context);
    }

    fn check_buffers(&self, context: &str) {
        assert_eq!(self.driver.renewals, 1, "the link to the driver started over, {context}");
        // A few are kept until there are enough for a batch.
        let tokens: BTreeSet<u32> = self.empty.iter().map(|entry| entry.token).collect();
        let account = Account::new(self.connection.account, 1 + self.clients.len() as u32, BUFFERS);
        let holders = Record::new(account.buffers(0, BUFFERS));
        let idle = holders.all().filter(|(_, holders)| *holders == Holders::NOBODY).count();
        let all = (tokens.len() + idle, self.empty.len() + idle);
        assert_eq!(all, (BUFFERS as usize, BUFFERS as usize), "the driver's buffers, {context}");
        assert!(idle < culm_net::release_batch(BUFFERS) as usize, "{idle} idle buffers, {context}");
    }
}

/// Traffic for two clients and both: single frames and bursts, frames in several buffers that come
/// at once and in parts, and nonsense.
const TRAFFIC: [Act; 44] = {
    use Act::*;
    [
        Receive(0, 1),
        Receive(1, 1),
        Pass(2),
        Turn,
        Read(0),
        Receive(2, 1),
        Pass(1),
        Turn,
        Read(1),
        PassNonsense,
        Return(0, 1),
        Receive(0, 2),
        Pass(1),
        Turn,
        Pass(1),
        Turn,
        Read(0),
        Read(1),
        Return(1, 5),
        Take,
        Receive(1, 3),
        Receive(0, 1),
        Pass(10),
        Turn,
        Read(0),
        Read(1),
        Return(0, 9),
        Return(1, 2),
        Turn,
        PassNonsense,
        Receive(2, 2),
        Receive(2, 1),
        Pass(2),
        Turn,
        Pass(9),
        Turn,
        Read(0),
        Read(1),
        Take,
        Return(0, 9),
        Return(1, 9),
        Receive(1, 1),
        Pass(1),
        Turn,
    ]
};

/// Runs `acts` once for each step at which the virtualiser can die; `check` looks at each end.
fn die_everywhere(acts: &[Act], check: impl Fn(&World, &str)) {
    at_every_step(100, |step| {
        let mut world = World::new();
        world.virtualiser.death = Some(step);
        for act in acts {
            world.act(*act);
        }
        world.finish();
        check(&world, &format!("death at step {step}"));
        world.virtualiser.deaths > 0
    });
}

#[test]
fn the_traffic_of_these_tests_flows_without_deaths() {
    let mut world = World::new();
    TRAFFIC.iter().for_each(|act| world.act(*act));
    world.finish();
    world.check("no death");
    assert!(world.read.iter().all(|read| read.len() >= 6), "{:?} read", world.read);
}

#[test]
fn a_virtualiser_that_dies_at_any_step_loses_nothing() {
    die_everywhere(&TRAFFIC, World::check);
}

/// Frames for a client that is restarted are lost, as ever; buffers are not, nor is anything of the
/// other client.
#[test]
fn a_virtualiser_that_dies_while_a_client_restarts_confuses_nobody() {
    let mut acts = TRAFFIC[..24].to_vec();
    acts.extend([Act::Restart(1), Act::Turn, Act::Read(1), Act::Turn, Act::Read(1)]);
    acts.extend(TRAFFIC);
    die_everywhere(&acts, |world, context| {
        assert_eq!(world.read[0], world.expected[0], "{context}");
        assert!(world.read[1].is_sorted_by(|one, next| one < next), "frames twice or out of order, {context}");
        world.check_buffers(context);
    });
}

fn acts() -> impl Strategy<Value = Vec<(Act, Option<u32>)>> {
    let act = prop_oneof![
        4 => Just(Act::Turn),
        4 => (0..3_usize, prop_oneof![3 => Just(1_usize), 1 => 2..4_usize]).prop_map(|(to, count)| Act::Receive(to, count)),
        3 => (1..6_usize).prop_map(Act::Pass),
        1 => Just(Act::PassNonsense),
        2 => Just(Act::Take),
        2 => (0..2_usize).prop_map(Act::Read),
        2 => (0..2_usize, 0..9_usize).prop_map(|(client, count)| Act::Return(client, count)),
    ];
    proptest::collection::vec((act, proptest::option::weighted(0.3, 0..60_u32)), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any traffic, and any number of deaths, also of lives that just began.
    #[test]
    fn any_number_of_deaths_loses_nothing(acts in acts()) {
        let mut world = World::new();
        for (act, death) in acts {
            if let Some(steps) = death {
                world.virtualiser.death = Some(steps);
            }
            world.act(act);
        }
        world.virtualiser.death = None;
        world.finish();
        world.check("random deaths");
    }

    /// Whatever stands in the account: a life begins, in bounded time, and everybody is served.
    #[test]
    fn any_account_is_survived(
        scribbles in proptest::collection::vec((any::<usize>(), any::<u64>(), any::<bool>()), 1..20),
        traffic in 0..TRAFFIC.len(),
    ) {
        let mut world = World::new();
        TRAFFIC[..traffic].iter().for_each(|act| world.act(*act));
        let words = Region::new(world.connection.account).atomics_u64(0, 75).expect("inside");
        for (place, value, nearly) in scribbles {
            let word = &words[1 + place % 74];
            let before = word.load(core::sync::atomic::Ordering::Relaxed);
            let value = if nearly { before ^ 1 << (value % 64) } else { value };
            word.store(value, core::sync::atomic::Ordering::Relaxed);
        }
        world.virtualiser.life = None;
        for _ in 0..10 {
            world.turn();
            let _ = world.driver.take();
            for client in &mut world.clients {
                let _ = client.take();
            }
            world.told.extend([0, 1, 2]);
        }
    }
}
