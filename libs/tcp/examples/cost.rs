//! What a segment costs, for a simulator that counts instructions, by the number of connections:
//!
//!     cargo build --release -p culm-tcp --example cost
//!     valgrind --tool=callgrind --toggle-collect='cost::take_data*' target/release/examples/cost 1
//!
//! `take_data*` counts what it costs to take a segment in order, `take_acknowledgement*` an
//! acknowledgement of two segments, `send_full*` to give and send a full one, `answer*` a small
//! request and its answer, which acknowledges it: each with reading or writing headers, and of
//! [`COUNT`] segments. Without a simulator it prints times.

use culm_tcp::{
    Algorithm, Connection, FEWEST_RECORDS, Flags, Header, Instant, Island, LONGEST_HEADER, Options, Piece, Sent,
    Sequence, Settings, Span, Storage, Timestamps,
};
use std::hint::black_box;
use std::process::ExitCode;

/// Segments of each kind that are counted.
const COUNT: u32 = 100_000;

/// Bytes of payload in a full segment, and of a small request and its answer.
const FULL: u32 = 1448;
const REQUEST: u32 = 100;
const ANSWER: u32 = 354;

/// Pieces and islands of each connection.
const PLACES: usize = 4;

const OURS: Sequence = Sequence(70_000);
const THEIRS: Sequence = Sequence(90_000);

/// What is done, and timed, over and over.
type Work = fn(&mut Pair<'_>);

/// A connection, and what its peer has sent and knows.
struct Pair<'s> {
    connection: Connection<'s>,
    theirs: Sequence,
    ours: Sequence,
    now: u64,
}

impl<'s> Pair<'s> {
    fn open(storage: Storage<'s>) -> Option<Self> {
        let settings = Settings {
            source: 80,
            destination: 40_000,
            initial: OURS,
            segment: 1460,
            usual_segment: 536,
            longest_train: 1460,
            capacity: 65_536,
            first_capacity: 0,
            ecn: false,
            algorithm: Algorithm::Cubic,
            stamp_offset: 0,
            keep_alive: None,
            attempts: 15,
            time_wait: Span::from_seconds(60),
        };
        let timestamps = Some(Timestamps { value: 1, echo: 0 });
        let options = Options { mss: Some(1460), sack_permitted: true, timestamps, ..Options::default() };
        let syn = Header { sequence: THEIRS, flags: Flags::SYN, window: 65_535, options, ..Header::default() };
        let connection = Connection::accept(settings, storage, &syn, Instant(0))?;
        let mut pair = Self { connection, theirs: THEIRS + 1, ours: OURS + 1, now: 1000 };
        pair.connection.transmit(Instant(0))?;
        let bytes = pair.segment(Flags::ACK);
        pair.receive(&bytes, 0);
        Some(pair)
    }

    /// Writes the header of the peer's next segment.
    fn segment(&self, flags: Flags) -> ([u8; LONGEST_HEADER], usize) {
        let stamp = (self.now / 1000) as u32;
        let options = Options { timestamps: Some(Timestamps { value: stamp, echo: stamp - 1 }), ..Options::default() };
        let header = Header {
            sequence: self.theirs,
            acknowledgement: self.ours,
            flags,
            window: 65_535,
            options,
            ..Header::default()
        };
        let mut bytes = [0; LONGEST_HEADER];
        let length = header.emit(&mut bytes);
        (bytes, length)
    }

    fn receive(&mut self, (bytes, length): &([u8; LONGEST_HEADER], usize), payload: u32) {
        let Ok((header, _)) = Header::parse(&bytes[..*length]) else { return };
        let placement = self.connection.receive(&header, payload, false, Instant(self.now), |_| {});
        self.connection.read(placement.map_or(0, |placement| placement.ready));
        self.theirs += payload;
    }

    /// Sends all there is, headers written; returns how many bytes of payload.
    fn send(&mut self) -> u32 {
        let mut sum = 0;
        while let Some(sent) = self.connection.transmit(Instant(self.now)) {
            let mut bytes = [0; LONGEST_HEADER];
            sum += sent.length;
            black_box(sent.header.emit(&mut bytes));
            self.connection.parts(&sent, |part| {
                black_box(part);
            });
        }
        sum
    }
}

#[inline(never)]
fn take_data(pair: &mut Pair<'_>, segment: &([u8; LONGEST_HEADER], usize)) {
    pair.receive(segment, FULL);
}

#[inline(never)]
fn take_acknowledgement(pair: &mut Pair<'_>, segment: &([u8; LONGEST_HEADER], usize)) {
    pair.receive(segment, 0);
}

#[inline(never)]
fn send_full(pair: &mut Pair<'_>) {
    let _ = pair.connection.send(Piece { token: 1, length: FULL });
    pair.send();
}

#[inline(never)]
fn answer(pair: &mut Pair<'_>, segment: &([u8; LONGEST_HEADER], usize)) {
    pair.receive(segment, REQUEST);
    let _ = pair.connection.send(Piece { token: 1, length: ANSWER });
    pair.send();
}

fn main() -> ExitCode {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1);
    let mut pieces = vec![Piece::default(); count * PLACES];
    let mut records = vec![Sent::default(); count * FEWEST_RECORDS];
    let mut islands = vec![Island::default(); count * PLACES];
    let slices = pieces.chunks_mut(PLACES).zip(records.chunks_mut(FEWEST_RECORDS)).zip(islands.chunks_mut(PLACES));
    let storages = slices.map(|((pieces, records), islands)| Storage { pieces, records, islands });
    let Some(mut pairs) = storages.map(Pair::open).collect::<Option<Vec<_>>>() else { return ExitCode::FAILURE };
    println!("a connection has {} bytes beside its slices", size_of::<Connection<'_>>());
    let kinds: [(&str, Work); 3] = [
        ("two segments in order, and their acknowledgement", |pair| {
            for _ in 0..2 {
                let segment = pair.segment(Flags::ACK);
                take_data(pair, &segment);
            }
            pair.send();
        }),
        ("two full segments sent, and their acknowledgement", |pair| {
            send_full(pair);
            send_full(pair);
            pair.ours += 2 * FULL;
            let segment = pair.segment(Flags::ACK);
            take_acknowledgement(pair, &segment);
        }),
        ("a request and its answer", |pair| {
            let segment = pair.segment(Flags::ACK.with(Flags::PSH));
            answer(pair, &segment);
            pair.ours += ANSWER;
        }),
    ];
    for (name, kind) in kinds {
        let start = std::time::Instant::now();
        for turn in 0..COUNT as usize {
            let pair = &mut pairs[turn % count];
            pair.now += 500;
            kind(pair);
        }
        println!("{name}: {} ns", start.elapsed().as_nanos() / u128::from(COUNT));
    }
    ExitCode::SUCCESS
}
