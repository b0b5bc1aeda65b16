//! A TCP connection with a peer that sends anything, near enough to what is expected to matter.
//!
//! Nothing is a panic, what is to be sent comes to an end, tokens come back in order, and no more
//! is handed to the application than it offered space for.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use core::time::Duration;
use culm_tcp::{
    Algorithm, Blocks, Connection, Flags, Header, Instant, Island, KeepAlive, Options, Piece, Range, Sent, Sequence,
    Settings, Span, State, Storage, Timestamps,
};
use input::Input;
use libfuzzer_sys::fuzz_target;

/// More segments than one event can bring about.
const BURST: usize = 10_000;

/// A number near `near`, or any.
fn number(near: Sequence, input: &mut Input<'_>) -> Sequence {
    let word = |input: &mut Input<'_>| input.bytes(4).iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    match input.byte() % 8 {
        0 => Sequence(word(input)),
        1 => near - u32::from(input.byte()) * 16,
        2 | 3 => near + u32::from(input.byte()) * 16,
        4 => near + 1,
        _ => near,
    }
}

/// A segment of the peer's, with what it knows of both directions.
fn segment(ours: Sequence, theirs: Sequence, now: u64, input: &mut Input<'_>) -> (Header, u32) {
    let mut options = Options::default();
    let kinds = input.byte();
    if kinds & 1 != 0 {
        let value = (now / 1000) as u32 + u32::from(input.byte()) - 128;
        options.timestamps = Some(Timestamps { value, echo: (now / 1000) as u32 - u32::from(input.byte()) });
    }
    if kinds & 2 != 0 {
        let mut blocks = Blocks::default();
        for _ in 0..kinds >> 6 {
            blocks.push(Range { start: number(ours, input), end: number(ours, input) });
        }
        options.sack = blocks;
    }
    if kinds & 4 != 0 {
        (options.mss, options.window_scale) = (Some(u16::from(input.byte()) * 8), Some(kinds >> 4));
        options.sack_permitted = kinds & 8 != 0;
    }
    let header = Header {
        source: 2,
        destination: 1,
        sequence: number(theirs, input),
        acknowledgement: number(ours, input),
        flags: Flags(if input.byte() & 3 == 0 { input.byte() } else { 0x10 }),
        window: u16::from(input.byte()) << (kinds >> 5),
        options,
    };
    (header, u32::from(input.byte()) * 8)
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let kind = input.byte();
    let settings = Settings {
        source: 1,
        destination: 2,
        initial: Sequence(u32::MAX - 1000),
        segment: 1460,
        usual_segment: 536,
        longest_train: 1 << (kind & 15),
        capacity: 1 << (input.byte() & 31),
        first_capacity: 1 << (input.byte() & 15),
        ecn: kind & 64 != 0,
        algorithm: if kind & 16 != 0 { Algorithm::Reno } else { Algorithm::Cubic },
        stamp_offset: 0,
        keep_alive: Some(KeepAlive { idle: Duration::from_secs(10), interval: Duration::from_secs(1), questions: 3 }),
        attempts: 5,
        time_wait: Span::from_seconds(60),
    };
    let (mut pieces, mut records, mut islands) = ([Piece::default(); 4], [Sent::default(); 8], [Island::default(); 3]);
    let storage = Storage { pieces: &mut pieces, records: &mut records, islands: &mut islands };
    let mut now = 1_000_000_000;
    let (mut theirs, mut ours) = (Sequence(5000), settings.initial + 1);
    let connection = if kind & 32 != 0 {
        Connection::connect(settings, storage, Instant(now))
    } else {
        let (mut syn, _) = segment(ours, theirs, now, &mut input);
        (syn.flags, syn.sequence) = (Flags::SYN, theirs);
        theirs = theirs + 1;
        Connection::accept(settings, storage, &syn, Instant(now))
    };
    let mut connection = connection.expect("a SYN opens a connection");
    let (mut given, mut released) = (0, 0);
    let mut release = |token| {
        assert_eq!(token, released);
        released += 1;
    };
    while !input.is_over() {
        match input.byte() % 8 {
            0 => {
                let length = u32::from(input.byte()) * 64;
                given += u64::from(connection.send(Piece { token: given, length }).is_ok());
            }
            1 => connection.read(u32::from(input.byte()) * 16),
            2 => {
                now += u64::from(input.byte()) * 1000;
                connection.pass_time(Instant(now), &mut release);
            }
            3 => {
                if let Some(at) = connection.deadline() {
                    now = now.max(at.0);
                    connection.pass_time(Instant(now), &mut release);
                }
            }
            4 if input.byte() == 0 => connection.close(&mut release),
            5 if input.byte() == 0 => connection.abort(&mut release),
            4 => {
                let sequence = number(ours, &mut input);
                connection.too_big(sequence, u16::from(input.byte()) * 8, Instant(now));
            }
            _ => {
                let (header, length) = segment(ours, theirs, now, &mut input);
                let is_marked = kind & 128 != 0 && length & 8 != 0;
                if let Some(placement) = connection.receive(&header, length, is_marked, Instant(now), &mut release) {
                    assert!(placement.skip + placement.length <= length && placement.length > 0);
                    assert!(placement.offset <= settings.capacity);
                }
                assert!(connection.readable() <= settings.capacity);
            }
        }
        for burst in 0.. {
            assert!(burst < BURST, "there is no end to what is sent");
            let Some(sent) = connection.transmit(Instant(now)) else { break };
            let mut length = 0;
            connection.parts(&sent, |part| length += part.length);
            assert_eq!(length, sent.length);
            if sent.header.flags.has(Flags::ACK) && !sent.header.flags.has(Flags::RST) {
                theirs = sent.header.acknowledgement;
            }
            ours = ours.max(sent.header.sequence + sent.length);
        }
    }
    assert!(released <= given);
    if connection.state() == State::Closed {
        assert_eq!(connection.unacknowledged(), 0);
    }
});
