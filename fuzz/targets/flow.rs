//! Packets of any kind on their way through a router.
//!
//! The input is packets with what is to become of them. Whatever they are, no length leads beyond
//! them; what is translated still parses, has the tuple that was asked for, and right checksums if
//! it had right ones before. Those that a router with a small table forwards leave it sound, and
//! its next life finds each flow again; words that the input spoils have it find fewer. Another
//! router gets the same packets, and takes the short way where there is one: it sends the same
//! bytes and comes to have the same memory.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_flow::rewrite::{clamp_mss, count_hop, translate, translate_error};
use culm_flow::{
    Direction, Flow, Followed, Fragments, Inward, Key, LONGEST_ANSWER, Nat, Packet, Plain, Pool, Problem, Settings,
    Table, Timeouts, Tracked, Transport, Tuple, answer, checksum_is_right, memory_words,
};
use culm_packet::checksum::Sum;
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Gives an IPv4 header its checksum, which the fuzzer would seldom find.
fn seal(bytes: &mut [u8], at: usize) {
    let Some(first) = bytes.get(at) else { return };
    let end = at + usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || bytes.len() < end || end < at + 20 {
        return;
    }
    bytes[at + 10..at + 12].fill(0);
    let sum = Sum::ZERO.add_bytes(&bytes[at..end]);
    bytes[at + 10..at + 12].copy_from_slice(&sum.checksum().to_be_bytes());
}

/// Gives an ICMP error over IPv4 its checksums.
fn seal_error(bytes: &mut [u8]) {
    seal(bytes, 28);
    if bytes.len() > 28 && bytes[0] == 0x45 && bytes[9] == 1 {
        bytes[22..24].fill(0);
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]])).clamp(24, bytes.len());
        let sum = Sum::ZERO.add_bytes(&bytes[20..length]);
        bytes[22..24].copy_from_slice(&sum.checksum().to_be_bytes());
    }
}

/// A tuple of the same kind, of IPv4.
fn another(tuple: &Tuple, input: &mut Input<'_>) -> Tuple {
    let mut address = || {
        let mut octets = [0; 4];
        octets.iter_mut().for_each(|octet| *octet = input.byte());
        IpAddr::from(octets)
    };
    let (source, destination) = (address(), address());
    let mut port = |own| if own == 0 { 0 } else { u16::from_be_bytes([input.byte(), input.byte() | 1]) };
    let (source_port, destination_port) = (port(tuple.source_port), port(tuple.destination_port));
    Tuple { source, destination, source_port, destination_port, ..*tuple }
}

/// Whether a checksum that was right is so still, and none was added. One that was wrong may become
/// right: a sum of zero is wrong, and the same in one's complement as that of all ones.
fn stays(was_right: Option<bool>, is_right: Option<bool>) -> bool {
    was_right == Some(false) || was_right == is_right
}

/// What the short way takes for a plain packet is one to the general way, too, which rewrites it
/// the same.
fn forward_plain(bytes: &[u8]) {
    let Some(plain) = Plain::read_v4(bytes).or_else(|| Plain::read_v6(bytes)) else { return };
    let packet = Packet::read(bytes).expect("what is plain is a packet");
    assert_eq!((plain.length, plain.hops, plain.is_v4()), (packet.length, packet.hops, packet.source.is_ipv4()));
    assert!(packet.fragment.is_none() && packet.tuple().is_some());
    let (mut short, mut general) = (bytes.to_vec(), bytes.to_vec());
    let is_forwarded = plain.rewrite(&mut short, None, false).is_some();
    assert_eq!(is_forwarded, count_hop(&mut general, &packet).is_some());
    assert!(!is_forwarded || short == general);
}

fn forward(bytes: &mut [u8], packet: Packet, input: &mut Input<'_>) {
    forward_plain(bytes);
    assert!(packet.payload <= packet.length && packet.length <= bytes.len());
    let was_right = checksum_is_right(&packet, bytes);
    let mut out = [0; LONGEST_ANSWER];
    if let Some(length) = answer(Problem::TooBig { mtu: 1280 }, &packet, bytes, packet.destination, &mut out) {
        let error = Packet::read(&out[..length]);
        // What quotes a packet of another protocol's errors, or that is cut short, is not read.
        assert!(error.is_err() || checksum_is_right(&error.unwrap(), &out[..length]) == Some(true));
    }
    if count_hop(bytes, &packet).is_some() {
        clamp_mss(bytes, &packet, 1200);
        let again = Packet::read(bytes).expect("it is still a packet");
        assert_eq!((again.hops + 1, again.tuple()), (packet.hops, packet.tuple()));
        assert!(stays(was_right, checksum_is_right(&again, bytes)));
    }
    let packet = Packet::read(bytes).expect("it is still a packet");
    match (packet.tuple(), packet.transport) {
        (Some(tuple), _) => {
            let to = another(&tuple, input);
            if translate(bytes, &packet, &to).is_ok() {
                let translated = Packet::read(bytes).expect("it is still a packet");
                assert_eq!(translated.tuple(), Some(to));
                assert!(stays(was_right, checksum_is_right(&translated, bytes)));
            }
        }
        (None, Transport::Error(error)) => {
            let to = another(&error.tuple, input);
            if translate_error(bytes, &packet, &to, to.destination, to.source).is_ok() {
                let translated = Packet::read(bytes).expect("it is still a packet");
                let Transport::Error(error) = translated.transport else { panic!("it is no error any more") };
                assert!(error.tuple == to && translated.source == to.destination);
                assert_eq!(checksum_is_right(&translated, bytes), Some(true));
            }
        }
        _ => {}
    }
}

/// Flows that the router has room for.
const FLOWS: usize = 12;

/// The address by which hosts inside are seen.
const OUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 80);

/// A router whose inner net is 10/8.
struct Router<'a> {
    table: Table<'a>,
    nat: Nat,
    fragments: Fragments,
    now: u64,
}

fn settings(key: u64) -> Settings {
    Settings { key: Key([key, 1]), timeouts: Timeouts::default(), most_per_source: 7 }
}

fn nat() -> Nat {
    let pool = Pool { first: SocketAddrV4::new(OUTER, 50), last: 70, keeps_parity: true };
    Nat::new(Key([2, 1]), &[pool], &[], FLOWS).expect("a pool")
}

impl Router<'_> {
    /// Finds or begins a packet's flow.
    fn flow(&mut self, tuple: &Tuple, packet: &Packet) -> Option<(Flow, Direction)> {
        let nat = &mut self.nat;
        if let Some((id, direction)) = self.table.find(tuple, self.now) {
            let flow = self.table.flow(id).expect("it was found");
            let verdict = self.table.track(id, direction, packet, self.now, |flow, _| nat.release(flow));
            return (verdict == Tracked::Belongs).then_some((flow, direction));
        }
        let inside = |address: IpAddr| matches!(address, IpAddr::V4(address) if address.octets()[0] == 10);
        let to = match tuple.destination {
            IpAddr::V4(address) if address == OUTER => {
                match nat.inward(tuple.protocol, SocketAddrV4::new(address, tuple.destination_port))? {
                    Inward::Mapped(inner) | Inward::Forwarded(inner) => Some(inner),
                }
            }
            _ => None,
        };
        let reply = nat.begin(tuple, to, inside(tuple.source).then_some(0))?;
        match self.table.insert([tuple, &reply], packet, 0, self.now, |flow, _| nat.release(flow)) {
            Ok(id) => Some((self.table.flow(id)?, Direction::Original)),
            Err(_) => {
                nat.release_tuples(tuple, &reply);
                None
            }
        }
    }

    /// Forwards a packet by the short way, if it is plain and of an open flow.
    fn short(&mut self, bytes: &mut [u8]) -> Option<()> {
        let plain = Plain::read_v4(bytes).or_else(|| Plain::read_v6(bytes))?;
        let found = self.table.find_plain(&plain)?;
        let flow = self.table.flow(found.id)?;
        let is_translated = flow.onward(found.direction) != flow.tuple(found.direction);
        let onward = is_translated.then(|| found.onward());
        if plain.hops <= 1 || is_translated && !plain.is_v4() || !self.table.track_plain(&found, &plain, self.now) {
            return None;
        }
        plain.rewrite(bytes, onward.as_ref(), false).expect("what is plain is rewritten");
        Some(())
    }

    /// Forwards a packet the general way.
    fn route(&mut self, bytes: &mut [u8], packet: &Packet) -> Option<()> {
        if packet.hops <= 1 {
            return None;
        }
        let was_right = checksum_is_right(packet, bytes);
        if let Transport::Error(quoted) = &packet.transport {
            let (id, direction) = self.table.find_quoted(quoted, self.now)?;
            let (about, source, destination) = self.table.flow(id)?.error_onward(direction, packet.source);
            translate_error(bytes, packet, &about, source, destination).ok()?;
        } else {
            let Followed::Of(tuple) = self.fragments.follow(packet, self.now) else { return None };
            let (flow, direction) = self.flow(&tuple, packet)?;
            let onward = flow.onward(direction);
            count_hop(bytes, packet)?;
            // As it came where nothing is translated: packets of IPv6, and what passes as it is.
            if onward != tuple {
                translate(bytes, packet, &onward).ok()?;
            }
        }
        let sent = Packet::read(bytes).expect("it is still a packet");
        assert!(stays(was_right, checksum_is_right(&sent, bytes)));
        Some(())
    }
}

/// Checks that the flows of a table are found, and its mappings are theirs.
fn is_sound(table: &Table<'_>, nat: &Nat, now: u64) {
    let flows: Vec<Flow> = table.flows().map(|(_, flow)| flow).collect();
    assert!(flows.len() == table.count() && flows.len() <= FLOWS);
    let translated = flows.iter().filter(|flow| flow.original.source != flow.reply.destination);
    assert!(nat.count() <= translated.count());
    for flow in flows {
        let found = [&flow.original, &flow.reply].map(|tuple| table.find(tuple, now).is_some());
        assert!(found[0] == found[1]);
    }
}

/// Has one router forward a packet the general way and the other, if it can, the short one.
fn route([general, short]: &mut [Router<'_>; 2], packet: &mut [u8], read: &Packet) {
    let mut other = packet.to_vec();
    let is_forwarded = general.route(packet, read).is_some();
    let is_short = short.short(&mut other).is_some();
    assert!(!is_short || is_forwarded, "the short way forwards what the general one does not");
    let is_same = is_short || short.route(&mut other, read).is_some() == is_forwarded;
    assert!(is_same && (!is_forwarded || packet == other));
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let memories: [Vec<AtomicU64>; 2] =
        core::array::from_fn(|_| (0..memory_words(FLOWS)).map(|_| AtomicU64::new(0)).collect());
    let mut routers = memories.each_ref().map(|memory| {
        let fragments = Fragments::new(Key([3, 1]), 4);
        Router { table: Table::new(&settings(1), memory), nat: nat(), fragments, now: 0 }
    });
    while !input.is_over() {
        let (kind, length) = (input.byte(), input.byte());
        let mut packet = input.bytes(length.into()).to_vec();
        if kind & 1 == 0 {
            seal_error(&mut packet);
            seal(&mut packet, 0);
        }
        let passed = u64::from(kind >> 4) * 10_000;
        routers.iter_mut().for_each(|router| router.now += passed);
        if let Ok(read) = Packet::read(&packet) {
            if kind & 2 != 0 {
                route(&mut routers, &mut packet, &read);
            } else {
                forward(&mut packet, read, &mut input);
            }
        }
        if kind & 4 != 0 {
            let (place, spoilt) = (usize::from(input.byte()), u64::from(kind & 8) << (input.byte() % 60));
            for (router, memory) in routers.iter_mut().zip(&memories) {
                let (word, mut again) = (&memory[place % memory.len()], nat());
                word.store(word.load(Relaxed) ^ spoilt, Relaxed);
                let (table, adopted) =
                    Table::adopt(&settings(2), memory, router.now, |flow| again.believe(flow).then_some(flow.tag));
                assert!(spoilt != 0 || adopted.kept + adopted.refused == router.table.count());
                is_sound(&table, &again, router.now);
                (router.table, router.nat) = (table, again);
            }
        }
        routers.iter().for_each(|router| is_sound(&router.table, &router.nat, router.now));
        let words = memories.each_ref().map(|memory| memory.iter().map(|word| word.load(Relaxed)));
        let [general, short] = words;
        assert!(general.eq(short), "the ways leave different memory");
    }
});
