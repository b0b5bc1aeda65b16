//! Many connections: turns, time-outs, and who goes when there are too many.

mod common;

use common::{BIG, Pipe, Pipes, TIMEOUTS, server};
use culm_http::Server;

const REQUEST: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn open(count: usize, now: u64) -> (Server<common::Clock>, Pipes) {
    let mut server = server(count);
    let pipes = Pipes((0..count).map(|_| Some(Pipe::default())).collect());
    for slot in 0..count {
        server.opened(slot, now);
    }
    (server, pipes)
}

impl Pipes {
    fn pipe(&mut self, slot: usize) -> &mut Pipe {
        self.0[slot].as_mut().unwrap()
    }

    fn responses(&mut self, slot: usize) -> usize {
        let output = &self.pipe(slot).output;
        output.windows(9).filter(|window| *window == b"HTTP/1.1 ").count()
    }
}

fn run(server: &mut Server<common::Clock>, pipes: &mut Pipes, now: u64) {
    for slot in 0..server.capacity() {
        server.ready(slot);
    }
    while server.run(pipes, now, 1) {}
}

#[test]
fn one_that_pipelines_much_does_not_delay_the_others() {
    let (mut server, mut pipes) = open(3, 0);
    run(&mut server, &mut pipes, 0);
    pipes.pipe(0).input = REQUEST.repeat(100);
    pipes.pipe(1).input = REQUEST.to_vec();
    pipes.pipe(2).input = REQUEST.to_vec();
    (0..3).for_each(|slot| server.ready(slot));
    assert!(server.run(&mut pipes, 0, 3));
    assert_eq!([0, 1, 2].map(|slot| pipes.responses(slot)), [1, 1, 1]);
    assert!(server.run(&mut pipes, 0, 98));
    assert!(!server.run(&mut pipes, 0, 98));
    assert_eq!(pipes.responses(0), 100);
    assert_eq!(server.tally().requests, 102);
}

/// Who always asks before his last answer is acknowledged rests never: his place would never be
/// another's.
#[test]
fn who_has_had_his_share_ends_where_others_wait() {
    for (is_wanted, answers) in [(false, 100), (true, 65)] {
        let (mut server, mut pipes) = open(1, 0);
        *pipes.pipe(0) = Pipe { is_wanted, finishes_alone: true, ..Pipe::default() };
        for _ in 0..100 {
            if pipes.pipe(0).released {
                break;
            }
            pipes.pipe(0).input = REQUEST.to_vec();
            run(&mut server, &mut pipes, 0);
        }
        assert_eq!(pipes.responses(0), answers);
        assert_eq!(pipes.pipe(0).released, is_wanted);
        let output = String::from_utf8_lossy(&pipes.pipe(0).output).into_owned();
        assert_eq!(output.matches("Connection: close").count(), usize::from(is_wanted));
        assert!(!is_wanted || output.ends_with("Connection: close\r\n\r\nhello, world"), "it is the last one's");
    }
}

/// A transport refers to few things at a time; a round trip is to carry as many short answers as
/// the send buffer holds.
#[test]
fn one_that_pipelines_is_not_answered_by_references_alone() {
    let (mut server, mut pipes) = open(1, 0);
    run(&mut server, &mut pipes, 0);
    let short = Pipe { input: REQUEST.repeat(100), buffer: Some(1 << 20), references: Some(16), ..Pipe::default() };
    *pipes.pipe(0) = short;
    run(&mut server, &mut pipes, 0);
    assert_eq!(pipes.responses(0), 100);
}

#[test]
fn time_outs_by_what_the_connection_does() {
    let (mut server, mut pipes) = open(4, 0);
    pipes.pipe(1).input = b"GET / HT".to_vec();
    pipes.pipe(2).input = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc".to_vec();
    *pipes.pipe(3) =
        Pipe { input: b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), buffer: Some(1000), ..Pipe::default() };
    run(&mut server, &mut pipes, 0);
    assert_eq!(server.expire(&mut pipes, TIMEOUTS.request - 1), Some(TIMEOUTS.request));
    assert_eq!(server.tally().timeouts, 0);

    let now = TIMEOUTS.request;
    server.expire(&mut pipes, now);
    assert!(pipes.pipe(1).output.starts_with(b"HTTP/1.1 408 ") && pipes.pipe(1).finished, "a request's head");
    assert!(pipes.pipe(2).finished, "a request's body");
    assert!(!pipes.pipe(3).aborted && !pipes.pipe(0).finished);

    server.expire(&mut pipes, now + TIMEOUTS.linger);
    assert!(pipes.pipe(1).aborted && pipes.pipe(2).aborted, "a peer that does not end its side");
    assert_eq!(server.expire(&mut pipes, TIMEOUTS.response), Some(TIMEOUTS.idle));
    assert!(pipes.pipe(3).aborted, "a response that is not taken");
    server.expire(&mut pipes, TIMEOUTS.idle);
    assert!(pipes.pipe(0).finished && pipes.pipe(0).output.is_empty(), "a silent connection");
    assert_eq!(server.open(), 1);
}

#[test]
fn a_trickle_of_bytes_does_not_put_off_the_end() {
    let (mut server, mut pipes) = open(1, 0);
    let mut closed = None;
    for (now, byte) in (0..).zip(b"GET / HTTP/1.1\r\nHost: a\r\nX: ".iter().chain([b'x'; 4000].iter())) {
        pipes.pipe(0).input.push(*byte);
        run(&mut server, &mut pipes, now);
        server.expire(&mut pipes, now);
        if pipes.pipe(0).finished {
            closed = Some(now);
            break;
        }
    }
    assert_eq!(closed, Some(TIMEOUTS.request));
}

#[test]
fn progress_keeps_a_slow_download_alive() {
    let (mut server, mut pipes) = open(1, 0);
    *pipes.pipe(0) = Pipe { input: b"GET /big.bin HTTP/1.0\r\n\r\n".to_vec(), buffer: Some(1000), ..Pipe::default() };
    let mut now = 0;
    run(&mut server, &mut pipes, now);
    while !pipes.pipe(0).finished {
        now += TIMEOUTS.response - 1;
        pipes.pipe(0).unacknowledged = 0;
        run(&mut server, &mut pipes, now);
        server.expire(&mut pipes, now);
        assert!(!pipes.pipe(0).aborted);
    }
    assert!(pipes.pipe(0).output.ends_with(&BIG[90_000..]));
}

/// Answers a request with so much that all of it is in the send buffer and nothing acknowledged.
fn answered_but_not_acknowledged(request: &[u8]) -> (Server<common::Clock>, Pipes) {
    let (mut server, mut pipes) = open(1, 0);
    *pipes.pipe(0) = Pipe { input: request.to_vec(), buffer: Some(200_000), ..Pipe::default() };
    run(&mut server, &mut pipes, 0);
    assert!(pipes.pipe(0).output.ends_with(&BIG) && pipes.pipe(0).unacknowledged > BIG.len());
    (server, pipes)
}

const LAST: &[u8] = b"GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const NOT_THE_LAST: &[u8] = b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n";

/// Acknowledges a little at a time, each as late as may be, until all is. Returns when.
fn acknowledge_slowly(server: &mut Server<common::Clock>, pipes: &mut Pipes) -> u64 {
    let mut now = 0;
    while pipes.pipe(0).unacknowledged > 0 {
        now += TIMEOUTS.response - 1;
        server.expire(pipes, now);
        assert!(!pipes.pipe(0).aborted, "{now}: {} are on their way", pipes.pipe(0).unacknowledged);
        pipes.pipe(0).unacknowledged = pipes.pipe(0).unacknowledged.saturating_sub(5000);
        run(server, pipes, now);
    }
    assert!(now > TIMEOUTS.idle.max(TIMEOUTS.farewell), "it does not take long");
    now
}

#[test]
fn a_slow_reader_of_the_last_response_is_waited_for() {
    let (mut server, mut pipes) = answered_but_not_acknowledged(LAST);
    assert!(pipes.pipe(0).finished);
    let now = acknowledge_slowly(&mut server, &mut pipes);
    // Now it is its turn to end the connection, and it may still send.
    pipes.pipe(0).input = vec![b'x'; 10];
    run(&mut server, &mut pipes, now + TIMEOUTS.linger - 1);
    server.expire(&mut pipes, now + TIMEOUTS.linger);
    assert!(!pipes.pipe(0).aborted);
    server.expire(&mut pipes, now + 2 * TIMEOUTS.linger - 1);
    assert!(pipes.pipe(0).aborted, "nothing is under way any more");
}

#[test]
fn a_slow_reader_of_a_response_is_idle_when_it_has_acknowledged_all() {
    let (mut server, mut pipes) = answered_but_not_acknowledged(NOT_THE_LAST);
    let now = acknowledge_slowly(&mut server, &mut pipes);
    server.expire(&mut pipes, now + TIMEOUTS.idle - 1);
    assert!(!pipes.pipe(0).finished);
    server.expire(&mut pipes, now + TIMEOUTS.idle);
    assert!(pipes.pipe(0).finished && !pipes.pipe(0).aborted);
}

#[test]
fn who_acknowledges_nothing_of_what_was_sent_is_let_go() {
    for request in [LAST, NOT_THE_LAST] {
        let (mut server, mut pipes) = answered_but_not_acknowledged(request);
        pipes.pipe(0).unacknowledged -= 1000;
        run(&mut server, &mut pipes, 10);
        // Bytes that it sends do not count. It is too little for a request, or comes after the
        // last.
        pipes.pipe(0).input = b"\r\n".to_vec();
        run(&mut server, &mut pipes, 100);
        server.expire(&mut pipes, 10 + TIMEOUTS.response - 1);
        assert!(!pipes.pipe(0).aborted);
        server.expire(&mut pipes, 10 + TIMEOUTS.response);
        assert!(pipes.pipe(0).aborted);
        assert_eq!((server.open(), server.tally().timeouts), (0, 1));
    }
}

#[test]
fn a_slow_reader_may_ask_again_before_there_is_room_for_the_answer() {
    let (mut server, mut pipes) = open(1, 0);
    let input = [NOT_THE_LAST, REQUEST].concat();
    *pipes.pipe(0) = Pipe { input, buffer: Some(BIG.len() + 300), ..Pipe::default() };
    run(&mut server, &mut pipes, 0);
    pipes.pipe(0).output.clear();
    for now in [TIMEOUTS.response - 1, 2 * TIMEOUTS.response - 2] {
        server.expire(&mut pipes, now);
        pipes.pipe(0).unacknowledged -= 10;
        run(&mut server, &mut pipes, now);
        assert!(pipes.pipe(0).output.is_empty(), "there is room");
    }
    pipes.pipe(0).unacknowledged = 0;
    run(&mut server, &mut pipes, 2 * TIMEOUTS.response);
    assert!(pipes.pipe(0).output.starts_with(b"HTTP/1.1 200 "), "it is answered");
}

#[test]
fn who_has_no_request_under_way_rests() {
    let (mut server, mut pipes) = open(5, 0);
    *pipes.pipe(0) =
        Pipe { input: b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), buffer: Some(1000), ..Pipe::default() };
    pipes.pipe(1).input = b"GET / HTTP/1.1\r\n".to_vec();
    pipes.pipe(2).input = REQUEST.to_vec();
    pipes.pipe(3).input = b"GET / HTTP/1.0\r\n\r\n".to_vec();
    run(&mut server, &mut pipes, 40);
    assert!(pipes.pipe(3).finished, "done, but its peer has not ended its side");
    assert_eq!([0, 1, 2, 3, 4].map(|slot| pipes.pipe(slot).rests), [false, true, true, true, true]);
}

#[test]
fn what_makes_way_gives_back_what_it_holds() {
    let (mut server, mut pipes) = open(1, 0);
    // More often than there are renderings.
    for now in 0..20 {
        let input = b"GET /now HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        *pipes.pipe(0) = Pipe { input, buffer: Some(145), ..Pipe::default() };
        server.opened(0, 10 * now);
        run(&mut server, &mut pipes, 10 * now);
        assert!(pipes.pipe(0).output.starts_with(b"HTTP/1.1 200 "), "{now}");
    }
    assert_eq!((server.open(), server.tally().connections), (1, 21));
}

#[test]
fn an_upload_is_heard_to_its_end_after_its_refusal() {
    let (mut server, mut pipes) = open(1, 0);
    pipes.pipe(0).input = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n".to_vec();
    run(&mut server, &mut pipes, 0);
    assert!(pipes.pipe(0).output.starts_with(b"HTTP/1.1 4") && pipes.pipe(0).finished);
    // It is slower than the longest silence allowed, and longer than any buffer.
    for now in (0..TIMEOUTS.farewell).step_by(TIMEOUTS.linger as usize - 1) {
        pipes.pipe(0).input = vec![b'x'; 100_000];
        run(&mut server, &mut pipes, now);
        server.expire(&mut pipes, now);
        assert!(!pipes.pipe(0).aborted && pipes.pipe(0).input.is_empty(), "{now}");
    }
    // But not for ever.
    pipes.pipe(0).input = vec![b'x'; 100_000];
    run(&mut server, &mut pipes, TIMEOUTS.farewell);
    server.expire(&mut pipes, TIMEOUTS.farewell);
    assert!(pipes.pipe(0).aborted);
}

/// A transport that ends a connection for itself is left to it as soon as the last answer is handed
/// over, but not while something of the request may come that nobody has read.
#[test]
fn a_transport_that_finishes_alone_has_the_connection_after_the_last_answer() {
    for (request, is_released) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true),
        ("GET /big.bin HTTP/1.0\r\n\r\n", true),
        ("HEAD / HTTP/1.0\r\n\r\n", true),
        ("GET /nowhere HTTP/1.0\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9\r\n\r\nabc", false),
        ("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9\r\n\r\nabc", false),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nabc", false),
        ("nonsense\r\n\r\n", false),
    ] {
        let (mut server, mut pipes) = open(1, 0);
        *pipes.pipe(0) = Pipe { input: request.as_bytes().to_vec(), finishes_alone: true, ..Pipe::default() };
        run(&mut server, &mut pipes, 0);
        let pipe = pipes.pipe(0);
        assert!(pipe.output.starts_with(b"HTTP/1.1 "), "{request}");
        assert_eq!((pipe.released, server.open()), (is_released, usize::from(!is_released)), "{request}");
        assert!(!(pipe.aborted || pipe.finished && is_released), "{request}");
    }
}

/// It could only be sent with more memory than its rendering has.
#[test]
fn a_document_longer_than_its_renderer_said_is_not_to_be_had() {
    for (now, expected) in [(10, b"HTTP/1.1 200 "), (10_u64.pow(19), b"HTTP/1.1 503 ")] {
        let (mut server, mut pipes) = open(1, now);
        pipes.pipe(0).input = b"GET /now HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        run(&mut server, &mut pipes, now);
        assert!(pipes.pipe(0).output.starts_with(expected));
    }
}

#[test]
fn readers_of_documents_are_bounded() {
    let (mut server, mut pipes) = open(8, 0);
    for slot in 0..8 {
        let input = b"GET /now HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        *pipes.pipe(slot) = Pipe { input, buffer: Some(145), ..Pipe::default() };
        server.ready(slot);
        server.run(&mut pipes, 10 * slot as u64, 1);
    }
    // Four renderings are held by readers who do not read on; the others are told to come again.
    for slot in 4..8 {
        pipes.pipe(slot).buffer = Some(4096);
    }
    run(&mut server, &mut pipes, 200);
    for slot in 0..8 {
        let expected: &[u8] = if slot < 4 { b"HTTP/1.1 200 " } else { b"HTTP/1.1 503 " };
        assert!(pipes.pipe(slot).output.starts_with(expected), "slot {slot}");
    }
    // One of them goes on, and its rendering is free again.
    pipes.pipe(0).buffer = Some(4096);
    pipes.pipe(4).input = b"GET /now HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    run(&mut server, &mut pipes, 300);
    assert!(pipes.pipe(0).output.ends_with(b"document 0 at 0"));
    assert!(pipes.pipe(4).output.ends_with(b"document 0 at 300"));
}
