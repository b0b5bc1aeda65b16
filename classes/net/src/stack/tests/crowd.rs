//! Many clients, each a station of its own, and more of them than places: who gets in, and who
//! makes way.

use super::lan::{ADDRESS, HOST_MAC, Lan, MAC};
use super::station::{ACK, FIN, RST, SYN, Station};
use crate::descriptor::flags::{CHECKSUM_OFFLOAD, SEGMENTATION_OFFLOAD_4};
use crate::stack::table::Phase;
use crate::stack::{Event, Settings, Stack};
use culm::time::{self, Duration};
use smoltcp::socket::tcp;
use std::vec;
use std::vec::Vec;

/// Answers what comes with the same, and rests in between.
fn patient_echo(stack: &mut Stack, event: Event) {
    super::lan::echo(stack, event);
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    if let Some(mut stream) = stack.stream(slot) {
        stream.rest();
    }
}

/// A server with so many places, which echoes.
pub(super) fn server(places: usize) -> Lan {
    let mut lan = Lan::fixed(places);
    lan.server = patient_echo;
    lan.stack.listen(80);
    lan.seen.clear();
    lan
}

#[test]
fn a_hundred_stations_are_served_at_once() {
    let mut lan = server(100);
    let mut stations: Vec<Station> = (0..100).map(Station::new).collect();
    stations.iter_mut().for_each(|station| station.send(&mut lan, SYN, b""));
    lan.pass(10);
    for station in &mut stations {
        assert!(matches!(station.receive(&mut lan)[..], [(flags, _)] if flags == SYN | ACK), "{station:?}");
        station.send(&mut lan, ACK, b"");
    }
    lan.pass(10);
    for station in &mut stations {
        station.exchange(&mut lan, &station.mac.clone());
    }
    // Whoever asks for his own address tells all that he has it (RFC 5227 §2.3).
    let asks = |frame: &Vec<u8>| frame[12..14] == [8, 6] && frame[21] == 1 && frame[28..32] != frame[38..42];
    assert!(!lan.seen.iter().any(asks), "nobody is asked where he is");
}

#[test]
fn false_claims_of_addresses_keep_nobody_out() {
    let mut lan = server(4);
    let claim = {
        let mut frame = [MAC, [2, 6, 6, 6, 6, 6]].concat();
        frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
        frame.extend([2, 6, 6, 6, 6, 6, 10, 0, 0, 2]);
        frame.extend(MAC);
        frame.extend([10, 0, 0, 1]);
        frame
    };
    let handle = lan.connect(ADDRESS, 50_000);
    for _ in 0..100 {
        lan.wire.to_stack.push_back(claim.clone());
        lan.pass(1);
    }
    assert_eq!(lan.socket(handle).state(), tcp::State::Established);
    lan.socket(handle).send_slice(b"hello").expect("open");
    for _ in 0..30 {
        lan.wire.to_stack.push_back(claim.clone());
        lan.pass(1);
    }
    let mut answer = [0; 5];
    assert_eq!(lan.socket(handle).recv_slice(&mut answer), Ok(5));
    assert!(lan.seen.iter().all(|frame| frame[12..14] != [8, 0] || frame[..6] == HOST_MAC));
}

#[test]
fn only_who_knows_the_connection_moves_it_to_another_station() {
    let mut lan = server(4);
    let mut station = Station::new(1);
    station.open(&mut lan);
    station.exchange(&mut lan, b"before");
    let liar = Station { mac: [2, 6, 6, 6, 6, 6], next: station.next + 100_000, ..station };
    lan.wire.to_stack.push_back(liar.segment(ACK, b"not so"));
    lan.wire.to_stack.push_back(liar.segment(ACK, b""));
    lan.pass(20);
    station.receive(&mut lan);
    station.exchange(&mut lan, b"still here");
    // Its router was replaced, or it has another card.
    station.mac[5] ^= 0x80;
    station.exchange(&mut lan, b"after");
}

#[test]
fn who_rests_makes_way_for_a_newcomer_and_is_told() {
    let mut lan = server(8);
    let mut stations: Vec<Station> = (0..8).map(Station::new).collect();
    for station in &mut stations {
        station.open(&mut lan);
        station.exchange(&mut lan, b"hello");
    }
    // The first one has been silent for less time than the second.
    lan.pass(200);
    stations[0].exchange(&mut lan, b"I am still here");
    lan.pass(100);
    for number in 8..11 {
        let mut newcomer = Station::new(number);
        newcomer.open(&mut lan);
        newcomer.exchange(&mut lan, b"served");
    }
    let ended: Vec<bool> = stations
        .iter_mut()
        .map(|station| station.receive(&mut lan).iter().any(|(flags, _)| flags & FIN != 0))
        .collect();
    assert_eq!(ended, [false, true, true, true, false, false, false, false]);
    assert_eq!((lan.stack.counts().evicted, lan.stack.counts().resets), (3, 0));
    stations[0].exchange(&mut lan, b"and here");
}

/// Who had to make way and has not heard of it is told when it asks for something, also if it
/// connected just now.
#[test]
fn who_made_way_is_reset_at_its_next_request() {
    let mut lan = server(2);
    let mut stations: Vec<Station> = (0..2).map(Station::new).collect();
    for station in &mut stations {
        station.open(&mut lan);
        station.exchange(&mut lan, b"hello");
    }
    lan.pass(200);
    let mut newcomer = Station::new(2);
    newcomer.open(&mut lan);
    newcomer.exchange(&mut lan, b"served");
    let [first, _] = &mut stations[..] else { unreachable!("there are two") };
    assert!(matches!(first.receive(&mut lan)[..], [(flags, _)] if flags & FIN != 0));
    // That goodbye was lost.
    first.seen -= 1;
    first.send(&mut lan, ACK, b"");
    lan.pass(3);
    assert!(first.receive(&mut lan).is_empty(), "a bare acknowledgement needs no answer");
    first.send(&mut lan, ACK, b"request");
    lan.pass(3);
    assert!(matches!(first.receive(&mut lan)[..], [(flags, _)] if flags & RST != 0));
    // It asks again, from the same port too: the new connection is not the old one.
    first.send(&mut lan, RST, b"");
    first.shake_hands(&mut lan);
    let begun = *first;
    first.next += 5;
    first.send(&mut lan, ACK, b"world");
    lan.pass(3);
    assert!(first.receive(&mut lan).is_empty(), "the second segment came first");
    lan.wire.to_stack.push_back(begun.segment(ACK, b"hello"));
    lan.pass(5);
    assert!(first.receive(&mut lan).iter().any(|(_, payload)| payload == b"hello"));
}

/// SYNs whose senders do not come.
fn flood(lan: &mut Lan) {
    for number in 0..2000 {
        Station::new(10_000 + number).send(lan, SYN, b"");
        lan.pass(1);
    }
    lan.seen.clear();
}

#[test]
fn the_young_do_not_make_way_and_nobody_is_reset() {
    let mut lan = server(8);
    // After a flood, nobody expects those who are told that they may come.
    flood(&mut lan);
    let mut stations: Vec<Station> = (0..24).map(Station::new).collect();
    stations.iter_mut().for_each(|station| station.send(&mut lan, SYN, b""));
    lan.pass(3);
    for station in &mut stations {
        assert_eq!(station.receive(&mut lan).len(), 1);
        station.send(&mut lan, ACK, b"");
        station.send(&mut lan, ACK, b"request");
    }
    lan.pass(3);
    // Those that found no place hear nothing, and send their requests again until they are
    // answered.
    let mut left = stations;
    let mut rounds = 0;
    while !left.is_empty() {
        left.retain_mut(|station| {
            let segments = station.receive(&mut lan);
            assert!(segments.iter().all(|(flags, _)| flags & (RST | FIN) == 0), "{segments:?}");
            let is_answered = segments.iter().any(|(_, payload)| payload == b"request");
            let again = if is_answered { b"".as_slice() } else { b"request" };
            let next = if is_answered { station.next } else { station.next - 7 };
            lan.wire.to_stack.push_back(Station { next, ..*station }.segment(ACK, again));
            !is_answered
        });
        lan.pass(60);
        rounds += 1;
        assert!(rounds < 20);
    }
    let counts = lan.stack.counts();
    assert!(counts.opened == 24 && counts.attempts_refused > 0 && counts.resets == 0, "{counts:?}");
}

#[test]
fn a_first_request_that_has_to_come_again_is_waited_for() {
    let mut lan = server(8);
    let mut stations: Vec<Station> = (0..8).map(Station::new).collect();
    stations.iter_mut().for_each(|station| station.open(&mut lan));
    // Frames that they sent are lost; others want in meanwhile.
    let mut others: Vec<Station> = (8..16).map(Station::new).collect();
    others.iter_mut().for_each(|other| other.send(&mut lan, SYN, b""));
    for _ in 0..8 {
        lan.pass(50);
        for other in &mut others {
            let segments = other.receive(&mut lan);
            segments.iter().for_each(|_| other.send(&mut lan, ACK, b""));
        }
    }
    for station in &mut stations {
        station.exchange(&mut lan, b"once more");
    }
    // Now each has had its answer, and makes way after a little while.
    lan.pass(200);
    for other in &mut others {
        assert_eq!(other.receive(&mut lan).len(), 1);
        other.send(&mut lan, ACK, b"");
        other.exchange(&mut lan, b"served");
    }
    // Who says nothing at all makes way too, after a second.
    let mut silent: Vec<Station> = (16..24).map(Station::new).collect();
    lan.pass(200);
    silent.iter_mut().for_each(|station| station.open(&mut lan));
    lan.pass(1000);
    let mut last = Station::new(24);
    last.open(&mut lan);
    last.exchange(&mut lan, b"served");
    assert_eq!(lan.stack.counts().resets, 0);
}

#[test]
fn whose_request_waits_in_the_queue_does_not_rest() {
    let mut lan = server(8);
    let mut stations: Vec<Station> = (0..8).map(Station::new).collect();
    stations.iter_mut().for_each(|station| station.open(&mut lan));
    stations.iter_mut().for_each(|station| station.exchange(&mut lan, b"hello"));
    lan.pass(200);
    let mut newcomer = Station::new(8);
    newcomer.shake_hands(&mut lan);
    stations.iter_mut().for_each(|station| station.exchange(&mut lan, b"again"));
    // The stack does not get a turn for a while, and then finds the newcomer before all others in
    // its queue.
    newcomer.send(&mut lan, ACK, b"");
    stations.iter_mut().for_each(|station| station.send(&mut lan, ACK, b"I am here"));
    culm::testing::set_time(time::now() + Duration::from_millis(200));
    lan.pass(5);
    for station in &mut stations {
        let segments = station.receive(&mut lan);
        assert!(segments.iter().all(|(flags, _)| flags & (RST | FIN) == 0), "{segments:?}");
        assert!(segments.iter().any(|(_, payload)| payload == b"I am here"), "{segments:?}");
        station.send(&mut lan, ACK, b"");
    }
    lan.pass(200);
    newcomer.exchange(&mut lan, b"served");
    assert_eq!((lan.stack.counts().evicted, lan.stack.counts().resets), (1, 0));
}

#[test]
fn what_is_not_acknowledged_is_not_cut_short() {
    let mut lan = server(2);
    let mut stations = [Station::new(0), Station::new(1)];
    for station in &mut stations {
        station.open(&mut lan);
        station.send(&mut lan, ACK, b"request");
    }
    lan.pass(1000);
    // Both are answered, and say nothing to that.
    let mut newcomer = Station::new(2);
    newcomer.send(&mut lan, SYN, b"");
    lan.pass(300);
    assert!(newcomer.receive(&mut lan).is_empty());
    for station in &mut stations {
        assert!(station.receive(&mut lan).iter().any(|(_, payload)| payload == b"request"));
        station.send(&mut lan, ACK, b"");
    }
    lan.pass(120);
    assert_eq!(newcomer.receive(&mut lan).len(), 1);
    newcomer.send(&mut lan, ACK, b"");
    newcomer.exchange(&mut lan, b"served");
}

#[test]
fn who_takes_nothing_for_long_makes_way_too() {
    let mut lan = server(2);
    for number in 0..2 {
        let mut station = Station::new(number);
        station.open(&mut lan);
        station.send(&mut lan, ACK, b"request");
    }
    lan.pass(6000);
    let mut newcomer = Station::new(2);
    newcomer.open(&mut lan);
    newcomer.exchange(&mut lan, b"served");
    assert_eq!((lan.stack.counts().evicted, lan.stack.counts().resets), (1, 1));
}

#[test]
fn a_reset_frees_the_port_at_once() {
    let mut lan = server(2);
    for round in 0..5 {
        let mut station = Station { next: 1000 * round, ..Station::new(0) };
        station.open(&mut lan);
        station.exchange(&mut lan, b"hello");
        // In the same batch as the next round's SYN.
        lan.wire.to_stack.push_back(station.segment(RST | ACK, b""));
    }
    assert_eq!(lan.stack.counts().opened, 5);
}

#[test]
fn the_first_bytes_complete_the_handshake_where_the_acknowledgement_was_lost() {
    let mut lan = server(2);
    let mut station = Station::new(0);
    station.shake_hands(&mut lan);
    station.exchange(&mut lan, b"straight to the point");
}

#[test]
fn segments_of_nobody_are_reset_but_not_those_of_who_has_just_asked() {
    let mut lan = server(2);
    let mut stranger = Station { seen: 4711, ..Station::new(0) };
    stranger.send(&mut lan, ACK, b"who am I?");
    lan.pass(3);
    assert!(matches!(stranger.receive(&mut lan)[..], [(flags, _)] if flags & RST != 0));
    let mut early = Station::new(1);
    early.shake_hands(&mut lan);
    let first = early;
    early.next += 5;
    // The second segment comes first.
    early.send(&mut lan, ACK, b"world");
    lan.pass(3);
    assert!(early.receive(&mut lan).is_empty());
    lan.wire.to_stack.push_back(first.segment(ACK, b"hello"));
    lan.pass(5);
    assert!(early.receive(&mut lan).iter().any(|(_, payload)| payload == b"hello"));
    early.next = first.next + 5;
    early.exchange(&mut lan, b"world");
}

#[test]
fn a_repeated_request_for_a_connection_is_answered_again() {
    let mut lan = server(2);
    let mut station = Station::new(0);
    station.shake_hands(&mut lan);
    station.next -= 1;
    station.shake_hands(&mut lan);
    station.send(&mut lan, ACK, b"");
    station.exchange(&mut lan, b"hello");
    assert_eq!(lan.stack.tcp.count(Phase::Free), 1);
}

/// Sends on each connection as much as goes.
fn endless(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    if let Some(mut stream) = stack.stream(slot) {
        let bytes = vec![7; stream.room()];
        stream.send(&bytes);
    }
}

#[test]
fn who_has_all_large_buffers_keeps_nobody_out() {
    let settings = Settings { connections: 8, send_buffer: 65536, ..Settings::default() };
    let mut lan = Lan::new(settings.with_addresses("10.0.0.1/24", "").expect("an address"));
    lan.flags = CHECKSUM_OFFLOAD | SEGMENTATION_OFFLOAD_4;
    lan.server = endless;
    lan.stack.listen(80);
    let bulk: Vec<_> = (0..4).map(|port| lan.connect_with(ADDRESS, 50_000 + port, 60_000)).collect();
    lan.pass(5);
    // None of the large buffers comes back from now on.
    lan.keeps_large = true;
    for _ in 0..50 {
        for handle in &bulk {
            let _ = lan.socket(*handle).recv(|bytes| (bytes.len(), ()));
        }
        lan.pass(1);
    }
    let divided = lan.divided;
    assert!(divided > 0);
    let handle = lan.connect(ADDRESS, 60_000);
    for _ in 0..50 {
        for handle in &bulk {
            let _ = lan.socket(*handle).recv(|bytes| (bytes.len(), ()));
        }
        lan.pass(1);
    }
    assert_eq!(lan.divided, divided, "there are no large buffers left");
    assert_eq!(lan.socket(handle).state(), tcp::State::Established);
    assert!(lan.socket(handle).recv_queue() > 1000, "and they are not needed");
}

/// The sequence number by which a stack answers a station that asks for a connection, with the
/// machine's source of randomness in this state.
fn first_number(seed: Option<[u64; 4]>, station: u16) -> u32 {
    if let Some(seed) = seed {
        culm::testing::set_seed(seed);
    }
    let mut lan = server(2);
    let mut station = Station::new(station);
    station.shake_hands(&mut lan);
    station.seen
}

#[test]
fn sequence_numbers_come_from_the_source_of_randomness() {
    let number = |seed, station| std::thread::spawn(move || first_number(seed, station)).join().expect("no panic");
    let (one, other) = (Some([1, 2, 3, 4]), Some([1, 2, 3, 5]));
    assert_eq!(number(one, 1), number(one, 1));
    assert_ne!(number(one, 1) >> 8, number(other, 1) >> 8);
    assert_ne!(number(one, 1) >> 8, number(one, 2) >> 8);
    assert_ne!(number(None, 1) >> 8, number(one, 1) >> 8);
}

/// The port and the sequence number from which a stack asks another station for a connection, with
/// the machine's source of randomness in this state.
fn first_question(seed: [u64; 4]) -> (u16, u32) {
    culm::testing::set_seed(seed);
    let mut lan = Lan::fixed(2);
    lan.stack.connect("10.0.0.2:80".parse().expect("an address")).expect("there is a way");
    lan.pass(20);
    let syn = lan.seen.iter().find(|frame| frame[12..14] == [8, 0] && frame[23] == 6).expect("it asks");
    let number = |at: usize| u32::from_be_bytes(syn[at..at + 4].try_into().expect("four bytes"));
    ((number(34) >> 16) as u16, number(38))
}

/// RFC 6528 and RFC 6056, §3.3.3: neither is to be guessed by who knows the time and both
/// addresses.
#[test]
fn where_questions_come_from_and_begin_comes_from_the_source_of_randomness() {
    let question = |seed| std::thread::spawn(move || first_question(seed)).join().expect("no panic");
    let [one, again, other] = [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5]].map(question);
    assert_eq!(one, again);
    assert_ne!(one.0, other.0);
    assert_ne!(one.1 >> 8, other.1 >> 8);
}

/// Those that a round answers of so many SYNs.
fn answered_in_a_round(syns: u16) -> usize {
    let mut lan = server(100);
    (0..syns).for_each(|number| Station::new(number).send(&mut lan, SYN, b""));
    lan.deliver();
    lan.stack.receive(&mut |_| {});
    let _ = lan.stack.end_round();
    lan.collect();
    let answers = |lan: &Lan| lan.seen.iter().filter(|frame| frame[12..14] == [8, 0] && frame[47] == SYN | ACK).count();
    let count = answers(&lan);
    lan.pass(10);
    assert_eq!(answers(&lan), usize::from(syns), "the others are answered later");
    count
}

/// What is begun goes before what would begin: where frames are left for the next round, few SYNs
/// are answered.
#[test]
fn a_round_answers_so_many_syns() {
    assert_eq!([10, 40, 41].map(answered_in_a_round), [10, 32, 2]);
}

/// Answers each request, and ends the connection after that, as a web server does that is told to.
pub(super) fn answer_and_end(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    let Some(mut stream) = stack.stream(slot) else { return };
    let count = stream.received_count();
    stream.consume(count);
    if count > 0 {
        stream.send(b"answer");
        stream.finish();
    }
    stream.rest();
    if stream.is_over() {
        stack.release(slot);
    }
}

#[test]
fn a_crowd_that_comes_at_once_is_served() {
    const CROWD: u16 = 800;
    let mut lan = server(320);
    lan.server = answer_and_end;
    let handles: Vec<_> = (0..CROWD).map(|number| lan.connect_with(ADDRESS, 10_000 + number, 1024)).collect();
    let mut done = vec![false; handles.len()];
    for _ in 0..600 {
        lan.pass(10);
        for (index, handle) in handles.iter().enumerate() {
            let socket = lan.sockets.get_mut::<tcp::Socket<'_>>(*handle);
            if socket.can_send() && socket.send_queue() == 0 && !done[index] && !socket.can_recv() {
                let _ = socket.send_slice(b"request");
            }
            if socket.can_recv() {
                done[index] = true;
                let _ = socket.recv(|bytes| (bytes.len(), ()));
                socket.close();
            }
            assert!(done[index] || socket.state() != tcp::State::Closed, "{index} was reset");
        }
        if done.iter().all(|done| *done) {
            break;
        }
    }
    let served = done.iter().filter(|done| **done).count();
    assert_eq!(served, usize::from(CROWD), "{:?}", lan.stack.counts());
}

/// An application that fills its buffer again at once hides from a look at its length that the peer
/// takes all the time.
#[test]
fn a_download_that_goes_on_does_not_make_way() {
    let settings = Settings { connections: 2, send_buffer: 8192, ..Settings::default() };
    let mut lan = Lan::new(settings.with_addresses("10.0.0.1/24", "").expect("an address"));
    lan.server = endless;
    lan.stack.listen(80);
    let downloads = [0, 1].map(|port| lan.connect_with(ADDRESS, 50_000 + port, 4000));
    let pass = |lan: &mut Lan, turns: usize| {
        for _ in 0..turns {
            for download in downloads {
                let _ = lan.socket(download).recv(|bytes| (bytes.len(), ()));
            }
            lan.pass(1);
            lan.seen.clear();
        }
    };
    pass(&mut lan, 6000);
    let mut newcomer = Station::new(2);
    newcomer.send(&mut lan, SYN, b"");
    lan.pass(3);
    assert!(newcomer.receive(&mut lan).is_empty(), "nobody makes way");
    newcomer.send(&mut lan, ACK, b"");
    pass(&mut lan, 100);
    assert_eq!(lan.stack.counts().resets, 0);
}

/// Sends a little and releases the connection, whatever comes of it.
fn hasty(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    if let Some(mut stream) = stack.stream(slot) {
        stream.send(b"hello");
        stream.finish();
    }
    stack.release(slot);
}

#[test]
fn who_never_acknowledges_the_goodbye_makes_way() {
    let mut lan = Lan::fixed(2);
    lan.server = hasty;
    lan.stack.listen(80);
    for number in 0..2 {
        let mut silent = Station::new(number);
        silent.shake_hands(&mut lan);
        silent.send(&mut lan, ACK, b"");
        lan.pass(5);
    }
    lan.pass(6000);
    let mut newcomer = Station::new(9);
    newcomer.send(&mut lan, SYN, b"");
    lan.pass(3);
    assert!(!newcomer.receive(&mut lan).is_empty(), "{:?}", lan.stack.counts());
}
