//! The virtualiser dies at every step that outlives it, under traffic, and its next life goes on.
//!
//! A step is a store to a queue or to the account ([`culm_queue::crash`]). Driver and clients act
//! only on what is in their queues, and the virtualiser only on what it is told. A client writes a
//! buffer as soon as it has it, and the card reads a frame when it sends it: so a buffer that is
//! given back too early shows as a torn frame.

use crate::tests::{SIZE, SOMEBODY, dma, mac};
use crate::transmit::Transmit;
use culm::Region;
use culm::connection::{NetTxClient, NetTxVirtualiser};
use culm::testing::{deadline, set_time, signalled};
use culm::time::{self, Duration};
use culm_net::testing::{Peer, frame, memory, ring, write_packet};
use culm_net::{Descriptor, DmaDescriptor, LARGE_BUFFER};
use culm_queue::crash::{Mortal, at_every_step};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

/// Small buffers of each client, and large ones.
const BUFFERS: u32 = 12;
const LARGE: u32 = 2;
const ALL: usize = (BUFFERS + LARGE) as usize;

const BYTES: usize = (BUFFERS * SIZE + LARGE * LARGE_BUFFER) as usize;
const BOUNCE: u64 = 0x9000_0000;

/// Bytes of a packet up to its number.
const NUMBER: usize = 12 + 14;

/// The next event of a run.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A client sends so many frames, as far as it has buffers.
    Send(usize, usize),
    /// A client sends a frame that is refused.
    SendNonsense(usize),
    /// The card sends so many frames.
    Sent(usize),
    /// The virtualiser's turn, if somebody told it something.
    Turn,
    /// The driver takes what there is.
    Take,
    /// A client takes what there is.
    Collect(usize),
    /// A client is restarted.
    Restart(usize),
}

/// A virtualiser that dies, and peers who do not notice.
struct World {
    connection: NetTxVirtualiser,
    client_connections: Vec<NetTxClient>,
    virtualiser: Mortal<Transmit>,
    /// At a death, the first client says that so many buffers more were given to it than were.
    lie: Option<u64>,
    /// Channels that were notified and not served.
    told: BTreeSet<u32>,
    driver: Peer<DmaDescriptor>,
    clients: Vec<Peer<Descriptor>>,
    /// Buffers that each client has.
    free: Vec<VecDeque<Descriptor>>,
    with_driver: VecDeque<DmaDescriptor>,
    /// Frames that each client has sent, and the numbers of those that were on the wire.
    sent: Vec<u64>,
    wire: Vec<Vec<u64>>,
}

impl World {
    /// Of so many clients, the first of which may send from its own address only.
    fn new(clients: usize) -> Self {
        let connection = NetTxVirtualiser {
            driver_filled: ring::<DmaDescriptor>(32),
            driver_free: ring::<DmaDescriptor>(32),
            driver_channel: 0,
            buffer_size: SIZE,
            bounce: memory(BYTES, BOUNCE),
            account: memory(16 * 1024, 0),
            clients: Default::default(),
            bounce_large: LARGE,
        };
        let client_connections: Vec<NetTxClient> = (0..clients)
            .map(|client| NetTxClient {
                filled: ring::<Descriptor>(64),
                free: ring::<Descriptor>(64),
                data: memory(BYTES, dma(client)),
                channel: 1 + client as u32,
                anti_spoof: (client == 0).into(),
                large: LARGE,
                mac: mac(client).bytes(),
            })
            .collect();
        let mut world = Self {
            virtualiser: Mortal::NEW,
            lie: None,
            told: BTreeSet::new(),
            driver: Peer::new(connection.driver_filled, connection.driver_free),
            clients: client_connections.iter().map(|client| Peer::new(client.free, client.filled)).collect(),
            free: vec![VecDeque::new(); clients],
            with_driver: VecDeque::new(),
            sent: vec![0; clients],
            wire: vec![Vec::new(); clients],
            connection,
            client_connections,
        };
        for _ in 0..6 {
            world.act(Act::Turn);
            world.act(Act::Take);
            (0..clients).for_each(|client| world.act(Act::Collect(client)));
        }
        assert!(world.free.iter().all(|free| free.len() == ALL));
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
                None => Transmit::new(connection, clients),
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
                self.tell_lies();
                self.turn();
            }
        }
    }

    /// Has the first client write the virtualiser's word in the ring of buffers that it gets.
    fn tell_lies(&self) {
        let Some(ahead) = self.lie else { return };
        let ring = self.client_connections[0].free;
        let mut head = self.connection.account;
        (head.address, head.size) = (ring.address, 64);
        let words = Region::new(head).atomics_u64(0, 1).expect("inside");
        words[0].fetch_add(ahead, core::sync::atomic::Ordering::Relaxed);
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Turn => self.turn(),
            Act::Send(client, count) => {
                for _ in 0..count {
                    let Some(buffer) = self.free[client].pop_front() else { break };
                    let content = self.sent[client].to_le_bytes();
                    let packet = frame(SOMEBODY, mac(client), &content);
                    let data = Region::new(self.client_connections[client].data);
                    let length = write_packet(&data, buffer.offset, &packet);
                    self.push(client, Descriptor { length, ..buffer });
                    self.sent[client] += 1;
                }
            }
            Act::SendNonsense(client) => {
                // A buffer that it does not hold, an invalid length, and for a client whose frames
                // are checked a wrong address.
                self.push(client, Descriptor { offset: 5, length: 60, flags: 0 });
                if let Some(buffer) = self.free[client].pop_front() {
                    self.push(client, Descriptor { length: 5, ..buffer });
                }
                if client == 0
                    && let Some(buffer) = self.free[0].pop_front()
                {
                    let data = Region::new(self.client_connections[0].data);
                    let length = write_packet(&data, buffer.offset, &frame(SOMEBODY, mac(1), b"content"));
                    self.push(client, Descriptor { length, ..buffer });
                }
            }
            Act::Sent(count) => {
                let count = count.min(self.with_driver.len());
                for entry in self.with_driver.drain(..count).collect::<Vec<_>>() {
                    self.leave(entry);
                    self.driver.send(&[entry]);
                }
            }
            Act::Take => {
                self.with_driver.extend(self.driver.take());
                let _ = self.driver.sleep();
            }
            Act::Collect(client) => {
                let renewals = self.clients[client].renewals;
                let entries = self.clients[client].take();
                if self.clients[client].renewals != renewals {
                    self.free[client].clear();
                }
                self.free[client].extend(entries);
                let _ = self.clients[client].sleep();
                assert!(self.free[client].len() <= ALL, "client {client} has more than all of its buffers");
            }
            Act::Restart(client) => {
                let connection = &self.client_connections[client];
                self.clients[client] = Peer::new(connection.free, connection.filled);
                self.clients[client].rang = true;
                self.free[client].clear();
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
        // A driver with nothing to do looks for frames if it is told to.
        let _ = signalled();
    }

    fn push(&mut self, client: usize, entry: Descriptor) {
        let pushed = self.clients[client].output().push(entry);
        assert!(pushed.is_ok() || !self.clients[client].is_live(), "the queue has space for all entries");
        self.clients[client].send(&[]);
    }

    /// The card reads a frame and sends it.
    fn leave(&mut self, entry: DmaDescriptor) {
        let of = |client: usize| dma(client)..dma(client) + BYTES as u64;
        let mut bytes = vec![0; entry.length.into()];
        let client = (0..self.clients.len()).find(|client| of(*client).contains(&entry.address));
        let (client, data, base) = match client {
            Some(client) => (client, self.client_connections[client].data, dma(client)),
            None => (0, self.connection.bounce, BOUNCE),
        };
        Region::new(data).read((entry.address - base) as usize, &mut bytes).expect("inside");
        assert_eq!(bytes[18..24], mac(client).bytes(), "from another's address");
        let number = bytes[NUMBER..].try_into().expect("eight bytes");
        self.wire[client].push(u64::from_le_bytes(number));
    }

    /// Everything under way arrives.
    fn finish(&mut self) {
        for _ in 0..40 {
            for act in [Act::Turn, Act::Take, Act::Sent(100), Act::Turn] {
                self.act(act);
            }
            (0..self.clients.len()).for_each(|client| self.act(Act::Collect(client)));
            // A deadline passes.
            if let Some(deadline) = deadline() {
                set_time(deadline);
                self.told.insert(0);
            }
        }
        // Buffers for which nobody waits are returned when somebody asks.
        self.told.insert(0);
        self.act(Act::Turn);
        (0..self.clients.len()).for_each(|client| self.act(Act::Collect(client)));
    }

    /// Nothing was lost, nothing was sent twice, nothing is missing.
    fn check(&self, context: &str) {
        for client in 0..self.clients.len() {
            let expected: Vec<u64> = (0..self.sent[client]).collect();
            assert_eq!(self.wire[client], expected, "frames of client {client} on the wire, {context}");
            assert_eq!(self.clients[client].renewals, 1, "a link started over, {context}");
        }
        assert_eq!(self.driver.renewals, 1, "the link to the driver started over, {context}");
        self.check_buffers(context);
    }

    fn check_buffers(&self, context: &str) {
        for (client, free) in self.free.iter().enumerate() {
            let offsets: BTreeSet<u32> = free.iter().map(|entry| entry.offset).collect();
            assert_eq!((offsets.len(), free.len()), (ALL, ALL), "buffers of client {client}, {context}");
        }
    }
}

/// Traffic of two clients: bursts and single frames, all buffers at once, and nonsense.
const TRAFFIC: [Act; 40] = {
    use Act::*;
    [
        Send(0, 2),
        Turn,
        Take,
        Send(1, 3),
        Send(0, 1),
        Turn,
        Take,
        Sent(3),
        Turn,
        Collect(0),
        Collect(1),
        Send(1, 14),
        Turn,
        Take,
        Sent(5),
        SendNonsense(1),
        Turn,
        Collect(1),
        Send(0, 14),
        Send(1, 5),
        Turn,
        Take,
        Sent(4),
        Turn,
        Take,
        Collect(0),
        SendNonsense(0),
        Turn,
        Sent(9),
        Take,
        Turn,
        Collect(0),
        Collect(1),
        Send(0, 3),
        Send(1, 3),
        Turn,
        Sent(20),
        Turn,
        Collect(1),
        Send(1, 1),
    ]
};

/// Runs `acts` once for each step at which the virtualiser can die; `check` looks at each end.
fn die_everywhere(clients: usize, acts: &[Act], check: impl Fn(&World, &str)) {
    at_every_step(100, |step| {
        let mut world = World::new(clients);
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
    let mut world = World::new(2);
    TRAFFIC.iter().for_each(|act| world.act(*act));
    world.finish();
    world.check("no death");
    assert!(world.sent.iter().all(|sent| *sent >= 15), "{:?} sent", world.sent);
}

#[test]
fn a_virtualiser_that_dies_at_any_step_loses_nothing() {
    die_everywhere(2, &TRAFFIC, World::check);
}

/// A frame that a restarted client had published and the virtualiser had not passed on is lost, as
/// ever; its buffers are not, nor is anything of the other client.
#[test]
fn a_virtualiser_that_dies_while_a_client_restarts_confuses_nobody() {
    let mut acts = TRAFFIC[..20].to_vec();
    acts.extend([Act::Restart(1), Act::Turn, Act::Collect(1), Act::Turn, Act::Sent(2), Act::Turn, Act::Collect(1)]);
    acts.extend(TRAFFIC);
    die_everywhere(2, &acts, |world, context| {
        assert_eq!(world.wire[0], (0..world.sent[0]).collect::<Vec<_>>(), "{context}");
        assert!(world.wire[1].is_sorted_by(|one, next| one < next), "frames twice or out of order, {context}");
        world.check_buffers(context);
    });
}

/// A client whose frames are checked can write what its ring says of the buffers that it was given,
/// and so what the next life believes of its own newest frame; but not of anybody else's.
#[test]
fn a_client_that_lies_to_the_next_life_harms_itself_alone() {
    use Act::*;
    let acts = [Send(0, 2), Send(1, 2), Turn, Take, Sent(9), Turn, Send(1, 1), Send(0, 1), Send(1, 2), Turn];
    for lie in 1..4 {
        at_every_step(20, |step| {
            let mut world = World::new(2);
            (world.virtualiser.death, world.lie) = (Some(step), Some(lie));
            for act in acts {
                world.act(act);
            }
            world.finish();
            let context = format!("{lie} more, death at step {step}");
            assert_eq!(world.wire[1], (0..world.sent[1]).collect::<Vec<_>>(), "the other's frames, {context}");
            world.virtualiser.deaths > 0
        });
    }
}

fn acts() -> impl Strategy<Value = Vec<(Act, Option<u32>)>> {
    let act = prop_oneof![
        4 => Just(Act::Turn),
        3 => (0..2_usize, 1..15_usize).prop_map(|(client, count)| Act::Send(client, count)),
        1 => (0..2_usize).prop_map(Act::SendNonsense),
        2 => (0..20_usize).prop_map(Act::Sent),
        2 => Just(Act::Take),
        2 => (0..2_usize).prop_map(Act::Collect),
    ];
    proptest::collection::vec((act, proptest::option::weighted(0.3, 0..60_u32)), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any traffic, and any number of deaths, also of lives that just began.
    #[test]
    fn any_number_of_deaths_loses_nothing(acts in acts()) {
        let mut world = World::new(2);
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
        let mut world = World::new(2);
        TRAFFIC[..traffic].iter().for_each(|act| world.act(*act));
        let words = Region::new(world.connection.account).atomics_u64(0, 60).expect("inside");
        for (place, value, nearly) in scribbles {
            let word = &words[1 + place % 59];
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
