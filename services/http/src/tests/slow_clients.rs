//! Slow clients of the whole component: what reads little by little is served to the end, and what
//! acknowledges nothing is cut off in time.
//!
//! The component has its TCP/IP and a network of queues in memory. Its client is made of single
//! segments, so that it can acknowledge as little as it likes. Time is the test's.

use crate::{Http, Observer, PATROL};
use culm::connection::NetClient;
use culm::time::{self, Duration, Instant};
use culm::{Channels, Component};
use culm_http::{Caching, Server, Site, Timeouts, limits};
use culm_net::stack::{Settings, Stack};
use culm_net::testing::{Far, Segment, client};
use culm_net::wire::{Tcp, tcp};
use culm_net::{BUFFER_SIZE, Client};
use std::vec::Vec;

const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Buffers each way.
const BUFFERS: u32 = 32;

/// Offset of TCP's header in a frame.
const TRANSPORT: usize = 34;

/// How long a client may acknowledge nothing of a response.
const RESPONSE: Duration = Duration::from_secs(15);

/// The file that it asks for.
const LENGTH: usize = 24_000;

/// The resolution of a test's time: a step of the client and the server.
const STEP: Duration = Duration::from_millis(20);

/// The component, the other side of its network, and a client there.
struct World {
    http: Http,
    net: Far,
    /// The client's next sequence number, and the next of the server's that it has not got.
    next: u32,
    seen: u32,
    /// The bytes that came and were not read yet, of the room that there is for it.
    unread: Vec<u8>,
    room: usize,
    /// The bytes that were read.
    read: Vec<u8>,
    /// The room that the server was last told of.
    told: usize,
    /// Something came that is to be acknowledged, if only to say that it is here already.
    owes: bool,
    was_reset: bool,
}

/// The byte at this place of the file.
fn byte(place: usize) -> u8 {
    (place % 251) as u8
}

fn component(connection: NetClient) -> Http {
    let file: &'static [u8] = (0..LENGTH).map(byte).collect::<Vec<_>>().leak();
    let site = Site::new([("large.bin", file)].into_iter(), &Caching::default(), &[], &[]);
    let settings = Settings { connections: 4, receive_buffer: limits::HEAD, send_buffer: 8192, ..Settings::default() };
    let mut stack =
        Stack::new(Client::new(connection), settings.with_addresses("10.0.0.1/24", "").expect("an address"));
    stack.listen_for_requests(80);
    let hour = time::ticks(Duration::from_secs(3600));
    let response = time::ticks(RESPONSE);
    let timeouts = Timeouts { idle: hour, request: hour, response, linger: hour, farewell: hour, fresh: 1 };
    Http {
        stack,
        clock: None,
        next_second: Instant::default(),
        server: Server::with_files(site, Observer(None), None, 4, timeouts),
        crashes: None,
        patrol: Instant::default(),
        patrol_ticks: time::ticks(PATROL),
    }
}

impl World {
    /// A client with room for so many bytes, which has asked for the file.
    fn new(room: usize) -> Self {
        let connection = client(SERVER, BUFFERS, BUFFER_SIZE);
        let mut world = Self {
            http: component(connection),
            net: Far::new(&connection),
            next: 77,
            seen: 0,
            unread: Vec::new(),
            room,
            read: Vec::new(),
            told: room,
            owes: false,
            was_reset: false,
        };
        for _ in 0..4 {
            world.turn();
        }
        world.net.lend(BUFFERS);
        world.turn();
        world.send(tcp::SYN, b"");
        world.turn();
        world.send(tcp::ACK, b"");
        world.send(tcp::ACK, b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        world
    }

    /// The component has a turn; what it sends comes to the client.
    fn turn(&mut self) {
        self.http.notified(Channels::NONE);
        for frame in self.net.take() {
            self.receive(&frame);
        }
    }

    /// The client gets a frame: it keeps what follows and what it has room for.
    fn receive(&mut self, frame: &[u8]) {
        if frame[12..14] != [8, 0] || frame[23] != 6 {
            return;
        }
        let segment = Tcp::at(frame, TRANSPORT).expect("a header");
        let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let payload = &frame[TRANSPORT + segment.header_length()..end];
        self.was_reset |= segment.flags() & tcp::RST != 0;
        if segment.flags() & tcp::SYN != 0 {
            self.seen = segment.sequence().wrapping_add(1);
            return;
        }
        self.owes |= !payload.is_empty();
        // It may begin with what is here already.
        let known = self.seen.wrapping_sub(segment.sequence()) as usize;
        let news = payload.get(known..).unwrap_or_default();
        let taken = news.len().min(self.room - self.unread.len());
        self.unread.extend(&news[..taken]);
        self.seen = self.seen.wrapping_add(taken as u32);
    }

    /// The client sends a segment.
    fn send(&mut self, flags: u8, payload: &[u8]) {
        (self.told, self.owes) = (self.room - self.unread.len(), false);
        let segment = Segment {
            to: (SERVER, [10, 0, 0, 1], 80),
            from: (CLIENT, [10, 0, 0, 2], 0xc000),
            numbers: (self.next, self.seen),
            flags,
            window: self.told as u16,
            payload,
        };
        assert!(self.net.bring(&segment.frame()), "the server provides buffers");
        self.next = self.next.wrapping_add(payload.len() as u32 + u32::from(flags & tcp::SYN != 0));
    }

    /// Time passes, in which the client reads so many bytes. It acknowledges what came, and tells
    /// of room when a segment fits (RFC 9293 §3.8.6.2.2).
    fn step(&mut self, count: usize) {
        culm::testing::set_time(time::now() + STEP);
        self.turn();
        let read = count.min(self.unread.len());
        self.read.extend(self.unread.drain(..read));
        if self.owes || self.room - self.unread.len() >= self.told + 536 {
            self.send(tcp::ACK, b"");
            self.turn();
        }
    }
}

/// It reads a byte in 20 ms, so that a segment takes eleven seconds, and the file eight minutes.
#[test]
fn a_client_that_reads_byte_by_byte_gets_all() {
    let mut world = World::new(2000);
    let begin = time::now();
    let headers = loop {
        world.step(1);
        assert!(!world.was_reset, "after {:?} and {} bytes", time::now().since(begin), world.read.len());
        let headers = world.read.windows(4).position(|window| window == b"\r\n\r\n").map(|place| place + 4);
        if let Some(headers) = headers.filter(|headers| world.read.len() >= headers + LENGTH) {
            break headers;
        }
        assert!(time::now().since(begin) < Duration::from_secs(3600), "{} bytes in an hour", world.read.len());
    };
    assert!(world.read.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(world.read[headers..].iter().enumerate().all(|(place, found)| *found == byte(place)));
    assert!(time::now().since(begin) > 10 * RESPONSE);
    assert_eq!(world.http.server.tally().timeouts, 0);
}

/// It takes what it has room for and no more: that long after its last acknowledgement it is reset,
/// though its station still answers each probe of its window.
#[test]
fn a_client_that_acknowledges_nothing_is_cut_off_in_time() {
    for room in [2000, 0] {
        let mut world = World::new(2000);
        world.room = room;
        let mut acknowledged = time::now();
        while !world.was_reset {
            let seen = world.seen;
            world.step(0);
            if world.seen != seen {
                acknowledged = time::now();
            }
            assert!(time::now().since(acknowledged) < RESPONSE + 3 * PATROL, "room for {room}");
        }
        assert!(time::now().since(acknowledged) >= RESPONSE, "room for {room}");
        assert_eq!((world.http.server.tally().timeouts, world.http.server.open()), (1, 0));
    }
}

/// The last bytes of a response are waited for no longer than the others, and no shorter.
#[test]
fn the_end_of_a_response_has_as_long() {
    let mut world = World::new(60_000);
    let held = loop {
        world.step(60_000);
        if world.read.len() > LENGTH / 2 {
            break time::now();
        }
        assert!(!world.was_reset, "after {} bytes", world.read.len());
    };
    // Nothing comes of the client from here on.
    while world.http.server.open() > 0 {
        culm::testing::set_time(time::now() + STEP);
        world.turn();
        assert!(time::now().since(held) < RESPONSE + 3 * PATROL);
    }
    assert!(time::now().since(held) + STEP >= RESPONSE && world.was_reset);
    assert_eq!(world.http.server.tally().timeouts, 1);
    assert_eq!(world.http.stack.counts().resets, 1);
}
