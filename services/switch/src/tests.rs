//! Frames through the whole switch, between clients as they are.

use crate::Switch;
use culm::Component;
use culm::connection::{NetClient, NetProviderClient};
use culm::testing::{channels, deadline, set_time, take_log};
use culm::time::{self, Duration};
use culm_net::provider::Port;
use culm_net::testing::{Peer, memory, ring};
use culm_net::{Client, Descriptor, ETHERNET_HEADER, PacketHeader};
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
        let mut world = Self { switch: Switch::new(ports, None), clients };
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

/// Returns the connections of the switch and a client, with buffers of so many bytes.
fn connections(client: usize, size: u32) -> (NetProviderClient, NetClient) {
    let mac = mac(client);
    let data = || memory(BUFFERS * size as usize, 0);
    let provider = NetProviderClient {
        rx_filled: ring::<Descriptor>(128),
        rx_free: ring::<Descriptor>(128),
        tx_filled: ring::<Descriptor>(128),
        tx_free: ring::<Descriptor>(128),
        rx_data: data(),
        tx_data: data(),
        rx_large: 0,
        tx_large: 0,
        rx_channel: 2 * client as u32,
        tx_channel: 2 * client as u32 + 1,
        buffer_size: size,
        anti_spoof: 1,
        mac,
        name: Default::default(),
    };
    let client = NetClient {
        mac,
        owns_rx: 1,
        rx_large: 0,
        tx_large: 0,
        buffer_size: size,
        rx_filled: provider.rx_filled,
        rx_free: provider.rx_free,
        tx_filled: provider.tx_filled,
        tx_free: provider.tx_free,
        rx_data: provider.rx_data,
        tx_data: provider.tx_data,
        rx_channel: 40,
        tx_channel: 41,
    };
    (provider, client)
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
    assert!(world.switch.ports.iter().any(Port::is_paused), "the other waits");
}

/// A client whose buffers are longer than what the uplink takes hears of it in the log.
#[test]
fn a_frame_too_long_for_the_uplink_is_told() {
    let (provider, client) = connections(0, 4096);
    let (device, uplink) = connections(0, SIZE);
    let mut lender = Peer::<Descriptor>::new(device.tx_filled, device.tx_free);
    let switch = Switch::new(vec![Port::new(&provider)], Some(Client::new(uplink)));
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
