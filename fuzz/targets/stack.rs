//! Stations that send any frames, at any times, to a TCP/IP stack whose application echoes, and has
//! nothing more to do with who says goodbye; and one that means well.
//!
//! Whether clients have to speak first goes by the input's length. It is a sequence of acts: a byte
//! that says what happens, three that say more, and the bytes of a frame or a segment. One act is a
//! flood of SYNs, another lets no buffer come back that the stack has sent: only both together
//! leave callers who wait for an answer and nothing to send it in. Whatever happens, nothing panics
//! or runs for ever, nothing is sent that cannot be sent, and in the end a good client gets a
//! connection and its answer, also where others have taken all places.

#![no_main]

use culm::Region;
use culm::connection::NetClient;
use culm::time::{self, Duration};
use culm_net::stack::{Event, Settings, Stack};
use culm_net::testing::{Peer, client, read_frame, write_packet};
use culm_net::{BUFFER_SIZE, Client, Descriptor, HEADROOM, PacketHeader, checksum};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BUFFERS: u32 = 32;
const PLACES: usize = 4;

/// Rounds after which a turn of the stack is over, at most: it has all of the 256 SYNs that can
/// wait answered, 32 in each.
const ROUNDS: usize = 16;

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

std::thread_local! {
    /// The wire outlives the stacks at its end, each of which greets it anew, as after a restart:
    /// what is shared cannot be freed.
    static WIRE: RefCell<Wire> = RefCell::new(Wire::new());
}

fuzz_target!(|data: &[u8]| {
    culm::testing::forget();
    WIRE.with_borrow_mut(|wire| {
        let mut lan = Lan::new(wire, data.len() % 2 == 1);
        let mut stations: Vec<Station> = (0..8).map(Station::new).collect();
        let mut rest = data;
        // Bounded, since each act costs some turns.
        for _ in 0..200 {
            let Some((&[kind, which, flags, length], after)) = rest.split_first_chunk::<4>() else { break };
            let (payload, after) = after.split_at(after.len().min(usize::from(length)));
            rest = after;
            let station = &mut stations[usize::from(which) % 8];
            match kind % 8 {
                0 => lan.deliver(payload.to_vec()),
                1 => {
                    let mut frame = station.segment(flags, payload);
                    let at = usize::from(which) * 256 / frame.len().max(1) % frame.len();
                    frame[at] ^= flags;
                    lan.deliver(frame);
                }
                2 => lan.pass(u64::from(which) * 20),
                3 => lan.keeps = flags & 1 != 0,
                4 => station.next = station.next.wrapping_add(u32::from(flags)),
                7 => lan.flood(which, flags),
                5 => *station = Station { mac: [2, 9, 0, 0, 0, flags], ..*station },
                _ => {
                    lan.deliver(station.segment(flags, payload));
                    station.next = station.next.wrapping_add(payload.len() as u32 + u32::from(flags & 3 != 0));
                }
            }
            lan.turn();
            stations.iter_mut().for_each(|station| _ = station.receive(&mut lan.seen));
            lan.seen.clear();
        }
        lan.keeps = false;
        lan.pass(6000);
        is_served(&mut lan);
    });
});

/// A good client gets a connection, a byte back, and leaves.
fn is_served(lan: &mut Lan<'_>) {
    let mut good = Station { port: 999, mac: [2, 1, 1, 1, 1, 1], ..Station::new(100) };
    good.next = 1 << 20;
    let opened = (0..20).any(|_| {
        lan.seen.clear();
        lan.deliver(good.segment(SYN, b""));
        lan.pass(50);
        good.receive(&mut lan.seen).iter().any(|(flags, _)| *flags == SYN | ACK)
    });
    assert!(opened, "a good client is not let in");
    good.next += 1;
    let answered = (0..20).any(|_| {
        lan.deliver(good.segment(ACK, b"?"));
        lan.pass(150);
        good.receive(&mut lan.seen).iter().any(|(_, payload)| payload == b"?")
    });
    assert!(answered, "a good client is not answered");
    good.next += 1;
    lan.deliver(good.segment(RST | ACK, b""));
    lan.turn();
}

/// Queues and buffers between the stack and the stations.
struct Wire {
    connection: NetClient,
    rx: Peer<Descriptor>,
    tx: Peer<Descriptor>,
    rx_data: Region,
    tx_data: Region,
}

impl Wire {
    fn new() -> Self {
        let connection = client(MAC, BUFFERS, BUFFER_SIZE);
        Self {
            connection,
            rx: Peer::new(connection.rx_free, connection.rx_filled),
            tx: Peer::new(connection.tx_filled, connection.tx_free),
            rx_data: Region::new(connection.rx_data),
            tx_data: Region::new(connection.tx_data),
        }
    }
}

struct Lan<'a> {
    wire: &'a mut Wire,
    stack: Stack,
    /// Receive buffers that the stack has provided.
    empty: Vec<Descriptor>,
    kept: Vec<Descriptor>,
    /// Whether sent buffers are kept for now.
    keeps: bool,
    seen: Vec<Vec<u8>>,
}

impl<'a> Lan<'a> {
    fn new(wire: &'a mut Wire, is_patient: bool) -> Self {
        let settings = Settings {
            connections: PLACES,
            receive_buffer: 1024,
            largest_receive_buffer: 8192,
            receive_pool: 16 * 1024,
            send_buffer: 1024,
            ..Settings::default()
        };
        let settings = settings.with_addresses("10.0.0.1/24", "").expect("an address");
        culm::testing::set_seed([1, 2, 3, 4]);
        let mut stack = Stack::new(Client::new(wire.connection), settings);
        if is_patient {
            stack.listen_for_requests(80);
        } else {
            stack.listen(80);
        }
        stack.bind(7);
        let mut lan = Self { wire, stack, empty: vec![], kept: vec![], keeps: false, seen: vec![] };
        for _ in 0..8 {
            lan.turn();
        }
        lan
    }

    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds.div_ceil(10) {
            culm::testing::set_time(time::now() + Duration::from_millis(10));
            self.turn();
        }
    }

    fn deliver(&mut self, frame: Vec<u8>) {
        if frame.len() + HEADROOM > BUFFER_SIZE as usize {
            return;
        }
        let Some(buffer) = self.empty.pop() else { return };
        let length = write_packet(&self.wire.rx_data, buffer.offset, &frame);
        self.wire.rx.send(&[Descriptor { length, ..buffer }]);
    }

    /// SYNs of so many others, each with its own port, as fast as they are received.
    fn flood(&mut self, count: u8, from: u8) {
        for number in 0..u16::from(count) {
            let port = 10_000_u16.wrapping_add(u16::from(from) * 256 + number);
            let other = Station { port, ..Station::new(9) };
            self.deliver(other.segment(SYN, b""));
            if self.empty.is_empty() {
                self.turn();
            }
        }
    }

    fn turn(&mut self) {
        let renewals = self.wire.rx.renewals;
        let entries = self.wire.rx.take();
        if self.wire.rx.renewals != renewals {
            self.empty.clear();
        }
        self.empty.extend(entries);
        // Nothing comes in and no buffer comes back meanwhile, so all that there is to do is
        // bounded.
        for _ in 0..ROUNDS {
            self.stack.receive(&mut |datagram| {
                let length = datagram.payload().len();
                datagram.answer(length, |answer, request| answer.copy_from_slice(request));
            });
            while let Some(event) = self.stack.event() {
                echo(&mut self.stack, event);
            }
            if self.stack.end_round().is_asleep() {
                return self.collect();
            }
        }
        panic!("a turn does not end");
    }

    fn collect(&mut self) {
        let renewals = self.wire.tx.renewals;
        let packets = self.wire.tx.take();
        if self.wire.tx.renewals != renewals {
            self.kept = (0..BUFFERS).map(|number| Descriptor::empty(number * BUFFER_SIZE)).collect();
        }
        for packet in packets {
            let frame = read_frame(&self.wire.tx_data, packet);
            let mut header = [0; HEADROOM];
            self.wire.tx_data.read(packet.offset as usize, &mut header).expect("inside");
            assert_eq!(PacketHeader::read(&header), PacketHeader::default(), "nobody said that the device does that");
            assert!(checksum::is_right(&frame), "a frame with a wrong checksum was sent");
            self.seen.push(frame);
            self.kept.push(Descriptor::empty(packet.offset));
        }
        if !self.keeps && self.wire.tx.is_live() {
            let kept = std::mem::take(&mut self.kept);
            self.wire.tx.send(&kept);
        }
    }
}

/// What a client says that is to be left alone.
const GOODBYE: u8 = b'q';

/// Answers what comes with the same, ends where the peer does or has said [`GOODBYE`], and rests in
/// between.
fn echo(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    let Some(mut stream) = stack.stream(slot) else { return };
    let mut bytes = [0; 512];
    let count = stream.copy_received(&mut bytes);
    let sent = stream.send(&bytes[..count]);
    stream.consume(sent);
    stream.rest();
    let is_parted = bytes[..count].contains(&GOODBYE);
    if is_parted || (stream.ended() && stream.received_count() == 0) || stream.is_over() {
        stack.release(slot);
    }
}

/// A client, which knows what it has seen of the stack's sequence numbers.
#[derive(Clone, Copy)]
struct Station {
    mac: [u8; 6],
    last: u8,
    port: u16,
    next: u32,
    seen: u32,
}

impl Station {
    fn new(number: u8) -> Self {
        Self { mac: [2, 7, 0, 0, 0, number], last: 100 + number, port: 2000 + u16::from(number), next: 0, seen: 0 }
    }

    fn segment(&self, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = [MAC, self.mac].concat();
        let length = ((40 + payload.len()) as u16).to_be_bytes();
        frame.extend([
            0x08, 0, 0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, self.last, 10, 0, 0, 1,
        ]);
        frame.extend(self.port.to_be_bytes());
        frame.extend([0, 80]);
        frame.extend(self.next.to_be_bytes());
        frame.extend(self.seen.to_be_bytes());
        frame.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        let sum = !checksum::Sum::ZERO.add_bytes(&frame[14..34]).fold();
        frame[24..26].copy_from_slice(&sum.to_le_bytes());
        checksum::complete(&mut frame);
        frame
    }

    /// Flags and payload of the segments to this station among these frames.
    fn receive(&mut self, frames: &mut Vec<Vec<u8>>) -> Vec<(u8, Vec<u8>)> {
        let mut segments = Vec::new();
        frames.retain(|frame| {
            let is_ours = frame.len() >= 54
                && frame[..6] == self.mac
                && frame[12..15] == [8, 0, 0x45]
                && frame[23] == 6
                && frame[36..38] == self.port.to_be_bytes();
            if is_ours {
                let number = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"));
                let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                let payload = frame[34 + usize::from(frame[46] >> 4) * 4..end].to_vec();
                let flags = frame[47];
                self.seen = number(38).wrapping_add(payload.len() as u32 + u32::from(flags & 3 != 0));
                segments.push((flags, payload));
            }
            !is_ours
        });
        segments
    }
}
