//! The short way beside the general one: two routers that are alike get the same frames, one of
//! them without the short way. What leaves, what is counted and what is kept of flows must be the
//! same.

use super::*;
use culm_flow::flags::{ACK, FIN, RST, SYN};
use culm_net::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use proptest::prelude::*;
use proptest::sample::select;

const RULES: &str = "default deny
allow in inner out outer
forward tcp in outer port 8080 to 10.0.1.5 port 80
allow tcp in outer to 10.0.1.5 port 80
nat in inner out outer to own ports 40000-40999
";

/// Cards that keep frames with their headers.
#[derive(Default)]
struct Kept {
    frames: Vec<(usize, PacketHeader, Vec<u8>)>,
    offloads: bool,
    /// Whether there is no buffer.
    is_full: bool,
}

impl Cards for Kept {
    type Room<'a> = Written<'a>;

    fn room(&mut self, card: usize, length: usize) -> Option<Written<'_>> {
        let Self { frames, offloads, is_full } = self;
        let room = Written::new(length, *offloads, move |header, frame| frames.push((card, header, frame)));
        room.filter(|_| !*is_full)
    }

    fn send_segments(&mut self, _: usize, _: usize, _: u8, _: u16, _: impl FnOnce(&mut [u8])) -> bool {
        false
    }

    fn divides(&mut self, _: usize, _: u8) -> bool {
        false
    }

    fn offloads_checksum(&mut self, _: usize) -> bool {
        self.offloads
    }
}

/// A flow, as both of its ends see it: who sends to whom, of each direction, and the number that is
/// next.
struct Flow {
    protocol: u8,
    ends: [[(String, u16); 2]; 2],
    next: [u32; 2],
}

/// Two routers that are alike.
struct Pair {
    short: World,
    general: World,
    flows: Vec<Flow>,
}

/// A message, and how it differs from a plain one.
#[derive(Clone, Debug)]
struct Step {
    flow: usize,
    direction: usize,
    flags: u8,
    numbers: [i32; 2],
    window: u16,
    payload: usize,
    hops: u8,
    tweak: u8,
    at: usize,
    checksum: u8,
    offloads: bool,
    is_full: bool,
    wait: u64,
}

impl Pair {
    fn new() -> Self {
        let world = || World::with(RULES, 1400);
        let mut this = Self { short: world(), general: world(), flows: vec![] };
        for world in [&mut this.short, &mut this.general] {
            // Neighbours of IPv6 make themselves known.
            for (network, from, to) in
                [(INNER, "2001:db8:1::7", "2001:db8:1::1"), (OUTER, "2001:db8::9", "2001:db8::2")]
            {
                let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
                let IpAddr::V6(target) = address(to) else { panic!("{to}") };
                message.extend(target.octets());
                message.extend([1, 1]);
                message.extend(neighbour(network).0);
                let mut question = packet(from, to, ICMP6, message, Some(2));
                question[7] = 255;
                world.pass(network, &question);
            }
        }
        let (host, peer) = ("10.0.1.7", "198.51.100.9");
        let (host6, peer6) = ("2001:db8:1::7", "2001:db8::9");
        this.begin(UDP, (host, 1000), (peer, 53), INNER);
        this.begin(UDP, (host6, 1000), (peer6, 53), INNER);
        this.begin(TCP, (host, 999), (peer, 80), INNER);
        this.begin(TCP, (host6, 999), (peer6, 80), INNER);
        this.begin(TCP, (peer, 998), ("192.0.2.2", 8080), OUTER);
        this
    }

    /// Begins a flow, and has it answered.
    fn begin(&mut self, protocol: u8, from: (&str, u16), to: (&str, u16), network: usize) {
        let first = match protocol {
            TCP => tcp(from, to, SYN, [u32::MAX - 9, 0]),
            _ => udp(from, to, 9),
        };
        let (seen, _) = self.short.passes(network, &first, 1 - network);
        self.general.passes(network, &first, 1 - network);
        let (port, seen_port) = seen.transport.ports().expect("it has ports");
        let seen = [seen.destination, seen.source].map(|address| format!("{address}"));
        let back = [(seen[0].clone(), seen_port), (seen[1].clone(), port)];
        let ends = [[(from.0.into(), from.1), (to.0.into(), to.1)], back];
        let mut flow = Flow { protocol, ends, next: [u32::MAX - 8, 70] };
        if protocol == TCP {
            let answer = tcp(flow.end(1, 0), flow.end(1, 1), SYN | ACK, [70, u32::MAX - 8]);
            let acknowledged = tcp(from, to, ACK, [u32::MAX - 8, 71]);
            for world in [&mut self.short, &mut self.general] {
                world.passes(1 - network, &answer, network);
                world.passes(network, &acknowledged, 1 - network);
            }
            flow.next[1] = 71;
        }
        self.flows.push(flow);
    }

    fn frame(&mut self, step: &Step) -> (usize, PacketHeader, Vec<u8>) {
        let flow = &mut self.flows[step.flow];
        let direction = step.direction;
        let (from, to) = (flow.end(direction, 0), flow.end(direction, 1));
        let mut bytes = if flow.protocol == TCP {
            let number = |own: u32, more: i32| own.wrapping_add_signed(more);
            let [sequence, acknowledged] =
                [(direction, 0), (1 - direction, 1)].map(|(side, which)| number(flow.next[side], step.numbers[which]));
            let mut bytes = tcp(from, to, step.flags, [sequence, acknowledged]);
            bytes.extend((0..step.payload).map(|byte| byte as u8));
            if step.numbers == [0, 0] && step.tweak == 0 && step.hops > 1 {
                let more = step.payload as u32 + u32::from(step.flags & (SYN | FIN) != 0);
                flow.next[direction] = sequence.wrapping_add(more);
            }
            bytes
        } else {
            udp(from, to, step.payload)
        };
        let is_v4 = bytes[0] >> 4 == 4;
        let (length, header) = (bytes.len(), if is_v4 { 20 } else { 40 });
        if is_v4 {
            bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        } else {
            bytes[4..6].copy_from_slice(&(length as u16 - 40).to_be_bytes());
        }
        if flow.protocol == TCP {
            bytes[header + 14..header + 16].copy_from_slice(&step.window.to_be_bytes());
        }
        bytes[if is_v4 { 8 } else { 7 }] = step.hops;
        match step.tweak {
            // The place of a fragment, or other flags there.
            1 if is_v4 => bytes[6] = [0, 0x20, 0x40, 0x80, 1][step.at % 5],
            // Options, or a datagram that says another length.
            2 if is_v4 => bytes[0] = 0x46,
            3 => bytes[header + 4] ^= 1 << (step.at % 8),
            4 if flow.protocol == UDP => bytes[header + 6..header + 8].fill(0),
            // A next header that is none of these.
            5 if !is_v4 => bytes[6] = [0, 44, 60, 58][step.at % 4],
            _ => {}
        }
        if is_v4 {
            let end = usize::from(bytes[0] & 15) * 4;
            bytes[10..12].fill(0);
            let sum = Sum::ZERO.add_bytes(&bytes[..end.min(length)]).checksum().to_be_bytes();
            bytes[10..12].copy_from_slice(&sum);
        }
        match step.tweak {
            6 => bytes[step.at % length] ^= 1,
            7 => bytes.truncate(step.at % length),
            8 => bytes.resize(length + step.at % 40, 0x55),
            _ => {}
        }
        let (outward, protocol) = (if step.flow == 4 { OUTER } else { INNER }, flow.protocol);
        let network = if direction == 0 { outward } else { 1 - outward };
        let network = if step.tweak == 9 { 1 - network } else { network };
        let (flags, segmentation) = match step.checksum {
            0 => (0, 0),
            1 => (CHECKSUM_VALID, 0),
            2 | 3 => (NEEDS_CHECKSUM, 0),
            _ => (NEEDS_CHECKSUM, u8::from(is_v4 && protocol == TCP)),
        };
        let place = if protocol == TCP { 16 } else { 6 };
        let (checksum_start, checksum_offset) = if step.checksum == 3 && step.at.is_multiple_of(3) {
            (step.at as u16, 6)
        } else {
            (14 + header as u16, place)
        };
        let header = PacketHeader { flags, segmentation, checksum_start, checksum_offset, ..PacketHeader::default() };
        let header = if segmentation != 0 { PacketHeader { segment_size: 20, ..header } } else { header };
        (network, header, frame(link(network), neighbour(network), &bytes))
    }

    /// Has both routers take a message.
    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let (network, header, frame) = self.frame(step);
        let mut kept = [(); 2].map(|()| Kept { offloads: step.offloads, is_full: step.is_full, ..Kept::default() });
        for world in [&mut self.short, &mut self.general] {
            world.now = Instant(world.now.0 + step.wait * 1000);
        }
        let [by_short, by_general] = &mut kept;
        self.short.router.begin(self.short.now, by_short);
        self.general.router.begin(self.general.now, by_general);
        self.short.router.take_with(network, header, &frame, by_short);
        self.general.router.take_the_long_way(network, header, &frame, by_general);
        prop_assert_eq!(&by_short.frames, &by_general.frames);
        prop_assert_eq!(self.short.router.tally(), self.general.router.tally());
        let words = |world: &World| world.memory.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>();
        prop_assert_eq!(words(&self.short), words(&self.general));
        Ok(())
    }
}

impl Flow {
    fn end(&self, direction: usize, which: usize) -> (&str, u16) {
        let (address, port) = &self.ends[direction][which];
        (address, *port)
    }
}

fn steps() -> impl Strategy<Value = Step> {
    let number = || prop_oneof![8 => Just(0), 2 => -3_i32..3, 2 => -70_000..70_000, 1 => any::<i32>()];
    let flags =
        select(vec![ACK, ACK, ACK, ACK, ACK | 8, ACK | 8, ACK | FIN, ACK | RST, RST, SYN, SYN | ACK, 0, ACK | 0x20]);
    let wait = prop_oneof![8 => Just(0_u64), 2 => 0..40_000_u64, 1 => 0..500_000_u64];
    let tweak = prop_oneof![6 => Just(0_u8), 4 => 0..10_u8];
    let hops = prop_oneof![8 => Just(64_u8), 1 => any::<u8>(), 2 => 0..3_u8];
    (
        (0..5_usize, 0..2_usize, flags, [number(), number()], any::<u16>(), 0..60_usize),
        (hops, tweak, any::<u16>(), 0..5_u8, any::<bool>(), prop::bool::weighted(0.1), wait),
    )
        .prop_map(|((flow, direction, flags, numbers, window, payload), other)| {
            let (hops, tweak, at, checksum, offloads, is_full, wait) = other;
            let at = at.into();
            Step {
                flow,
                direction,
                flags,
                numbers,
                window,
                payload,
                hops,
                tweak,
                at,
                checksum,
                offloads,
                is_full,
                wait,
            }
        })
}

/// A plain packet of a flow.
fn plain(flow: usize, direction: usize) -> Step {
    Step {
        flow,
        direction,
        flags: ACK,
        numbers: [0, 0],
        window: 9000,
        payload: 30,
        hops: 64,
        tweak: 0,
        at: 0,
        checksum: 0,
        offloads: false,
        is_full: false,
        wait: 0,
    }
}

#[test]
fn plain_packets_of_open_flows_take_the_short_way() {
    let mut pair = Pair::new();
    for flow in 0..5 {
        // The first answer tells the flow's way back.
        for direction in [1, 0, 1, 0] {
            let step = plain(flow, direction);
            pair.take(&step).expect("both ways do the same");
        }
    }
    for flow in 0..5 {
        for direction in [0, 1] {
            for checksum in [0, 2] {
                let (network, header, frame) = pair.frame(&Step { checksum, ..plain(flow, direction) });
                let mut kept = Kept { offloads: true, ..Kept::default() };
                assert!(pair.short.router.takes_short_way(network, header, &frame, &mut kept), "{flow} {direction}");
                assert_eq!(kept.frames.len(), 1);
            }
        }
    }
}

/// Tests each payload of two bytes: for one of them the translated datagram's checksum comes out as
/// zero, which would say that there is none.
#[test]
fn no_checksum_of_a_datagram_becomes_zero() {
    let mut pair = Pair::new();
    let (network, header, frame) = pair.frame(&Step { payload: 2, ..plain(0, 0) });
    let mut seen = vec![];
    for word in 0..=u16::MAX {
        let mut frame = frame.clone();
        frame[42..44].copy_from_slice(&word.to_be_bytes());
        let sum = Sum::pseudo_header(address("10.0.1.7"), address("198.51.100.9"), UDP, 10);
        frame[40..42].fill(0);
        let sum = sum.add_bytes(&frame[34..44]).checksum();
        frame[40..42].copy_from_slice(&if sum == 0 { u16::MAX } else { sum }.to_be_bytes());
        let mut kept = [(); 2].map(|()| Kept::default());
        assert!(pair.short.router.takes_short_way(network, header, &frame, &mut kept[0]));
        pair.general.router.take_the_long_way(network, header, &frame, &mut kept[1]);
        assert_eq!(kept[0].frames, kept[1].frames, "{word}");
        seen.push(kept[0].frames[0].2[40..42].to_vec());
    }
    assert!(seen.contains(&vec![0xff, 0xff]) && !seen.contains(&vec![0, 0]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_short_way_does_what_the_general_one_does(steps in prop::collection::vec(steps(), 1..60)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.take(step)?;
        }
    }
}
