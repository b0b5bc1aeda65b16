//! The resolver, with servers that answer well, badly, or not.

use super::*;
use crate::resolver::{ALIASES, LOOKUPS};
use crate::{Failure, Family, Lookup, Message, Outcome, Resolver, Step};
use core::time::Duration;
use culm_ip::Instant;

const NOW: Instant = Instant(1_000_000);

fn resolver() -> Resolver {
    Resolver::new(servers(), [1, 2, 3, 4])
}

/// A datagram to a server.
#[derive(Debug)]
struct Sent {
    to: SocketAddr,
    port: u16,
    question: Vec<u8>,
}

fn sent(resolver: &mut Resolver, now: Instant) -> Sent {
    match resolver.poll(now) {
        Some(Step::Send(datagram)) => {
            Sent { to: datagram.to, port: datagram.source_port, question: datagram.payload.to_vec() }
        }
        other => panic!("{other:?}"),
    }
}

fn done(resolver: &mut Resolver, now: Instant) -> (Lookup, Outcome) {
    match resolver.poll(now) {
        Some(Step::Done(lookup, outcome)) => (lookup, outcome),
        other => panic!("{other:?}"),
    }
}

/// Looks for a name with a server that answers each question as `answer` says, and takes no
/// connection.
fn ask(text: &str, answer: impl FnMut(&[u8]) -> Vec<u8>) -> Outcome {
    ask_with_streams(text, answer, |_| None)
}

/// The same with a server that answers over TCP as `streamed` says.
fn ask_with_streams(
    text: &str,
    mut answer: impl FnMut(&[u8]) -> Vec<u8>,
    mut streamed: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Outcome {
    let mut resolver = resolver();
    let lookup = resolver.look_up(name(text), Family::Ipv4).expect("a place");
    for _ in 0..100 {
        match resolver.poll(NOW) {
            Some(Step::Done(of, outcome)) => {
                assert_eq!(of, lookup);
                return outcome;
            }
            Some(Step::Send(datagram)) => {
                let (from, port, bytes) = (datagram.to, datagram.source_port, answer(datagram.payload));
                resolver.receive(from, port, &bytes, NOW);
            }
            Some(Step::Stream { lookup: of, message, .. }) => {
                assert_eq!(of, lookup);
                match streamed(message) {
                    Some(bytes) => resolver.receive_from_stream(lookup, &bytes, NOW),
                    None => resolver.stream_has_failed(lookup, NOW),
                }
            }
            None => panic!("nothing is done"),
        }
    }
    panic!("there is no end");
}

#[test]
fn addresses_are_found_behind_aliases_in_the_answer() {
    let found = ask("www.example", |question| {
        let records = [
            address("other.example", 66, 5),
            alias("WWW.example", "b.example"),
            alias("b.example", "c.example"),
            address("c.example", 1, 60),
            address("C.example", 2, 30),
        ];
        reply(question, 0, &records, &[])
    });
    let found = found.expect("addresses");
    let expected: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    assert_eq!((found.as_slice(), found.time_to_live), (&expected[..], 30));
}

#[test]
fn aliases_that_lead_out_of_the_answer_are_asked_for_and_bounded() {
    let mut asked = 0;
    let found = ask("a.example", |question| {
        asked += 1;
        let owner = Message::parse(question).expect("a question").question().name;
        match asked {
            1 => reply(question, 0, &[alias("a.example", "b.example")], &[]),
            _ => {
                assert_eq!(owner, name("b.example"));
                reply(question, 0, &[address("b.example", 7, 60)], &[])
            }
        }
    });
    assert_eq!((found.expect("an address").as_slice().len(), asked), (1, 2));
    let mut asked = 0;
    let found = ask("a.example", |question| {
        asked += 1;
        let owner = Message::parse(question).expect("a question").question().name;
        let (here, there) =
            if owner == name("a.example") { ("a.example", "b.example") } else { ("b.example", "a.example") };
        reply(question, 0, &[alias(here, there)], &[])
    });
    assert_eq!((found, asked), (Err(Failure::Aliases), usize::from(ALIASES) + 1));
    let circle = ask("a.example", |question| {
        reply(question, 0, &[alias("a.example", "b.example"), alias("b.example", "a.example")], &[])
    });
    assert_eq!(circle, Err(Failure::Aliases));
}

#[test]
fn servers_say_that_there_is_nothing() {
    assert_eq!(ask("no.example", |question| reply(question, 3, &[], &[zone("example", 5)])), Err(Failure::NoSuchName));
    assert_eq!(ask("v6.example", |question| reply(question, 0, &[], &[])), Err(Failure::NoAddress));
    assert_eq!(ask("x.example", |question| reply(question, 5, &[], &[])), Err(Failure::Refused(5)));
    let broken = ask("x.example", |question| {
        let mut answer = reply(question, 0, &[address("x.example", 1, 1)], &[]);
        answer.pop();
        answer
    });
    assert_eq!(broken, Err(Failure::Timeout));
}

/// An answer that is not whole.
fn truncated(question: &[u8]) -> Vec<u8> {
    let mut answer = reply(question, 0, &[address("big.example", 9, 60)], &[]);
    answer[2] |= 2;
    answer
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_over_tcp() {
    let whole = |question: &[u8]| {
        let records: Vec<_> = (1..=40).map(|last| address("big.example", last, 60)).collect();
        Some(reply(question, 0, &records, &[]))
    };
    let found = ask_with_streams("big.example", truncated, whole).expect("addresses");
    assert_eq!((found.as_slice().len(), found.as_slice()[0]), (8, IpAddr::from([10, 0, 0, 1])));
    let (mut asked, mut streams) = (0, 0);
    let counted = |question: &[u8]| {
        asked += 1;
        truncated(question)
    };
    let refused = ask_with_streams("big.example", counted, |_| {
        streams += 1;
        None
    });
    // Each server three times, as where nobody answers.
    assert_eq!((refused, asked, streams), (Err(Failure::Truncated), 6, 6));
    // What is truncated or wrong over TCP too is no answer.
    for wrong in [|question: &[u8]| Some(truncated(question)), |_: &[u8]| Some(std::vec![1, 2, 3])] {
        assert_eq!(ask_with_streams("big.example", truncated, wrong), Err(Failure::Truncated));
    }
    let unwilling = ask_with_streams("big.example", truncated, |question| Some(reply(question, 5, &[], &[])));
    assert_eq!(unwilling, Err(Failure::Refused(5)));
}

#[test]
fn one_search_at_a_time_uses_tcp_and_it_ends() {
    let mut resolver = resolver();
    let lookups = [0, 1].map(|_| resolver.look_up(name("big.example"), Family::Ipv4).expect("a place"));
    for question in [0, 1].map(|_| sent(&mut resolver, NOW)) {
        resolver.receive(question.to, question.port, &truncated(&question.question), NOW);
    }
    let stream = |resolver: &mut Resolver, now| match resolver.poll(now) {
        Some(Step::Stream { lookup, server, .. }) => (lookup, server),
        other => panic!("{other:?}"),
    };
    assert_eq!(stream(&mut resolver, NOW), (lookups[0], at_port_53(FIRST)));
    assert!(resolver.awaits_stream(lookups[0]) && !resolver.awaits_stream(lookups[1]));
    assert_eq!(resolver.poll(NOW), None);
    // It is given up, and the next one's turn comes.
    let later = resolver.deadline();
    assert_eq!(later.since(NOW), Duration::from_secs(5));
    assert_eq!(sent(&mut resolver, later).to, at_port_53(SECOND));
    assert_eq!(stream(&mut resolver, later), (lookups[1], at_port_53(FIRST)));
    resolver.cancel(lookups[1]);
    assert!(!resolver.awaits_stream(lookups[1]));
    resolver.receive_from_stream(lookups[1], b"late", later);
    assert_eq!(resolver.poll(later), None);
}

/// A place that is free again is the first to be looked at, but whoever is in it has come last.
#[test]
fn who_has_waited_longest_for_tcp_has_it_first() {
    let mut resolver = resolver();
    let look_up = |resolver: &mut Resolver, now| {
        let lookup = resolver.look_up(name("big.example"), Family::Ipv4).expect("a place");
        let question = sent(resolver, now);
        resolver.receive(question.to, question.port, &truncated(&question.question), now);
        lookup
    };
    let first = look_up(&mut resolver, NOW);
    assert!(matches!(resolver.poll(NOW), Some(Step::Stream { lookup, .. }) if lookup == first));
    let second = look_up(&mut resolver, NOW);
    resolver.cancel(first);
    let question = resolver.look_up(name("big.example"), Family::Ipv4).expect("its place");
    let later = NOW + Duration::from_secs(1);
    while let Some(step) = resolver.poll(later) {
        match step {
            Step::Send(datagram) => {
                let (from, port, bytes) = (datagram.to, datagram.source_port, truncated(datagram.payload));
                resolver.receive(from, port, &bytes, later);
            }
            Step::Stream { lookup, .. } => return assert_eq!(lookup, second),
            Step::Done(lookup, outcome) => panic!("{lookup:?} {outcome:?} {question:?}"),
        }
    }
    panic!("nobody's turn comes");
}

#[test]
fn a_search_waits_for_tcp_as_long_as_it_says() {
    let mut resolver = resolver();
    for _ in 0..4 {
        resolver.look_up(name("big.example"), Family::Ipv4).expect("a place");
    }
    for question in [0; 4].map(|_| sent(&mut resolver, NOW)) {
        resolver.receive(question.to, question.port, &truncated(&question.question), NOW);
    }
    let (mut now, mut streams, mut steps) = (NOW, Vec::new(), 0);
    loop {
        match resolver.poll(now) {
            // The second server does not answer, nor any over TCP.
            Some(Step::Send(_)) => {}
            Some(Step::Stream { .. }) => streams.push(now.since(NOW).as_secs()),
            Some(Step::Done(..)) => break,
            None => {
                assert!(resolver.deadline() > now && resolver.deadline() < Instant::NEVER);
                now = resolver.deadline();
            }
        }
        steps += 1;
        assert!(steps < 100, "there is no end");
    }
    // The last one has asked another server by then.
    assert_eq!(streams, [0, 5, 10]);
}

#[test]
fn servers_that_are_silent_are_asked_in_turn_and_given_up() {
    let mut resolver = resolver();
    let lookup = resolver.look_up(name("a.example"), Family::Ipv6).expect("a place");
    let (mut now, mut asked, mut ports) = (NOW, Vec::new(), Vec::new());
    for _ in 0..6 {
        let sent = sent(&mut resolver, now);
        assert!(resolver.poll(now).is_none() && resolver.awaits(sent.port));
        asked.push((sent.to.ip(), resolver.deadline().since(now)));
        ports.push((sent.port, sent.question[..2].to_vec()));
        now = resolver.deadline();
    }
    let seconds = |count| Duration::from_secs(count);
    let expected = [(FIRST, 1), (SECOND, 1), (FIRST, 2), (SECOND, 2), (FIRST, 4), (SECOND, 4)]
        .map(|(to, wait)| (to, seconds(wait)));
    assert_eq!(asked, expected);
    assert_eq!(done(&mut resolver, now), (lookup, Err(Failure::Timeout)));
    assert_eq!(resolver.deadline(), Instant::NEVER);
    ports.sort();
    ports.dedup();
    assert_eq!(ports.len(), 6, "each message has a number and a port of its own");
    let mut none = Resolver::new(Servers::new([]), [1; 4]);
    let lookup = none.look_up(name("a.example"), Family::Ipv4).expect("a place");
    assert_eq!(done(&mut none, NOW), (lookup, Err(Failure::NoServer)));
}

#[test]
fn forged_answers_are_not_taken() {
    let mut resolver = resolver();
    let lookup = resolver.look_up(name("a.example"), Family::Ipv4).expect("a place");
    let sent = sent(&mut resolver, NOW);
    let good = reply(&sent.question, 0, &[address("a.example", 1, 60)], &[]);
    let mut forged = good.clone();
    forged[1] ^= 1;
    resolver.receive(sent.to, sent.port, &forged, NOW);
    resolver.receive(sent.to, sent.port ^ 1, &good, NOW);
    resolver.receive(at_port_53(SECOND), sent.port, &good, NOW);
    resolver.receive(SocketAddr::new(FIRST, 54), sent.port, &good, NOW);
    let mut question = good.clone();
    question[2] &= 0x7f;
    resolver.receive(sent.to, sent.port, &question, NOW);
    let mut other = good.clone();
    other[13] = b'b';
    resolver.receive(sent.to, sent.port, &other, NOW);
    assert!(resolver.poll(NOW).is_none());
    resolver.receive(sent.to, sent.port, &good, NOW);
    assert!(done(&mut resolver, NOW).1.is_ok());
    resolver.cancel(lookup);
}

#[test]
fn places_are_bounded_and_come_back() {
    let mut resolver = resolver();
    let lookups: Vec<_> = (0..LOOKUPS).filter_map(|_| resolver.look_up(name("a.example"), Family::Ipv4)).collect();
    assert_eq!((lookups.len(), resolver.look_up(name("b.example"), Family::Ipv4)), (LOOKUPS, None));
    resolver.cancel(lookups[3]);
    assert!(resolver.look_up(name("b.example"), Family::Ipv4).is_some());
}
