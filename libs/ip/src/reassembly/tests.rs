//! Fragments by the rules of RFC 791, RFC 8200 and RFC 5722, and in any order.

use super::*;
use crate::extension::content;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const UDP: u8 = 17;

/// A part of the packet `identification` from `source`, whose bytes are those of `byte`.
fn part<'a>(source: u8, identification: u16, payload: &'a [u8], offset: u16, has_more: bool) -> Fragment<'a> {
    Fragment {
        source: Ipv4Addr::new(10, 0, 0, source).into(),
        destination: Ipv4Addr::new(10, 0, 1, 1).into(),
        protocol: UDP,
        part: Part { identification: identification.into(), offset, has_more },
        payload,
        ecn: ecn::UNMARKABLE,
        packet: payload,
    }
}

fn seconds(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000)
}

fn byte(place: usize) -> u8 {
    (place * 7 + place / 256) as u8
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(byte).collect()
}

struct Host {
    slots: Vec<Slot>,
    memory: Vec<u8>,
}

impl Host {
    fn new(slots: usize, share: usize) -> Self {
        Self { slots: vec![Slot::default(); slots], memory: vec![0; slots * share] }
    }

    fn reassembly(&mut self) -> Reassembly<'_> {
        Reassembly::new(&mut self.slots, &mut self.memory)
    }
}

#[test]
fn a_packet_is_whole_after_its_last_gap() {
    let mut host = Host::new(4, 100);
    let mut reassembly = host.reassembly();
    let whole = bytes(21);
    assert_eq!(reassembly.take(&part(1, 5, &whole[16..], 16, false), seconds(0)), Outcome::Incomplete);
    assert_eq!(reassembly.take(&part(1, 5, &whole[..8], 0, true), seconds(0)), Outcome::Incomplete);
    let outcome = reassembly.take(&part(1, 5, &whole[8..16], 8, true), seconds(1));
    assert_eq!(outcome, Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false });
    assert_eq!(reassembly.deadline(), Instant::NEVER, "its slot is free");
}

/// RFC 3168 §5.3.
#[test]
fn a_mark_of_one_fragment_is_the_packets_unless_another_must_have_none() {
    let whole = bytes(24);
    for (marks, outcome) in [
        ([ecn::MARKABLE; 3], Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false }),
        ([ecn::MARKED, ecn::MARKABLE, 1], Outcome::Whole { protocol: UDP, payload: &whole, is_marked: true }),
        ([1, ecn::MARKABLE, ecn::MARKED], Outcome::Whole { protocol: UDP, payload: &whole, is_marked: true }),
        ([ecn::MARKED, ecn::MARKABLE, ecn::UNMARKABLE], Outcome::Refused(Refusal::Mark)),
        ([ecn::UNMARKABLE, ecn::MARKABLE, ecn::MARKED], Outcome::Refused(Refusal::Mark)),
    ] {
        let mut host = Host::new(4, 100);
        let mut reassembly = host.reassembly();
        let fragment = |index: usize| Fragment {
            ecn: marks[index],
            ..part(1, 5, &whole[index * 8..][..8], index as u16 * 8, index < 2)
        };
        assert_eq!(reassembly.take(&fragment(0), seconds(0)), Outcome::Incomplete);
        assert_eq!(reassembly.take(&fragment(1), seconds(0)), Outcome::Incomplete);
        assert_eq!(reassembly.take(&fragment(2), seconds(0)), outcome, "{marks:?}");
    }
    let mut host = Host::new(0, 0);
    let one = Fragment { ecn: ecn::MARKED, ..part(1, 5, b"all of it", 0, false) };
    let outcome = Outcome::Whole { protocol: UDP, payload: b"all of it", is_marked: true };
    assert_eq!(host.reassembly().take(&one, seconds(0)), outcome);
}

#[test]
fn a_packet_in_one_piece_takes_no_memory() {
    let mut host = Host::new(0, 0);
    let mut reassembly = host.reassembly();
    let outcome = reassembly.take(&part(1, 5, b"all of it", 0, false), seconds(0));
    assert_eq!(outcome, Outcome::Whole { protocol: UDP, payload: b"all of it", is_marked: false });
    assert_eq!(reassembly.take(&part(1, 5, &[0; 8], 0, true), seconds(0)), Outcome::Refused(Refusal::Memory));
}

#[test]
fn packets_are_told_apart_by_their_names() {
    let mut host = Host::new(16, 100);
    let mut reassembly = host.reassembly();
    let first = part(1, 5, &[1; 8], 0, true);
    assert_eq!(reassembly.take(&first, seconds(0)), Outcome::Incomplete);
    let last = |change: fn(&mut Fragment<'_>)| {
        let mut fragment = part(1, 5, &[2; 8], 8, false);
        change(&mut fragment);
        fragment
    };
    for other in [
        last(|fragment| fragment.part.identification = 6),
        last(|fragment| fragment.source = Ipv4Addr::new(10, 0, 0, 2).into()),
        last(|fragment| fragment.destination = Ipv4Addr::new(10, 0, 1, 2).into()),
        last(|fragment| fragment.protocol = 1),
    ] {
        assert_eq!(reassembly.take(&other, seconds(0)), Outcome::Incomplete);
    }
    let whole = [[1; 8], [2; 8]].concat();
    assert_eq!(
        reassembly.take(&last(|_| ()), seconds(0)),
        Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false }
    );
}

/// RFC 8200 §4.5: over IPv6 the first fragment alone says what the packet is.
#[test]
fn the_first_fragment_says_what_the_packet_is() {
    let mut host = Host::new(4, 100);
    let mut reassembly = host.reassembly();
    let address: IpAddr = "2001:db8::1".parse().expect("an address");
    let of = |protocol, offset, has_more| Fragment {
        source: address,
        destination: address,
        protocol,
        ..part(1, 5, &[3; 8], offset, has_more)
    };
    assert_eq!(reassembly.take(&of(99, 8, false), seconds(0)), Outcome::Incomplete);
    let outcome = reassembly.take(&of(UDP, 0, true), seconds(0));
    assert_eq!(outcome, Outcome::Whole { protocol: UDP, payload: &[3; 16], is_marked: false });
}

/// RFC 5722 §4.
#[test]
fn an_overlap_refuses_the_whole_packet_until_its_time_is_over() {
    let overlaps = [(0, 16), (8, 16), (8, 8), (4096, 8)];
    for (offset, length) in overlaps {
        let mut host = Host::new(4, 8000);
        let mut reassembly = host.reassembly();
        assert_eq!(reassembly.take(&part(1, 5, &[1; 8], 8, true), seconds(0)), Outcome::Incomplete);
        assert_eq!(reassembly.take(&part(1, 5, &[1; 8], 4096, true), seconds(0)), Outcome::Incomplete);
        let other = vec![2; length];
        let refused = Outcome::Refused(Refusal::Overlap);
        assert_eq!(reassembly.take(&part(1, 5, &other, offset, true), seconds(1)), refused, "{offset}");
        assert_eq!(reassembly.take(&part(1, 5, &[1; 8], 16, true), seconds(59)), refused);
        assert_eq!(reassembly.expire(seconds(60)), None, "nobody is told");
        assert_eq!(reassembly.take(&part(1, 5, &[1; 8], 16, true), seconds(60)), Outcome::Incomplete);
    }
}

#[test]
fn a_fragment_that_comes_twice_is_passed_over() {
    let mut host = Host::new(4, 100);
    let mut reassembly = host.reassembly();
    let whole = bytes(24);
    assert_eq!(reassembly.take(&part(1, 5, &whole[..8], 0, true), seconds(0)), Outcome::Incomplete);
    assert_eq!(reassembly.take(&part(1, 5, &whole[8..16], 8, true), seconds(0)), Outcome::Incomplete);
    assert_eq!(reassembly.take(&part(1, 5, &whole[..8], 0, true), seconds(0)), Outcome::Incomplete);
    assert_eq!(reassembly.take(&part(1, 5, &whole[8..16], 8, true), seconds(0)), Outcome::Incomplete);
    let outcome = reassembly.take(&part(1, 5, &whole[16..], 16, false), seconds(0));
    assert_eq!(outcome, Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false });
}

#[test]
fn ends_that_contradict_each_other_are_refused() {
    let refused = |fragments: &[(u16, usize, bool)]| {
        let mut host = Host::new(4, 1000);
        let mut reassembly = host.reassembly();
        let (last, first) = fragments.split_last().expect("some");
        for (offset, length, has_more) in first {
            assert_eq!(
                reassembly.take(&part(1, 5, &bytes(*length), *offset, *has_more), seconds(0)),
                Outcome::Incomplete
            );
        }
        reassembly.take(&part(1, 5, &bytes(last.1), last.0, last.2), seconds(0)) == Outcome::Refused(Refusal::Overlap)
    };
    assert!(refused(&[(64, 8, false), (128, 8, true)]), "a part beyond the end");
    assert!(refused(&[(64, 8, false), (128, 8, false)]), "a second end beyond");
    assert!(refused(&[(64, 8, false), (32, 8, false)]), "a second end before");
    assert!(refused(&[(64, 8, true), (32, 8, false)]), "an end before a part");
    assert!(refused(&[(64, 8, true), (64, 8, false)]), "a part that is no longer followed");
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let mut host = Host::new(4, 70_000);
    let mut reassembly = host.reassembly();
    for (offset, length, has_more, refusal) in [
        (0, 7, true, Refusal::Length),
        (0, 0, true, Refusal::Length),
        (8, 0, false, Refusal::Length),
        (65_528, 8, false, Refusal::End),
        (65_512, 8, false, Refusal::End),
    ] {
        let payload = bytes(length);
        let outcome = reassembly.take(&part(1, 5, &payload, offset, has_more), seconds(0));
        assert_eq!(outcome, Outcome::Refused(refusal), "{offset} {length}");
    }
    assert_eq!(reassembly.deadline(), Instant::NEVER, "they take no slot");
    assert_eq!(reassembly.take(&part(1, 5, &bytes(3), 65_512, false), seconds(0)), Outcome::Incomplete);
}

#[test]
fn a_packet_that_is_larger_than_a_slot_is_refused() {
    let mut host = Host::new(4, 100);
    let mut reassembly = host.reassembly();
    assert_eq!(reassembly.take(&part(1, 5, &bytes(8), 88, true), seconds(0)), Outcome::Incomplete);
    assert_eq!(reassembly.take(&part(1, 6, &bytes(8), 96, true), seconds(0)), Outcome::Refused(Refusal::Memory));
}

#[test]
fn time_is_over_a_minute_after_the_first_arrival() {
    let mut host = Host::new(8, 1000);
    let mut reassembly = host.reassembly();
    assert_eq!(reassembly.take(&part(1, 5, &bytes(200), 0, true), seconds(0)), Outcome::Incomplete);
    assert_eq!(reassembly.take(&part(1, 5, &bytes(8), 208, true), seconds(30)), Outcome::Incomplete);
    assert_eq!(reassembly.take(&part(2, 6, &bytes(8), 8, true), seconds(1)), Outcome::Incomplete);
    assert_eq!(reassembly.deadline(), seconds(60));
    assert_eq!(reassembly.expire(Instant(59_999_999)), None);
    assert_eq!(reassembly.expire(seconds(60)), Some(&bytes(200)[..HEAD]));
    assert_eq!(reassembly.deadline(), seconds(61));
    assert_eq!(reassembly.expire(seconds(61)), None, "without the first fragment nobody is told");
    assert_eq!(reassembly.deadline(), Instant::NEVER);
}

#[test]
fn one_source_does_not_take_the_slots_of_others() {
    let mut host = Host::new(8, 100);
    let mut reassembly = host.reassembly();
    let whole = bytes(16);
    assert_eq!(reassembly.take(&part(1, 1, &whole[..8], 0, true), seconds(0)), Outcome::Incomplete);
    for identification in 0..1000 {
        assert_eq!(reassembly.take(&part(9, identification, &whole[..8], 0, true), seconds(1)), Outcome::Incomplete);
    }
    let last = part(1, 1, &whole[8..], 8, false);
    assert_eq!(reassembly.take(&last, seconds(2)), Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false });
    // Two of a kind are the share: the oldest of the flood are gone.
    let outcome = reassembly.take(&part(9, 998, &whole[8..], 8, false), seconds(2));
    assert_eq!(outcome, Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false });
    assert_eq!(reassembly.take(&part(9, 990, &whole[8..], 8, false), seconds(2)), Outcome::Incomplete);
}

#[test]
fn addresses_of_one_network_count_as_one_source() {
    let mut host = Host::new(8, 100);
    let mut reassembly = host.reassembly();
    let whole = bytes(16);
    let from = |source: &str, identification, offset, has_more| Fragment {
        source: source.parse().expect("an address"),
        ..part(1, identification, if offset == 0 { &whole[..8] } else { &whole[8..] }, offset, has_more)
    };
    assert_eq!(reassembly.take(&from("2001:db8::1", 1, 0, true), seconds(0)), Outcome::Incomplete);
    for number in 1..1000_u16 {
        let source = std::format!("2001:db8:0:1::{number:x}");
        assert_eq!(reassembly.take(&from(&source, number, 0, true), seconds(0)), Outcome::Incomplete);
    }
    let outcome = reassembly.take(&from("2001:db8::1", 1, 8, false), seconds(0));
    assert_eq!(outcome, Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false });
}

#[test]
fn where_all_slots_are_taken_who_has_most_makes_way() {
    let mut host = Host::new(8, 100);
    let mut reassembly = host.reassembly();
    let whole = bytes(16);
    for source in [1, 1, 2, 2, 3, 3, 4, 5] {
        let identification =
            10 * u16::from(source) + reassembly.slots.iter().filter(|slot| slot.state != State::Free).count() as u16;
        assert_eq!(
            reassembly.take(&part(source, identification, &whole[..8], 0, true), seconds(0)),
            Outcome::Incomplete
        );
    }
    assert_eq!(reassembly.take(&part(6, 1, &whole[..8], 0, true), seconds(1)), Outcome::Incomplete);
    for (source, identification) in [(4, 46), (5, 57), (6, 1)] {
        let outcome = reassembly.take(&part(source, identification, &whole[8..], 8, false), seconds(1));
        assert_eq!(outcome, Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false }, "{source}");
    }
}

#[test]
fn fragments_of_ipv6_are_found_behind_their_headers() {
    let (source, destination) = ("2001:db8::1".parse().expect("one"), "2001:db8::2".parse().expect("one"));
    let whole = bytes(40);
    let mut host = Host::new(4, 100);
    let mut reassembly = host.reassembly();
    for (offset, range, has_more) in [(0_u16, 0..16, true), (16, 16..40, false)] {
        let head = [&[UDP, 0][..], &(offset | u16::from(has_more)).to_be_bytes(), &[0, 0, 0, 9]].concat();
        let payload = [&head, &whole[range]].concat();
        let packet = Ipv6 { source, destination, next_header: 44, hop_limit: 64, payload: &payload };
        let found = content(&packet).expect("it is whole");
        let part = found.fragment.expect("a fragment");
        let fragment = Fragment::of_ipv6(&payload, &packet, part, found.protocol, found.payload);
        let expected = if has_more {
            Outcome::Incomplete
        } else {
            Outcome::Whole { protocol: UDP, payload: &whole, is_marked: false }
        };
        assert_eq!(reassembly.take(&fragment, seconds(0)), expected);
    }
}

proptest! {
    /// Whatever the order, and however often each comes, the packet is put together once, at the
    /// last missing piece.
    #[test]
    fn fragments_come_in_any_order(
        length in 9_usize..1500, size in 1_usize..20, order in prop::collection::vec(any::<prop::sample::Index>(), 0..200),
    ) {
        let whole = bytes(length);
        // The size keeps the count of pieces within what a slot can have.
        let size = size.max(length / 8 / PIECES + 1) * 8;
        let parts: Vec<(usize, &[u8])> = (0..length).step_by(size).zip(whole.chunks(size)).collect();
        prop_assume!(parts.len() > 1);
        let mut host = Host::new(2, 1500);
        let mut reassembly = host.reassembly();
        let mut missing: Vec<usize> = (0..parts.len()).collect();
        let rest = 0..parts.len();
        let chosen: Vec<usize> = order.iter().map(|index| index.index(parts.len())).chain(rest).collect();
        for index in chosen {
            let (offset, payload) = parts[index];
            let fragment = part(1, 5, payload, offset as u16, offset + payload.len() < length);
            missing.retain(|other| *other != index);
            let outcome = reassembly.take(&fragment, seconds(0));
            if missing.is_empty() {
                prop_assert_eq!(outcome, Outcome::Whole { protocol: UDP, payload: &whole[..], is_marked: false });
                return Ok(());
            }
            prop_assert_eq!(outcome, Outcome::Incomplete);
        }
        prop_assert!(false, "it never became whole");
    }

    /// Fragments of anything: a packet that becomes whole consists of bytes that came for it, each
    /// at its place.
    #[test]
    fn nothing_is_invented(
        fragments in prop::collection::vec((0_u16..3, 0_u16..12, 0_usize..40, any::<bool>(), any::<bool>()), 0..200),
    ) {
        let mut host = Host::new(3, 80);
        let mut reassembly = host.reassembly();
        for (number, (identification, offset, length, has_more, is_true)) in fragments.into_iter().enumerate() {
            let offset = usize::from(offset) * 8;
            let payload: Vec<u8> = (offset..offset + length).map(|place| byte(place) ^ u8::from(!is_true)).collect();
            let fragment = part(identification as u8, identification, &payload, offset as u16, has_more);
            let outcome = reassembly.take(&fragment, seconds(number as u64));
            if let Outcome::Whole { payload, .. } = outcome {
                let known = |(place, found): (usize, &u8)| *found == byte(place) || *found == byte(place) ^ 1;
                prop_assert!(payload.iter().enumerate().all(known));
                prop_assert!(payload.len() <= 80 || !has_more && offset == 0);
            }
            while reassembly.expire(seconds(number as u64)).is_some() {}
            prop_assert!(reassembly.deadline() > seconds(number as u64));
        }
    }
}
