//! What a packet costs, by the number of rules. It counts nothing itself: it asks for the rules of
//! so many packets, so that two runs under a counter of instructions differ by the packets alone.
//!
//!     cargo build --release -p culm-firewall --example cost
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!         target/release/examples/cost 1000 21000 4
//!
//! Its arguments are the numbers of rules and of packets, and the version of IP.

use culm_firewall::{Ends, Engine, Key, Zones, parse};
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Rules of a usual kind: most deny a network or allow a port of a host; the last allows the rest
/// of what comes from within.
fn rules(count: usize) -> String {
    let rule = |index: usize| match (index, index % 5) {
        (0, _) => "allow in inner out outer\n".into(),
        (_, 4) => format!("allow tcp in outer to 2001:db8:{:x}::{index:x} port {}\n", index % 7, 1 + index),
        (_, 3) => format!("deny from 2001:db8:{index:x}::/48 in outer\n"),
        (_, 2) => format!("allow tcp in outer to 10.0.{}.{} port {}\n", index % 7, index % 256, 1 + index),
        _ => format!("deny from {}/28 in outer\n", Ipv4Addr::from(0xc612_0000 + 16 * index as u32)),
    };
    (0..count).rev().map(rule).collect()
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let [count, packets, version] = arguments[..] else { panic!("three numbers") };
    let zones = Zones::new(&["inner", "outer"]).expect("names of zones");
    let [inner, outer] = ["inner", "outer"].map(|name| zones.find(name).expect("it is there"));
    let rules = parse(&rules(count), &zones).expect("rules");
    let engine = Engine::new(&rules, 64 << 20).expect("the tables fit");
    println!("{} rules, {} bytes", rules.rules().len(), engine.bytes());
    let mut allowed = 0;
    for number in 0..packets as u32 {
        // One of three is denied by nothing but the default.
        let (entry, exit) = if number % 3 == 0 { (inner, outer) } else { (outer, inner) };
        let ends = match version {
            4 => Ends::V4 {
                source: Ipv4Addr::from(0xc612_0000 + number * 77 % 0x1_0000),
                destination: Ipv4Addr::from(0x0a00_0000 + number * 13 % 0x700),
            },
            _ => Ends::V6 {
                source: Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(number % 1000) << 80 | 1),
                destination: Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(number % 7) << 80 | u128::from(number)),
            },
        };
        let key = Key {
            entry,
            exit,
            ends,
            protocol: 6,
            source_port: 0xc000 | number as u16,
            destination_port: (number * 31 % 1000) as u16,
        };
        allowed += u32::from(engine.filter(black_box(&key)).allows());
    }
    println!("{allowed} of {packets} packets allowed");
}
