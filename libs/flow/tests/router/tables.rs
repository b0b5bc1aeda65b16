//! The table of flows: what it finds, for how long, and who makes way.

use crate::make::{self, Segment, tuple, v4, v6};
use culm_flow::{
    Cause, Direction, Flow, ICMP, Id, Key, Packet, Refusal, Settings, State, TCP, Table, Timeouts, Tracked, Tuple, UDP,
    memory_words,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;

pub const SETTINGS: Settings = Settings {
    key: Key([11, 13]),
    timeouts: Timeouts {
        opening: 240_000,
        established: 7_440_000,
        closed: 240_000,
        one_way: 120_000,
        both_ways: 300_000,
        echo: 60_000,
    },
    most_per_source: u32::MAX,
};

/// Memory for so many flows.
pub fn memory(flows: usize) -> Vec<AtomicU64> {
    (0..memory_words(flows)).map(|word| AtomicU64::new(word as u64)).collect()
}

pub fn host(number: u32) -> IpAddr {
    IpAddr::V4(number.into())
}

/// A tuple of UDP from one of few hosts and ports to a server.
pub fn from(source: u32, port: u16) -> Tuple {
    tuple(UDP, (host(0x0a00_0000 + source), port), (v4([192, 0, 2, 80]), 53))
}

/// Begins a flow with a packet, and returns those that made way for it.
pub fn begin(table: &mut Table<'_>, bytes: &[u8], now: u64) -> Result<(Id, Vec<Flow>), Refusal> {
    let mut gone = Vec::new();
    let id = begin_telling(table, bytes, now, |flow| gone.push(*flow))?;
    Ok((id, gone))
}

fn begin_telling(table: &mut Table<'_>, bytes: &[u8], now: u64, mut gone: impl FnMut(&Flow)) -> Result<Id, Refusal> {
    let packet = Packet::read(bytes).unwrap();
    let original = packet.tuple().ok_or(Refusal::NotAStart)?;
    table.insert([&original, &original.reversed()], &packet, 7, now, |flow, _| gone(flow))
}

/// Follows a packet that comes in, by its own tuple.
pub fn pass(table: &mut Table<'_>, bytes: &[u8], now: u64) -> Option<Tracked> {
    let packet = Packet::read(bytes).unwrap();
    let (id, direction) = table.find(&packet.tuple()?, now)?;
    Some(table.track(id, direction, &packet, now, |_, _| {}))
}

pub fn syn(tuple: &Tuple) -> Vec<u8> {
    make::tcp(tuple, &Segment { flags: make::SYN, sequence: 100, window: 1000, ..Segment::default() })
}

/// Opens a connection by all three segments, and returns whether the last one belonged to it.
pub fn connect(table: &mut Table<'_>, tuple: &Tuple, now: u64) -> bool {
    let answer = Segment {
        flags: make::SYN | make::ACK,
        sequence: 500,
        acknowledgement: 101,
        window: 1000,
        ..Segment::default()
    };
    let last = Segment { flags: make::ACK, sequence: 101, acknowledgement: 501, window: 1000, ..Segment::default() };
    pass(table, &make::tcp(&tuple.reversed(), &answer), now).is_some()
        && pass(table, &make::tcp(tuple, &last), now).is_some()
}

#[test]
fn a_flow_is_found_by_either_direction_and_counted() {
    let memory = memory(8);
    let mut table = Table::new(&SETTINGS, &memory);
    assert_eq!((table.capacity(), table.count()), (8, 0));
    for original in [from(1, 1), tuple(UDP, (v6(1), 5), (v6(2), 6)), tuple(ICMP, (host(3), 9), (host(4), 0))] {
        let bytes = make::packet(&original, b"data");
        let (id, _) = begin(&mut table, &bytes, 10).unwrap();
        assert_eq!(table.find(&original, 10), Some((id, Direction::Original)));
        assert_eq!(table.find(&original.reversed(), 10), Some((id, Direction::Reply)));
        assert_eq!(pass(&mut table, &bytes, 20), Some(Tracked::Belongs));
        assert_eq!(table.flow(id).unwrap().state, State::OneWay);
        let answer = make::packet(&original.reversed(), b"an answer");
        assert_eq!(pass(&mut table, &answer, 30), Some(Tracked::Belongs));
        let flow = table.flow(id).unwrap();
        assert_eq!((flow.state, flow.tag, flow.used, flow.packets), (State::BothWays, 7, 30, [1, 1]));
        assert_eq!(flow.bytes, [bytes.len() as u64, answer.len() as u64]);
        assert_eq!(begin(&mut table, &bytes, 30).unwrap_err(), Refusal::Taken);
        table.remove(id, |flow, cause| assert_eq!((flow.original, cause), (original, Cause::Removed)));
        assert_eq!((table.find(&original, 30), table.flow(id), table.count()), (None, None, 0));
        assert_eq!(
            table.track(id, Direction::Original, &Packet::read(&bytes).unwrap(), 30, |_, _| {}),
            Tracked::Outside
        );
    }
}

/// A packet of IPv6 whose addresses have the bits of an IPv4 packet's is of another flow.
#[test]
fn the_families_do_not_meet() {
    let memory = memory(8);
    let mut table = Table::new(&SETTINGS, &memory);
    let four = tuple(UDP, (host(1), 5), (host(2), 6));
    let six = |number: u8| IpAddr::from([0, 0, 0, 0, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 0]);
    begin(&mut table, &make::udp(&four, b""), 0).unwrap();
    assert_eq!(table.find(&tuple(UDP, (six(1), 5), (six(2), 6)), 0), None);
}

#[test]
fn what_starts_nothing_is_refused() {
    let memory = memory(8);
    let mut table = Table::new(&SETTINGS, &memory);
    let tcp = Tuple { protocol: TCP, ..from(1, 1) };
    for flags in [make::ACK, make::SYN | make::ACK, make::RST, make::RST | make::ACK, make::FIN | make::ACK] {
        let bytes = make::tcp(&tcp, &Segment { flags, ..Segment::default() });
        assert_eq!(begin(&mut table, &bytes, 0).unwrap_err(), Refusal::NotAStart);
    }
    let reply = make::echo(&tuple(ICMP, (host(1), 0), (host(2), 9)), b"");
    assert_eq!(begin(&mut table, &reply, 0).unwrap_err(), Refusal::NotAStart);
    let udp = make::udp(&from(1, 1), &[0; 100]);
    assert_eq!(begin(&mut table, &make::fragment(&udp, 16, 108, 1), 0).unwrap_err(), Refusal::NotAStart);
    let land = tuple(UDP, (host(1), 5), (host(1), 5));
    assert_eq!(begin(&mut table, &make::udp(&land, b""), 0).unwrap_err(), Refusal::Loop);
    let mut none = Table::new(&SETTINGS, &[]);
    assert_eq!(begin(&mut none, &udp, 0).unwrap_err(), Refusal::NoRoom);
    assert_eq!((none.find(&from(1, 1), 0), none.next_expiry(), none.expire(9, 9, |_, _| {})), (None, None, 0));
}

#[test]
fn each_state_lasts_as_long_as_its_standard_says() {
    let timeouts = SETTINGS.timeouts;
    assert_eq!(timeouts, Timeouts::default());
    let udp = from(1, 1);
    let echo = tuple(ICMP, (host(1), 9), (host(2), 0));
    let tcp = Tuple { protocol: TCP, ..udp };
    let answer = Segment { flags: make::SYN | make::ACK, sequence: 500, acknowledgement: 101, ..Segment::default() };
    let refusal = Segment { flags: make::RST | make::ACK, acknowledgement: 101, ..Segment::default() };
    for (tuple, replies, timeout) in [
        (udp, vec![], timeouts.one_way),
        (udp, vec![make::udp(&udp.reversed(), b"")], timeouts.both_ways),
        (echo, vec![], timeouts.echo),
        (echo, vec![make::echo(&echo.reversed(), b"")], timeouts.echo),
        (tcp, vec![], timeouts.opening),
        (tcp, vec![make::tcp(&tcp.reversed(), &answer)], timeouts.opening),
        (tcp, vec![make::tcp(&tcp.reversed(), &refusal)], timeouts.closed),
    ] {
        let memory = memory(8);
        let mut table = Table::new(&SETTINGS, &memory);
        let first = if tuple == tcp { syn(&tuple) } else { make::packet(&tuple, b"") };
        begin(&mut table, &first, 1000).unwrap();
        for reply in replies {
            assert_eq!(pass(&mut table, &reply, 1000), Some(Tracked::Belongs));
        }
        let until = 1000 + timeout + timeout / 16;
        assert_eq!(table.next_expiry(), Some(until));
        assert!(table.find(&tuple, until - 1).is_some() && table.find(&tuple, until).is_none());
        assert_eq!(table.expire(until - 1, 9, |_, _| {}), 0);
        assert_eq!(table.expire(until, 9, |_, cause| assert_eq!(cause, Cause::Expired)), 1);
    }
}

#[test]
fn an_expired_flow_is_in_nobodys_way() {
    let memory = memory(8);
    let mut table = Table::new(&SETTINGS, &memory);
    // More have expired before it than one new flow sweeps away.
    for port in 1..=5 {
        begin(&mut table, &make::udp(&from(1, port), b""), port.into()).unwrap();
    }
    let (_, gone) = begin(&mut table, &make::udp(&from(1, 5), b""), 1 << 40).unwrap();
    assert_eq!((gone.len(), table.count()), (3, 3));
}

#[test]
fn one_source_has_its_share_and_no_more() {
    let memory = memory(100);
    let mut table = Table::new(&Settings { most_per_source: 10, ..SETTINGS }, &memory);
    let kept = Tuple { protocol: TCP, ..from(7, 1) };
    begin(&mut table, &syn(&kept), 0).unwrap();
    assert!(connect(&mut table, &kept, 0));
    let others: Vec<Tuple> = (0..90).map(|source| from(100 + source, 1)).collect();
    for other in &others {
        begin(&mut table, &make::udp(other, b""), 1).unwrap();
    }
    for port in 0..10_000 {
        begin(&mut table, &make::udp(&from(7, port), b""), 2).unwrap();
    }
    assert_eq!((table.count_of(kept.source), table.count()), (10, 100));
    assert!(table.find(&kept, 2).is_some(), "its own connection outlives its flood");
    assert!(others.iter().all(|other| table.find(other, 2).is_some()));
}

#[test]
fn in_a_full_table_the_greediest_source_pays() {
    let memory = memory(100);
    let mut table = Table::new(&SETTINGS, &memory);
    for source in 0..20 {
        begin(&mut table, &make::udp(&from(source, 1), b""), 0).unwrap();
    }
    for port in 0..5000 {
        begin(&mut table, &make::udp(&from(99, port), b""), 1).unwrap();
    }
    assert_eq!(table.count_of(from(99, 0).source), 80);
    assert!((0..20).all(|source| table.find(&from(source, 1), 1).is_some()));
}

#[test]
fn connections_outlive_a_flood_from_many() {
    let memory = memory(800);
    let mut table = Table::new(&SETTINGS, &memory);
    let open = |source| Tuple { protocol: TCP, ..from(source, 80) };
    for source in 0..800 {
        begin(&mut table, &syn(&open(source)), 0).unwrap();
        assert!(connect(&mut table, &open(source), 0));
    }
    for source in 1000..50_000 {
        begin(&mut table, &syn(&open(source)), 1).unwrap();
    }
    let left = (0..800).filter(|source| table.find(&open(*source), 1).is_some()).count();
    assert_eq!(left, 699, "an eighth, and one, is for those who begin");
    // Whoever begins has time for an answer while a hundred others begin.
    begin(&mut table, &syn(&open(900)), 2).unwrap();
    for source in 60_000..60_099 {
        begin(&mut table, &syn(&open(source)), 2).unwrap();
    }
    assert!(connect(&mut table, &open(900), 2));
}

/// A source that holds many open connections loses one of them before others' that are open.
#[test]
fn of_lasting_flows_the_greediest_source_pays_too() {
    let memory = memory(80);
    let mut table = Table::new(&SETTINGS, &memory);
    for (source, port) in (0..20).map(|source| (source, 1)).chain((0..60).map(|port| (99, port))) {
        let original = from(source, port);
        begin(&mut table, &make::udp(&original, b""), 0).unwrap();
        assert_eq!(pass(&mut table, &make::udp(&original.reversed(), b""), 0), Some(Tracked::Belongs));
    }
    for source in 200..240 {
        begin(&mut table, &make::udp(&from(source, 1), b""), 0).unwrap();
    }
    assert!((0..20).all(|source| table.find(&from(source, 1), 0).is_some()));
    assert_eq!(table.count_of(from(99, 0).source), 49);
}

/// A flow of the model: who began it, whether it was answered, and when it was used last.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: Id,
    last: u64,
    is_answered: bool,
}

proptest! {
    /// Against a map: what was begun is found, until it is told to be gone or its time is over.
    #[test]
    fn it_finds_what_a_map_finds(
        steps in prop::collection::vec((0..4_u32, 0..6_u16, 0..4_u8, 0..40_000_u64), 1..300),
        flows in 1..12_usize, most_per_source in 1..8_u32,
    ) {
        let memory = memory(flows);
        let mut table = Table::new(&Settings { most_per_source, ..SETTINGS }, &memory);
        let mut model: HashMap<Tuple, Known> = HashMap::new();
        let mut now = 0;
        for (source, port, step, pause) in steps {
            now += pause;
            let original = from(source, port);
            let bytes = make::udp(&original, b"");
            match step {
                0 => match begin_telling(&mut table, &bytes, now, |flow| forget(&mut model, flow)) {
                    Ok(id) => {
                        let known = Known { id, last: now, is_answered: false };
                        prop_assert_eq!(model.insert(original, known).map(|known| known.id), None);
                    }
                    Err(refusal) => prop_assert!(refusal == Refusal::Taken && model.contains_key(&original)),
                },
                1 | 2 => {
                    let direction = if step == 1 { original } else { original.reversed() };
                    if pass(&mut table, &make::udp(&direction, b""), now).is_some() {
                        let known = model.get_mut(&original).unwrap();
                        known.last = now;
                        known.is_answered |= step == 2;
                    }
                }
                _ => {
                    table.expire(now, 3, |flow, cause| {
                        assert_eq!(cause, Cause::Expired);
                        forget(&mut model, flow);
                    });
                }
            }
            prop_assert!(table.count() == model.len() && model.len() <= flows);
            for (original, known) in &model {
                let timeout = if known.is_answered { 300_000 } else { 120_000 };
                let found = table.find(original, now);
                prop_assert_eq!(table.find(&original.reversed(), now).is_some(), found.is_some());
                if now < known.last + timeout {
                    prop_assert_eq!(found, Some((known.id, Direction::Original)));
                } else if now >= known.last + timeout + timeout / 16 {
                    prop_assert_eq!(found, None);
                }
            }
            for source in 0..4 {
                let own = model.keys().filter(|tuple| tuple.source == from(source, 0).source).count();
                prop_assert!(table.count_of(from(source, 0).source) == own && own <= most_per_source as usize);
            }
        }
        let flows = table.flows().count();
        prop_assert_eq!(flows, model.len());
    }
}

/// Removes from the model what the table has told to be gone.
fn forget(model: &mut HashMap<Tuple, Known>, flow: &Flow) {
    assert!(model.remove(&flow.original).is_some(), "it was not there: {flow:?}");
}
