//! Many connections: turns, time-outs, and who goes when there are too many.

mod common;

use common::{BIG, Pipe, Pipes, TIMEOUTS, server};
use culm_http_protocol::Server;

const REQUEST: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn open(count: usize, now: u64) -> (Server<'static, common::Clock>, Pipes) {
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

fn run(server: &mut Server<'static, common::Clock>, pipes: &mut Pipes, now: u64) {
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

#[test]
fn time_outs_by_what_the_connection_does() {
    let (mut server, mut pipes) = open(4, 0);
    pipes.pipe(1).input = b"GET / HT".to_vec();
    pipes.pipe(2).input = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc".to_vec();
    *pipes.pipe(3) =
        Pipe { input: b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), room: 1000, ..Pipe::default() };
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
    *pipes.pipe(0) = Pipe { input: b"GET /big.bin HTTP/1.0\r\n\r\n".to_vec(), room: 1000, ..Pipe::default() };
    let mut now = 0;
    run(&mut server, &mut pipes, now);
    while !pipes.pipe(0).finished {
        now += TIMEOUTS.response - 1;
        pipes.pipe(0).room = 1000;
        run(&mut server, &mut pipes, now);
        server.expire(&mut pipes, now);
        assert!(!pipes.pipe(0).aborted);
    }
    assert!(pipes.pipe(0).output.ends_with(&BIG[90_000..]));
}

#[test]
fn the_least_deserving_goes_first() {
    let (mut server, mut pipes) = open(5, 0);
    *pipes.pipe(0) =
        Pipe { input: b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), room: 1000, ..Pipe::default() };
    run(&mut server, &mut pipes, 0);
    pipes.pipe(1).input = b"GET / HTTP/1.1\r\n".to_vec();
    run(&mut server, &mut pipes, 20);
    pipes.pipe(2).input = REQUEST.to_vec();
    run(&mut server, &mut pipes, 30);
    pipes.pipe(3).input = b"GET / HTTP/1.0\r\n\r\n".to_vec();
    run(&mut server, &mut pipes, 40);
    assert!(pipes.pipe(3).finished, "done, but its peer has not ended its side");
    let mut order = Vec::new();
    while let Some(slot) = server.evict(&mut pipes, 100) {
        assert!(pipes.pipe(slot).aborted);
        order.push(slot);
    }
    assert_eq!(order, [3, 4, 1, 2, 0]);
    assert_eq!((server.open(), server.tally().evicted), (0, 5));
}

#[test]
fn a_young_connection_is_not_evicted() {
    let (mut server, mut pipes) = open(2, 100);
    assert_eq!(server.evict(&mut pipes, 100 + TIMEOUTS.grace - 1), None);
    assert_eq!(server.evict(&mut pipes, 100 + TIMEOUTS.grace), Some(0));
}

#[test]
fn slow_lorises_do_not_keep_a_good_client_out() {
    let (mut server, mut pipes) = open(64, 0);
    for now in 0..10_000u64 {
        // Each round a loris takes the place of whoever goes, and sends a byte on every connection.
        let slot = if let Some(slot) = server.evict(&mut pipes, now) { slot } else { continue };
        let good = now % 10 == 0;
        let input = if good { REQUEST } else { b"GET / HTTP/1.1\r\nX: " };
        *pipes.pipe(slot) = Pipe { input: input.to_vec(), ..Pipe::default() };
        server.opened(slot, now);
        run(&mut server, &mut pipes, now);
        if good {
            assert_eq!(pipes.responses(slot), 1);
        }
    }
}

#[test]
fn readers_of_documents_are_bounded() {
    let (mut server, mut pipes) = open(8, 0);
    for slot in 0..8 {
        let input = b"GET /now HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        *pipes.pipe(slot) = Pipe { input, room: 145, ..Pipe::default() };
        server.ready(slot);
        server.run(&mut pipes, 10 * slot as u64, 1);
    }
    // Four renderings are held by readers who do not read on; the others are told to come again.
    for slot in 4..8 {
        pipes.pipe(slot).room = 4096;
    }
    run(&mut server, &mut pipes, 200);
    for slot in 0..8 {
        let expected: &[u8] = if slot < 4 { b"HTTP/1.1 200 " } else { b"HTTP/1.1 503 " };
        assert!(pipes.pipe(slot).output.starts_with(expected), "slot {slot}");
    }
    // One of them goes on, and its rendering is free again.
    pipes.pipe(0).room = 4096;
    pipes.pipe(4).input = b"GET /now HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    run(&mut server, &mut pipes, 300);
    assert!(pipes.pipe(0).output.ends_with(b"document 0 at 0"));
    assert!(pipes.pipe(4).output.ends_with(b"document 0 at 300"));
}
