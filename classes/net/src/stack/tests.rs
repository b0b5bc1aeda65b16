//! The stack against another host, friendly or not.

mod clients;
mod crowd;
mod fairness;
mod gone;
pub(crate) mod lan;
mod marks;
#[cfg(feature = "names")]
mod names;
mod others;
mod overload;
mod released;
mod requests_first;
mod reuse;
mod segments;
mod station;

use crate::checksum;
use crate::descriptor::flags::CHECKSUM_OFFLOAD;
use crate::stack::table::Phase;
use crate::stack::{Event, Stack};
use lan::{ADDRESS, ADDRESS_6, HOST_MAC, Lan, MAC};
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::{icmp, tcp, udp};
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, IpEndpoint};
use station::{SYN, Station};
use std::vec;
use std::vec::Vec;

fn udp_socket(port: u16) -> udp::Socket<'static> {
    let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 8], vec![0; 8192]);
    let mut socket = udp::Socket::new(buffer(), buffer());
    socket.bind(port).expect("a free port");
    socket
}

#[test]
fn datagrams_are_answered() {
    for flags in [0, CHECKSUM_OFFLOAD] {
        let mut lan = Lan::fixed(0);
        lan.flags = flags;
        lan.stack.bind(7);
        let handle = lan.add(udp_socket(999));
        for to in [ADDRESS, ADDRESS_6] {
            for length in [0, 1, 2, 7, 64, 1450] {
                let content: Vec<u8> = (0..length).map(|index| index as u8).collect();
                let socket = lan.sockets.get_mut::<udp::Socket<'_>>(handle);
                socket.send_slice(&content, IpEndpoint::new(to, 7)).expect("space");
                // The host asks for one neighbour a second.
                lan.pass(if length == 0 { 1200 } else { 8 });
                let socket = lan.sockets.get_mut::<udp::Socket<'_>>(handle);
                let (answer, from) = socket.recv().unwrap_or_else(|_| panic!("{length} bytes from {to}"));
                assert_eq!((answer, from.endpoint), (&content[..], IpEndpoint::new(to, 7)));
            }
        }
        assert_eq!(lan.stack.counts().broken, 0);
    }
}

#[test]
fn a_port_that_is_not_bound_is_not_answered_by_the_application() {
    let mut lan = Lan::fixed(0);
    lan.stack.bind(7);
    let handle = lan.add(udp_socket(999));
    lan.sockets.get_mut::<udp::Socket<'_>>(handle).send_slice(b"hello", (ADDRESS, 8)).expect("space");
    lan.pass(8);
    assert!(lan.sockets.get_mut::<udp::Socket<'_>>(handle).recv().is_err());
    // ICMP, destination unreachable, the port (RFC 1122 §4.1.3.1).
    assert!(lan.seen.iter().any(|frame| frame[..6] == HOST_MAC && frame[23] == 1 && frame[34..36] == [3, 3]));
}

#[test]
fn who_finds_nobody_very_often_is_not_always_told() {
    let mut lan = Lan::fixed(0);
    let handle = lan.add(udp_socket(999));
    lan.sockets.get_mut::<udp::Socket<'_>>(handle).send_slice(b"hello", (ADDRESS, 8)).expect("space");
    lan.pass(8);
    lan.sockets.get_mut::<udp::Socket<'_>>(handle).send_slice(b"hello", (ADDRESS, 8)).expect("space");
    let now = smoltcp::time::Instant::from_micros(culm::time::now().microseconds() as i64);
    lan.host.poll(now, &mut lan.wire, &mut lan.sockets);
    let stray = lan.wire.to_stack.pop_back().expect("it was sent");
    let told = |lan: &mut Lan, questions: usize, milliseconds: u64| {
        lan.seen.clear();
        lan.wire.to_stack.extend(core::iter::repeat_n(stray.clone(), questions));
        lan.pass(milliseconds);
        lan.seen.iter().filter(|frame| frame[23] == 1 && frame[34..36] == [3, 3]).count()
    };
    assert!((50..100).contains(&told(&mut lan, 1000, 30)), "a burst, and then one a millisecond");
    lan.pass(1000);
    assert_eq!(told(&mut lan, 40, 10), 40);
}

#[test]
fn pings_are_answered() {
    let mut lan = Lan::fixed(0);
    let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 1024]);
    let mut socket = icmp::Socket::new(buffer(), buffer());
    socket.bind(icmp::Endpoint::Ident(5)).expect("not bound yet");
    let request = Icmpv4Repr::EchoRequest { ident: 5, seq_no: 1, data: b"ping" };
    let bytes = socket.send(request.buffer_len(), ADDRESS).expect("space");
    request.emit(&mut Icmpv4Packet::new_unchecked(bytes), &ChecksumCapabilities::default());
    let handle = lan.add(socket);
    lan.pass(8);
    let (answer, from) = lan.sockets.get_mut::<icmp::Socket<'_>>(handle).recv().expect("an answer");
    assert_eq!(from, ADDRESS);
    assert_eq!(&answer[8..], b"ping");
}

/// Sends on an open connection and expects the same back.
fn exchange(lan: &mut Lan, handle: smoltcp::iface::SocketHandle, content: &[u8]) {
    assert_eq!(lan.socket(handle).send_slice(content), Ok(content.len()), "{:?}", lan.socket(handle).state());
    lan.pass(30);
    let mut answer = vec![0; content.len()];
    assert_eq!(lan.socket(handle).recv_slice(&mut answer), Ok(content.len()));
    assert_eq!(answer, content);
}

#[test]
fn connections_are_served_over_both_protocols() {
    for (to, port) in [(ADDRESS, 50_000), (ADDRESS_6, 50_001)] {
        let mut lan = Lan::fixed(4);
        lan.stack.listen(80);
        let handle = lan.connect(to, port);
        lan.pass(20);
        assert_eq!(lan.socket(handle).state(), tcp::State::Established);
        exchange(&mut lan, handle, b"hello");
        exchange(&mut lan, handle, &[7; 300]);
        lan.socket(handle).close();
        lan.pass(50);
        assert_eq!(lan.socket(handle).state(), tcp::State::TimeWait);
        assert!(lan.open.is_empty());
    }
}

/// RFC 9293 §3.9.2.3 and §3.10.7.2 (MUST-57, MUST-63): a SYN for a group or for everybody, and one
/// from there or from nobody.
#[test]
fn nobody_who_could_not_be_answered_opens() {
    let mut lan = Lan::fixed(2);
    lan.stack.listen(80);
    let groups = [[255; 4], [10, 0, 0, 255], [224, 0, 0, 1], [127, 0, 0, 1], [0; 4]];
    let mut frames = Vec::new();
    for group in groups {
        let station = Station::new(1);
        let mut frame = station.segment(SYN, b"");
        frame[30..34].copy_from_slice(&group);
        frames.push(frame);
        frames.push(Station { address: group, ..station }.segment(SYN, b""));
    }
    let mut for_all = Station::new(1).segment(SYN, b"");
    for_all[..6].fill(0xff);
    let own = Station { address: [10, 0, 0, 1], ..Station::new(1) }.segment(SYN, b"");
    frames.extend([for_all, own]);
    for mut frame in frames {
        frame[24..26].fill(0);
        let sum = !checksum::Sum::ZERO.add_bytes(&frame[14..34]).fold();
        frame[24..26].copy_from_slice(&sum.to_le_bytes());
        frame[50..52].fill(0);
        checksum::complete(&mut frame);
        lan.seen.clear();
        lan.wire.to_stack.push_back(frame.clone());
        lan.pass(3);
        assert!(lan.seen.iter().all(|sent| sent[12..14] != [8, 0]), "{:?} {:?}", &frame[26..34], lan.seen);
    }
    assert_eq!(lan.stack.counts().broken, 0);
    // One from a station is answered.
    let mut station = Station::new(1);
    station.shake_hands(&mut lan);
}

#[test]
fn a_port_that_nobody_listens_on_refuses() {
    let mut lan = Lan::fixed(4);
    let handle = lan.connect(ADDRESS, 50_000);
    lan.pass(20);
    assert_eq!(lan.socket(handle).state(), tcp::State::Closed);
}

#[test]
fn slots_are_used_again() {
    let mut lan = Lan::fixed(2);
    lan.stack.listen(80);
    for round in 0..20 {
        let handle = lan.connect(if round % 2 == 0 { ADDRESS } else { ADDRESS_6 }, 50_000 + round);
        // The host asks for one neighbour a second.
        lan.pass(if round < 2 { 1200 } else { 20 });
        exchange(&mut lan, handle, b"once");
        if round % 3 == 0 {
            lan.socket(handle).abort();
        } else {
            lan.socket(handle).close();
        }
        lan.pass(20);
        let _ = lan.sockets.remove(handle);
    }
    assert_eq!(lan.stack.counts().opened, 20);
}

#[test]
fn many_connections_at_once() {
    let mut lan = Lan::fixed(256);
    lan.stack.listen(80);
    let handles: Vec<_> = (0..256).map(|index| lan.connect(ADDRESS, 40_000 + index)).collect();
    lan.pass(2000);
    let open =
        handles.iter().filter(|handle| lan.sockets.get::<tcp::Socket<'_>>(**handle).state() == tcp::State::Established);
    assert_eq!(open.count(), 256);
    assert_eq!(lan.open.len(), 256);
    for handle in [handles[0], handles[100], handles[255]] {
        exchange(&mut lan, handle, b"still here");
    }
    // All have something under way, so one more hears nothing, and gets in as soon as somebody
    // leaves.
    let late = lan.connect(ADDRESS, 30_000);
    lan.pass(1000);
    assert_eq!(lan.socket(late).state(), tcp::State::SynSent);
    lan.socket(handles[3]).close();
    lan.pass(5000);
    assert_eq!(lan.socket(late).state(), tcp::State::Established);
    assert_eq!(lan.stack.counts().evicted, 0);
}

/// A segment that asks for a connection, from an address that nobody has.
fn syn(number: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(MAC);
    frame.extend(HOST_MAC);
    let [_, _, c, d] = number.to_be_bytes();
    frame.extend([0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 77, 10, 0, 0, 1]);
    frame.extend([c, d, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0]);
    let sum = !checksum::Sum::ZERO.add_bytes(&frame[14..34]).fold();
    frame[24..26].copy_from_slice(&sum.to_le_bytes());
    checksum::complete(&mut frame);
    frame
}

#[test]
fn a_flood_of_half_open_connections_keeps_nobody_out() {
    let mut lan = Lan::fixed(32);
    lan.stack.listen(80);
    let old = lan.connect(ADDRESS, 50_000);
    lan.pass(20);
    exchange(&mut lan, old, b"before");
    let mut flood = 1000;
    for round in 0..5 {
        let handle = lan.connect(ADDRESS, 50_001 + round);
        // It asks again after a second.
        for _ in 0..1500 {
            for _ in 0..4 {
                flood += 1;
                lan.wire.to_stack.push_back(syn(flood));
            }
            lan.pass(1);
        }
        assert_eq!(lan.socket(handle).state(), tcp::State::Established, "round {round}");
        lan.socket(handle).close();
        lan.pass(1);
    }
    exchange(&mut lan, old, b"after");
    let counts = lan.stack.counts();
    assert!(counts.attempts > 30_000 && counts.evicted == 0, "{counts:?}");
}

#[test]
fn half_open_connections_cost_no_place() {
    let mut lan = Lan::fixed(8);
    lan.stack.listen(80);
    for number in 1..=100 {
        lan.wire.to_stack.push_back(syn(number));
    }
    // As many as there are places at first; when it is seen that nobody comes, all.
    lan.pass(800);
    let answers = lan.seen.iter().filter(|frame| frame.len() > 47 && frame[23] == 6 && frame[47] == 0x12);
    assert_eq!(answers.count(), 100);
    assert_eq!(lan.stack.tcp.count(Phase::Free), 8);
    assert_eq!(lan.stack.counts().attempts_refused, 0);
}

#[test]
fn who_cannot_be_answered_for_want_of_a_buffer_is_answered_when_there_is_one() {
    let mut lan = Lan::fixed(100);
    lan.stack.listen(80);
    lan.seen.clear();
    lan.gives_back = false;
    // Twice as many as there is to answer with. The turn ends nevertheless: the buffers come only
    // after it.
    for numbers in [1..=30, 31..=100] {
        numbers.for_each(|number| lan.wire.to_stack.push_back(syn(number)));
        lan.pass(5);
    }
    let answers = |lan: &Lan| lan.seen.iter().filter(|frame| frame.len() > 47 && frame[47] == 0x12).count();
    assert!(answers(&lan) < 100);
    lan.gives_back = true;
    lan.pass(10);
    assert_eq!(answers(&lan), 100);
}

#[test]
fn what_cannot_be_sent_at_once_is_sent_later() {
    let mut lan = Lan::fixed(4);
    lan.stack.listen(80);
    let handle = lan.connect(ADDRESS, 50_000);
    lan.pass(20);
    lan.gives_back = false;
    for _ in 0..60 {
        let _ = lan.socket(handle).send_slice(&[9; 8]);
        lan.pass(12);
    }
    lan.gives_back = true;
    lan.pass(20_000);
    let mut answer = [0; 1000];
    let count = lan.socket(handle).recv_slice(&mut answer).expect("still open");
    assert_eq!(count, 480);
    assert!(answer[..count].iter().all(|byte| *byte == 9));
}

/// Answers the first request with all that the send buffer takes, and ends its side.
fn fill_and_finish(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    let Some(mut stream) = stack.stream(slot) else { return };
    let count = stream.received_count();
    stream.consume(count);
    if count > 0 {
        stream.send(&vec![7; stream.room()]);
        stream.finish();
    }
}

#[test]
fn acknowledgements_are_told_of_after_the_end_too() {
    let mut lan = Lan::fixed(1);
    lan.server = fill_and_finish;
    lan.stack.listen(80);
    let handle = lan.connect_with(ADDRESS, 50_000, 1000);
    lan.pass(20);
    lan.socket(handle).send_slice(b"request").expect("space");
    lan.pass(20);
    let slot = *lan.open.first().expect("a connection");
    let mut stream = lan.stack.stream(slot).expect("is open");
    assert_eq!((stream.room(), stream.send(b"more")), (0, 0), "its side is ended");
    let mut left = stream.unacknowledged();
    assert_eq!(left, 8192 + 1 - lan.socket(handle).recv_queue(), "what the host has not, and the end");
    let mut steps = 0;
    // With the last bytes comes the end, which the host acknowledges without reading it.
    while left > 0 {
        let _ = lan.socket(handle).recv(|bytes| (bytes.len(), ()));
        lan.pass(2000);
        let now = lan.stack.stream(slot).expect("is open").unacknowledged();
        assert!(now < left, "{now} of {left}");
        (left, steps) = (now, steps + 1);
    }
    assert!(steps >= 7, "{steps}");
    assert_eq!(lan.socket(handle).state(), tcp::State::CloseWait);
}

#[test]
fn wrong_checksums_are_dropped_and_counted() {
    let mut lan = Lan::fixed(4);
    lan.stack.listen(80);
    lan.stack.bind(7);
    let mut segment = syn(1);
    segment[50] ^= 1;
    lan.wire.to_stack.push_back(segment);
    lan.pass(2);
    assert_eq!(lan.stack.counts().broken, 1);
    assert_eq!(lan.stack.tcp.count(Phase::Free), 4);
}

#[test]
#[should_panic(expected = "nobody who connects to port 80 could be served")]
fn who_listens_has_places_for_connections() {
    Lan::fixed(0).stack.listen(80);
}

#[test]
#[should_panic(expected = "port 0 is no port to listen on")]
fn who_listens_does_so_on_a_port() {
    Lan::fixed(1).stack.listen_for_requests(0);
}

#[test]
#[should_panic(expected = "port 0 is no port to bind")]
fn who_receives_datagrams_does_so_on_a_port() {
    Lan::fixed(0).stack.bind(0);
}

#[test]
#[should_panic(expected = "`receive_buffer` is 0 bytes")]
fn connections_have_room_for_what_comes() {
    Lan::new(super::Settings { connections: 1, receive_buffer: 0, ..super::Settings::default() });
}

#[test]
fn without_an_address_it_asks_for_one() {
    let mut lan = Lan::new(super::Settings::default());
    lan.pass(20);
    // DHCP discover: UDP from port 68 to port 67, broadcast.
    let asks = |frame: &Vec<u8>| frame.len() > 42 && frame[23] == 17 && frame[34..38] == [0, 68, 0, 67];
    assert!(lan.stack.addresses().iter().all(|address| address.address().is_ipv6()));
    assert!(lan.seen.iter().any(asks));
}

/// Frames to mutate: one of each kind that the stack looks into.
fn frames() -> Vec<Vec<u8>> {
    let mut arp = Vec::from([0xff; 6]);
    arp.extend(HOST_MAC);
    arp.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend(HOST_MAC);
    arp.extend([10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    let mut udp = syn(1);
    udp[23] = 17;
    udp[34..42].copy_from_slice(&[3, 231, 0, 7, 0, 20, 0, 0]);
    let mut ping = syn(1);
    ping[23] = 1;
    ping[34] = 8;
    let mut udp_6 = Vec::from(MAC);
    udp_6.extend(HOST_MAC);
    udp_6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64]);
    udp_6.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2]);
    udp_6.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1]);
    udp_6.extend([3, 231, 0, 7, 0, 20, 0, 0]);
    udp_6.extend([0; 12]);
    let mut solicit = udp_6.clone();
    solicit[20] = 58;
    solicit[54] = 135;
    vec![arp, syn(1), udp, ping, udp_6, solicit]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Frames of any content, and broken variants of good ones, with their checksums made right
    /// again or not.
    #[test]
    fn any_frames_are_survived(
        acts in proptest::collection::vec(
            (0..8_usize, proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), any::<bool>(), 14..90_usize),
            1..60,
        ),
    ) {
        let mut lan = Lan::fixed(8);
        lan.stack.listen(80);
        lan.stack.bind(7);
        for (kind, changes, mend, length) in acts {
            let all = frames();
            let mut frame = all.get(kind).cloned().unwrap_or_else(|| vec![kind as u8; length]);
            for (index, byte) in changes {
                let at = index.index(frame.len());
                frame[at] = byte;
            }
            if mend {
                if frame.len() >= 34 && frame[12..14] == [8, 0] {
                    frame[24..26].fill(0);
                    let sum = !checksum::Sum::ZERO.add_bytes(&frame[14..34]).fold();
                    frame[24..26].copy_from_slice(&sum.to_le_bytes());
                }
                checksum::complete(&mut frame);
            }
            frame.truncate(length.max(frame.len() - frame.len() % 2));
            lan.wire.to_stack.push_back(frame);
            lan.pass(3);
        }
        lan.pass(20);
        // Whom it takes for its neighbours may be wrong now; an answer goes to where the question
        // came from.
        let mut datagram = frames().swap_remove(2);
        datagram[16..18].copy_from_slice(&40_u16.to_be_bytes());
        datagram[24..26].fill(0);
        let sum = !checksum::Sum::ZERO.add_bytes(&datagram[14..34]).fold();
        datagram[24..26].copy_from_slice(&sum.to_le_bytes());
        checksum::complete(&mut datagram);
        lan.seen.clear();
        lan.wire.to_stack.push_back(datagram);
        lan.pass(2);
        prop_assert!(lan.seen.iter().any(|frame| frame[..6] == HOST_MAC && frame[34..38] == [0, 7, 3, 231]));
    }
}
