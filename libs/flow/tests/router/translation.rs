//! Translation of addresses and ports, by itself and with the table.

use crate::make::{self, Segment, octets, tuple, v4};
use crate::tables::{SETTINGS, memory};
use culm_flow::rewrite::{translate, translate_error};
use culm_flow::{
    Forward, ICMP, Inward, Key, Mistake, Nat, Packet, Pool, State, TCP, Table, Tracked, Transport, Tuple, UDP,
    checksum_is_right,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicU64;

const OUTER: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [203, 0, 113, 80];
const ALICE: [u8; 4] = [10, 0, 0, 1];
const BOB: [u8; 4] = [10, 0, 0, 2];

fn pair(address: [u8; 4], port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(address), port)
}

fn pool(first: u16, last: u16) -> Pool {
    Pool { first: pair(OUTER, first), last, keeps_parity: true }
}

fn web() -> Forward {
    Forward { protocol: TCP, outer: pair(OUTER, 8080), inner: pair(BOB, 80) }
}

fn nat(pools: &[Pool]) -> Nat {
    Nat::new(Key([5, 6]), pools, &[web()], 64).unwrap()
}

/// A router whose inner net is 10/8, with one pool.
struct Router<'a> {
    table: Table<'a>,
    nat: Nat,
}

impl Router<'_> {
    fn new(memory: &[AtomicU64]) -> Router<'_> {
        Router { table: Table::new(&SETTINGS, memory), nat: nat(&[pool(8000, 8999)]) }
    }

    /// Forwards a packet, and returns it as it leaves.
    fn forward(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut bytes, packet) = (bytes.to_vec(), Packet::read(bytes).unwrap());
        if let Transport::Error(quoted) = packet.transport {
            let (id, direction) = self.table.find_quoted(&quoted, 0)?;
            let flow = self.table.flow(id)?;
            let (about, source, destination) = flow.error_onward(direction, packet.source);
            translate_error(&mut bytes, &packet, &about, source, destination).ok()?;
            return Some(bytes);
        }
        let original = packet.tuple()?;
        let (id, direction) = match self.table.find(&original, 0) {
            Some(found) => found,
            None => {
                let to = match octets(original.destination)[..].try_into() {
                    Ok(address) => self.nat.inward(original.protocol, pair(address, original.destination_port)),
                    Err(_) => None,
                };
                let to = to.map(|to| match to {
                    Inward::Forwarded(inner) | Inward::Mapped(inner) => inner,
                });
                let source = (octets(original.source)[0] == 10).then_some(0);
                let reply = self.nat.begin(&original, to, source)?;
                let nat = &mut self.nat;
                let id = self.table.insert([&original, &reply], &packet, 0, 0, |flow, _| nat.release(flow));
                if id.is_err() {
                    self.nat.release_tuples(&original, &reply);
                }
                (id.ok()?, culm_flow::Direction::Original)
            }
        };
        let nat = &mut self.nat;
        let verdict = self.table.track(id, direction, &packet, 0, |flow, _| nat.release(flow));
        assert_eq!(verdict, Tracked::Belongs);
        translate(&mut bytes, &packet, &self.table.flow(id)?.onward(direction)).ok()?;
        assert_eq!(checksum_is_right(&Packet::read(&bytes).unwrap(), &bytes), Some(true));
        Some(bytes)
    }

    /// Forwards a packet, and returns the tuple with which it leaves.
    fn tuple(&mut self, bytes: &[u8]) -> Tuple {
        Packet::read(&self.forward(bytes).unwrap()).unwrap().tuple().unwrap()
    }
}

fn first(tuple: &Tuple) -> Vec<u8> {
    match tuple.protocol {
        TCP => make::tcp(tuple, &Segment { flags: make::SYN, sequence: 100, window: 1000, ..Segment::default() }),
        _ => make::packet(tuple, b"a question"),
    }
}

#[test]
fn mistakes_of_a_configuration_are_named() {
    let new = |pools: &[Pool], forwards: &[Forward]| Nat::new(Key([0, 0]), pools, forwards, 4).map(|_| ());
    assert_eq!(new(&[pool(1, 1), pool(9, 8)], &[]), Err(Mistake::EmptyPool(1)));
    assert_eq!(new(&[pool(0, 8)], &[]), Err(Mistake::EmptyPool(0)));
    assert_eq!(new(&[pool(5, 9), pool(20, 30), pool(9, 9)], &[]), Err(Mistake::Overlap(0, 2)));
    let elsewhere = Pool { first: pair([192, 0, 2, 2], 5), ..pool(5, 9) };
    assert_eq!(new(&[pool(5, 9), pool(10, u16::MAX), elsewhere], &[web()]), Ok(()));
    assert_eq!(new(&[], &[web(), web()]), Err(Mistake::SameForward(0, 1)));
    assert_eq!(new(&[], &[web(), Forward { protocol: UDP, ..web() }]), Ok(()));
    assert_eq!(new(&[], &[Forward { protocol: 47, ..web() }]), Err(Mistake::NoForward(0)));
    assert_eq!(new(&[], &[Forward { inner: pair(BOB, 0), ..web() }]), Err(Mistake::NoForward(0)));
}

#[test]
fn a_pool_is_used_to_its_last_port_and_no_further() {
    for (from, last) in [(1, 1), (8000, 8063), (8079, 8090), (65_472, 65_535), (7000, 7129)] {
        let mut nat = Nat::new(Key([1, 1]), &[pool(from, last)], &[web()], 200).unwrap();
        let from_port = |port| tuple(TCP, (v4(ALICE), port), (v4(SERVER), 80));
        let mut ports = BTreeSet::new();
        for port in 1..=200 {
            if let Some(reply) = nat.begin(&from_port(port), None, Some(0)) {
                assert!(ports.insert(reply.destination_port), "it is somebody's already");
            }
        }
        let expected: BTreeSet<u16> = (from..=last).filter(|port| *port != 8080).collect();
        assert_eq!(ports, expected, "all but the one that is forwarded");
        assert_eq!(nat.begin(&from_port(201), None, Some(0)), None);
        assert_eq!(nat.begin(&from_port(1), None, Some(1)), None, "no such pool");
    }
}

#[test]
fn a_packet_and_its_answer_find_their_way() {
    for protocol in [TCP, UDP, ICMP] {
        let memory = memory(8);
        let mut router = Router::new(&memory);
        let peer_port = if protocol == ICMP { 0 } else { 80 };
        let original = tuple(protocol, (v4(ALICE), 4001), (v4(SERVER), peer_port));
        let seen = router.tuple(&first(&original));
        assert_eq!((seen.source, seen.destination), (v4(OUTER), v4(SERVER)));
        assert!((8000..9000).contains(&seen.source_port) && seen.source_port % 2 == 1);
        let answer = |tuple: &Tuple| match protocol {
            TCP => make::tcp(tuple, &Segment { flags: 18, acknowledgement: 101, window: 9, ..Segment::default() }),
            _ => make::packet(tuple, b"an answer"),
        };
        assert_eq!(router.forward(&answer(&seen.reversed())), Some(answer(&original.reversed())));
        assert_eq!(router.nat.count(), 1);
    }
}

/// RFC 4787 REQ-1: one outer pair, whoever the peer is; REQ-8: whoever it is may answer, if rules
/// let him.
#[test]
fn a_mapping_does_not_depend_on_the_peer() {
    let memory = memory(8);
    let mut router = Router::new(&memory);
    let to = |last, port| tuple(UDP, (v4(ALICE), 4000), (v4([203, 0, 113, last]), port));
    let seen = router.tuple(&first(&to(80, 53)));
    let also = router.tuple(&first(&to(81, 99)));
    assert_eq!((seen.source, seen.source_port), (also.source, also.source_port));
    let stranger = tuple(UDP, (v4([203, 0, 113, 82]), 7), (seen.source, seen.source_port));
    assert_eq!(router.tuple(&first(&stranger)), tuple(UDP, (stranger.source, 7), (v4(ALICE), 4000)));
    assert_eq!((router.table.count(), router.nat.count()), (3, 1));
    // The mapping lasts until the last flow that began inside is gone.
    for (count, original) in [(1, to(80, 53)), (0, to(81, 99))] {
        let (id, _) = router.table.find(&original, 0).unwrap();
        let nat = &mut router.nat;
        router.table.remove(id, |flow, _| nat.release(flow));
        assert_eq!(router.nat.count(), count);
    }
}

/// RFC 4787 REQ-9.
#[test]
fn hosts_inside_meet_at_their_outer_addresses() {
    let memory = memory(8);
    let mut router = Router::new(&memory);
    let bob = router.tuple(&first(&tuple(UDP, (v4(BOB), 5000), (v4(SERVER), 53))));
    let call = tuple(UDP, (v4(ALICE), 4000), (v4(OUTER), bob.source_port));
    let seen = router.tuple(&first(&call));
    assert_eq!((seen.destination, seen.destination_port), (v4(BOB), 5000));
    assert_eq!(seen.source, v4(OUTER));
    assert_eq!(router.tuple(&first(&seen.reversed())), call.reversed());
    let error = make::error(v4(BOB), v4(OUTER), 3, 3, &first(&seen), 28);
    assert_eq!(router.forward(&error), Some(make::error(v4(OUTER), v4(ALICE), 3, 3, &first(&call), 28)));
}

#[test]
fn a_forward_leads_inside_and_back() {
    let memory = memory(8);
    let mut router = Router::new(&memory);
    let call = tuple(TCP, (v4(SERVER), 7000), (v4(OUTER), 8080));
    let seen = router.tuple(&first(&call));
    assert_eq!(seen, tuple(TCP, (v4(SERVER), 7000), (v4(BOB), 80)));
    // An error of a router inside comes from outside's point of view from where the call went.
    let error = make::error(v4([10, 9, 9, 9]), v4(SERVER), 3, 1, &first(&seen), 28);
    assert_eq!(router.forward(&error), Some(make::error(v4(OUTER), v4(SERVER), 3, 1, &first(&call), 28)));
    // What the same pair begins is seen where it is reached.
    let own = router.tuple(&first(&tuple(TCP, (v4(BOB), 80), (v4(SERVER), 25))));
    assert_eq!((own.source, own.source_port, router.nat.count()), (v4(OUTER), 8080, 0));
}

#[test]
fn an_error_finds_whom_it_is_for() {
    for protocol in [TCP, UDP, ICMP] {
        let memory = memory(8);
        let mut router = Router::new(&memory);
        let original = tuple(protocol, (v4(ALICE), 4000), (v4(SERVER), if protocol == ICMP { 0 } else { 80 }));
        let sent = router.forward(&first(&original)).unwrap();
        let hop = v4([198, 51, 100, 1]);
        let error = make::error(hop, v4(OUTER), 3, 4, &sent, 28);
        assert_eq!(router.forward(&error), Some(make::error(hop, v4(ALICE), 3, 4, &first(&original), 28)));
        let state = router.table.flows().next().unwrap().1.state;
        assert!(matches!(state, State::SynSent | State::OneWay), "an error is no answer");
        if protocol == TCP {
            let mut guess = sent.clone();
            guess[24..28].copy_from_slice(&70_000_u32.to_be_bytes());
            assert_eq!(router.forward(&make::error(hop, v4(OUTER), 3, 4, &guess, 28)), None, "a number not sent");
        }
    }
}

#[test]
fn mappings_follow_from_the_flows_of_a_previous_life() {
    let memory = memory(8);
    let mut router = Router::new(&memory);
    let to = |last| tuple(UDP, (v4(ALICE), 4000), (v4([203, 0, 113, last]), 53));
    let seen = [1, 2].map(|last| router.tuple(&first(&to(last))));
    let bob = router.tuple(&first(&tuple(UDP, (v4(BOB), 4000), (v4(SERVER), 53))));
    router.tuple(&first(&tuple(TCP, (v4(SERVER), 7000), (v4(OUTER), 8080))));
    drop(router);
    let mut again = nat(&[pool(8000, 8999)]);
    let (table, adopted) = Table::adopt(&SETTINGS, &memory, 0, |flow| again.believe(flow).then_some(flow.tag));
    assert_eq!((adopted.kept, adopted.refused, again.count()), (4, 0, 2));
    let mut router = Router { table, nat: again };
    assert_eq!(router.tuple(&first(&seen[0].reversed())), to(1).reversed());
    let third = router.tuple(&first(&to(3)));
    assert_eq!(third.source_port, seen[1].source_port, "the same outer pair for another peer");
    assert_eq!(router.tuple(&first(&bob.reversed())).destination, v4(BOB));
    drop(router);
    // Whose port is in no pool any more cannot go on; what is forwarded can.
    let mut smaller = nat(&[pool(1, 7)]);
    let (_, adopted) = Table::adopt(&SETTINGS, &memory, 0, |flow| smaller.believe(flow).then_some(flow.tag));
    assert_eq!((adopted.kept, adopted.refused, smaller.count()), (1, 4, 0));
}

proptest! {
    /// Against maps: an inner pair has one outer pair per pool, an outer one is of one inner one.
    #[test]
    fn mappings_are_those_of_a_map(
        steps in prop::collection::vec((0..2_usize, 0..3_u8, 1..12_u16, 0..3_u16, any::<bool>()), 1..200),
        sizes in (0..9_u16, 0..9_u16),
    ) {
        let pools = [pool(4000, 4000 + sizes.0), pool(5000, 5000 + sizes.1)];
        let mut nat = nat(&pools);
        // Flows that use a pool, with their replies.
        let mut flows: BTreeMap<(usize, u8, u16, u16), (Tuple, Tuple)> = BTreeMap::new();
        for (pool, protocol, port, peer, is_begin) in steps {
            let protocol = [TCP, UDP, ICMP][usize::from(protocol)];
            let key = (pool, protocol, port, peer);
            let (own, peer_port) = if protocol == ICMP { (port, 0) } else { (port, 80 + peer) };
            let original = tuple(protocol, (v4(ALICE), own), (IpAddr::from([203, 0, 113, peer as u8]), peer_port));
            if is_begin && !flows.contains_key(&key) {
                let ports: BTreeMap<u16, u16> = flows.iter().filter(|(own, _)| (own.0, own.1) == (pool, protocol))
                    .map(|(own, (_, reply))| (own.2, reply.destination_port)).collect();
                let size = usize::from(pools[pool].last - pools[pool].first.port()) + 1;
                match nat.begin(&original, None, Some(pool)) {
                    None => prop_assert!(ports.len() == size && !ports.contains_key(&port)),
                    Some(reply) => {
                        let chosen = reply.destination_port;
                        match ports.get(&port) {
                            Some(known) => prop_assert_eq!(chosen, *known),
                            None => {
                                prop_assert!(!ports.values().any(|other| *other == chosen));
                                let parity = |port: &u16| port % 2 == own % 2;
                                let all = (pools[pool].first.port()..=pools[pool].last).filter(parity).count();
                                let used = ports.values().filter(|port| parity(port)).count();
                                prop_assert!(parity(&chosen) || all == used, "there is one of its parity");
                            }
                        }
                        prop_assert!((pools[pool].first.port()..=pools[pool].last).contains(&chosen));
                        let inward = nat.inward(protocol, pair(OUTER, chosen));
                        prop_assert_eq!(inward, Some(Inward::Mapped(pair(ALICE, own))));
                        flows.insert(key, (original, reply));
                    }
                }
            } else if let Some((original, reply)) = flows.remove(&key) {
                nat.release_tuples(&original, &reply);
            }
            let mappings: BTreeSet<_> = flows.keys().map(|(pool, protocol, port, _)| (pool, protocol, port)).collect();
            prop_assert_eq!(nat.count(), mappings.len());
        }
    }
}
