//! A hundred thousand connections of a server at once, each with slices of its own out of a few
//! large ones. What a segment costs among few and among many, `examples/cost.rs` shows.

use culm_tcp::{
    Algorithm, Connection, Ending, FEWEST_RECORDS, Flags, Header, Instant, Island, Options, Piece, Sent, Sequence,
    Settings, Span, State, Storage,
};

/// Pieces and islands of each connection.
const PLACES: usize = 2;

/// Bytes of a request and of its answer.
const REQUEST: u32 = 100;
const ANSWER: u32 = 354;

const OURS: Sequence = Sequence(70_000);
const THEIRS: Sequence = Sequence(90_000);

/// What many connections remember things in.
struct Memory {
    pieces: Vec<Piece>,
    records: Vec<Sent>,
    islands: Vec<Island>,
}

impl Memory {
    fn new(count: usize) -> Self {
        Self {
            pieces: vec![Piece::default(); count * PLACES],
            records: vec![Sent::default(); count * FEWEST_RECORDS],
            islands: vec![Island::default(); count * PLACES],
        }
    }

    /// Opens as many connections as there is memory for.
    fn open(&mut self) -> Vec<Connection<'_>> {
        let pieces = self.pieces.chunks_exact_mut(PLACES);
        let records = self.records.chunks_exact_mut(FEWEST_RECORDS);
        let islands = self.islands.chunks_exact_mut(PLACES);
        let storages = pieces.zip(records).zip(islands);
        storages.map(|((pieces, records), islands)| open(Storage { pieces, records, islands })).collect()
    }
}

fn open(storage: Storage<'_>) -> Connection<'_> {
    let settings = Settings {
        source: 80,
        destination: 40_000,
        initial: OURS,
        segment: 1460,
        usual_segment: 536,
        longest_train: 65_536,
        capacity: 65_536,
        first_capacity: 0,
        ecn: false,
        algorithm: Algorithm::Cubic,
        stamp_offset: 0,
        keep_alive: None,
        attempts: 15,
        time_wait: Span::from_seconds(60),
    };
    let options = Options { mss: Some(1460), sack_permitted: true, ..Options::default() };
    let syn = Header { sequence: THEIRS, flags: Flags::SYN, window: 65_535, options, ..Header::default() };
    let mut connection = Connection::accept(settings, storage, &syn, Instant(0)).unwrap();
    assert!(connection.transmit(Instant(0)).is_some_and(|sent| sent.header.flags == Flags::SYN.with(Flags::ACK)));
    receive(&mut connection, Flags::ACK, 0, 0, 1000);
    assert_eq!(connection.state(), State::Established);
    connection
}

/// Has a segment of the peer come, after `requests` of its and as many answers; returns how many
/// pieces it acknowledges.
fn receive(connection: &mut Connection<'_>, flags: Flags, requests: u32, length: u32, now: u64) -> u32 {
    let header = Header {
        sequence: THEIRS + (1 + requests * REQUEST),
        acknowledgement: OURS + (1 + requests * ANSWER),
        flags,
        window: 65_535,
        ..Header::default()
    };
    let mut released = 0;
    let placement = connection.receive(&header, length, false, Instant(now), |_| released += 1);
    assert_eq!(placement.map_or(0, |placement| placement.ready), length);
    connection.read(length);
    released
}

/// Has a request come, which acknowledges the last answer, and answers it.
fn exchange(connection: &mut Connection<'_>, requests: u32, now: u64) {
    let released = receive(connection, Flags::ACK.with(Flags::PSH), requests, REQUEST, now);
    assert_eq!(released, u32::from(requests > 0));
    connection.send(Piece { token: requests.into(), length: ANSWER }).unwrap();
    let sent = connection.transmit(Instant(now)).unwrap();
    assert_eq!((sent.length, sent.header.acknowledgement), (ANSWER, THEIRS + (1 + (requests + 1) * REQUEST)));
    assert_eq!(connection.transmit(Instant(now)), None);
}

#[test]
fn a_hundred_thousand_connections_answer_and_close() {
    let mut memory = Memory::new(100_000);
    let mut connections = memory.open();
    for round in 0..3 {
        for connection in &mut connections {
            exchange(connection, round, 2000 + u64::from(round) * 1000);
        }
    }
    for connection in &mut connections {
        assert_eq!(receive(connection, Flags::ACK.with(Flags::FIN), 3, 0, 6000), 1);
        connection.close(|_| {});
        assert!(connection.transmit(Instant(6000)).is_some_and(|sent| sent.header.flags.has(Flags::FIN)));
        let header = Header {
            sequence: THEIRS + (2 + 3 * REQUEST),
            acknowledgement: OURS + (2 + 3 * ANSWER),
            flags: Flags::ACK,
            ..Header::default()
        };
        connection.receive(&header, 0, false, Instant(7000), |_| {});
        assert_eq!((connection.ending(), connection.deadline()), (Some(Ending::Closed), None));
    }
}
