//! Connections that the stack opens, to a host that listens.

use super::lan::{HOST, HOST_6, Lan};
use super::station::{ACK, SYN, Station};
use crate::checksum;
use crate::stack::{Event, Stack, Unopened};
use core::net::{IpAddr, SocketAddr};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::wire::IpAddress;
use std::vec;

fn ip(address: IpAddress) -> IpAddr {
    address.into()
}

/// A server of the host's on port 80.
fn serve(lan: &mut Lan) -> SocketHandle {
    let buffer = || tcp::SocketBuffer::new(vec![0; 4096]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.listen(80).expect("a free port");
    lan.add(socket)
}

/// Leaves what happens on a connection to the test.
fn nothing(_: &mut Stack, _: Event) {}

fn client(places: usize) -> Lan {
    let mut lan = Lan::fixed(places);
    lan.server = nothing;
    // Until IPv6 addresses are known to be nobody else's.
    lan.pass(3000);
    lan.seen.clear();
    lan
}

#[test]
fn a_connection_is_opened_used_and_ended() {
    for host in [HOST, HOST_6] {
        let mut lan = client(2);
        let handle = serve(&mut lan);
        let slot = lan.stack.connect(SocketAddr::new(ip(host), 80)).expect("there is a way");
        // It waits until there is a connection.
        assert_eq!(lan.stack.stream(slot).expect("its own").send(b"question"), 8);
        lan.pass(1500);
        assert_eq!(lan.socket(handle).state(), tcp::State::Established, "{host}");
        let mut bytes = [0; 20];
        assert_eq!(lan.socket(handle).recv_slice(&mut bytes), Ok(8));
        lan.socket(handle).send_slice(b"answer").expect("open");
        lan.socket(handle).close();
        lan.pass(20);
        let mut stream = lan.stack.stream(slot).expect("its own");
        assert_eq!(stream.received(), b"answer");
        assert!(stream.ended() && !stream.is_over());
        assert_eq!(stream.remote().map(|remote| (remote.ip(), remote.port())), Some((ip(host), 80)));
        stream.consume(6);
        lan.stack.release(slot);
        lan.pass(20);
        assert_eq!(lan.socket(handle).state(), tcp::State::TimeWait, "{host}");
    }
}

#[test]
fn a_refusal_is_told() {
    let mut lan = client(2);
    let slot = lan.stack.connect(SocketAddr::new(ip(HOST), 81)).expect("there is a way");
    lan.pass(1500);
    assert!(lan.stack.stream(slot).expect("its own").is_over());
    lan.stack.release(slot);
    lan.pass(20);
    assert!(lan.stack.stream(slot).is_none());
}

/// An answer that is none, to a SYN that has not left yet, has a reset go in the same turn. Where
/// the peer's station is, nobody knows then.
#[test]
fn a_syn_goes_to_its_peer_beside_a_reset() {
    let mut lan = client(1);
    let station = Station { seen: 4711, ..Station::new(1) };
    let slot = lan.stack.connect(SocketAddr::new(IpAddr::from(station.address), 80)).expect("there is a way");
    let mut answer = station.segment(SYN | ACK, b"");
    answer[34..36].copy_from_slice(&80_u16.to_be_bytes());
    answer[36..38].copy_from_slice(&lan.stack.tcp.port(slot).to_be_bytes());
    answer[50..52].fill(0);
    checksum::complete(&mut answer);
    lan.wire.to_stack.push_back(answer);
    lan.pass(10);
    assert!(!lan.seen.is_empty());
    assert!(lan.seen.iter().all(|frame| frame[..6] != [0; 6]), "{:x?}", lan.seen);
}

#[test]
fn what_cannot_be_opened_is_said_at_once() {
    let mut lan = client(1);
    let host = |port| SocketAddr::new(ip(HOST), port);
    assert_eq!(lan.stack.connect(host(0)), Err(Unopened::Unreachable));
    // Groups and everybody (RFC 9293 §3.9.2.3, MUST-46), and who can be nobody.
    for group in ["255.255.255.255", "10.0.0.255", "224.0.0.1", "0.0.0.0", "127.0.0.1", "ff02::1", "::", "::1"] {
        let group = SocketAddr::new(group.parse().expect("an address"), 80);
        assert_eq!(lan.stack.connect(group), Err(Unopened::Unreachable), "{group}");
    }
    assert!(lan.stack.connect(host(80)).is_ok());
    assert_eq!(lan.stack.connect(host(80)), Err(Unopened::Crowded));
}

/// Ports do not follow each other across peers, and no two connections to one peer have the same.
#[test]
fn connections_listen_beside_others_and_have_ports_of_their_own() {
    let mut lan = client(40);
    lan.server = super::lan::echo;
    lan.stack.listen(80);
    let slots: vec::Vec<usize> =
        (0..20).map(|_| lan.stack.connect(SocketAddr::new(ip(HOST), 81)).expect("a place")).collect();
    let ports: std::collections::BTreeSet<u16> = slots.iter().map(|slot| lan.stack.tcp.port(*slot)).collect();
    assert_eq!(ports.len(), 20);
    assert!(ports.iter().all(|port| *port >= 49_152));
    let handle = lan.connect(super::lan::ADDRESS, 50_000);
    lan.pass(1500);
    assert_eq!(lan.socket(handle).state(), tcp::State::Established);
}
