//! Frames between clients and two networks outside, which the switch joins to one.

use super::{SIZE, connections, counted, mac, shown, words};
use crate::Switch;
use culm::Region;
use culm::connection::NetClient;
use culm_bridge::counts::Counts;
use culm_net::checksum;
use culm_net::header::flags::NEEDS_CHECKSUM;
use culm_net::provider::Port;
use culm_net::testing::{Peer, frame, read_frame, write_packet};
use culm_net::{Client, Descriptor, Mac, PacketHeader};
use std::string::String;
use std::vec;
use std::vec::Vec;

/// A station outside.
const FAR: Mac = Mac::new([2, 0, 0, 0, 1, 1]);
/// Another one.
const OTHER: Mac = Mac::new([2, 0, 0, 0, 1, 2]);

/// What stands behind an uplink.
struct Outside {
    sent: Peer<Descriptor>,
    received: Peer<Descriptor>,
    uplink: NetClient,
}

/// A switch with two clients, of which the second may send from any address, and two promiscuous
/// uplinks: ports 0 to 3.
struct World {
    switch: Switch,
    clients: Vec<Client>,
    outside: Vec<Outside>,
}

impl World {
    fn new(options: &[(&str, &str)]) -> Self {
        Self::counted(options, Counts::default())
    }

    /// The same, which counts here.
    fn counted(options: &[(&str, &str)], counts: Counts<'static>) -> Self {
        let pairs = [1, 2].map(|client| {
            let (mut provider, client) = connections(client, SIZE);
            provider.anti_spoof = u32::from(client.mac == mac(1));
            (provider, client)
        });
        let devices = [3, 4].map(|number| connections(number, SIZE));
        let ports = pairs.iter().map(|(provider, _)| Port::new(provider)).collect();
        let uplink = |client: &NetClient| NetClient { promiscuous: 1, ..*client };
        let uplinks = devices.iter().map(|(_, client)| Client::new(uplink(client))).collect();
        let outside = devices.iter().map(|(device, client)| Outside {
            sent: Peer::new(device.tx_filled, device.tx_free),
            received: Peer::new(device.rx_free, device.rx_filled),
            uplink: *client,
        });
        let mut world = Self {
            switch: counted(ports, uplinks, options, counts),
            clients: pairs.iter().map(|(_, client)| Client::new(*client)).collect(),
            outside: outside.collect(),
        };
        for _ in 0..6 {
            let _ = world.arrived();
        }
        for outside in &mut world.outside {
            let buffers: Vec<_> = (0..8).map(|number| Descriptor::empty(number * SIZE)).collect();
            outside.sent.send(&buffers);
        }
        world
    }

    /// Returns the frames that have arrived at each port since this was last asked.
    fn arrived(&mut self) -> [Vec<Vec<u8>>; 4] {
        self.switch.turn();
        let mut arrived = [const { Vec::new() }; 4];
        for (client, frames) in self.clients.iter_mut().zip(&mut arrived) {
            client.begin();
            while let Some(packet) = client.receiver.receive() {
                frames.push(packet.frame().to_vec());
            }
            let _ = client.end_round();
        }
        for (outside, frames) in self.outside.iter_mut().zip(&mut arrived[2..]) {
            for packet in outside.sent.take() {
                frames.push(read_frame(&Region::new(outside.uplink.tx_data), packet));
                outside.sent.send(&[Descriptor::empty(packet.offset)]);
            }
            let _ = outside.received.take();
        }
        arrived
    }

    /// Has a frame come by a port; returns where it arrives.
    fn comes(&mut self, port: usize, frame: &[u8]) -> [Vec<Vec<u8>>; 4] {
        match port {
            0 | 1 => {
                let client = &mut self.clients[port];
                client.begin();
                let sent = client.transmitter.send(frame.len(), |bytes| {
                    bytes.copy_from_slice(frame);
                    (PacketHeader::default(), ())
                });
                assert!(sent.is_some(), "there is a buffer");
                let _ = client.end_round();
            }
            _ => self.comes_with(port, frame, PacketHeader::default()),
        }
        self.arrived()
    }

    /// Has a frame come over an uplink, with this header.
    fn comes_with(&mut self, port: usize, frame: &[u8], header: PacketHeader) {
        let outside = &mut self.outside[port - 2];
        let data = Region::new(outside.uplink.rx_data);
        let length = write_packet(&data, 0, frame);
        let mut bytes = [0; 12];
        header.write(&mut bytes);
        data.write(0, &bytes).expect("inside");
        outside.received.send(&[Descriptor { offset: 0, length, flags: 0 }]);
    }

    /// Returns the ports where a frame arrives, as it was sent, that comes by this one.
    fn reaches(&mut self, port: usize, to: Mac, from: Mac) -> Vec<usize> {
        let sent = frame(to, from, &[0x5a; 60]);
        let arrived = self.comes(port, &sent);
        let is_there = |port: &usize| !arrived[*port].is_empty();
        assert!(arrived.iter().flatten().all(|frame| *frame == sent));
        (0..4).filter(is_there).collect()
    }
}

/// Puts a tag behind the addresses of a frame.
fn tagged(frame: &[u8], vlan: u8) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, vlan], &frame[12..]].concat()
}

#[test]
fn stations_of_both_networks_are_learned() {
    let mut world = World::new(&[("client1", "stations")]);
    let own = Mac::new(mac(1));
    // Nobody knows the station yet; behind the first client there is nobody else.
    assert_eq!(world.reaches(2, OTHER, FAR), [1, 3]);
    assert_eq!(world.reaches(3, FAR, OTHER), [2]);
    assert_eq!(world.reaches(2, OTHER, FAR), [3]);
    assert_eq!(world.reaches(0, FAR, own), [2]);
    assert_eq!(world.reaches(3, own, OTHER), [0]);
    assert_eq!(world.reaches(0, Mac::BROADCAST, own), [1, 2, 3]);
    // It moves to the other network, where the first one's frames are for nobody.
    assert_eq!(world.reaches(3, own, FAR), [0]);
    assert_eq!(world.reaches(3, FAR, OTHER), []);
    assert_eq!(world.reaches(2, FAR, Mac::new(mac(7))), [3]);
}

#[test]
fn a_station_behind_a_client_is_learned_where_it_may_be() {
    let mut world = World::new(&[]);
    assert_eq!(world.reaches(1, Mac::BROADCAST, FAR), [0, 2, 3]);
    assert_eq!(world.reaches(2, FAR, OTHER), [3], "nobody is looked for behind a client");
    let mut world = World::new(&[("client1", "stations")]);
    assert_eq!(world.reaches(1, Mac::BROADCAST, FAR), [0, 2, 3]);
    assert_eq!(world.reaches(2, FAR, OTHER), [1]);
    // A client's own address is nobody else's, inside or outside.
    assert_eq!(world.reaches(1, FAR, Mac::new(mac(1))), []);
    assert_eq!(world.reaches(2, FAR, Mac::new(mac(1))), []);
    assert_eq!(world.reaches(2, Mac::new(mac(1)), OTHER), [0]);
}

#[test]
fn tags_are_put_in_and_taken_out() {
    let mut world = World::new(&[("client0", "vlan 10"), ("uplink", "trunk 10,20"), ("uplink2", "vlan 20")]);
    let sent = frame(Mac::BROADCAST, Mac::new(mac(1)), &[0x5a; 60]);
    let none = vec![];
    assert_eq!(world.comes(0, &sent), [none.clone(), none.clone(), vec![tagged(&sent, 10)], none.clone()]);
    let sent = frame(Mac::BROADCAST, FAR, &[0x5a; 60]);
    assert_eq!(world.comes(2, &tagged(&sent, 10)), [vec![sent.clone()], none.clone(), none.clone(), none.clone()]);
    assert_eq!(world.comes(2, &tagged(&sent, 20)), [none.clone(), none.clone(), none.clone(), vec![sent.clone()]]);
    assert_eq!(world.comes(3, &sent), [none.clone(), none.clone(), vec![tagged(&sent, 20)], none.clone()]);
    // Without a tag it is of no VLAN of the trunk's; the second client is alone in the default one.
    assert_eq!(world.comes(2, &sent).concat(), none);
    assert_eq!(world.comes(1, &frame(Mac::BROADCAST, Mac::new(mac(2)), &[0; 60])).concat(), none);
}

/// A checksum that the device was to complete is completed on the way to another device, where a
/// tag has moved it as well.
#[test]
fn a_checksum_is_made_for_the_other_network() {
    // UDP over IPv4 from 10.0.0.1 to 10.0.0.2, ports 1000 to 2000, with four bytes.
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend([3, 232, 7, 208, 0, 12, 0, 0]);
    packet.extend(*b"data");
    let mut sent = frame(Mac::BROADCAST, FAR, &packet);
    sent[12..14].copy_from_slice(&[8, 0]);
    let (checksum_start, checksum_offset) = checksum::offload(&mut sent).expect("it has one");
    let header = PacketHeader { flags: NEEDS_CHECKSUM, checksum_start, checksum_offset, ..PacketHeader::default() };
    let mut complete = sent.clone();
    checksum::complete(&mut complete);
    assert_ne!(complete, sent);

    let mut world = World::new(&[]);
    world.comes_with(2, &sent, header);
    let arrived = world.arrived();
    assert_eq!((&arrived[0], &arrived[3]), (&vec![sent.clone()], &vec![complete.clone()]));

    let mut world = World::new(&[("uplink", "vlan 10"), ("uplink2", "trunk 10")]);
    world.comes_with(2, &sent, header);
    assert_eq!(world.arrived()[3], [tagged(&complete, 10)]);

    let header = PacketHeader { checksum_start: checksum_start + 4, ..header };
    let mut world = World::new(&[("uplink", "trunk 10"), ("uplink2", "vlan 10")]);
    world.comes_with(2, &tagged(&sent, 10), header);
    assert_eq!(world.arrived()[3], [complete]);
}

#[test]
fn a_mirror_is_given_what_comes_by_other_ports_and_gives_nothing() {
    let mut world = World::new(&[("client1", "mirror"), ("uplink", "vlan 10"), ("uplink2", "vlan 20")]);
    let (near, far) = (Mac::new([2, 0, 0, 0, 0, 1]), Mac::new([2, 0, 0, 0, 0, 2]));
    let sent = frame(far, near, &[0x5a; 60]);
    // What goes nowhere is shown too, and what has a tag is shown with it.
    for (port, bytes) in [(2, sent.clone()), (3, sent.clone()), (2, tagged(&sent, 30))] {
        let arrived = world.comes(port, &bytes);
        assert_eq!(arrived[1], [bytes]);
        assert!(arrived[2].is_empty() && arrived[3].is_empty());
    }
    // A client's frames are shown, a mirror's own go nowhere, not even to the client that they are
    // for.
    assert_eq!(world.reaches(0, Mac::BROADCAST, world.clients[0].mac()), [1]);
    assert!(world.reaches(1, Mac::BROADCAST, world.clients[1].mac()).is_empty());
    assert!(world.reaches(1, world.clients[0].mac(), world.clients[1].mac()).is_empty());
}

/// Each frame is counted where it comes and where it goes out, and what is dropped at the port that
/// the reason is about.
#[test]
fn ports_count_what_comes_and_goes_and_why_something_does_not() {
    let words = words();
    let counts = Counts::new(words, ["web", "capture", "uplink", "uplink2"].into_iter());
    let options = [("client0", "vlan 10"), ("client1", "mirror"), ("uplink", "trunk 10"), ("uplink2", "vlan 30")];
    let mut world = World::counted(&options, counts);
    let sent = frame(Mac::BROADCAST, Mac::new(mac(1)), &[0x5a; 60]);
    let length = sent.len();
    let far = frame(Mac::BROADCAST, FAR, &[0x5a; 60]);
    world.comes(0, &sent);
    world.comes(2, &tagged(&far, 10));
    // Of no VLAN of the port's; from a client's own address; for many, of which there are too many.
    world.comes(2, &far);
    world.comes(2, &tagged(&frame(Mac::BROADCAST, Mac::new(mac(1)), &[0; 60]), 10));
    let port = |name: &str, counts: [usize; 9]| {
        let names = ["frames_in", "bytes_in", "frames_out", "bytes_out", "no_place_drops", "storm_drops"];
        let names = names.into_iter().chain(["isolated_drops", "vlan_drops", "source_drops"]);
        let counts = names.zip(counts).map(|(name, count)| std::format!(",\"{name}\":{count}"));
        std::format!("{{\"name\":\"{name}\"{}}}", counts.collect::<String>())
    };
    let expected = [
        port("web", [1, length, 1, length, 0, 0, 0, 0, 0]),
        port("capture", [0, 0, 4, 4 * length + 8, 0, 0, 0, 0, 0]),
        port("uplink", [3, 3 * length + 8, 1, length + 4, 0, 0, 0, 1, 1]),
        port("uplink2", [0; 9]),
    ];
    assert_eq!(shown(words), std::format!("[{}]", expected.join(",")));

    let options =
        [("client0", "isolated"), ("client1", "isolated"), ("uplink", "isolated storm 4"), ("uplink2", "isolated")];
    let counts = Counts::new(words, ["web", "other", "uplink", "uplink2"].into_iter());
    let mut world = World::counted(&options, counts);
    world.comes(0, &sent);
    let shows = |line: String| assert!(shown(words).contains(&line), "{}", shown(words));
    shows(port("web", [1, length, 0, 0, 0, 0, 1, 0, 0]));

    let counts = Counts::new(words, ["web", "other", "uplink", "uplink2"].into_iter());
    let mut world = World::counted(&[("uplink", "storm 4")], counts);
    for _ in 0..3 {
        world.comes(2, &far);
    }
    shows(port("web", [0, 0, 1, length, 0, 0, 0, 0, 0]));
    shows(port("uplink", [3, 3 * length, 0, 0, 0, 2, 0, 0, 0]));
}
