//! Rules that anybody may have written, and packets for those that can be read.
//!
//! Whatever the text, parsing ends, and each problem points into it. What is read as rules is made
//! into tables, and the rule that they find for a packet is the one that a search from the first
//! finds.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_firewall::{Ends, Engine, Family, Key, Match, Zones, parse};
use input::Input;
use libfuzzer_sys::fuzz_target;

/// Packets that are tried with a set of rules.
const PACKETS: usize = 32;

/// Takes a number from near the ends of the ranges that rules have, where mistakes would be, or
/// any.
fn near(input: &mut Input<'_>, ends: &[u128]) -> u128 {
    let choice = usize::from(input.byte());
    match ends.get(choice % (ends.len() + 1)) {
        Some(end) => end.wrapping_add(u128::from(input.byte() % 3)).wrapping_sub(1),
        None => input.bytes(16).iter().fold(0, |number, byte| number << 8 | u128::from(*byte)),
    }
}

fn fits(rule: &Match, key: &Key) -> bool {
    let (family, addresses_fit) = match key.ends {
        Ends::V4 { source, destination } => {
            (Family::V4, rule.sources.v4.contains(source.into()) && rule.destinations.v4.contains(destination.into()))
        }
        Ends::V6 { source, destination } => {
            (Family::V6, rule.sources.v6.contains(source.into()) && rule.destinations.v6.contains(destination.into()))
        }
    };
    addresses_fit
        && rule.entries.contains(key.entry)
        && rule.exits.contains(key.exit)
        && rule.protocols.contains(family, key.protocol)
        && rule.source_ports.contains(key.source_port)
        && rule.destination_ports.contains(key.destination_port)
}

fuzz_target!(|bytes: &[u8]| {
    // What follows a zero chooses packets.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(end);
    let text = String::from_utf8_lossy(text);
    let zones = Zones::new(&["inner", "outer", "guest"]).expect("names of zones");
    let rules = match parse(&text, &zones) {
        Ok(rules) => rules,
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                let places = problem.related.iter().map(|(span, _)| span).chain([&problem.span]);
                places.for_each(|span| assert!(text.get(span.clone()).is_some_and(|part| !part.contains('\n'))));
                let mut out = String::new();
                problem.write(&mut out, "rules", &text).expect("a string takes all");
            }
            return;
        }
    };
    let engine = Engine::new(&rules, 64 << 20).expect("so few rules fit");
    let (filter, nats, forwards) = (rules.rules(), rules.nats(), rules.forwards());
    let all = || filter.iter().map(|rule| &rule.matching).chain(nats.iter().map(|nat| &nat.matching));
    let (mut v4, mut v6, mut ports) = (vec![], vec![], vec![]);
    for rule in all().chain(forwards.iter().map(|forward| &forward.matching)) {
        for set in [&rule.sources, &rule.destinations] {
            v4.extend(set.v4.parts().iter().flat_map(|(first, last)| [u128::from(*first), u128::from(*last)]));
            v6.extend(set.v6.parts().iter().flat_map(|(first, last)| [*first, *last]));
        }
        for set in [&rule.source_ports, &rule.destination_ports] {
            ports.extend(set.parts().iter().flat_map(|(first, last)| [u128::from(*first), u128::from(*last)]));
        }
    }
    let mut input = Input::new(rest);
    let every: Vec<_> = zones.all().collect();
    for _ in 0..PACKETS {
        let (entry, exit) = (every[usize::from(input.byte()) % 4], every[usize::from(input.byte()) % 4]);
        let ends = match input.byte() % 2 {
            0 => Ends::V4 {
                source: (near(&mut input, &v4) as u32).into(),
                destination: (near(&mut input, &v4) as u32).into(),
            },
            _ => Ends::V6 { source: near(&mut input, &v6).into(), destination: near(&mut input, &v6).into() },
        };
        let protocol = match input.byte() {
            number @ 0x80.. => number,
            other => [1, 6, 17, 58, 132, 47][usize::from(other) % 6],
        };
        let (source_port, destination_port) = (near(&mut input, &ports) as u16, near(&mut input, &ports) as u16);
        let key = Key { entry, exit, ends, protocol, source_port, destination_port };
        assert_eq!(engine.filter(&key).rule, filter.iter().position(|rule| fits(&rule.matching, &key)), "{key:?}");
        assert_eq!(engine.nat(&key), nats.iter().find(|nat| fits(&nat.matching, &key)), "{key:?}");
        assert_eq!(engine.forward(&key), forwards.iter().find(|forward| fits(&forward.matching, &key)), "{key:?}");
        if input.is_over() {
            break;
        }
    }
});
