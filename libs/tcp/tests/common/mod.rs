//! Two connections, and a wire between them that does to segments what a test asks for. Time is
//! simulated: it goes from one event to the next.

#![allow(dead_code, reason = "each test uses a part of this")]

use culm_tcp::{
    Algorithm, Connection, FEWEST_RECORDS, Flags, Header, Instant, Island, LONGEST_HEADER, Piece, Sent, Sequence,
    Settings, Span, State, Storage,
};
use std::collections::{BTreeMap, VecDeque};

/// Numbers that look random, the same ones for the same seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn has(&mut self, per_mille: u32) -> bool {
        self.below(1000) < per_mille.into()
    }
}

/// What the wire does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    /// Microseconds one way.
    pub delay: u32,
    /// Chances in a thousand.
    pub loses: u32,
    pub duplicates: u32,
    pub corrupts: u32,
    pub reorders: u32,
    /// Of what is on the way for no time, and so overtakes what is: of the first side's alone.
    pub overtakes: u32,
    /// Of what may be marked (ECN).
    pub marks: u32,
    /// Microseconds by which what is reordered comes late, at most.
    pub lateness: u32,
    /// Bytes a second; 0 if there is no limit.
    pub rate: u64,
    /// Microseconds that a segment waits for the wire at most: later ones are lost.
    pub patience: u64,
    /// The longest payload and options that it carries, 0 if there is no limit, and whether it
    /// tells the sender of what is longer.
    pub carries: u16,
    pub tells: bool,
    /// When it begins to carry no more than that, in microseconds from the start.
    pub shrinks_at: u64,
    /// Losses in a row at most, so that whoever tries again gets through.
    pub losses_in_a_row: u32,
}

/// The byte at a place of the stream that `side` sends.
pub fn byte_at(side: usize, at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9).wrapping_add(at >> 8) >> 7) as u8 ^ side as u8
}

/// One side: a connection with an application that sends and reads.
pub struct Side {
    pub connection: Option<Connection<'static>>,
    pub settings: Settings,
    places: usize,
    number: usize,
    /// Bytes that the application sends before it closes, and how many it has given.
    pub to_send: u64,
    given: u64,
    /// Bytes at a time, and how long it pauses between reading.
    pub piece: u32,
    pub reads: u32,
    pub pause: u32,
    reads_at: u64,
    /// What has arrived, from the next byte in order on.
    held: VecDeque<Option<u8>>,
    pub received: u64,
    read: u64,
    released: VecDeque<u64>,
    is_closed: bool,
    pub sent_segments: u64,
}

impl Side {
    pub fn new(number: usize, settings: Settings, places: usize) -> Self {
        Self {
            connection: None,
            settings,
            places,
            number,
            to_send: 0,
            given: 0,
            piece: 100_000,
            reads: u32::MAX,
            pause: 0,
            reads_at: 0,
            held: VecDeque::new(),
            received: 0,
            read: 0,
            released: VecDeque::new(),
            is_closed: false,
            sent_segments: 0,
        }
    }

    pub fn storage(&self) -> Storage<'static> {
        Storage {
            pieces: vec![Piece::default(); self.places].leak(),
            records: vec![Sent::default(); self.places.max(FEWEST_RECORDS)].leak(),
            islands: vec![Island::default(); self.places].leak(),
        }
    }

    fn is_over(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.state() == State::Closed)
    }

    /// Has the application do what it does.
    fn act(&mut self, now: u64) {
        let Some(connection) = &mut self.connection else { return };
        while self.given < self.to_send {
            let length = u64::from(self.piece).min(self.to_send - self.given) as u32;
            if connection.send(Piece { token: self.given, length }).is_err() {
                break;
            }
            self.released.push_back(self.given);
            self.given += u64::from(length);
        }
        if self.given == self.to_send && !self.is_closed && connection.state() != State::SynSent {
            self.is_closed = true;
            connection.close(|_| {});
        }
        if now >= self.reads_at && connection.readable() > 0 {
            let bytes = connection.readable().min(self.reads);
            connection.read(bytes);
            self.read += u64::from(bytes);
            self.reads_at = now + u64::from(self.pause);
        }
    }

    fn receive(&mut self, bytes: &[u8], is_marked: bool, now: Instant) {
        let Ok((header, length)) = Header::parse(bytes) else { return };
        let payload = &bytes[length..];
        if self.connection.is_none() {
            let storage = self.storage();
            self.connection = Connection::accept(self.settings, storage, &header, now);
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        let released = &mut self.released;
        let release = |token| assert_eq!(released.pop_front(), Some(token), "tokens come back in order, once");
        let length = payload.len() as u32;
        let Some(placement) = connection.receive(&header, length, is_marked, now, release) else { return };
        let kept = &payload[placement.skip as usize..][..placement.length as usize];
        let start = placement.offset as usize;
        if self.held.len() < start + kept.len() {
            self.held.resize(start + kept.len(), None);
        }
        for (place, byte) in self.held.range_mut(start..).zip(kept) {
            *place = Some(*byte);
        }
        for _ in 0..placement.ready {
            let byte = self.held.pop_front().flatten();
            assert_eq!(byte, Some(byte_at(1 - self.number, self.received)), "byte {}", self.received);
            self.received += 1;
        }
        assert!(self.received - self.read <= u64::from(self.settings.capacity), "no more than was offered");
    }
}

/// Settings with which a test begins.
pub fn settings(number: u16) -> Settings {
    Settings {
        source: 1000 + number,
        destination: 1001 - number,
        initial: Sequence(u32::MAX - 20_000 * u32::from(number + 1)),
        segment: 1460,
        usual_segment: 536,
        longest_train: 64 << 10,
        capacity: 4 << 20,
        first_capacity: 0,
        ecn: false,
        algorithm: Algorithm::Cubic,
        stamp_offset: 77 * u32::from(number),
        keep_alive: None,
        attempts: 15,
        time_wait: Span::from_seconds(60),
    }
}

/// Both sides and what is on the wire.
pub struct World {
    pub sides: [Side; 2],
    pub wire: Wire,
    pub now: u64,
    dice: Dice,
    /// What arrives when: time, a number that keeps the order, the side that gets it, whether it is
    /// marked.
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>, bool)>,
    sent: u64,
    losses: [u32; 2],
    free_at: [u64; 2],
    pub trace: bool,
}

impl World {
    pub fn new(sides: [Side; 2], wire: Wire, seed: u64) -> Self {
        Self {
            sides,
            wire,
            now: 1_000_000,
            dice: Dice::new(seed),
            flying: BTreeMap::new(),
            sent: 0,
            losses: [0; 2],
            free_at: [0; 2],
            trace: std::env::var_os("TCP_TRACE").is_some(),
        }
    }

    /// Has a side open the connection.
    pub fn open(&mut self, side: usize) {
        let side = &mut self.sides[side];
        side.connection = Connection::connect(side.settings, side.storage(), Instant(self.now));
    }

    /// Goes on until both sides have closed; returns what is wrong if that does not come.
    pub fn run(&mut self, most_events: u64) -> Result<(), String> {
        for _ in 0..most_events {
            for side in 0..2 {
                self.sides[side].act(self.now);
                self.send_all(side);
            }
            if self.sides.iter().all(Side::is_over) {
                return Ok(());
            }
            let Some(next) = self.next_event() else { return Err(format!("a stall: {}", self.report())) };
            self.now = self.now.max(next);
            self.happen();
        }
        Err(format!("no end: {}", self.report()))
    }

    /// Goes on until `end` says so.
    pub fn run_until(&mut self, end: impl Fn(&Self) -> bool) -> Result<(), String> {
        while !end(self) {
            for side in 0..2 {
                self.sides[side].act(self.now);
                self.send_all(side);
            }
            let Some(next) = self.next_event() else { return Err(format!("a stall: {}", self.report())) };
            self.now = self.now.max(next);
            self.happen();
        }
        Ok(())
    }

    fn report(&self) -> String {
        let each = self.sides.iter().map(|side| {
            format!("{} of {} given, {} received, {:?}", side.given, side.to_send, side.received, side.connection)
        });
        each.collect::<Vec<_>>().join("\n")
    }

    fn next_event(&self) -> Option<u64> {
        let flying = self.flying.keys().next().map(|key| key.0);
        let sides = self.sides.iter().flat_map(|side| {
            let connection = side.connection.as_ref();
            let reads = connection.filter(|connection| connection.readable() > 0).map(|_| side.reads_at);
            let deadline = connection.and_then(Connection::deadline).map(|at| at.0);
            [reads, deadline]
        });
        sides.flatten().chain(flying).min()
    }

    fn happen(&mut self) {
        let now = Instant(self.now);
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (side, bytes, is_marked) = entry.remove();
            if is_intact(&bytes) {
                self.sides[side].receive(&bytes, is_marked, now);
            }
        }
        for side in &mut self.sides {
            if let Some(connection) = &mut side.connection
                && connection.deadline().is_some_and(|at| at <= now)
            {
                connection.pass_time(now, |_| {});
            }
        }
    }

    fn send_all(&mut self, from: usize) {
        for round in 0.. {
            assert!(round < 100_000, "there is no end to what is sent");
            let side = &mut self.sides[from];
            let Some(connection) = &mut side.connection else { return };
            let Some(sent) = connection.transmit(Instant(self.now)) else { return };
            let mut payload = Vec::new();
            connection.parts(&sent, |part| {
                let first = part.token + u64::from(part.offset);
                payload.extend((first..first + u64::from(part.length)).map(|at| byte_at(from, at)));
            });
            assert_eq!(payload.len(), sent.length as usize);
            let longest = side.settings.longest_train.max(sent.segment);
            assert!(sent.length <= longest, "no longer than a train: {sent:?}");
            assert!(sent.header.length() + sent.segment as usize <= 20 + 1460, "{sent:?}");
            if self.trace {
                println!(
                    "{:>10} {from} {:?} seq {} ack {} win {} len {} sack {:?}",
                    self.now,
                    sent.header.flags,
                    sent.header.sequence.0,
                    sent.header.acknowledgement.0,
                    sent.header.window,
                    sent.length,
                    sent.header.options.sack.as_slice()
                );
            }
            for segment in divide(&sent.header, &payload, sent.segment) {
                self.sides[from].sent_segments += 1;
                self.fly(from, segment, sent.is_ect);
            }
        }
    }

    /// Puts a segment on the wire.
    fn fly(&mut self, from: usize, mut bytes: Vec<u8>, is_ect: bool) {
        let wire = self.wire;
        let is_narrow = wire.carries > 0 && self.now >= wire.shrinks_at + 1_000_000;
        if is_narrow && bytes.len() > 20 + usize::from(wire.carries) {
            let sequence = Header::parse(&bytes).map(|(header, _)| header.sequence).unwrap_or_default();
            if let Some(connection) = &mut self.sides[from].connection
                && wire.tells
            {
                connection.too_big(sequence, wire.carries, Instant(self.now));
            }
            return;
        }
        let mut at = self.now;
        let carrying = ((bytes.len() as u64 + 58) * 1_000_000).checked_div(wire.rate);
        if let Some(carrying) = carrying {
            let begins = self.free_at[from].max(self.now);
            if begins - self.now > wire.patience {
                return;
            }
            self.free_at[from] = begins + carrying;
            at = self.free_at[from];
        }
        at += u64::from(wire.delay);
        let is_lost = self.dice.has(wire.loses);
        let is_broken = self.dice.has(wire.corrupts);
        if (is_lost || is_broken) && self.losses[from] < wire.losses_in_a_row {
            self.losses[from] += 1;
            if is_lost {
                return;
            }
            let bit = self.dice.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        } else {
            self.losses[from] = 0;
        }
        if self.dice.has(wire.reorders) {
            at += self.dice.below(u64::from(wire.lateness) + 1);
        }
        if from == 0 && self.dice.has(wire.overtakes) {
            at -= u64::from(wire.delay);
        }
        let is_marked = is_ect && self.dice.has(wire.marks);
        if self.dice.has(wire.duplicates) {
            self.sent += 1;
            let late = at + self.dice.below(u64::from(wire.lateness) + 1);
            self.flying.insert((late, self.sent), (1 - from, bytes.clone(), is_marked));
        }
        self.sent += 1;
        self.flying.insert((at, self.sent), (1 - from, bytes, is_marked));
    }
}

/// Divides a train into segments, as a device does, each with its checksum.
fn divide(header: &Header, payload: &[u8], segment: u32) -> Vec<Vec<u8>> {
    let size = (segment as usize).max(1);
    let count = payload.len().div_ceil(size).max(1);
    let last_only = Flags::FIN.with(Flags::PSH);
    (0..count)
        .map(|index| {
            let (from, to) = (index * size, payload.len().min((index + 1) * size));
            let is_last = index + 1 == count;
            let flags = if is_last { header.flags } else { header.flags.without(last_only) };
            let header = Header { sequence: header.sequence + from as u32, flags, ..*header };
            let mut space = [0; LONGEST_HEADER];
            let length = header.emit(&mut space);
            let mut bytes = [&space[..length], &payload[from..to]].concat();
            let sum = sum_of(&bytes);
            bytes[16..18].copy_from_slice(&(!sum).to_be_bytes());
            bytes
        })
        .collect()
}

fn sum_of(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u64 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn is_intact(bytes: &[u8]) -> bool {
    sum_of(bytes) == 0xffff
}
