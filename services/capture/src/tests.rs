//! The whole component against clients that hold it up: those that ask for nothing, and one that
//! takes nothing of its capture. Networks are queues in memory, and time is the test's.

use super::*;
use culm::time::Duration;
use culm_net::BUFFER_SIZE;
use culm_net::testing::{Far, Segment, client, frame};
use culm_net::wire::{Tcp, tcp};
use std::collections::BTreeMap;
use std::vec::Vec;

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// Buffers each way.
const BUFFERS: u32 = 32;

/// Offset of TCP's header in a frame.
const TRANSPORT: usize = 34;

const STEP: Duration = Duration::from_millis(20);

/// A connection of a client's.
#[derive(Default)]
struct Peering {
    next: u32,
    seen: u32,
    read: Vec<u8>,
}

struct World {
    capture: Capture,
    net: Far,
    mirror: Far,
    /// By the client's port.
    peerings: BTreeMap<u16, Peering>,
}

impl World {
    fn new() -> Self {
        let (net, mirror) = (client(OWN, BUFFERS, BUFFER_SIZE), client(OWN, BUFFERS, BUFFER_SIZE));
        let settings = settings().with_addresses("10.0.0.1/24", "").expect("an address");
        let mut stack = Stack::new(Client::new(net), settings);
        stack.listen_for_requests(80);
        let capture = Capture::with(Client::new(mirror), stack, Mac::new(OWN), 64 * 1024, 2048);
        let mut world = Self { capture, net: Far::new(&net), mirror: Far::new(&mirror), peerings: BTreeMap::new() };
        (0..4).for_each(|_| world.turn());
        world.net.lend(BUFFERS);
        world.mirror.lend(BUFFERS);
        world.turn();
        world
    }

    fn turn(&mut self) {
        self.capture.notified(Channels::NONE);
        self.mirror.take();
        for frame in self.net.take() {
            self.receive(&frame);
        }
    }

    fn receive(&mut self, frame: &[u8]) {
        if frame[12..14] != [8, 0] || frame[23] != 6 {
            return;
        }
        let segment = Tcp::at(frame, TRANSPORT).expect("a header");
        let port = u16::from_be_bytes([frame[TRANSPORT + 2], frame[TRANSPORT + 3]]);
        let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let payload = &frame[TRANSPORT + segment.header_length()..end];
        let Some(peering) = self.peerings.get_mut(&port) else { return };
        if segment.flags() & tcp::SYN != 0 {
            peering.seen = segment.sequence().wrapping_add(1);
        } else if segment.sequence() == peering.seen {
            peering.read.extend(payload);
            peering.seen = peering.seen.wrapping_add(payload.len() as u32);
        }
    }

    /// The client sends a segment from a port, with this window.
    fn send(&mut self, port: u16, flags: u8, window: u16, payload: &[u8]) {
        let Some(peering) = self.peerings.get_mut(&port) else { return };
        let segment = Segment {
            to: (OWN, [10, 0, 0, 1], 80),
            from: (CLIENT, [10, 0, 0, 2], port),
            numbers: (peering.next, peering.seen),
            flags,
            window,
            payload,
        };
        peering.next = peering.next.wrapping_add(payload.len() as u32 + u32::from(flags & tcp::SYN != 0));
        assert!(self.net.bring(&segment.frame()));
        self.turn();
    }

    fn connect(&mut self, port: u16) {
        self.peerings.insert(port, Peering { next: 77, ..Peering::default() });
        self.send(port, tcp::SYN, 2000, b"");
        self.send(port, tcp::ACK, 2000, b"");
    }

    /// Asks for a capture. Returns the first line of the answer.
    fn ask(&mut self, port: u16, window: u16) -> Vec<u8> {
        self.send(port, tcp::ACK, window, b"GET /capture.pcap HTTP/1.1\r\n\r\n");
        self.pass(STEP);
        let read = &self.peerings[&port].read;
        read.split(|byte| *byte == b'\r').next().unwrap_or_default().into()
    }

    /// Time passes.
    fn pass(&mut self, duration: Duration) {
        let until = time::now() + duration;
        while time::now() < until {
            culm::testing::set_time(time::now() + STEP);
            self.turn();
        }
    }
}

#[test]
fn who_asks_for_nothing_makes_way() {
    let mut world = World::new();
    for port in 0..CONNECTIONS as u16 {
        world.connect(50_000 + port);
    }
    world.pass(Duration::from_secs(2));
    world.connect(60_000);
    assert_eq!(world.ask(60_000, 2000), b"HTTP/1.1 200 OK");
}

#[test]
fn who_takes_nothing_of_its_capture_makes_way() {
    let mut world = World::new();
    world.connect(50_000);
    assert!(world.ask(50_000, 0).is_empty());
    // More than is sent and not acknowledged.
    for _ in 0..30 {
        assert!(world.mirror.bring(&frame(Mac::new(OTHER), Mac::new(CLIENT), &[7; 1000])));
        world.turn();
    }
    world.connect(50_001);
    assert_eq!(world.ask(50_001, 2000), b"HTTP/1.1 503 Service Unavailable");
    // Its station answers probes of its window all the while.
    for _ in 0..20 {
        world.pass(Duration::from_millis(500));
        world.send(50_000, tcp::ACK, 0, b"");
    }
    world.connect(50_002);
    assert_eq!(world.ask(50_002, 2000), b"HTTP/1.1 200 OK");
}

#[test]
fn who_reads_a_capture_keeps_it_however_little_there_is() {
    let mut world = World::new();
    world.connect(50_000);
    assert_eq!(world.ask(50_000, 2000), b"HTTP/1.1 200 OK");
    world.send(50_000, tcp::ACK, 2000, b"");
    world.connect(50_001);
    // Nothing happens for a while, in which the component has no turn.
    culm::testing::set_time(time::now() + Duration::from_secs(30));
    assert_eq!(world.ask(50_001, 2000), b"HTTP/1.1 503 Service Unavailable");
}
