//! The engine against a model that goes through the rules one by one: random rules, written as
//! text and read back, and random packets.

use culm_firewall::{Action, Ends, Engine, Key, RuleSet, Zone, Zones, parse};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::net::{Ipv4Addr, Ipv6Addr};

const NAMES: [&str; 4] = ["self", "inner", "outer", "guest"];
const PROTOCOLS: [(&str, u8); 5] = [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmp6", 58), ("gre", 47)];
const ACTIONS: [(&str, Action); 3] = [("allow", Action::Allow), ("deny", Action::Deny), ("reject", Action::Reject)];
/// The networks from which addresses are taken.
const NETWORK_4: u32 = 0x0a00_ff00;
const NETWORK_6: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_ff00;
/// How many addresses of each, and how many ports.
const ADDRESSES: u32 = 600;
const PORTS: u16 = 300;

/// A rule as the model has it: each list is what a clause says, and without one all fit.
#[derive(Clone, Debug)]
struct Line {
    action: usize,
    logs: bool,
    protocols: Vec<usize>,
    entries: Vec<usize>,
    exits: Vec<usize>,
    sources: Vec<Part>,
    destinations: Vec<Part>,
    source_ports: Vec<(u16, u16)>,
    /// Types, if the rule is about ICMP alone.
    destination_ports: Vec<(u16, u16)>,
}

/// Addresses from the first to the last, counted from the start of the network.
#[derive(Clone, Copy, Debug)]
struct Part {
    is_v6: bool,
    first: u32,
    last: u32,
}

fn v4(index: u32) -> Ipv4Addr {
    Ipv4Addr::from(NETWORK_4 + index)
}

fn v6(index: u32) -> Ipv6Addr {
    Ipv6Addr::from(NETWORK_6 + u128::from(index))
}

impl Part {
    fn text(&self) -> String {
        let Self { is_v6, first, last } = *self;
        let (count, bits) = (last - first + 1, if is_v6 { 128 } else { 32 });
        let number = if is_v6 { v6(first).to_bits() as u32 } else { v4(first).to_bits() };
        let name = |index| if is_v6 { v6(index).to_string() } else { v4(index).to_string() };
        match count {
            1 => name(first),
            _ if count.is_power_of_two() && number & (count - 1) == 0 => {
                format!("{}/{}", name(first), bits - count.trailing_zeros())
            }
            _ => format!("{}-{}", name(first), name(last)),
        }
    }
}

fn list<T>(word: &str, parts: &[T], text: impl Fn(&T) -> String) -> String {
    let parts: Vec<String> = parts.iter().map(text).collect();
    if parts.is_empty() { String::new() } else { format!(" {word} {}", parts.join(", ")) }
}

impl Line {
    fn text(&self) -> String {
        let name = |index: &usize| NAMES[*index].to_owned();
        let port =
            |(first, last): &(u16, u16)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
        let is_icmp = matches!(self.protocols[..], [2] | [3]);
        [
            ACTIONS[self.action].0.to_owned(),
            if self.logs { " log".to_owned() } else { String::new() },
            list("", &self.protocols, |index| PROTOCOLS[*index].0.to_owned()),
            list("out", &self.exits, name),
            list("from", &self.sources, Part::text),
            list("source-port", &self.source_ports, port),
            list("to", &self.destinations, Part::text),
            list(if is_icmp { "type" } else { "port" }, &self.destination_ports, port),
            list("in", &self.entries, name),
        ]
        .concat()
    }

    /// Whether the rule is about a packet.
    fn fits(&self, packet: &Packet) -> bool {
        let zone = |list: &[usize], zone| list.is_empty() || list.contains(&zone);
        let address = |list: &[Part], index| {
            let fits = |part: &Part| part.is_v6 == packet.is_v6 && (part.first..=part.last).contains(&index);
            list.is_empty() || list.iter().any(fits)
        };
        let port = |list: &[(u16, u16)], port| {
            list.is_empty() || list.iter().any(|(first, last)| (*first..=*last).contains(&port))
        };
        let protocol = |index: &usize| match *index {
            2 => packet.protocol == 1 && !packet.is_v6,
            3 => packet.protocol == 58 && packet.is_v6,
            other => packet.protocol == PROTOCOLS[other].1,
        };
        zone(&self.entries, packet.entry)
            && zone(&self.exits, packet.exit)
            && (self.protocols.is_empty() || self.protocols.iter().any(protocol))
            && address(&self.sources, packet.source)
            && address(&self.destinations, packet.destination)
            && port(&self.source_ports, packet.source_port)
            && port(&self.destination_ports, packet.destination_port)
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    entry: usize,
    exit: usize,
    is_v6: bool,
    protocol: u8,
    source: u32,
    destination: u32,
    source_port: u16,
    destination_port: u16,
}

impl Packet {
    fn key(&self, zones: &Zones) -> Key {
        let zone = |index: usize| zones.find(NAMES[index]).expect("it is there");
        let ends = match self.is_v6 {
            false => Ends::V4 { source: v4(self.source), destination: v4(self.destination) },
            true => Ends::V6 { source: v6(self.source), destination: v6(self.destination) },
        };
        Key {
            entry: zone(self.entry),
            exit: zone(self.exit),
            ends,
            protocol: self.protocol,
            source_port: self.source_port,
            destination_port: self.destination_port,
        }
    }
}

/// A number below `end`, often a small one, so that rules and packets meet.
fn below(end: u32) -> impl Strategy<Value = u32> {
    prop_oneof![0..end, 0..8_u32, 250..262_u32]
}

/// Up to three ranges of numbers below `end` that do not overlap; often none.
fn ranges(end: u32) -> impl Strategy<Value = Vec<(u32, u32)>> {
    let one = (below(end), prop_oneof![Just(0), 0..9_u32, Just(15), Just(255), 0..end]);
    let some = prop::collection::vec(one, 1..4).prop_map(move |starts| {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for (first, more) in starts {
            let last = (first + more).min(end - 1);
            if ranges.iter().all(|(begin, end)| last < *begin || *end < first) {
                ranges.push((first, last));
            }
        }
        ranges
    });
    prop_oneof![Just(vec![]), some]
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = |is_v6| move |(first, last)| Part { is_v6, first, last };
    let lists = (ranges(ADDRESSES), ranges(ADDRESSES));
    lists.prop_map(move |(v4, v6)| v4.into_iter().map(part(false)).chain(v6.into_iter().map(part(true))).collect())
}

fn ports() -> impl Strategy<Value = Vec<(u16, u16)>> {
    ranges(PORTS.into()).prop_map(|list| list.into_iter().map(|(first, last)| (first as u16, last as u16)).collect())
}

fn zone_list() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![]), subsequence(vec![0, 1, 2, 3], 1..3)]
}

fn line() -> impl Strategy<Value = Line> {
    let protocols = select(vec![
        vec![],
        vec![0],
        vec![1],
        vec![0, 1],
        vec![0],
        vec![1, 0],
        vec![2],
        vec![3],
        vec![4],
        vec![2, 3],
        vec![0, 2],
    ]);
    let what = (0..3_usize, any::<bool>(), protocols, zone_list(), zone_list());
    (what, parts(), parts(), ports(), ports()).prop_map(
        |(what, sources, destinations, source_ports, destination_ports)| {
            let (action, logs, protocols, entries, exits) = what;
            let has_ports = !protocols.is_empty() && protocols.iter().all(|index| *index < 2);
            let has_types = matches!(protocols[..], [2] | [3]);
            let types =
                || destination_ports.iter().map(|(first, _)| first % 256).collect::<std::collections::BTreeSet<_>>();
            let destination_ports = match (has_ports, has_types) {
                (true, _) => destination_ports,
                (_, true) => types().into_iter().map(|number| (number, number)).collect(),
                _ => vec![],
            };
            let source_ports = if has_ports { source_ports } else { vec![] };
            Line { action, logs, protocols, entries, exits, sources, destinations, source_ports, destination_ports }
        },
    )
}

fn packet() -> impl Strategy<Value = Packet> {
    let protocol =
        prop_oneof![4 => Just(6), 4 => Just(17), 1 => Just(1), 1 => Just(58), 1 => Just(47), 1 => any::<u8>()];
    let ports = (below(PORTS.into()), below(PORTS.into()));
    let ends = (any::<bool>(), below(ADDRESSES), below(ADDRESSES));
    (0..4_usize, 0..4_usize, protocol, ends, ports).prop_map(|(entry, exit, protocol, ends, ports)| {
        let (is_v6, source, destination) = ends;
        let (source_port, destination_port) = match protocol {
            6 | 17 => (ports.0 as u16, ports.1 as u16),
            1 | 58 => (0, ports.1 as u16 % 256),
            _ => (0, 0),
        };
        Packet { entry, exit, is_v6, protocol, source, destination, source_port, destination_port }
    })
}

/// Reads rules. Those that are about no packet, or hidden, are made comments, and must then never
/// be what the model finds.
fn read(lines: &[Line], zones: &Zones) -> RuleSet {
    let mut texts: Vec<String> = lines.iter().map(Line::text).collect();
    loop {
        let text = texts.join("\n");
        let problems = match parse(&text, zones) {
            Ok(rules) => return rules,
            Err(problems) => problems,
        };
        for problem in problems {
            let expected = ["this rule is about no packet", "no packet comes to this rule"];
            assert!(expected.iter().any(|start| problem.message.starts_with(start)), "{}: {text}", problem.message);
            let (number, _) = culm_firewall::position(&text, problem.span.start);
            texts[number - 1] = format!("# {}", texts[number - 1]);
        }
    }
}

fn compare(lines: &[Line], packets: &[Packet]) -> Result<(), TestCaseError> {
    let zones = Zones::new(&NAMES[1..]).expect("names of zones");
    let rules = read(lines, &zones);
    let engine = Engine::new(&rules, 64 << 20).expect("the tables fit");
    for packet in packets {
        // Such a packet passes no rule.
        if packet.entry == 0 && packet.exit == 0 {
            continue;
        }
        let expected = lines.iter().position(|line| line.fits(packet));
        let verdict = engine.filter(&packet.key(&zones));
        let found = verdict.rule.map(|rule| rules.rules()[rule].line as usize - 1);
        prop_assert_eq!(
            found,
            expected,
            "{:?} of {}",
            packet,
            lines.iter().map(|line| line.text() + "\n").collect::<String>()
        );
        let (action, logs) = expected.map_or((Action::Deny, false), |at| (ACTIONS[lines[at].action].1, lines[at].logs));
        prop_assert_eq!((verdict.outcome.action, verdict.outcome.logs), (action, logs));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_few_rules(lines in prop::collection::vec(line(), 0..20), packets in prop::collection::vec(packet(), 100)) {
        compare(&lines, &packets)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn many_rules(lines in prop::collection::vec(line(), 200..600), packets in prop::collection::vec(packet(), 500)) {
        compare(&lines, &packets)?;
    }
}

#[test]
fn zones_of_a_key_are_those_of_the_rules() {
    let zones = Zones::new(&NAMES[1..]).expect("names of zones");
    assert_eq!(zones.find("self"), Some(Zone::SELF));
    let rules = parse("allow tcp out self\n", &zones).expect("a rule");
    let engine = Engine::new(&rules, 1 << 20).expect("the tables fit");
    let packet = Packet {
        entry: 1,
        exit: 0,
        is_v6: false,
        protocol: 6,
        source: 0,
        destination: 0,
        source_port: 1,
        destination_port: 2,
    };
    assert!(engine.filter(&packet.key(&zones)).allows());
    assert!(!engine.filter(&Packet { exit: 2, ..packet }.key(&zones)).allows());
}
