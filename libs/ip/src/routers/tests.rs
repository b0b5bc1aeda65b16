//! Routers by the rules of RFC 4861 §6.3, RFC 4862 §5.5, RFC 7559, and RFC 6724 §5.

use super::*;
use crate::ALL_NODES;
use crate::ipv6::Ipv6;
use crate::neighbour::Message;
use culm_packet::checksum::Sum;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const LINK: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 7]);
const FOR_EVER: u32 = u32::MAX;

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn seconds(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000)
}

/// An option: a prefix with its bits, flags, and seconds for which it is valid and preferred.
fn prefix(text: &str, bits: u8, flags: u8, valid: u32, preferred: u32) -> Vec<u8> {
    let head = [&[3, 4, bits, flags][..], &valid.to_be_bytes(), &preferred.to_be_bytes(), &[0; 4]].concat();
    [&head[..], &address(text).octets()].concat()
}

/// Has routers take an advertisement of the router `number` with these options.
fn tell(routers: &mut Routers, now: Instant, number: u16, lifetime: u16, options: &[Vec<u8>]) {
    let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number);
    let head = [&[134, 0, 0, 0, 0, 0][..], &lifetime.to_be_bytes(), &[0; 8]].concat();
    let mut bytes = [head, options.concat()].concat();
    let checksum = Sum::pseudo_header(source, ALL_NODES, 58, bytes.len()).add_bytes(&bytes).checksum();
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    let packet = Ipv6 { source, destination: ALL_NODES, next_header: 58, hop_limit: 255, payload: &bytes };
    let Ok(Message::RouterAdvertisement(told)) = Message::parse(&packet) else { panic!("it is one") };
    routers.advertised(&told, now);
}

fn router(number: u16) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number))
}

fn new() -> Routers {
    Routers::new(LINK, 1500, seconds(0), 0)
}

/// Everything that is to be done by `now`.
fn due(routers: &mut Routers, now: Instant) -> Vec<Step> {
    core::iter::from_fn(|| routers.poll(now, 1 << 31)).collect()
}

/// An option: name servers by their numbers, for so many seconds.
fn servers(numbers: &[u16], lifetime: u32) -> Vec<u8> {
    let head = [&[25, 1 + 2 * numbers.len() as u8, 0, 0][..], &lifetime.to_be_bytes()].concat();
    let all = numbers.iter().flat_map(|number| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, *number).octets());
    head.into_iter().chain(all).collect()
}

/// The numbers of the name servers that are known.
fn known(routers: &Routers) -> Vec<u16> {
    routers.name_servers().map(|server| server.segments()[7]).collect()
}

/// RFC 8106 §5.3.1 and §6.2.
#[test]
fn name_servers_are_those_that_routers_tell_of_while_they_do() {
    let mut routers = new();
    due(&mut routers, seconds(1));
    tell(&mut routers, seconds(1), 1, 0, &[servers(&[1, 2], 100)]);
    assert_eq!(routers.deadline(), Instant::default());
    assert_eq!((due(&mut routers, seconds(1)), known(&routers)), (vec![Step::NameServers], vec![1, 2]));
    // The same again is no news, but holds for longer.
    tell(&mut routers, seconds(50), 1, 0, &[servers(&[1], 100)]);
    assert_eq!(due(&mut routers, seconds(50)).iter().filter(|step| **step == Step::NameServers).count(), 0);
    tell(&mut routers, seconds(50), 2, 0, &[servers(&[3], 100)]);
    assert_eq!((routers.poll(seconds(50), 0), known(&routers)), (Some(Step::NameServers), vec![1, 2, 3]));
    tell(&mut routers, seconds(60), 2, 0, &[servers(&[3], 0), servers(&[9], 0)]);
    assert_eq!((routers.poll(seconds(60), 0), known(&routers)), (Some(Step::NameServers), vec![1, 2]));
    assert_eq!((routers.poll(seconds(101), 0), known(&routers)), (Some(Step::NameServers), vec![1]));
}

/// RFC 8106 §5.3.1: of three, the one that ends first makes way for a new one.
#[test]
fn no_name_server_keeps_others_out() {
    let mut routers = new();
    tell(&mut routers, seconds(0), 1, 0, &[servers(&[1, 2, 3], FOR_EVER)]);
    tell(&mut routers, seconds(1), 1, 0, &[servers(&[1], FOR_EVER)]);
    due(&mut routers, seconds(1));
    tell(&mut routers, seconds(2), 2, 0, &[servers(&[4], 100), servers(&[5], 100)]);
    assert_eq!((routers.poll(seconds(2), 0), known(&routers)), (Some(Step::NameServers), vec![1, 4, 5]));
    // Of one advertisement they do not make way for each other: the first are taken.
    for _ in 0..2 {
        tell(&mut routers, seconds(3), 1, 0, &[servers(&[6, 7, 8, 9], 50), servers(&[10], FOR_EVER)]);
        assert_eq!(known(&routers), [8, 6, 7]);
    }
    assert_eq!(routers.poll(seconds(3), 0), Some(Step::NameServers));
    // One that it withdraws leaves its place to the next one.
    tell(&mut routers, seconds(4), 1, 0, &[servers(&[6, 7, 8], 50), servers(&[7], 0), servers(&[9], 50)]);
    assert_eq!(known(&routers), [8, 6, 9]);
}

#[test]
fn no_name_server_is_kept_for_ever() {
    let mut routers = new();
    tell(&mut routers, seconds(0), 1, 0, &[servers(&[1], FOR_EVER), servers(&[2], 86_401)]);
    due(&mut routers, seconds(86_399));
    assert_eq!(known(&routers), [1, 2]);
    assert!(due(&mut routers, seconds(86_400)).contains(&Step::NameServers));
    assert_eq!(known(&routers), []);
}

/// The link may be another one.
#[test]
fn a_link_that_comes_up_has_other_name_servers() {
    let mut routers = new();
    routers.link_is_up(seconds(0));
    assert_eq!(due(&mut routers, seconds(0)), [Step::Solicit], "there are none to be forgotten");
    tell(&mut routers, seconds(0), 1, 1800, &[servers(&[1, 2], 1000)]);
    due(&mut routers, seconds(1));
    routers.link_is_up(seconds(2));
    assert_eq!(known(&routers), []);
    assert_eq!(due(&mut routers, seconds(2)), [Step::NameServers, Step::Solicit]);
}

/// RFC 4861 §6.3.7, RFC 4862 §5.5.4: the link may be another one. Who has spoken there comes before
/// those that spoke before it came up, and after a while is alone.
#[test]
fn a_link_that_comes_up_has_other_routers_and_addresses() {
    let mut routers = new();
    let (far, local) = (address("2001:db8:1:9::1"), link_local(LINK));
    let (old, young) = (address("2001:db8:1::ff:fe00:7"), address("2001:db8:8000::ff:fe00:7"));
    let own = |routers: &mut Routers, now, own| {
        assert!(due(routers, now).contains(&Step::Claim(own)));
        routers.assign(own, true);
    };
    tell(&mut routers, seconds(1), 1, 1800, &[prefix("2001:db8:1::", 64, 0xc0, FOR_EVER, FOR_EVER)]);
    own(&mut routers, seconds(1), old);
    routers.link_is_up(seconds(10));
    assert_eq!(due(&mut routers, seconds(10)), [Step::Solicit]);
    // While nobody says anything else, all is as it was.
    assert_eq!((routers.next_hop(far), routers.source(far, local, seconds(10))), (router(1), old));
    tell(&mut routers, seconds(11), 2, 1800, &[prefix("2001:db8:8000::", 64, 0xc0, FOR_EVER, FOR_EVER)]);
    own(&mut routers, seconds(11), young);
    assert_eq!((routers.next_hop(far), routers.source(far, local, seconds(11))), (router(2), young));
    // The one of before may still answer, until it has no time left.
    let questions = (12..190).flat_map(|second| due(&mut routers, seconds(second)));
    assert_eq!(questions.collect::<Vec<_>>(), [Step::Solicit; 5]);
    assert_eq!(due(&mut routers, seconds(190)), [Step::Remove(old)]);
    assert_eq!(due(&mut routers, seconds(300)), []);
    let neighbour = address("2001:db8:1::9");
    assert_eq!(routers.next_hop(neighbour), router(2), "that prefix is not this link's");
    tell(&mut routers, seconds(191), 2, 0, &[]);
    assert_eq!(routers.next_hop(far), None);
}

/// Where the link is the same, its routers say so, and nothing has changed.
#[test]
fn a_link_that_comes_up_again_has_the_same_routers_and_addresses() {
    let mut routers = new();
    let (far, local) = (address("2001:db8:9::1"), link_local(LINK));
    let own = address("2001:db8:1::ff:fe00:7");
    let option = prefix("2001:db8:1::", 64, 0xc0, 9000, 8000);
    tell(&mut routers, seconds(1), 1, 1800, std::slice::from_ref(&option));
    assert_eq!(due(&mut routers, seconds(1)), [Step::Claim(own)]);
    routers.assign(own, true);
    routers.link_is_up(seconds(10));
    due(&mut routers, seconds(10));
    tell(&mut routers, seconds(11), 1, 1800, &[option]);
    assert_eq!(due(&mut routers, seconds(1000)), []);
    assert_eq!((routers.next_hop(far), routers.source(far, local, seconds(1000))), (router(1), own));
    let neighbour = address("2001:db8:1::9");
    assert_eq!(routers.next_hop(neighbour), Some(neighbour));
}

/// RFC 7559: an answer may be lost, and one router does not answer for another.
#[test]
fn routers_of_before_are_asked_for_until_each_has_answered() {
    let mut routers = new();
    let option = |number: u16| prefix(&std::format!("2001:db8:{number}::"), 64, 0xc0, 9000, 8000);
    let own = address("2001:db8:2::ff:fe00:7");
    for number in [1, 2] {
        tell(&mut routers, seconds(1), number, 1800, &[option(number)]);
    }
    assert!(due(&mut routers, seconds(1)).contains(&Step::Claim(own)));
    routers.assign(own, true);
    routers.link_is_up(seconds(10));
    assert_eq!(due(&mut routers, seconds(10)), [Step::Solicit]);
    // The answer of the second one is lost.
    tell(&mut routers, seconds(10), 1, 1800, &[option(1)]);
    assert_eq!((due(&mut routers, seconds(13)), due(&mut routers, seconds(14))), (vec![], vec![Step::Solicit]));
    (1..=2).for_each(|number| tell(&mut routers, seconds(14), number, 1800, &[option(number)]));
    assert_eq!(due(&mut routers, seconds(1000)), []);
    let neighbour = address("2001:db8:2::9");
    assert_eq!(routers.next_hop(neighbour), Some(neighbour));
    assert_eq!(routers.source(neighbour, link_local(LINK), seconds(1000)), own);
}

/// RFC 4861 §6.3.7: who has no router left asks again, at a moment of its own within a second.
#[test]
fn routers_are_asked_for_again_when_none_is_left() {
    for is_withdrawn in [false, true] {
        let mut routers = new();
        assert_eq!(due(&mut routers, seconds(1)), [Step::Solicit]);
        (1..=2).for_each(|number| tell(&mut routers, seconds(2), number, 600 * number, &[]));
        assert_eq!(routers.deadline(), seconds(602));
        assert_eq!(due(&mut routers, seconds(602)), [], "one is left");
        let end = if is_withdrawn { seconds(700) } else { seconds(1202) };
        if is_withdrawn {
            tell(&mut routers, end, 2, 0, &[]);
            assert!(routers.deadline() <= end, "what is due is known at once");
        } else {
            assert_eq!(routers.deadline(), end);
        }
        assert_eq!(due(&mut routers, end), []);
        let first = routers.deadline();
        assert_eq!(first, end + FIRST_DELAY / 2, "half of a second is chosen here");
        assert_eq!(due(&mut routers, first), [Step::Solicit]);
        let second = routers.deadline();
        assert_eq!(second, first + PATIENCE.0);
        assert_eq!(due(&mut routers, second), [Step::Solicit], "nobody has answered");
        tell(&mut routers, second, 3, 600, &[]);
        assert_eq!(routers.deadline(), second + Duration::from_secs(600));
    }
}

#[test]
fn routers_are_asked_for_ever_more_seldom_until_one_is_there() {
    let mut routers = Routers::new(LINK, 1500, seconds(0), 1 << 31);
    let mut asked = Vec::new();
    for _ in 0..14 {
        let now = routers.deadline();
        assert_eq!(routers.poll(Instant(now.0 - 1), 0), None);
        assert_eq!(routers.poll(now, 1 << 31), Some(Step::Solicit));
        asked.push(now.0 / 100_000);
    }
    let waits: Vec<u64> = asked.windows(2).map(|pair| (pair[1] - pair[0]) / 10).collect();
    assert_eq!(asked[0], 5, "half a second");
    assert_eq!(waits, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600]);
    let now = routers.deadline();
    tell(&mut routers, now, 1, 0, &[]);
    assert_eq!(routers.poll(now, 0), Some(Step::Solicit), "one that is no router is not enough");
    tell(&mut routers, now, 1, 1800, &[]);
    assert_eq!(routers.deadline(), now + Duration::from_secs(1800));
}

#[test]
fn a_router_is_one_for_as_long_as_it_says() {
    let mut routers = new();
    let far = address("2001:db8:9::1");
    assert_eq!(routers.next_hop(far), None);
    tell(&mut routers, seconds(0), 1, 100, &[]);
    tell(&mut routers, seconds(0), 2, 200, &[]);
    assert_eq!(routers.next_hop(far), router(1));
    assert_eq!(due(&mut routers, seconds(100)), []);
    assert_eq!(routers.next_hop(far), router(2));
    tell(&mut routers, seconds(100), 2, 0, &[]);
    assert_eq!(routers.next_hop(far), None);
    for number in 1..10 {
        tell(&mut routers, seconds(100), number, 100, &[]);
    }
    (1..=4).for_each(|number| routers.no_router(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number)));
    assert_eq!(routers.next_hop(far), None, "who was there first is kept");
}

#[test]
fn a_router_that_does_not_answer_comes_after_those_that_do() {
    let mut routers = new();
    let far = address("2001:db8:9::1");
    (1..=3).for_each(|number| tell(&mut routers, seconds(0), number, 1800, &[]));
    for number in [1, 2, 3, 1, 2] {
        assert_eq!(routers.next_hop(far), router(number));
        routers.gone(router(number).expect("one"));
    }
    tell(&mut routers, seconds(1), 2, 1800, &[]);
    assert_eq!(routers.next_hop(far), router(2), "it is there again");
    routers.gone(far);
    assert_eq!(routers.next_hop(far), router(2), "that is no router");
}

#[test]
fn who_is_on_the_link_needs_no_router() {
    let mut routers = new();
    tell(
        &mut routers,
        seconds(0),
        1,
        1800,
        &[prefix("2001:db8:1::", 60, 0x80, 100, 0), prefix("2001:db8:2::", 64, 0, 100, 0)],
    );
    let peer = address("2001:db8:1:f::9");
    assert_eq!(routers.next_hop(peer), Some(peer));
    assert_eq!(routers.next_hop(address("2001:db8:1:10::9")), router(1));
    assert_eq!(routers.next_hop(address("2001:db8:2::9")), router(1), "the prefix is not the link's");
    let local = address("fe80::9");
    assert_eq!(routers.next_hop(local), Some(local));
    assert_eq!(due(&mut routers, seconds(100)), []);
    assert_eq!(routers.next_hop(peer), router(1), "it was valid for so long");
    tell(&mut routers, seconds(100), 1, 1800, &[prefix("2001:db8:1::", 60, 0x80, FOR_EVER, 0)]);
    assert_eq!(routers.next_hop(peer), Some(peer));
    tell(&mut routers, seconds(100), 1, 1800, &[prefix("2001:db8:1::", 60, 0x80, 0, 0)]);
    assert_eq!(routers.next_hop(peer), router(1));
}

#[test]
fn a_size_is_taken_if_the_link_can_have_it() {
    let mut routers = new();
    let mtu = |bytes: u32| [&[5, 1, 0, 0][..], &bytes.to_be_bytes()].concat();
    for (said, known) in [(1279, 1500), (1501, 1500), (1 << 16 | 1400, 1500), (1280, 1280), (1400, 1400)] {
        tell(&mut routers, seconds(0), 1, 1800, &[mtu(said)]);
        assert_eq!(routers.mtu(), known, "{said}");
    }
}

#[test]
fn an_address_is_made_claimed_and_ends() {
    let mut routers = new();
    let own = address("2001:db8:1::ff:fe00:7");
    let (local, far) = (link_local(LINK), address("2001:db8:9::1"));
    assert_eq!(local, address("fe80::ff:fe00:7"));
    tell(&mut routers, seconds(0), 1, 65535, &[prefix("2001:db8:1::", 64, 0x40, 3000, 2000)]);
    assert_eq!(due(&mut routers, seconds(0)), [Step::Claim(own)]);
    assert_eq!(routers.source(far, local, seconds(1)), local, "it is not known to be free");
    routers.assign(own, true);
    assert_eq!(routers.source(far, local, seconds(1)), own);
    assert_eq!(routers.source(far, local, seconds(2500)), own, "deprecated, but the only one that reaches so far");
    assert_eq!(routers.source(far, local, seconds(3000)), local);
    assert_eq!(due(&mut routers, seconds(2999)), []);
    assert_eq!(due(&mut routers, seconds(3000)), [Step::Remove(own)]);
}

#[test]
fn several_addresses_end_at_once() {
    let mut routers = new();
    let both = [prefix("2001:db8:1::", 64, 0x40, 100, 100), prefix("2001:db8:2::", 64, 0x40, 100, 100)];
    tell(&mut routers, seconds(0), 1, 65535, &both);
    assert_eq!(due(&mut routers, seconds(0)).len(), 2);
    let ended = due(&mut routers, seconds(100));
    assert!(matches!(ended[..], [Step::Remove(one), Step::Remove(other)] if one != other), "{ended:?}");
}

#[test]
fn an_address_that_somebody_has_is_not_tried_again() {
    let mut routers = new();
    let option = prefix("2001:db8:1::", 64, 0x40, 3000, 2000);
    tell(&mut routers, seconds(0), 1, 65535, std::slice::from_ref(&option));
    let own = address("2001:db8:1::ff:fe00:7");
    assert_eq!(due(&mut routers, seconds(0)), [Step::Claim(own)]);
    routers.assign(own, false);
    tell(&mut routers, seconds(10), 1, 65535, &[option]);
    assert_eq!(due(&mut routers, seconds(10)), []);
    let local = link_local(LINK);
    assert_eq!(routers.source(address("2001:db8:9::1"), local, seconds(10)), local);
}

/// RFC 4862 §5.5.3 (a) to (d).
#[test]
fn prefixes_that_make_no_address_are_passed_over() {
    for option in [
        prefix("fe80::", 64, 0xc0, 3000, 2000),
        prefix("ff05::", 64, 0xc0, 3000, 2000),
        prefix("2001:db8:1::", 64, 0x80, 3000, 2000),
        prefix("2001:db8:1::", 64, 0x40, 2000, 3000),
        prefix("2001:db8:1::", 64, 0x40, 0, 0),
        prefix("2001:db8:1::", 63, 0x40, 3000, 2000),
        prefix("2001:db8:1::", 65, 0x40, 3000, 2000),
    ] {
        let mut routers = new();
        tell(&mut routers, seconds(0), 1, 1800, std::slice::from_ref(&option));
        assert_eq!(due(&mut routers, seconds(0)), [], "{option:?}");
    }
}

/// RFC 4862 §5.5.3 (e).
#[test]
fn nobody_ends_an_address_at_once() {
    // What remains, what is said, and what remains then.
    for (before, said, after) in [
        (90_000, 80_000, 80_000),
        (90_000, 7_201, 7_201),
        (90_000, 60, 7_200),
        (90_000, 0, 7_200),
        (3_000, 60, 3_000),
        (3_000, 3_600, 3_600),
    ] {
        let mut routers = new();
        tell(&mut routers, seconds(0), 1, 0, &[prefix("2001:db8:1::", 64, 0x40, before, 0)]);
        assert_eq!(due(&mut routers, seconds(0)).len(), 2, "one claim, one question");
        tell(&mut routers, seconds(0), 1, 0, &[prefix("2001:db8:1::", 64, 0x40, said, 0)]);
        let is_removed = |step: &Step| matches!(step, Step::Remove(_));
        assert!(!due(&mut routers, seconds(after - 1)).iter().any(is_removed), "{before} {said}");
        assert!(due(&mut routers, seconds(after)).iter().any(is_removed), "{before} {said}");
    }
}

/// RFC 6724 §5.
#[test]
fn the_source_is_the_nearest_to_the_destination() {
    let mut routers = new();
    let both = [prefix("2001:db8:1::", 64, 0x40, 9000, 2000), prefix("2001:db8:8000::", 64, 0x40, 9000, 5000)];
    tell(&mut routers, seconds(0), 1, 65535, &both);
    for step in due(&mut routers, seconds(0)) {
        let Step::Claim(own) = step else { panic!("{step:?}") };
        routers.assign(own, true);
    }
    let (local, one, other) = (link_local(LINK), address("2001:db8:1::ff:fe00:7"), address("2001:db8:8000::ff:fe00:7"));
    for (destination, time, source) in [
        ("2001:db8:2::1", 0, one),
        ("2001:db8:9000::1", 0, other),
        ("2001:db8:2::1", 3000, other),
        ("2001:db8:1::ff:fe00:7", 3000, one),
        ("fe80::1", 0, local),
        ("ff02::1", 0, local),
        ("ff0e::1", 3000, other),
    ] {
        assert_eq!(routers.source(address(destination), local, seconds(time)), source, "{destination}");
    }
}

proptest! {
    /// Whatever routers say, a host comes to rest, and its numbers stay within bounds.
    #[test]
    fn nothing_that_is_said_goes_beyond_its_bounds(
        told in prop::collection::vec((0_u16..6, any::<u16>(), 0_u16..12, any::<[u8; 2]>(), any::<u32>(), any::<u32>(), 0_u64..5000), 0..100),
    ) {
        let mut routers = new();
        let mut now = 0;
        for (number, lifetime, network, [bits, flags], valid, preferred, passed) in told {
            now += passed;
            let option = prefix(&std::format!("2001:db8:{network:x}::"), bits % 66 + 63, flags, valid, preferred);
            let mtu = [&[5, 1, 0, 0][..], &(valid % 3000).to_be_bytes()].concat();
            tell(&mut routers, seconds(now), number, lifetime, &[option, mtu]);
            prop_assert!(due(&mut routers, seconds(now)).len() <= 2 * PREFIXES + 1);
            prop_assert!(routers.deadline() > seconds(now));
            prop_assert!((1280..=1500).contains(&routers.mtu()));
        }
    }
}

/// Who was on the link before it came up keeps nobody out who is there now, however many they were:
/// on another link anybody may have said so.
#[test]
fn routers_of_before_keep_none_of_the_new_link_out() {
    let mut routers = new();
    let far = address("2001:db8:9::1");
    for number in 1..=ROUTERS as u16 {
        tell(&mut routers, seconds(1), number, 65535, &[]);
    }
    for number in 0..PREFIXES as u16 {
        let of = std::format!("2001:db8:{number:x}::");
        tell(&mut routers, seconds(1), 1, 65535, &[prefix(&of, 64, 0xc0, FOR_EVER, FOR_EVER)]);
    }
    for step in due(&mut routers, seconds(1)) {
        let Step::Claim(own) = step else { panic!("{step:?}") };
        routers.assign(own, true);
    }
    routers.link_is_up(seconds(10));
    due(&mut routers, seconds(10));
    tell(&mut routers, seconds(11), 9, 1800, &[prefix("2001:db8:99::", 64, 0xc0, FOR_EVER, FOR_EVER)]);
    let neighbour = address("2001:db8:99::1");
    assert_eq!((routers.next_hop(far), routers.next_hop(neighbour)), (router(9), Some(neighbour)));
    // One of the addresses makes way, and the router is asked once more.
    let removed = Step::Remove(address("2001:db8::ff:fe00:7"));
    assert_eq!(due(&mut routers, seconds(11)), [removed, Step::Solicit]);
    tell(&mut routers, seconds(12), 9, 1800, &[prefix("2001:db8:99::", 64, 0xc0, FOR_EVER, FOR_EVER)]);
    assert_eq!(due(&mut routers, seconds(12)), [Step::Claim(address("2001:db8:99::ff:fe00:7"))]);
}
