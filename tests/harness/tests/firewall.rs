//! The firewall's rules against nftables: the same rules, the same packets, the same verdicts.
//!
//! A network namespace of the test's own is the router. Each of its zones is a pair of devices:
//! packets come in at the far ends, and those that pass leave there. It takes root's rights;
//! without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use anyhow::{Context, Result, ensure};
use culm_firewall::{Ends, Engine, Key, Lender, Nat, RuleSet, Zone, Zones, nftables, parse, position};
use culm_tests_harness::frames::Random;
use culm_tests_harness::wire::skip;
use culm_wire::{Namespace, ip};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ZONES: [&str; 3] = ["inner", "outer", "guest"];
/// Sets of rules that are tried, the rules of each, and the packets.
const ROUNDS: usize = 8;
const RULES: usize = 200;
const PACKETS: usize = 1000;
/// How long the router may take for the packets of one set.
const PATIENCE: Duration = Duration::from_secs(30);

/// The networks from which addresses are taken, and how many of each.
const NETWORK_4: u32 = 0x0a00_ff00;
const NETWORK_6: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_ff00;
const ADDRESSES: usize = 600;
const PORTS: usize = 300;

/// Whatever is beyond the router.
const BEYOND: [u8; 6] = [2, 0, 0, 0, 0, 0x99];

/// Returns the router's hardware address in a zone.
fn router(zone: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, zone as u8]
}

/// Makes the devices, and the ways from each zone to each: a packet's DSCP says where it goes.
fn set_up() -> Result<()> {
    let set = |file: &str, value: &str| {
        std::fs::write(format!("/proc/sys/net/{file}"), value).with_context(|| format!("cannot set {file}"))
    };
    set("ipv4/ip_forward", "1")?;
    set("ipv4/conf/all/rp_filter", "0")?;
    set("ipv4/conf/default/rp_filter", "0")?;
    set("ipv4/conf/all/send_redirects", "0")?;
    set("ipv4/conf/default/send_redirects", "0")?;
    set("ipv6/conf/all/forwarding", "1")?;
    set("ipv6/conf/default/accept_dad", "0")?;
    let mut marks = String::new();
    for (zone, name) in ZONES.iter().enumerate() {
        let number = zone + 1;
        ip(&format!("link add {name} type veth peer name {name}-far"))?;
        set(&format!("ipv6/conf/{name}-far/disable_ipv6"), "1")?;
        ip(&format!("link set {name} address {}", mac(router(zone))))?;
        ip(&format!("link set {name} up"))?;
        ip(&format!("link set {name}-far up"))?;
        ip(&format!("addr add 192.0.2.{number}/32 dev {name}"))?;
        for (option, next) in [("-4", format!("192.0.2.{}", number + 100)), ("-6", format!("fe80::{number}"))] {
            ip(&format!("{option} neigh add {next} lladdr {} dev {name} nud permanent", mac(BEYOND)))?;
            ip(&format!("{option} route add default via {next} dev {name} onlink table {}", 100 + number))?;
            ip(&format!("{option} rule add fwmark {number} lookup {}", 100 + number))?;
        }
        for family in ["ip", "ip6"] {
            marks += &format!("\t\t{family} dscp {number} meta mark set {number}\n");
        }
    }
    nft(
        &["-f", "-"],
        &format!(
            "table inet ways {{\n\tchain ways {{\n\t\ttype filter hook prerouting priority mangle;\n{marks}\t}}\n}}\n"
        ),
    )?;
    Ok(())
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// Runs `nft`; returns what it printed.
fn nft(arguments: &[&str], input: &str) -> Result<String> {
    use std::io::Write as _;
    let mut command = Command::new("nft");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run nft: is it installed? (`./culm setup --tests` does that)")?;
    child.stdin.take().context("it has an input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "nft {arguments:?} failed: {said}\n{input}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A packet: where it comes in, where it goes to, and what rules ask about.
#[derive(Clone, Copy, Debug)]
struct Packet {
    entry: usize,
    exit: usize,
    ends: Ends,
    protocol: u8,
    ports: (u16, u16),
}

impl Packet {
    fn random(random: &mut Random) -> Self {
        let protocol = [6, 6, 6, 17, 17, 17, 1, 58, 47, 132][random.below(10)];
        let ends = match (random.below(2), protocol) {
            (0, 1 | 6 | 17 | 47) | (1, 1) => Ends::V4 { source: v4(random), destination: v4(random) },
            _ => Ends::V6 { source: v6(random), destination: v6(random) },
        };
        let ports = match protocol {
            6 | 17 | 132 => (near(random, PORTS) as u16, near(random, PORTS) as u16),
            1 => (0, [0, 3, 8, 11][random.below(4)]),
            58 => (0, [1, 2, 3, 128, 129][random.below(5)]),
            _ => (0, 0),
        };
        Self { entry: random.below(3), exit: random.below(3), ends, protocol, ports }
    }

    fn key(&self, zones: &Zones) -> Key {
        let zone = |index: usize| zones.find(ZONES[index]).expect("it is there");
        let (source_port, destination_port) = self.ports;
        let (entry, exit) = (zone(self.entry), zone(self.exit));
        Key { entry, exit, ends: self.ends, protocol: self.protocol, source_port, destination_port }
    }

    /// Returns the frame in which the packet comes to the router. Its number is where routers leave
    /// it: in the identification of IPv4, in the flow label of IPv6.
    fn frame(&self, number: u16) -> Vec<u8> {
        let mut content = [self.ports.0.to_be_bytes(), self.ports.1.to_be_bytes()].concat();
        match self.protocol {
            // A SYN; a length, without a checksum; a verification tag and a checksum.
            6 => content.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0]),
            17 => content.extend([0, 8, 0, 0]),
            132 => content.extend([0; 8]),
            1 | 58 => content = vec![self.ports.1 as u8, 0, 0, 0, 0, 0, 0, 0],
            _ => content = vec![0, 0, 8, 0, 0, 0, 0, 0],
        }
        let (tag, length) = ((self.exit as u8 + 1) << 2, content.len() as u16);
        let mut frame = [router(self.entry), BEYOND].concat();
        match self.ends {
            Ends::V4 { source, destination } => {
                let mut header = vec![0x45, tag, 0, 0, 0, 0, 0, 0, 64, self.protocol, 0, 0];
                header[2..4].copy_from_slice(&(20 + length).to_be_bytes());
                header[4..6].copy_from_slice(&number.to_be_bytes());
                header.extend(source.octets().into_iter().chain(destination.octets()));
                let words = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
                let sum: u32 = words.sum();
                let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend([8, 0].into_iter().chain(header));
            }
            Ends::V6 { source, destination } => {
                let first = 6 << 28 | u32::from(tag) << 20 | u32::from(number);
                frame.extend([0x86, 0xdd].into_iter().chain(first.to_be_bytes()).chain(length.to_be_bytes()));
                frame.extend([self.protocol, 64].into_iter().chain(source.octets()).chain(destination.octets()));
            }
        }
        frame.extend(content);
        frame
    }
}

/// Returns the number of one of the test's packets that has left the router.
fn number_of(frame: &[u8]) -> Option<u16> {
    let word = |at: usize| frame.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    // What the router sends by itself is not from these networks.
    match frame.get(12..14)? {
        [8, 0] if frame.get(26) == Some(&10) => word(18),
        [0x86, 0xdd] if frame.get(22..24) == Some(&[0x20, 1]) => word(16),
        _ => None,
    }
}

/// A number below `end`, often a small one, so that rules and packets meet.
fn near(random: &mut Random, end: usize) -> usize {
    match random.below(3) {
        0 => random.below(end),
        1 => random.below(8),
        _ => 250 + random.below(12),
    }
}

fn v4(random: &mut Random) -> Ipv4Addr {
    (NETWORK_4 + near(random, ADDRESSES) as u32).into()
}

fn v6(random: &mut Random) -> Ipv6Addr {
    (NETWORK_6 + near(random, ADDRESSES) as u128).into()
}

/// Returns a random rule. What it says may overlap, or be about no packet: then it is left out.
fn rule(random: &mut Random) -> String {
    let mut rule = ["allow", "allow", "deny", "reject"][random.below(4)].to_owned();
    let protocols = ["", "", "tcp", "udp", "tcp,udp", "tcp,udp,sctp", "icmp", "icmp6", "icmp,icmp6", "gre", "gre,tcp"];
    let protocol = protocols[random.below(protocols.len())];
    if !protocol.is_empty() {
        rule += &format!(" {protocol}");
    }
    for word in ["in", "out"] {
        let names = ["inner", "outer", "guest", "inner,guest", "self,outer", "self"];
        if random.below(3) == 0 {
            rule += &format!(" {word} {}", names[random.below(names.len())]);
        }
    }
    for word in ["from", "to"] {
        if random.below(5) < 2 {
            let (one, other, third) = (v4(random), v4(random), v6(random));
            let range = format!("{}-{}", one.min(other), one.max(other));
            let network = Ipv6Addr::from(third.to_bits() & !0x3f);
            let choice =
                [range.clone(), format!("{third}"), format!("{one},{network}/122"), format!("{range},{third}")];
            rule += &format!(" {word} {}", choice[random.below(4)]);
        }
    }
    if ["tcp", "udp", "tcp,udp", "tcp,udp,sctp"].contains(&protocol) {
        for word in ["port", "source-port"] {
            let (one, other) = (near(random, PORTS), near(random, PORTS));
            let choice = [format!("{one}"), format!("{}-{}", one.min(other), one.max(other)), format!("{one},{other}")];
            if random.below(3) > 0 {
                rule += &format!(" {word} {}", choice[random.below(3)]);
            }
        }
    }
    match protocol {
        "icmp" => rule + ["", " type echo-request", " type 3,time-exceeded"][random.below(3)],
        "icmp6" => rule + ["", " type echo-request", " type packet-too-big,3"][random.below(3)],
        _ => rule,
    }
}

/// Reads random rules; those that are wrong become comments, so that lines keep their numbers.
fn rules(zones: &Zones, random: &mut Random) -> RuleSet {
    let mut lines = vec![["default deny", "default allow", "default reject"][random.below(3)].to_owned()];
    // A rule with few words would be about nearly every packet, and leave none for those below.
    let narrow = std::iter::repeat_with(|| rule(random)).filter(|rule| rule.split(' ').count() > 5);
    lines.extend(narrow.take(RULES));
    loop {
        let text = lines.join("\n");
        match parse(&text, zones) {
            Ok(rules) => return rules,
            Err(problems) => {
                for problem in problems {
                    let (number, _) = position(&text, problem.span.start);
                    lines[number - 1] = format!("# {}", problem.message);
                }
            }
        }
    }
}

/// Opens a socket for the frames of a device.
fn open(device: &str) -> Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
    setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20))?;
    let mut addresses = getifaddrs()?.filter(|entry| entry.interface_name == device).filter_map(|entry| entry.address);
    let link = addresses.find_map(|address| address.as_link_addr().copied()).context("the device has an address")?;
    bind(socket.as_raw_fd(), &link)?;
    Ok(socket)
}

/// Returns how many packets each line's rules of a chain have counted; 0 stands for the default.
fn counted(chain: &str) -> Result<BTreeMap<u32, u64>> {
    let listed: serde_json::Value = serde_json::from_str(&nft(&["-j", "list", "chain", "inet", "culm", chain], "")?)?;
    let mut lines = BTreeMap::new();
    for entry in listed["nftables"].as_array().context("a list")? {
        let Some(comment) = entry["rule"]["comment"].as_str() else { continue };
        let line = comment.strip_prefix("line ").map_or(Ok(0), str::parse)?;
        let expressions = entry["rule"]["expr"].as_array().context("a list")?;
        let packets = expressions.iter().filter_map(|expression| expression["counter"]["packets"].as_u64());
        *lines.entry(line).or_default() += packets.sum::<u64>();
    }
    lines.retain(|_, packets| *packets > 0);
    Ok(lines)
}

/// Has Linux and the engine decide about the same packets. Returns how many they let pass, and how
/// many lines had packets.
fn compare(random: &mut Random) -> Result<(usize, usize)> {
    let zones = Zones::new(&ZONES).expect("names of zones");
    let rules = rules(&zones, random);
    let engine = Engine::new(&rules, 64 << 20)?;
    let mut text = String::new();
    nftables(&rules, true, &mut text)?;
    nft(&["-f", "-"], &text)?;
    let packets: Vec<Packet> = (0..PACKETS).map(|_| Packet::random(random)).collect();
    let sockets = ZONES.map(|zone| open(&format!("{zone}-far")));
    let [inner, outer, guest] = sockets;
    let sockets = [inner?, outer?, guest?];
    let (mut lines, mut allowed): (BTreeMap<u32, u64>, BTreeSet<(usize, u16)>) = Default::default();
    for (packet, number) in packets.iter().zip(1..) {
        let verdict = engine.filter(&packet.key(&zones));
        *lines.entry(verdict.rule.map_or(0, |rule| rules.rules()[rule].line)).or_default() += 1;
        if verdict.allows() {
            allowed.insert((packet.exit, number));
        }
        send(sockets[packet.entry].as_raw_fd(), &packet.frame(number), MsgFlags::empty())?;
    }
    let (mut passed, start) = (BTreeSet::new(), Instant::now());
    let mut frame = [0; 2048];
    loop {
        for (zone, socket) in sockets.iter().enumerate() {
            while let Ok(length) = recv(socket.as_raw_fd(), &mut frame, MsgFlags::empty()) {
                // What the test has sent itself is not among it, since it is for the router.
                let is_from_router = frame[..6] == BEYOND;
                passed.extend(number_of(&frame[..length]).filter(|_| is_from_router).map(|number| (zone, number)));
            }
        }
        let is_over = counted("forward")?.values().sum::<u64>() >= PACKETS as u64 && passed.is_superset(&allowed);
        if is_over || start.elapsed() > PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let describe = |what: &BTreeSet<(usize, u16)>| -> String {
        what.iter().map(|(_, number)| format!("{:?}\n", packets[usize::from(*number) - 1])).collect()
    };
    let (only_linux, only_engine) = (&passed - &allowed, &allowed - &passed);
    ensure!(only_linux.is_empty(), "nftables let these pass:\n{}{text}", describe(&only_linux));
    ensure!(only_engine.is_empty(), "nftables did not let these pass:\n{}{text}", describe(&only_engine));
    let counted = counted("forward")?;
    ensure!(counted == lines, "nftables counted {counted:?} by line, the engine {lines:?}:\n{text}");
    nft(&["delete", "table", "inet", "culm"], "")?;
    Ok((allowed.len(), lines.len()))
}

#[test]
fn nftables_decides_the_same() {
    let namespace = match Namespace::new(set_up) {
        Ok((namespace, ())) => namespace,
        Err(error) => return skip(&format!("{error:#}")),
    };
    let mut random = Random::new(0x0066_6972_6577_616c);
    let (mut allowed, mut lines) = (0, 0);
    for round in 0..ROUNDS {
        let compared = namespace.within(|| compare(&mut random));
        let (passed, counted) = compared.unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        (allowed, lines) = (allowed + passed, lines + counted);
    }
    let third = ROUNDS * PACKETS / 3;
    assert!((third..2 * third).contains(&allowed), "the packets are of one kind: {allowed} passed");
    assert!(lines > ROUNDS * RULES / 5, "most rules had no packet: {lines} had one");
}

/// Rules of NAT and forwarding that meet the packets of [`Packet::random`], and packets for the
/// router's own addresses.
const TRANSLATIONS: &str = "default allow
nat tcp,udp from 10.0.255.0/24 out outer to 198.51.100.1-198.51.100.4 ports 20000-29999
nat in inner,guest out outer to own ports 30000-39999
nat from 10.1.0.0-10.1.0.7 out guest to 198.51.100.5
forward tcp,udp in outer port 0-7 to 10.0.255.5
forward tcp in outer,guest port 250 to 10.0.255.6 port 8080
forward udp in outer from 10.1.0.0/24 port 250-261 to 10.0.255.7
forward tcp in inner at 10.0.255.0-10.0.255.7 port 0-99 to 10.0.255.8
";

/// Where an address and a port are expected: one of them all.
type Expected = (RangeInclusive<Ipv4Addr>, RangeInclusive<u16>);

/// Returns whether something is for the router itself.
fn is_own(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [192, 0, 2, 1..=3])
}

/// Returns the source and the destination with which a packet of IPv4 leaves by what the engine
/// says; `None` if it does not.
fn translated(engine: &Engine, zones: &Zones, packet: &Packet) -> Option<(Expected, Expected)> {
    let Ends::V4 { source, destination } = packet.ends else { return None };
    let mut key = packet.key(zones);
    let (mut to, mut port) = (destination, key.destination_port);
    if is_own(to) {
        key.exit = Zone::SELF;
    }
    match engine.forward(&key) {
        Some(forward) => (to, port) = (forward.to, forward.port.unwrap_or(port)),
        None if is_own(to) => return None,
        None => {}
    }
    let ends = Ends::V4 { source, destination: to };
    let key = Key { ends, destination_port: port, exit: packet.key(zones).exit, ..key };
    let own = Ipv4Addr::new(192, 0, 2, packet.exit as u8 + 1);
    let from = match engine.nat(&key) {
        Some(Nat { to: Lender::Own, ports, .. }) => (own..=own, ports.0..=ports.1),
        Some(Nat { to: Lender::Range(first, last), ports, .. }) => (*first..=*last, ports.0..=ports.1),
        None => (source..=source, key.source_port..=key.source_port),
    };
    Some((from, (to..=to, port..=port)))
}

/// Has Linux and the engine translate the same packets.
fn compare_translations(random: &mut Random) -> Result<()> {
    let zones = Zones::new(&ZONES).expect("names of zones");
    let rules = parse(TRANSLATIONS, &zones).expect("they are right");
    let engine = Engine::new(&rules, 64 << 20)?;
    let mut text = String::new();
    nftables(&rules, true, &mut text)?;
    nft(&["-f", "-"], &text)?;
    // Linux tracks nothing whose checksum is wrong, and these have none.
    std::fs::write("/proc/sys/net/netfilter/nf_conntrack_checksum", "0")?;
    let [inner, outer, guest] = ZONES.map(|zone| open(&format!("{zone}-far")));
    let sockets = [inner?, outer?, guest?];
    let mut expected = BTreeMap::new();
    for number in 1..=PACKETS as u16 {
        // A sender's port of its own makes each packet the first of a connection.
        let (protocol, port) = ([6, 17][random.below(2)], near(random, PORTS) as u16);
        let destination = match random.below(2) {
            0 => Ipv4Addr::new(192, 0, 2, random.below(3) as u8 + 1),
            _ => v4(random),
        };
        let ends = Ends::V4 { source: v4(random), destination };
        let (entry, exit) = (random.below(3), random.below(3));
        let packet = Packet { entry, exit, ends, protocol, ports: (1000 + number, port) };
        expected.extend(translated(&engine, &zones, &packet).map(|ends| ((exit, number), (packet, ends))));
        send(sockets[entry].as_raw_fd(), &packet.frame(number), MsgFlags::empty())?;
    }
    let (mut found, start, mut frame) = (BTreeMap::new(), Instant::now(), [0; 2048]);
    while found.len() < expected.len() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        for (zone, socket) in sockets.iter().enumerate() {
            while let Ok(length) = recv(socket.as_raw_fd(), &mut frame, MsgFlags::empty()) {
                let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
                let address = |at: usize| Ipv4Addr::from([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
                if frame[..6] == BEYOND && frame[12..14] == [8, 0] && length >= 38 {
                    let ends = ((address(26), word(34)), (address(30), word(36)));
                    found.insert((zone, word(18)), ends);
                }
            }
        }
    }
    let lies_in = |(addresses, ports): &Expected, (address, port): (Ipv4Addr, u16)| {
        addresses.contains(&address) && ports.contains(&port)
    };
    for (place, (packet, (from, to))) in &expected {
        let (source, destination) = *found.get(place).with_context(|| format!("{packet:?} did not leave:\n{text}"))?;
        ensure!(
            lies_in(from, source) && lies_in(to, destination),
            "{packet:?} left as {source:?} {destination:?}:\n{text}"
        );
    }
    let others: Vec<_> = found.keys().filter(|place| !expected.contains_key(place)).collect();
    ensure!(others.is_empty(), "these left, by number: {others:?}\n{text}");
    ensure!(expected.len() > PACKETS / 3, "only {} packets leave", expected.len());
    Ok(())
}

#[test]
fn nftables_translates_the_same() {
    match Namespace::new(set_up) {
        Ok((namespace, ())) => {
            let mut random = Random::new(0x6e61_7434);
            namespace.within(|| compare_translations(&mut random)).unwrap_or_else(|error| panic!("{error:#}"));
        }
        Err(error) => skip(&format!("{error:#}")),
    }
}
