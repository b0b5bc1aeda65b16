//! What a packet costs by the number of flows in the table, for a simulator that counts
//! instructions:
//!
//!     cargo build --release -p culm-flow --example cost
//!     valgrind --tool=callgrind --toggle-collect='cost::find*' target/release/examples/cost 100000
//!
//! `find*` counts what finding a flow costs; `pass*` what it costs to read a datagram, find and
//! track its flow, and translate it there and back; both of [`COUNT`] packets.

use culm_flow::rewrite::translate;
use culm_flow::{Key, Packet, Settings, Table, Timeouts, Tracked, Tuple, memory_words};
use culm_packet::checksum::Sum;
use std::hint::black_box;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

/// Packets that are counted.
const COUNT: usize = 100_000;

/// Flows that the table has room for.
const ROOM: usize = 100_000;

/// An empty datagram from a host and port to a name server.
fn datagram(source: u32, port: u16) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    bytes.extend(source.to_be_bytes());
    bytes.extend([192, 0, 2, 53]);
    let checksum = Sum::ZERO.add_bytes(&bytes).checksum().to_be_bytes();
    bytes[10..12].copy_from_slice(&checksum);
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 53, 0, 8, 1, 1]);
    bytes
}

/// The places of packets one after another, far from each other.
fn places(flows: usize) -> impl Iterator<Item = usize> {
    (0..COUNT).map(move |number| number * 7919 % flows)
}

#[inline(never)]
fn find_flows(table: &Table<'_>, tuples: &[Tuple]) -> usize {
    places(tuples.len()).filter(|place| black_box(table.find(&tuples[*place], 1)).is_some()).count()
}

#[inline(never)]
fn pass_packets(table: &mut Table<'_>, packets: &mut [Vec<u8>]) -> Option<()> {
    for place in places(packets.len()) {
        let bytes = &mut packets[place];
        let packet = Packet::read(bytes).ok()?;
        let tuple = packet.tuple()?;
        let (id, direction) = table.find(&tuple, 1)?;
        let is_its = table.track(id, direction, &packet, 1, |_, _| {}) == Tracked::Belongs;
        let onward = table.onward(id, direction).filter(|_| is_its)?;
        translate(bytes, &packet, &onward).ok()?;
        // The next packet of the flow comes as this one did.
        let sent = Packet::read(bytes).ok()?;
        translate(bytes, &sent, &tuple).ok()?;
    }
    Some(())
}

/// Fills a table with translated flows, and has packets of all of them pass.
fn run(flows: usize) -> Option<()> {
    let memory: Vec<AtomicU64> = (0..memory_words(ROOM)).map(|_| AtomicU64::new(0)).collect();
    let settings = Settings { key: Key([1, 2]), timeouts: Timeouts::default(), most_per_source: u32::MAX };
    let mut table = Table::new(&settings, &memory);
    let (mut packets, mut tuples) = (Vec::new(), Vec::new());
    for number in 0..flows as u32 {
        let bytes = datagram(0x0a00_0000 + number / 100, 1000 + (number % 100) as u16);
        let packet = Packet::read(&bytes).ok()?;
        let original = packet.tuple()?;
        let outer = IpAddr::from((0xc633_6400 + number / 60_000).to_be_bytes());
        let seen = Tuple { source: outer, source_port: 1 + (number % 60_000) as u16, ..original };
        table.insert([&original, &seen.reversed()], &packet, 0, 0, |_, _| {}).ok()?;
        packets.push(bytes);
        tuples.push(original);
    }
    (find_flows(&table, &tuples) == COUNT).then_some(())?;
    pass_packets(&mut table, &mut packets)
}

fn main() -> ExitCode {
    let flows = std::env::args().nth(1).and_then(|flows| flows.parse().ok()).filter(|flows| (1..=ROOM).contains(flows));
    match flows.and_then(run) {
        Some(()) => ExitCode::SUCCESS,
        None => {
            eprintln!("cost: name how many flows there are, 1 to {ROOM}");
            ExitCode::FAILURE
        }
    }
}
