//! A resolver and a forwarder between clients and name servers that send anything.
//!
//! The input is a list of datagrams, most of them made right in what is checked first: a number
//! that was asked with, a port that waits. Whatever comes, what goes out can be read, no client
//! gets what it did not ask for, and everything is over once nobody says anything.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_dns::cache::Entry;
use culm_dns::stream::{Incoming, prefix};
use culm_dns::{Family, Forwarder, Memory, Message, Name, PORT, Pending, Resolver, Servers, Step};
use culm_ip::Instant;
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;
use std::time::Duration;

/// What was sent to a server: to whom, from which port, with which number and question.
struct Sent {
    to: SocketAddr,
    port: u16,
    question: Vec<u8>,
}

/// An answer to a question: its header and question, and behind them what the input says.
fn answer(sent: &Sent, input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = sent.question.clone();
    bytes[2] |= 0x80;
    bytes[3] = input.byte();
    bytes[7] = input.byte() % 8;
    bytes[9] = input.byte() % 4;
    bytes[11] = input.byte() % 4;
    let (_, end) = Name::read(&bytes, 12).expect("it was asked for");
    bytes.truncate(end + 4);
    let count = usize::from(input.byte()) * 2;
    bytes.extend(input.bytes(count));
    bytes
}

fn resolve(input: &mut Input<'_>, servers: Servers) {
    let mut resolver = Resolver::new(servers, [1, 2, 3, 4]);
    let mut now = Instant(1);
    let name: Name = "www.example".parse().expect("a name");
    resolver.look_up(name, if input.byte() & 1 == 0 { Family::Ipv4 } else { Family::Ipv6 }).expect("a place");
    for _ in 0..200 {
        match resolver.poll(now) {
            Some(Step::Done(_, outcome)) => {
                assert!(outcome.is_err() || outcome.is_ok_and(|found| !found.as_slice().is_empty()));
                assert_eq!(resolver.deadline(), Instant::NEVER);
                return;
            }
            Some(Step::Send(datagram)) => {
                let question = datagram.payload.to_vec();
                let sent = Sent { to: datagram.to, port: datagram.source_port, question };
                assert!(Message::parse(&sent.question).is_ok());
                if !input.is_over() {
                    resolver.receive(sent.to, sent.port, &answer(&sent, input), now);
                }
            }
            Some(Step::Stream { lookup, server, message }) => {
                let sent = Sent { to: server, port: 0, question: message.to_vec() };
                let mut incoming = Incoming::default();
                if input.byte() & 1 == 0 {
                    let bytes = answer(&sent, input);
                    incoming.take(&prefix(bytes.len()));
                    incoming.take(&bytes);
                } else {
                    incoming.take(input.bytes(20));
                }
                match incoming.message() {
                    Some(message) => resolver.receive_from_stream(lookup, message, now),
                    None => resolver.stream_has_failed(lookup, now),
                }
            }
            None => now = resolver.deadline(),
        }
    }
    panic!("the search does not end");
}

fn forward(input: &mut Input<'_>, servers: Servers) {
    let (mut pending, mut entries) = (vec![Pending::default(); 4], vec![Entry::default(); 3]);
    let memory = Memory { pending: &mut pending, entries: &mut entries };
    let mut forwarder = Forwarder::new(servers, memory, 2, [4, 3, 2, 1]);
    let (mut now, mut under_way) = (Instant(1), Vec::<Sent>::new());
    while !input.is_over() {
        let what = input.byte();
        let client = SocketAddr::new([10, 0, 0, what & 3].into(), 1000 + u16::from(what >> 6));
        match what >> 2 & 3 {
            0 | 1 => {
                let count = usize::from(input.byte());
                let mut bytes = vec![0, what, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
                if what & 32 == 0 {
                    bytes.extend([1, b'a' + (what >> 6), 0, 0, 1, 0, 1]);
                } else {
                    bytes.clear();
                    bytes.extend(input.bytes(count));
                }
                if let Some(sent) = forwarder.question(client, &bytes, now) {
                    let question = sent.payload.to_vec();
                    if sent.to.port() == PORT {
                        under_way.push(Sent { to: sent.to, port: sent.source_port, question });
                    } else {
                        assert_eq!((sent.to, &question[..2]), (client, &bytes[..2]));
                    }
                }
            }
            2 if !under_way.is_empty() => {
                let sent = under_way.swap_remove(usize::from(what >> 4) % under_way.len());
                let bytes = answer(&sent, input);
                let asked = *Message::parse(&sent.question).expect("it was made so").question();
                forwarder.answer(sent.to, sent.port, &bytes, now, |datagram| {
                    let parsed = Message::parse(datagram.payload).expect("an answer can be read");
                    assert_eq!(parsed.question(), &asked);
                });
            }
            _ => now = now + Duration::from_millis(u64::from(what) * 20),
        }
        while let Some(sent) = forwarder.poll(now) {
            let question = sent.payload.to_vec();
            assert!(question.len() <= culm_dns::LONGEST && Message::parse(&question).is_ok());
            if sent.to.port() == PORT {
                under_way.push(Sent { to: sent.to, port: sent.source_port, question });
            }
        }
    }
    // Each of four questions, at times of its own, may go to two servers three times.
    for _ in 0..=4 * 2 * 3 {
        now = forwarder.deadline().max(now);
        if now == Instant::NEVER {
            return;
        }
        while forwarder.poll(now).is_some() {}
    }
    panic!("questions stay for ever");
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let servers = Servers::new([[192, 0, 2, 1].into(), [192, 0, 2, 2].into()]);
    match input.byte() % 3 {
        0 => resolve(&mut input, servers),
        1 => forward(&mut input, servers),
        _ => {
            let _ = Message::parse(input.bytes(4096));
        }
    }
});
