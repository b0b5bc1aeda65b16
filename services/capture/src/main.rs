//! Gives what a switch mirrors to whoever asks by HTTP, as a file that tcpdump and Wireshark read
//! while it grows: `curl -sN http://ADDRESS/capture.pcap | tcpdump -r -`.
//!
//! It stands apart from the switch, which copies frames to it as to any client and knows nothing of
//! files or connections: whatever is wrong here, or slow, costs the switch nothing but frames that
//! find no room. Frames are kept from the moment at which somebody asks, and only for that one: who
//! else asks meanwhile is told to wait, as long as it takes them. The component's own frames are
//! left out, since each would bring the next.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod pcap;
mod request;
mod ring;
#[cfg(test)]
mod tests;

use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, Progress, ROUNDS, run_rounds};
use culm_net::stack::{Event, KeepAlive, Settings, Stack, Stream};
use culm_net::wire::Ethernet;
use culm_net::{Client, Mac, checksum};
use request::Request;
use ring::Ring;

culm::component!(Capture);

/// Connections at a time: one that takes a capture, and some that are told that there is one.
const CONNECTIONS: usize = 4;

/// Frames that are looked at in one round.
const FRAMES: usize = 64;

/// How long who takes a capture may need for so many bytes of it, when somebody else asks for one.
/// A byte for each probe of a closed window is not enough.
const STALL: Duration = Duration::from_secs(5);
const PORTION: usize = 4096;

/// What stands before a capture. It ends with its connection (RFC 9112 §6.3).
const FOUND: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.tcpdump.pcap\r\nCache-Control: no-store\r\n\
                       Connection: close\r\n\r\n";

struct Capture {
    mirror: Client,
    stack: Stack,
    /// The address whose frames are left out.
    own: Mac,
    ring: Ring,
    snap: u32,
    taker: Option<Taker>,
    /// The beginning of a frame, where a checksum has to be put in.
    kept: alloc::vec::Vec<u8>,
}

/// The connection that takes the capture.
struct Taker {
    slot: usize,
    /// How many frames are still wanted, if not all.
    left: Option<u64>,
    /// When it last had taken a portion, or all there was, and the bytes that it took since.
    moved: Instant,
    taken: usize,
}

impl Component for Capture {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let settings = settings();
        let (address, gateway) = (config.address.unwrap_or_default(), config.gateway.unwrap_or_default());
        let settings = settings.with_addresses(address, gateway).unwrap_or_else(|error| {
            culm::error!("address \"{address}\", gateway \"{gateway}\": {error}");
            settings
        });
        let net = Client::new(connections.net);
        let own = net.mac();
        let mut stack = Stack::new(net, settings);
        stack.listen_for_requests(config.port);
        let mirror = Client::new(connections.mirror);
        let mut this = Self::with(mirror, stack, own, config.memory as usize, config.snap);
        this.turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

fn settings() -> Settings {
    Settings { connections: CONNECTIONS, receive_buffer: request::LONGEST, send_buffer: 16384, ..Settings::default() }
}

impl Capture {
    fn with(mirror: Client, stack: Stack, own: Mac, memory: usize, snap: u32) -> Self {
        let kept = alloc::vec::Vec::with_capacity(snap as usize);
        Self { mirror, stack, own, ring: Ring::new(memory), snap, taker: None, kept }
    }

    fn turn(&mut self) {
        run_rounds(ROUNDS, || {
            self.mirror.begin();
            let captured = self.capture();
            self.stack.receive(&mut |_| {});
            // Before somebody else asks, who may find that it takes nothing.
            self.serve_taker();
            while let Some(event) = self.stack.event() {
                let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
                if matches!(event, Event::Opened { .. }) {
                    self.forget(slot);
                    // On a quiet network nothing else would tell that its taker has vanished.
                    if let Some(mut stream) = self.stack.stream(slot) {
                        stream.keep_alive(Some(KeepAlive::USUAL));
                    }
                }
                self.serve(slot);
            }
            self.serve_taker();
            captured & self.mirror.end_round() & self.stack.end_round()
        });
    }

    /// Ends the capture of a connection that is gone.
    fn forget(&mut self, slot: usize) {
        if self.taker.as_ref().is_some_and(|taker| taker.slot == slot) {
            self.taker = None;
            self.ring.clear();
        }
    }

    /// Keeps the frames that have come, a bounded number of them.
    fn capture(&mut self) -> Progress {
        for _ in 0..FRAMES {
            let Some(packet) = self.mirror.receiver.receive() else { return Progress::Asleep };
            let Some(taker) = self.taker.as_mut().filter(|taker| taker.left != Some(0)) else { continue };
            let (header, frame) = (packet.header(), packet.frame());
            let own = self.own.bytes();
            if Ethernet::at(frame, 0).is_none_or(|head| head.source() == own || head.destination() == own) {
                counters::OWN_FRAMES.add(1);
                continue;
            }
            let kept = frame.len().min(self.snap as usize);
            self.kept.clear();
            self.kept.extend_from_slice(frame.get(..kept).unwrap_or_default());
            // Its sender has left the checksum to the device that sends it.
            if kept == frame.len() {
                let _ = checksum::finish(&mut self.kept, &header, false);
            }
            let record = pcap::record_header(time::now().since_start(), kept, frame.len());
            if self.ring.put([&record, &self.kept]) {
                taker.left = taker.left.map(|left| left - 1);
                counters::CAPTURED.add(1);
            } else {
                counters::MISSED.add(1);
            }
        }
        Progress::More
    }

    fn serve_taker(&mut self) {
        if let Some(slot) = self.taker.as_ref().map(|taker| taker.slot) {
            self.serve(slot);
        }
    }

    /// Reads what a connection asks for, or gives it what was captured.
    fn serve(&mut self, slot: usize) {
        let Some(mut stream) = self.stack.stream(slot) else { return };
        if let Some(taker) = self.taker.as_mut().filter(|taker| taker.slot == slot) {
            taker.taken += give(&mut stream, &mut self.ring);
            if taker.taken >= PORTION || self.ring.is_empty() {
                (taker.moved, taker.taken) = (time::now(), 0);
            }
            let is_done = taker.left == Some(0) && self.ring.is_empty();
            if is_done {
                stream.finish();
            }
            if is_done || stream.ended() {
                self.end(slot);
            }
            return;
        }
        let mut bytes = [0; request::LONGEST];
        let count = stream.copy_received(&mut bytes);
        let request = request::read(bytes.get(..count).unwrap_or_default());
        let status = match request {
            Request::Partial if stream.ended() => return self.end(slot),
            // Who says nothing makes way for those that find no place.
            Request::Partial => return stream.rest(),
            Request::Capture(left) if self.taker.as_ref().is_none_or(|taker| taker.moved + STALL <= time::now()) => {
                stream.consume(count);
                return self.start(slot, left);
            }
            Request::Capture(_) => "503 Service Unavailable\r\nRetry-After: 10",
            Request::Refused(status) => status,
        };
        stream.consume(count);
        counters::REQUESTS_REFUSED.add(1);
        for part in ["HTTP/1.1 ", status, "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"] {
            stream.send(part.as_bytes());
        }
        stream.finish();
        self.end(slot);
    }

    /// Begins a capture for a connection, in place of one that is not taken.
    fn start(&mut self, slot: usize, left: Option<u64>) {
        if let Some(taker) = self.taker.take() {
            if let Some(mut stream) = self.stack.stream(taker.slot) {
                stream.abort();
            }
            self.stack.release(taker.slot);
        }
        counters::CAPTURES.add(1);
        self.ring.clear();
        // An empty ring has room for this.
        let is_begun = self.ring.put([FOUND, &pcap::file_header(self.snap)]);
        self.taker = is_begun.then(|| Taker { slot, left, moved: time::now(), taken: 0 });
    }

    /// Gives a connection back, whose end is sent in its own time.
    fn end(&mut self, slot: usize) {
        self.forget(slot);
        if let Some(mut stream) = self.stack.stream(slot) {
            stream.finish();
        }
        self.stack.release(slot);
    }
}

/// Hands over what was captured, as much as there is room for. Returns how many bytes that were.
fn give(stream: &mut Stream<'_>, ring: &mut Ring) -> usize {
    let mut given = 0;
    while !ring.is_empty() {
        let sent = stream.send(ring.first());
        if sent == 0 {
            return given;
        }
        given += sent;
        ring.take(sent);
    }
    // What a client says beyond its request is nothing to anybody.
    let count = stream.received_count();
    stream.consume(count);
    given
}
