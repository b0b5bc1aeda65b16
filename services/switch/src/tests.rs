//! Frames through the whole switch, between clients as they are.

mod bridging;

use crate::{Switch, ports};
use core::sync::atomic::AtomicU64;
use culm::connection::{NetClient, NetProviderClient};
use culm::testing::{channels, deadline, set_time, take_log};
use culm::time::{self, Duration};
use culm::{Component, Region};
use culm_bridge::counts::{COUNT_WORDS, Count, Counts, View};
use culm_net::provider::Port;
use culm_net::testing::{self, Peer, frame, provider_of, write_packet};
use culm_net::{Client, Descriptor, ETHERNET_HEADER, Mac, PacketHeader};
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

/// Buffers that a client has for each direction.
const BUFFERS: usize = 64;
const SIZE: u32 = 2048;

fn mac(client: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, client as u8]
}

/// A switch and its clients.
struct World {
    switch: Switch,
    clients: Vec<Client>,
}

impl World {
    fn new(clients: usize) -> Self {
        let connections: Vec<_> = (0..clients).map(|client| connections(client, SIZE)).collect();
        let ports = connections.iter().map(|(provider, _)| Port::new(provider)).collect();
        let clients = connections.iter().map(|(_, client)| Client::new(*client)).collect();
        let mut world = Self { switch: switch(ports, vec![], &[]), clients };
        world.meet();
        world
    }

    /// Everybody takes turns until they have found each other.
    fn meet(&mut self) {
        for _ in 0..6 {
            self.switch.turn();
            for client in &mut self.clients {
                client.begin();
                let _ = client.end_round();
            }
        }
    }

    /// Sends frames of this length to a client until there is no buffer left, or as many as are
    /// asked for.
    fn send(&mut self, from: usize, to: usize, length: usize, count: usize) {
        let client = &mut self.clients[from];
        client.begin();
        for _ in 0..count {
            let sent = client.transmitter.send(length, |frame| {
                frame.fill(0);
                frame[..6].copy_from_slice(&mac(to));
                frame[6..12].copy_from_slice(&mac(from));
                frame[ETHERNET_HEADER] = from as u8;
                (PacketHeader::default(), ())
            });
            if sent.is_none() {
                break;
            }
        }
        let _ = client.end_round();
    }

    /// Receives at most so many frames; returns who sent each.
    fn receive(&mut self, client: usize, count: usize) -> Vec<u8> {
        let client = &mut self.clients[client];
        client.begin();
        let mut senders = vec![];
        while senders.len() < count {
            let Some(packet) = client.receiver.receive() else { break };
            senders.push(packet.frame()[ETHERNET_HEADER]);
        }
        let _ = client.end_round();
        senders
    }
}

/// Returns a switch whose clients are called `client0` and so on, with these options of its ports.
fn switch(clients: Vec<Port>, uplinks: Vec<Client>, options: &[(&str, &str)]) -> Switch {
    counted(clients, uplinks, options, Counts::default())
}

/// Returns the same that counts here what comes and goes.
fn counted(clients: Vec<Port>, uplinks: Vec<Client>, options: &[(&str, &str)], counts: Counts<'static>) -> Switch {
    let names: Vec<String> = (0..clients.len()).map(|number| format!("client{number}")).collect();
    let clients: Vec<_> = clients.into_iter().zip(names.iter().map(String::as_str)).collect();
    let uplinks: Vec<_> = uplinks.into_iter().zip(ports::UPLINKS).collect();
    let table = ports::table(clients.len() + uplinks.len(), 1024, Duration::from_secs(300));
    let bridge = ports::bridge(&clients, &uplinks, table, options.iter().copied());
    let clients = clients.into_iter().map(|(port, _)| port).collect();
    Switch::new(clients, uplinks.into_iter().map(|(uplink, _)| uplink).collect(), bridge, counts)
}

/// Returns words for counts.
fn words() -> &'static [AtomicU64] {
    (0..COUNT_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
}

/// Returns what is shown of counts.
fn shown(words: &[AtomicU64]) -> String {
    let mut shown = String::new();
    View::new(words).write_json(&mut shown).expect("a string takes all");
    shown
}

/// Returns the connections of the switch and a client, with buffers of so many bytes.
fn connections(client: usize, size: u32) -> (NetProviderClient, NetClient) {
    let (rx_channel, tx_channel) = (2 * client as u32, 2 * client as u32 + 1);
    let client = NetClient { rx_channel: 40, tx_channel: 41, ..testing::client(mac(client), BUFFERS as u32, size) };
    (provider_of(&client, rx_channel, tx_channel), client)
}

/// One that sends without end to a client which reads slowly leaves the others their part of what
/// that client can receive.
#[test]
fn a_flood_from_one_port_does_not_keep_out_another() {
    let mut world = World::new(3);
    let mut received = [0_usize; 2];
    for _ in 0..100 {
        world.send(0, 2, 60, BUFFERS);
        world.send(1, 2, 60, 1);
        world.switch.turn();
        for sender in world.receive(2, 8) {
            received[usize::from(sender)] += 1;
        }
    }
    assert!(received[0] > 100, "{received:?}");
    assert!(received[1] >= 20, "of a hundred frames of the second client {} arrived", received[1]);
}

/// Those who send without end to one that reads slowly share it by bytes, however long the frames
/// of each are.
#[test]
fn long_frames_bring_no_more_than_short_ones() {
    let mut world = World::new(3);
    let mut received = [0_usize; 2];
    for _ in 0..300 {
        world.send(0, 2, 1514, BUFFERS);
        world.send(1, 2, 60, BUFFERS);
        world.switch.turn();
        for sender in world.receive(2, 8) {
            received[usize::from(sender)] += 1;
        }
    }
    assert!(received[0] > 100 && received[1] > 3 * received[0], "{received:?}");
}

/// A client that notifies without end is not looked at for a while when it has done so often
/// enough; nobody else waits, and it loses nothing.
#[test]
fn a_client_that_notifies_without_end_is_left_alone() {
    let mut world = World::new(3);
    for _ in 0..10_000 {
        world.switch.notified(channels(&[1]));
    }
    world.send(0, 2, 60, 1);
    world.switch.notified(channels(&[1]));
    assert_eq!(world.receive(2, 9), [], "the switch does not look");
    let woken = deadline().expect("it asks for a turn");
    world.send(1, 2, 60, 1);
    world.switch.notified(channels(&[3]));
    assert_eq!(world.receive(2, 9), [1], "another client is served");
    set_time(woken.max(time::now() + Duration::from_millis(25)));
    world.switch.notified(channels(&[]));
    assert_eq!(world.receive(2, 9), [0]);
}

/// A pause may end in a turn that only another client caused, which is paused itself: the client
/// whose pause ended is served in that turn, since none is asked for it later.
#[test]
fn a_pause_that_ends_in_the_turn_of_a_paused_client_ends() {
    let mut world = World::new(3);
    for _ in 0..10_000 {
        world.switch.notified(channels(&[1]));
    }
    world.send(0, 2, 60, 1);
    let ends = time::now() + Duration::from_millis(25);
    set_time(time::now() + Duration::from_millis(12));
    for _ in 0..10_000 {
        world.switch.notified(channels(&[3]));
    }
    set_time(ends);
    world.switch.notified(channels(&[3]));
    assert_eq!(world.receive(2, 9), [0]);
    assert!(world.switch.clients.iter().any(Port::is_paused), "the other waits");
}

/// A client whose buffers are longer than what the uplink takes hears of it in the log.
#[test]
fn a_frame_too_long_for_the_uplink_is_told() {
    let (provider, client) = connections(0, 4096);
    let (device, uplink) = connections(0, SIZE);
    let mut lender = Peer::<Descriptor>::new(device.tx_filled, device.tx_free);
    let switch = switch(vec![Port::new(&provider)], vec![Client::new(uplink)], &[]);
    let mut world = World { switch, clients: vec![Client::new(client)] };
    world.meet();
    let _ = lender.take();
    world.meet();
    let buffers: Vec<_> = (0..4).map(|number| Descriptor::empty(number * SIZE)).collect();
    lender.send(&buffers);
    for length in [1514, 3000, 3000, 60] {
        world.send(0, 9, length, 1);
        world.switch.turn();
    }
    let sent: Vec<_> = lender.take().iter().map(|packet| packet.length).collect();
    assert_eq!(sent, [1526, 72]);
    let log = take_log();
    assert_eq!(log.matches("a client's frame of 3000 bytes is dropped: the uplink takes 2036").count(), 1, "{log}");
}

/// What was to go out by a port that has no place, or not so much, is counted there.
#[test]
fn a_port_counts_what_finds_no_place() {
    let words = words();
    let counts = Counts::new(words, ["client0", "client1", "uplink"].into_iter());
    let pairs = [0, 1].map(|client| connections(client, 4096));
    // The first client is reached over it.
    let (device, uplink) = connections(0, SIZE);
    let mut lender = Peer::<Descriptor>::new(device.tx_filled, device.tx_free);
    let ports = pairs.iter().map(|(provider, _)| Port::new(provider)).collect();
    let switch = counted(ports, vec![Client::new(uplink)], &[], counts);
    let mut world = World { switch, clients: pairs.iter().map(|(_, client)| Client::new(*client)).collect() };
    world.meet();
    let _ = lender.take();
    world.meet();
    lender.send(&[0, 1, 2].map(|number| Descriptor::empty(number * SIZE)));
    // The second client takes none back: its buffers are used up.
    for count in [BUFFERS, 7] {
        world.send(0, 1, 60, count);
        world.switch.turn();
    }
    // One that the uplink does not take, and one more than it has buffers.
    for length in [3000, 60, 60, 60, 60] {
        world.send(0, 9, length, 1);
        world.switch.turn();
    }
    let count = |port: usize, which: Count| -> usize {
        let shown = shown(words);
        let port = shown.split('}').nth(port).expect("the port");
        let (_, name) = Count::ALL.iter().find(|(known, _)| *known == which).expect("it has a name");
        let (_, number) = port.split_once(&format!("\"{name}\":")).expect("the count");
        number.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let each =
        [0, 1, 2].map(|port| [Count::FramesIn, Count::FramesOut, Count::NoPlace].map(|which| count(port, which)));
    assert_eq!(each, [[BUFFERS + 12, 0, 0], [0, BUFFERS, 7], [0, 3, 2]]);
}

/// A switch with two clients, and what stands behind its uplink.
struct Outside {
    switch: Switch,
    clients: Vec<Client>,
    sent: Peer<Descriptor>,
    received: Peer<Descriptor>,
    uplink: NetClient,
}

impl Outside {
    fn new(promiscuous: u32) -> Self {
        let pairs: Vec<_> = (1..3).map(|client| connections(client, SIZE)).collect();
        let (device, mut uplink) = connections(1, SIZE);
        uplink.promiscuous = promiscuous;
        let ports = pairs.iter().map(|(provider, _)| Port::new(provider)).collect();
        let mut outside = Self {
            switch: switch(ports, vec![Client::new(uplink)], &[]),
            clients: pairs.iter().map(|(_, client)| Client::new(*client)).collect(),
            sent: Peer::new(device.tx_filled, device.tx_free),
            received: Peer::new(device.rx_free, device.rx_filled),
            uplink,
        };
        for _ in 0..6 {
            outside.turn();
            let _ = (outside.sent.take(), outside.received.take());
        }
        let buffers: Vec<_> = (0..8).map(|number| Descriptor::empty(number * SIZE)).collect();
        outside.sent.send(&buffers);
        outside
    }

    fn turn(&mut self) {
        self.switch.turn();
        for client in &mut self.clients {
            client.begin();
            let _ = client.end_round();
        }
    }

    /// A frame comes in for this address; returns how many each client received.
    fn comes_for(&mut self, to: Mac) -> Vec<usize> {
        let data = Region::new(self.uplink.rx_data);
        let length = write_packet(&data, 0, &frame(to, Mac::new(mac(9)), b"from outside"));
        self.received.send(&[Descriptor { offset: 0, length, flags: 0 }]);
        self.switch.turn();
        let counts = self.clients.iter_mut().map(|client| {
            client.begin();
            let count = core::iter::from_fn(|| client.receiver.receive().map(|_| ())).count();
            let _ = client.end_round();
            count
        });
        let counts = counts.collect();
        let _ = self.received.take();
        counts
    }

    /// A client sends to this address; returns how many frames went out.
    fn goes_to(&mut self, from: usize, to: usize) -> usize {
        let client = &mut self.clients[from];
        client.begin();
        let sent = client.transmitter.send(60, |frame| {
            frame.fill(0);
            frame[..6].copy_from_slice(&mac(to));
            frame[6..12].copy_from_slice(&mac(1 + from));
            (PacketHeader::default(), ())
        });
        assert!(sent.is_some());
        let _ = client.end_round();
        self.switch.turn();
        self.sent.take().len()
    }
}

/// Over a promiscuous uplink each client receives what is for its own address and for all, and
/// sends to whoever is outside; what is for another client does not leave.
#[test]
fn all_clients_are_reached_over_a_promiscuous_uplink() {
    let mut outside = Outside::new(1);
    assert_eq!(outside.comes_for(Mac::new(mac(1))), [1, 0]);
    assert_eq!(outside.comes_for(Mac::new(mac(2))), [0, 1]);
    assert_eq!(outside.comes_for(Mac::new(mac(7))), [0, 0]);
    assert_eq!(outside.comes_for(Mac::BROADCAST), [1, 1]);
    assert_eq!([outside.goes_to(0, 9), outside.goes_to(1, 9), outside.goes_to(0, 2)], [1, 1, 0]);
}

/// Over another one, the client with its address is.
#[test]
fn one_client_is_reached_over_an_uplink_with_its_address() {
    let mut outside = Outside::new(0);
    assert_eq!(outside.comes_for(Mac::new(mac(1))), [1, 0]);
    assert_eq!(outside.comes_for(Mac::BROADCAST), [1, 0]);
    assert_eq!([outside.goes_to(0, 9), outside.goes_to(1, 9)], [1, 0]);
}
