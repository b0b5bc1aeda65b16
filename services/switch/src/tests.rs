//! Frames through the whole switch, between clients as they are.

use crate::{BATCH, Switch};
use culm::connection::{NetClient, NetProviderClient};
use culm_net::provider::Port;
use culm_net::testing::{memory, ring};
use culm_net::{Client, Descriptor, ETHERNET_HEADER, PacketHeader};
use std::vec;
use std::vec::Vec;

const BUFFERS: u32 = BATCH as u32;
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
        let connections: Vec<_> = (0..clients).map(|client| connections(mac(client))).collect();
        let ports = connections.iter().map(|(provider, _)| Port::new(provider)).collect();
        let clients = connections.iter().map(|(_, client)| Client::new(*client)).collect();
        let mut world = Self { switch: Switch::new(ports, None), clients };
        for _ in 0..6 {
            world.switch.take_turn();
            for client in &mut world.clients {
                client.begin();
                let _ = client.settle();
            }
        }
        world
    }

    /// Sends frames to a client until there is no buffer left, or as many as are asked for.
    fn send(&mut self, from: usize, to: usize, count: usize) {
        let client = &mut self.clients[from];
        client.begin();
        for _ in 0..count {
            let sent = client.transmitter.send(60, |frame| {
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
        let _ = client.settle();
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
        let _ = client.settle();
        senders
    }
}

/// What the switch and a client are told of each other.
fn connections(mac: [u8; 6]) -> (NetProviderClient, NetClient) {
    let data = || memory((BUFFERS * SIZE) as usize, 0);
    let provider = NetProviderClient {
        rx_filled: ring::<Descriptor>(128),
        rx_free: ring::<Descriptor>(128),
        tx_filled: ring::<Descriptor>(128),
        tx_free: ring::<Descriptor>(128),
        rx_data: data(),
        tx_data: data(),
        rx_large: 0,
        tx_large: 0,
        rx_channel: 0,
        tx_channel: 1,
        buffer_size: SIZE,
        anti_spoof: 1,
        mac,
        name: Default::default(),
    };
    let client = NetClient {
        mac,
        owns_rx: 1,
        rx_large: 0,
        tx_large: 0,
        buffer_size: SIZE,
        rx_filled: provider.rx_filled,
        rx_free: provider.rx_free,
        tx_filled: provider.tx_filled,
        tx_free: provider.tx_free,
        rx_data: provider.rx_data,
        tx_data: provider.tx_data,
        rx_channel: 2,
        tx_channel: 3,
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
        world.send(0, 2, BATCH);
        world.send(1, 2, 1);
        world.switch.take_turn();
        for sender in world.receive(2, 8) {
            received[usize::from(sender)] += 1;
        }
    }
    assert!(received[0] > 100, "{received:?}");
    assert!(received[1] >= 20, "of a hundred frames of the second client {} arrived", received[1]);
}
