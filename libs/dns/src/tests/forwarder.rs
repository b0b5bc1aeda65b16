//! The forwarder, with clients and servers that are made up.

use super::*;
use crate::cache::Entry as Kept;
use crate::message::{Draft, flags};
use crate::{Datagram, Forwarder, Memory, Message, Pending, Question, Tally};
use core::time::Duration;
use culm_ip::Instant;
use proptest::prelude::*;

const NOW: Instant = Instant(1_000_000);

fn forwarder(places: usize, entries: usize, per_client: usize) -> Forwarder<'static> {
    let memory = Memory {
        pending: std::vec![Pending::default(); places].leak(),
        entries: std::vec![Kept::default(); entries].leak(),
    };
    Forwarder::new(servers(), memory, per_client, [9, 8, 7, 6])
}

fn client(last: u8) -> SocketAddr {
    SocketAddr::new([10, 0, 0, last].into(), 40_000 + u16::from(last))
}

fn question(id: u16, text: &str, extension: Option<bool>) -> Vec<u8> {
    let mut draft = Draft::default();
    draft.begin(id, flags::RECURSION_DESIRED, &Question { name: name(text), kind: kind::A, class: 1 });
    if let Some(wants_signatures) = extension {
        draft.put_extension(wants_signatures);
    }
    draft.as_bytes().to_vec()
}

/// A datagram with its bytes.
type Sent = (SocketAddr, u16, Vec<u8>);

fn owned(datagram: Option<Datagram<'_>>) -> Option<Sent> {
    datagram.map(|datagram| (datagram.to, datagram.source_port, datagram.payload.to_vec()))
}

fn asked(datagram: Option<Datagram<'_>>) -> Sent {
    let sent = owned(datagram).expect("a datagram");
    assert_eq!(sent.0.port(), PORT, "it is for a server");
    sent
}

/// Answers, and returns what clients get.
fn answer(forwarder: &mut Forwarder<'_>, (to, port, _): &Sent, reply: &[u8], now: Instant) -> Vec<Sent> {
    assert!(forwarder.awaits(*port));
    let mut sent = take_answer(forwarder, (*to, *port), reply, now);
    sent.extend(core::iter::from_fn(|| owned(forwarder.poll(now))));
    sent
}

/// Has the forwarder take a datagram from a server; returns what it sends at once.
fn take_answer(forwarder: &mut Forwarder<'_>, ends: (SocketAddr, u16), reply: &[u8], now: Instant) -> Vec<Sent> {
    let mut sent = Vec::new();
    forwarder.answer(ends.0, ends.1, reply, now, |datagram| sent.extend(owned(Some(*datagram))));
    sent
}

#[test]
fn an_answer_comes_back_and_is_remembered_as_long_as_it_says() {
    let mut forwarder = forwarder(4, 4, 4);
    let sent = asked(forwarder.question(client(1), &question(7, "a.example", None), NOW));
    assert_eq!(sent.0, at_port_53(FIRST));
    let reply = reply(&sent.2, 0, &[address("a.example", 9, 60)], &[]);
    let got = answer(&mut forwarder, &sent, &reply, NOW);
    assert_eq!((got.len(), got[0].0, got[0].1), (1, client(1), PORT));
    assert_eq!((&got[0].2[..2], &got[0].2[2..12]), (&[0, 7][..], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..]));
    assert_eq!(got[0].2[12..], reply[12..]);
    // Later the time that is left is less; another spelling comes back as it was asked.
    let later = NOW + Duration::from_millis(59_500);
    let got = owned(forwarder.question(client(2), &question(8, "A.exAmple", None), later)).expect("an answer");
    let message = Message::parse(&got.2).expect("a message");
    assert_eq!((got.0, message.id(), message.records().next().expect("one").time_to_live), (client(2), 8, 1));
    assert_eq!(message.question().name.as_bytes(), b"\x01A\x07exAmple\x00");
    asked(forwarder.question(client(2), &question(9, "a.example", None), NOW + Duration::from_secs(60)));
    let tally = Tally { questions: 3, hits: 1, asked: 2, ..Tally::default() };
    assert_eq!(forwarder.take_tally(), tally);
}

#[test]
fn that_there_is_nothing_is_remembered_as_long_as_the_zone_says() {
    for (result, authorities, holds) in
        [(3, &[zone("example", 20)][..], 20), (0, &[zone("example", 30)], 30), (3, &[], 0), (2, &[], 0)]
    {
        let mut forwarder = forwarder(4, 4, 4);
        let mut sent = asked(forwarder.question(client(1), &question(7, "a.example", None), NOW));
        if result == 2 {
            // A server that cannot say is not the last word: the next one is asked.
            assert_eq!(answer(&mut forwarder, &sent, &reply(&sent.2, 2, &[], &[]), NOW).len(), 1);
            continue;
        }
        let bytes = reply(&sent.2, result, &[], authorities);
        assert_eq!(answer(&mut forwarder, &sent, &bytes, NOW).len(), 1);
        if holds > 0 {
            let just = NOW + Duration::from_micros(holds * 1_000_000 - 1);
            let got = owned(forwarder.question(client(1), &question(8, "a.example", None), just)).expect("an answer");
            assert_eq!((got.0, got.2[3] & 15), (client(1), result));
        }
        sent = asked(forwarder.question(client(1), &question(9, "a.example", None), NOW + Duration::from_secs(holds)));
        assert_eq!(sent.0, at_port_53(FIRST));
    }
}

#[test]
fn a_question_is_under_way_once_and_answered_to_all() {
    let mut forwarder = forwarder(8, 4, 4);
    let sent = asked(forwarder.question(client(1), &question(1, "a.example", None), NOW));
    assert_eq!(owned(forwarder.question(client(1), &question(1, "a.example", None), NOW)), None, "a repetition");
    assert_eq!(owned(forwarder.question(client(2), &question(2, "A.EXAMPLE", None), NOW)), None, "the same");
    asked(forwarder.question(client(3), &question(3, "a.example", Some(true)), NOW));
    let got = answer(&mut forwarder, &sent, &reply(&sent.2, 0, &[address("a.example", 9, 60)], &[]), NOW);
    let to: Vec<_> = got.iter().map(|sent| (sent.0, sent.2[1])).collect();
    assert_eq!(to, [(client(1), 1), (client(2), 2)]);
}

#[test]
fn one_client_has_no_more_than_its_places() {
    let mut forwarder = forwarder(8, 0, 3);
    for id in 0..20 {
        let text = std::format!("a{id}.example");
        let is_asked = forwarder.question(client(1), &question(id, &text, None), NOW).is_some();
        assert_eq!(is_asked, id < 3);
    }
    // Many clients take the places of those who have more, then the oldest.
    for last in 2..40 {
        let text = std::format!("b{last}.example");
        asked(forwarder.question(client(last), &question(1, &text, None), NOW + Duration::from_millis(last.into())));
    }
    assert_eq!(forwarder.take_tally().dropped, 17 + 38 - 5);
}

#[test]
fn who_follows_a_question_that_made_way_still_gets_its_answer() {
    let mut forwarder = forwarder(3, 0, 2);
    let sent = asked(forwarder.question(client(1), &question(1, "a.example", None), NOW));
    assert_eq!(
        owned(forwarder.question(client(2), &question(2, "a.example", None), NOW + Duration::from_micros(1))),
        None
    );
    asked(forwarder.question(client(1), &question(3, "b.example", None), NOW + Duration::from_micros(2)));
    asked(forwarder.question(client(3), &question(4, "c.example", None), NOW + Duration::from_micros(3)));
    let got = answer(&mut forwarder, &sent, &reply(&sent.2, 0, &[address("a.example", 9, 60)], &[]), NOW);
    assert_eq!(got.iter().map(|sent| sent.0).collect::<Vec<_>>(), [client(2)]);
}

/// Where the question that makes way is the very one whose answer the new one is to wait for.
#[test]
fn who_takes_the_place_of_the_same_question_gets_its_answer() {
    let mut forwarder = forwarder(1, 0, 4);
    let sent = asked(forwarder.question(client(1), &question(7, "a.example", None), NOW));
    assert_eq!(owned(forwarder.question(client(2), &question(8, "a.example", None), NOW)), None);
    assert!(forwarder.deadline() < Instant::NEVER, "somebody waits, and nothing is under way");
    let reply = reply(&sent.2, 0, &[address("a.example", 9, 60)], &[]);
    let got = answer(&mut forwarder, &sent, &reply, NOW);
    assert_eq!(got.iter().map(|got| got.0).collect::<Vec<_>>(), [client(2)]);
}

#[test]
fn servers_that_are_silent_or_of_no_use_are_followed_by_others() {
    let mut forwarder = forwarder(4, 4, 4);
    let sent = asked(forwarder.question(client(1), &question(7, "a.example", Some(false)), NOW));
    let got = answer(&mut forwarder, &sent, &reply(&sent.2, 5, &[], &[]), NOW);
    assert_eq!((got.len(), got[0].0), (1, at_port_53(SECOND)), "at once");
    for _ in 0..4 {
        let now = forwarder.deadline();
        asked(forwarder.poll(now));
    }
    let now = forwarder.deadline();
    let (to, _, bytes) = owned(forwarder.poll(now)).expect("an answer");
    let message = Message::parse(&bytes).expect("a message");
    assert_eq!((to, message.id(), message.result()), (client(1), 7, 2));
    assert!(message.extension().is_some() && owned(forwarder.poll(now)).is_none());
    assert_eq!((forwarder.deadline(), forwarder.take_tally().failed), (Instant::NEVER, 1));
}

#[test]
fn what_a_client_does_not_take_is_truncated() {
    let records: Vec<_> = (0..30).map(|last| address("a.example", last, 60)).collect();
    for (extension, is_truncated) in [(None, true), (Some(false), false)] {
        let mut forwarder = forwarder(4, 4, 4);
        let sent = asked(forwarder.question(client(1), &question(7, "a.example", extension), NOW));
        let got = answer(&mut forwarder, &sent, &reply(&sent.2, 0, &records, &[]), NOW);
        let message = Message::parse(&got[0].2).expect("a message");
        assert_eq!(message.flags() & flags::TRUNCATED != 0, is_truncated);
        assert_eq!(message.records().count(), if is_truncated { 0 } else { 30 });
        assert!(!is_truncated || got[0].2.len() <= 512);
    }
}

#[test]
fn what_is_not_for_a_forwarder_is_refused() {
    let mut forwarder = forwarder(4, 4, 4);
    let mut result = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = question(7, "a.example", None);
        change(&mut bytes);
        let sent = owned(forwarder.question(client(1), &bytes, NOW));
        sent.map(|(to, port, bytes)| {
            assert_eq!((to, port, &bytes[..2]), (client(1), PORT, &[0, 7][..]));
            bytes[3] & 15
        })
    };
    assert_eq!(result(&|bytes| bytes[2] = 0), Some(5), "no recursion");
    assert_eq!(result(&|bytes| bytes[2] |= 0x10), Some(4), "another operation");
    assert_eq!(result(&|bytes| *bytes.last_mut().expect("one") = 3), Some(5), "another class");
    assert_eq!(result(&|bytes| bytes[24] = 252), Some(5), "a zone's transfer");
    assert_eq!(result(&|bytes| bytes[5] = 2), Some(1), "two questions");
    assert_eq!(result(&|bytes| bytes[2] |= 0x80), None, "an answer");
    assert_eq!(result(&|bytes| bytes.truncate(11)), None, "no header");
    let none = SocketAddr::new(FIRST, 0);
    assert_eq!(owned(forwarder.question(none, &question(7, "a.example", None), NOW)), None);
}

#[test]
fn answers_that_come_together_go_to_who_has_asked_for_each() {
    let mut forwarder = forwarder(4, 4, 4);
    let asked: Vec<Sent> = ["a.example", "b.example"]
        .into_iter()
        .zip(1..)
        .map(|(text, who)| asked(forwarder.question(client(who), &question(who.into(), text, None), NOW)))
        .collect();
    let mut got = Vec::new();
    for (sent, (text, last)) in asked.iter().zip([("a.example", 8), ("b.example", 9)]) {
        let bytes = reply(&sent.2, 0, &[address(text, last, 60)], &[]);
        got.extend(take_answer(&mut forwarder, (sent.0, sent.1), &bytes, NOW));
    }
    got.extend(core::iter::from_fn(|| owned(forwarder.poll(NOW))));
    let ends: Vec<(SocketAddr, &u8)> = got.iter().map(|sent| (sent.0, sent.2.last().expect("a byte"))).collect();
    assert_eq!(ends, [(client(1), &8), (client(2), &9)]);
}

#[test]
fn nothing_forged_gets_in() {
    let mut forwarder = forwarder(4, 4, 4);
    let sent = asked(forwarder.question(client(1), &question(7, "a.example", None), NOW));
    let mut forged = reply(&sent.2, 0, &[address("a.example", 66, 60)], &[]);
    let mut get = |ends, forged: &[u8]| assert_eq!(take_answer(&mut forwarder, ends, forged, NOW), []);
    get((at_port_53(SECOND), sent.1), &forged);
    get((sent.0, sent.1 ^ 1), &forged);
    forged[0] ^= 1;
    get((sent.0, sent.1), &forged);
    forged[0] ^= 1;
    forged[13] = b'b';
    get((sent.0, sent.1), &forged);
    assert_eq!((owned(forwarder.poll(NOW)), forwarder.take_tally().strays), (None, 4));
}

#[test]
fn an_answer_that_holds_not_at_all_or_is_long_is_not_remembered() {
    for time in [0, 1 << 31] {
        let mut forwarder = forwarder(4, 4, 4);
        let sent = asked(forwarder.question(client(1), &question(7, "a.example", None), NOW));
        answer(&mut forwarder, &sent, &reply(&sent.2, 0, &[address("a.example", 9, time)], &[]), NOW);
        asked(forwarder.question(client(1), &question(8, "a.example", None), NOW));
    }
}

#[test]
fn what_was_not_used_for_longest_makes_way() {
    let mut forwarder = forwarder(4, 2, 4);
    let mut now = NOW;
    for text in ["a.example", "b.example", "a.example", "c.example"] {
        now = now + Duration::from_secs(1);
        if let Some(sent) =
            owned(forwarder.question(client(1), &question(7, text, None), now)).filter(|sent| sent.0.port() == PORT)
        {
            answer(&mut forwarder, &sent, &reply(&sent.2, 0, &[address(text, 9, 60)], &[]), now);
        }
    }
    for (text, is_kept) in [("a.example", true), ("c.example", true), ("b.example", false)] {
        let sent = owned(forwarder.question(client(1), &question(7, text, None), now)).expect("a datagram");
        assert_eq!(sent.0 == client(1), is_kept, "{text}");
    }
}

proptest! {
    /// Whatever clients ask and servers answer: no client has more than its places, what goes out
    /// can be read, and all is over in the end.
    #[test]
    fn everything_ends(steps in prop::collection::vec((0_u8..6, 0_u8..4, 0_u8..5, any::<bool>()), 1..80)) {
        let mut forwarder = forwarder(6, 3, 2);
        let (mut now, mut under_way) = (NOW, Vec::<Sent>::new());
        let note = |sent: Option<Sent>, under_way: &mut Vec<Sent>| {
            if let Some(sent) = sent {
                assert!(Message::parse(&sent.2).is_ok());
                if sent.0.port() == PORT {
                    under_way.push(sent);
                }
            }
        };
        for (what, who, which, extension) in steps {
            let text = std::format!("n{which}.example");
            match what {
                0..3 => {
                    let bytes = question(which.into(), &text, extension.then_some(true));
                    note(owned(forwarder.question(client(who), &bytes, now)), &mut under_way);
                }
                3 => if !under_way.is_empty() {
                    let sent = under_way.remove(usize::from(who) % under_way.len());
                    let bytes = reply(&sent.2, which % 4, &[address("n1.example", 1, which.into())], &[]);
                    for answer in take_answer(&mut forwarder, (sent.0, sent.1), &bytes, now) {
                        let (asked, answer) = (Message::parse(&sent.2), Message::parse(&answer.2));
                        let [asked, answer] = [asked, answer].map(|message| message.expect("it was read"));
                        assert_eq!(answer.question(), asked.question());
                    }
                },
                _ => now = now + Duration::from_millis(u64::from(which) * 500),
            }
            while let Some(sent) = owned(forwarder.poll(now)) {
                note(Some(sent), &mut under_way);
            }
        }
        for _ in 0..100 {
            now = forwarder.deadline();
            if now == Instant::NEVER {
                break;
            }
            while owned(forwarder.poll(now)).is_some() {}
        }
        prop_assert_eq!(forwarder.deadline(), Instant::NEVER);
    }
}
