//! Names, asked for at a host that has a name server.

use super::lan::{HOST, HOST_6, HOST_MAC, Lan};
use crate::checksum::Sum;
use crate::stack::host::Change;
use crate::stack::names::{Failure, Family, Lookup, Name, Outcome};
use crate::stack::table::Phase;
use core::net::{IpAddr, Ipv6Addr};
use culm::time;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::{tcp, udp};
use std::vec;
use std::vec::Vec;

/// The host's link-local address.
const HOST_6_ADDRESS: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);

/// The host's name server: one socket for datagrams, one for connections.
struct Server {
    datagrams: SocketHandle,
    connections: SocketHandle,
    /// Questions over either.
    asked: [usize; 2],
}

/// The answer to a question: so many addresses, or that they do not fit.
fn answer(question: &[u8], addresses: u8, truncated: bool) -> Vec<u8> {
    let mut answer = question.to_vec();
    answer[2] |= if truncated { 0x82 } else { 0x80 };
    answer[7] = if truncated { 0 } else { addresses };
    for last in (1..=addresses).take_while(|_| !truncated) {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]);
    }
    answer
}

impl Server {
    fn new(lan: &mut Lan) -> Self {
        let datagrams = lan.add(super::udp_socket(53));
        let buffer = || tcp::SocketBuffer::new(vec![0; 4096]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.listen(53).expect("a free port");
        Self { datagrams, connections: lan.add(socket), asked: [0; 2] }
    }

    /// Lets time pass, and answers what is asked: with so many addresses, of which a datagram has
    /// room for eight. Returns how many searches have ended, and how.
    fn serve(&mut self, lan: &mut Lan, milliseconds: u64, addresses: u8) -> Vec<(Lookup, Outcome)> {
        for _ in 0..milliseconds {
            lan.pass(1);
            let socket = lan.sockets.get_mut::<udp::Socket<'_>>(self.datagrams);
            while let Ok((question, from)) = socket.recv() {
                self.asked[0] += 1;
                let answer = answer(question, addresses, addresses > 8);
                socket.send_slice(&answer, from).expect("space");
            }
            let socket = lan.socket(self.connections);
            let mut bytes = [0; 600];
            let count = socket.peek_slice(&mut bytes).unwrap_or(0);
            if count > 2 && count == 2 + usize::from(bytes[1]) {
                self.asked[1] += 1;
                socket.recv(|bytes| (bytes.len(), ())).expect("there are some");
                let answer = answer(&bytes[2..count], addresses, false);
                socket.send_slice(&(answer.len() as u16).to_be_bytes()).expect("space");
                socket.send_slice(&answer).expect("space");
            }
        }
        core::mem::take(&mut lan.found)
    }
}

fn lan(server: smoltcp::wire::IpAddress) -> Lan {
    let mut lan = Lan::fixed(1);
    lan.stack.set_name_servers(&[IpAddr::from(server)]);
    // Until IPv6 addresses are known to be nobody else's.
    lan.pass(3000);
    lan
}

fn name() -> Name {
    "www.example".parse().expect("a name")
}

#[test]
fn a_name_is_found_over_both_protocols() {
    for host in [HOST, HOST_6] {
        let mut lan = lan(host);
        let mut server = Server::new(&mut lan);
        let lookup = lan.stack.look_up(name(), Family::Ipv4).expect("a place");
        let found = server.serve(&mut lan, 2500, 2);
        let [(of, Ok(addresses))] = found[..] else { panic!("{host}: {found:?}") };
        assert_eq!(of, lookup);
        assert_eq!(addresses.as_slice(), [IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])]);
        assert_eq!(server.asked[1], 0);
    }
}

#[test]
fn an_answer_that_does_not_fit_comes_over_a_connection_that_nobody_sees() {
    let mut lan = lan(HOST);
    let mut server = Server::new(&mut lan);
    lan.stack.look_up(name(), Family::Ipv4).expect("a place");
    let found = server.serve(&mut lan, 3000, 50);
    let [(_, Ok(addresses))] = found[..] else { panic!("{found:?}") };
    assert_eq!((addresses.as_slice().len(), server.asked[1]), (8, 1));
    assert!(lan.open.is_empty() && lan.events == 0, "the application saw the connection");
    assert_eq!(lan.stack.tcp.count(Phase::Free), 1, "its place is free again");
    assert_eq!(lan.socket(server.connections).state(), tcp::State::Closed, "it was reset");
}

#[test]
fn where_no_connection_is_to_be_had_the_search_ends() {
    let mut lan = lan(HOST);
    let mut server = Server::new(&mut lan);
    // The only place is taken, and the application does not give it back.
    lan.server = |_, _| {};
    let nobody = IpAddr::from([10, 0, 0, 77]);
    let taken = lan.stack.connect((nobody, 80).into()).expect("there is a way");
    lan.stack.look_up(name(), Family::Ipv4).expect("a place");
    let found = server.serve(&mut lan, 4000, 50);
    assert!(matches!(found[..], [(_, Err(Failure::Truncated))]), "{found:?}");
    assert!(lan.stack.stream(taken).is_some());
}

/// What a router tells of name servers (RFC 8106 §5.1): one, for an hour.
fn advertisement(server: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 3, 0, 0, 0, 0, 0x0e, 0x10];
    message.extend(server.octets());
    let (from, all) = (HOST_6_ADDRESS, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    let sum = !Sum::pseudo_header(from, all, 58, message.len()).add_bytes(&message).fold();
    message[2..4].copy_from_slice(&sum.to_le_bytes());
    let header = [&[0x60, 0, 0, 0, 0, message.len() as u8, 58, 255][..], &from.octets(), &all.octets()].concat();
    [&[0x33, 0x33, 0, 0, 0, 1][..], &HOST_MAC, &[0x86, 0xdd], &header, &message].concat()
}

#[test]
fn name_servers_of_routers_are_asked() {
    let mut lan = Lan::fixed(1);
    let mut server = Server::new(&mut lan);
    lan.pass(3000);
    lan.wire.to_stack.push_back(advertisement(HOST_6_ADDRESS));
    lan.pass(5);
    let lookup = lan.stack.look_up(name(), Family::Ipv4).expect("a place");
    let found = server.serve(&mut lan, 4000, 3);
    assert!(
        matches!(&found[..], [(of, Ok(addresses))] if *of == lookup && addresses.as_slice().len() == 3),
        "{found:?}"
    );
}

/// Only other addresses have all connections looked at.
#[test]
fn other_name_servers_are_no_other_addresses() {
    let mut lan = Lan::fixed(1);
    lan.pass(3000);
    let ip_time = lan.stack.clock.ip_time(time::now());
    lan.wire.to_stack.push_back(advertisement(HOST_6_ADDRESS));
    lan.deliver();
    lan.stack.receive(&mut |_| {});
    let mut poll = || lan.stack.host.poll(&mut lan.stack.client.transmitter, ip_time);
    assert_eq!([poll(), poll()], [Change::NameServers, Change::Nothing]);
}

#[test]
fn searches_are_bounded_until_their_ends_are_taken() {
    let mut lan = lan(HOST);
    lan.stack.set_name_servers(&[]);
    let begun = (0..20).filter(|_| lan.stack.look_up(name(), Family::Ipv6).is_some()).count();
    assert_eq!(begun, culm_dns::LOOKUPS);
    let _ = lan.stack.end_round();
    assert!(lan.stack.look_up(name(), Family::Ipv6).is_none(), "they have ended, and nobody knows");
    lan.pass(2);
    assert_eq!(lan.found.len(), culm_dns::LOOKUPS);
    assert!(lan.found.iter().all(|(_, outcome)| *outcome == Err(Failure::NoServer)));
    assert!(lan.stack.look_up(name(), Family::Ipv6).is_some());
}

/// Two searches whose answers do not fit; the one that began later is told so first, and the
/// server ends its connection without an answer.
#[test]
fn no_place_is_lost_where_two_searches_need_connections() {
    let mut lan = Lan::fixed(4);
    lan.stack.set_name_servers(&[IpAddr::from(HOST)]);
    lan.pass(3000);
    let server = Server::new(&mut lan);
    lan.stack.look_up(name(), Family::Ipv4).expect("a place");
    lan.stack.look_up("other.example".parse().expect("a name"), Family::Ipv4).expect("a place");
    let (mut held, mut ended) = (Vec::new(), 0);
    for tick in 0..60_000 {
        lan.pass(1);
        let socket = lan.sockets.get_mut::<udp::Socket<'_>>(server.datagrams);
        while let Ok((question, from)) = socket.recv() {
            held.push((question.to_vec(), from));
        }
        // The last question is answered at once, the others a little later.
        if tick % 20 == 0
            && let Some((question, from)) = held.pop()
        {
            lan.sockets
                .get_mut::<udp::Socket<'_>>(server.datagrams)
                .send_slice(&answer(&question, 0, true), from)
                .expect("space");
        }
        let socket = lan.socket(server.connections);
        if socket.can_recv() && tick % 50 == 0 {
            socket.recv(|bytes| (bytes.len(), ())).expect("there are some");
            socket.close();
        }
        if !socket.is_open() {
            socket.listen(53).expect("a free port");
        }
        ended += core::mem::take(&mut lan.found).len();
    }
    assert_eq!(ended, 2);
    assert_eq!((lan.stack.tcp.count(Phase::Free), lan.stack.tcp.count(Phase::Open)), (4, 0), "places are lost");
    assert_eq!(lan.events, 0, "the application saw the connection");
}

/// The connection for an answer stalls, and makes way for one that the application opens.
#[test]
fn a_connection_of_the_applications_is_its_own() {
    let mut lan = lan(HOST);
    let server = Server::new(&mut lan);
    lan.stack.look_up(name(), Family::Ipv4).expect("a place");
    // The server's TCP does not answer.
    let mut waited = 0;
    let slot = loop {
        culm::testing::set_time(culm::time::now() + culm::time::Duration::from_millis(1));
        // In the application's turn, before the round's end.
        if waited > 3000
            && let Ok(slot) = lan.stack.connect((IpAddr::from([10, 0, 0, 77]), 80).into())
        {
            break slot;
        }
        lan.step();
        lan.wire.to_host.retain(|frame| !(frame[12..14] == [8, 0] && frame[23] == 6));
        let socket = lan.sockets.get_mut::<udp::Socket<'_>>(server.datagrams);
        while let Ok((question, from)) = socket.recv() {
            let answer = answer(question, 0, true);
            socket.send_slice(&answer, from).expect("space");
        }
        waited += 1;
        assert!(waited < 60_000);
    };
    lan.step();
    lan.step();
    assert!(
        lan.stack.stream(slot).is_some_and(|stream| stream.ending().is_none()),
        "the resolver has reset the application's connection"
    );
}
