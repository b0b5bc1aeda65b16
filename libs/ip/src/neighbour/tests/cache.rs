//! The cache by the rules of RFC 4861 §7.2 and §7.3.

use super::*;
use crate::neighbour::{Advertised, Resolution, Times};

fn told(address: IpAddr, link: Option<LinkAddress>) -> Advertised {
    Advertised { address, link, is_solicited: true, overrides: true, is_router: None }
}

fn ask(address: IpAddr, to: Option<LinkAddress>) -> Action<u32> {
    Action::Ask { address, to }
}

fn send(packet: u32, to: LinkAddress) -> Action<u32> {
    Action::Send { packet, to }
}

/// A cache in which `host(1)` is known as `station(1)` since second 0, and was confirmed then.
fn with_one_known(places: &mut [Entry<u32, 3>]) -> Neighbours<'_> {
    let mut cache = Cache::new(places, key(1));
    assert_eq!(cache.resolve(host(1), 0, seconds(0)), Resolution::Waiting(None));
    assert!(!cache.advertised(told(host(1), Some(station(1))), seconds(0)));
    assert_eq!(due(&mut cache, seconds(0)), [send(0, station(1))]);
    cache
}

#[test]
fn what_waits_is_sent_in_order_once_the_address_is_known() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    for packet in 0..3 {
        assert_eq!(cache.resolve(host(1), packet, seconds(0)), Resolution::Waiting(None));
    }
    assert_eq!(cache.resolve(host(1), 3, seconds(0)), Resolution::Waiting(Some(0)), "the oldest makes way");
    assert_eq!(due(&mut cache, seconds(0)), [ask(host(1), None)]);
    cache.advertised(told(host(1), Some(station(1))), milliseconds(1));
    let sent: Vec<_> = (1..4).map(|packet| send(packet, station(1))).collect();
    assert_eq!(due(&mut cache, milliseconds(1)), sent);
    assert!(matches!(cache.resolve(host(1), 4, seconds(1)), Resolution::Known(4, link, _) if link == station(1)));
    assert_eq!(cache.deadline(), Instant::NEVER);
}

#[test]
fn who_does_not_answer_is_asked_for_three_times_a_second_apart() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    cache.resolve(host(1), 7, seconds(0));
    for second in 0..3 {
        assert_eq!(due(&mut cache, seconds(second)), [ask(host(1), None)]);
        assert_eq!(due(&mut cache, milliseconds(second * 1000 + 999)), []);
        assert_eq!(cache.deadline(), seconds(second + 1));
    }
    let unreachable = Action::Unreachable { packet: 7, address: host(1), is_missing: true };
    assert_eq!(due(&mut cache, seconds(3)), [unreachable, Action::Gone { address: host(1) }]);
    assert_eq!(cache.deadline(), Instant::NEVER);
}

#[test]
fn neighbours_are_asked_for_independently() {
    let mut places = entries(256);
    let mut cache = Cache::new(&mut places, key(1));
    for number in 0..40 {
        cache.resolve(host(number), number, seconds(0));
    }
    let asked = due(&mut cache, seconds(0));
    assert_eq!(asked.len(), 40, "one request each, at once");
}

#[test]
fn a_stale_neighbour_that_is_used_is_asked_itself_after_five_seconds() {
    let mut places = entries(16);
    let mut cache = with_one_known(&mut places);
    assert!(matches!(cache.resolve(host(1), 1, seconds(40)), Resolution::Known(..)));
    assert_eq!(due(&mut cache, milliseconds(44_999)), []);
    for second in 45..48 {
        assert_eq!(due(&mut cache, seconds(second)), [ask(host(1), Some(station(1)))]);
        assert!(matches!(cache.resolve(host(1), 1, seconds(second)), Resolution::Known(..)), "it is used meanwhile");
    }
    assert_eq!(due(&mut cache, seconds(48)), [Action::Gone { address: host(1) }]);
    assert_eq!(cache.resolve(host(1), 1, seconds(48)), Resolution::Waiting(None));
}

#[test]
fn a_stale_neighbour_that_is_not_used_is_left_alone() {
    let mut places = entries(16);
    let mut cache = with_one_known(&mut places);
    assert_eq!(cache.deadline(), Instant::NEVER);
    assert_eq!(due(&mut cache, seconds(1000)), []);
}

#[test]
fn upper_layers_keep_a_neighbour_from_being_asked() {
    let mut places = entries(16);
    let mut cache = with_one_known(&mut places);
    let Resolution::Known(_, _, place) = cache.resolve(host(1), 1, seconds(1)) else { panic!("it is known") };
    assert_eq!(cache.at(place, seconds(29)), Some(station(1)));
    for second in (10..1000).step_by(10) {
        cache.confirm(place, seconds(second));
        assert_eq!(cache.at(place, seconds(second + 9)), Some(station(1)));
        assert_eq!(due(&mut cache, seconds(second + 9)), []);
    }
    assert_eq!(cache.at(place, seconds(1020)), None, "it is to be confirmed");
    assert!(matches!(cache.resolve(host(1), 1, seconds(1020)), Resolution::Known(..)));
    cache.confirm(place, seconds(1022));
    assert_eq!(due(&mut cache, seconds(1026)), [], "and was, before it was asked");
}

#[test]
fn a_place_is_no_longer_valid_once_another_neighbour_has_it() {
    let mut places = entries(1);
    let mut cache = with_one_known(&mut places);
    let Resolution::Known(_, _, place) = cache.resolve(host(1), 1, seconds(1)) else { panic!("it is known") };
    cache.heard(host(2), station(2), true, seconds(100));
    assert_eq!(cache.at(place, seconds(100)), None);
    cache.confirm(place, seconds(100));
    let resolution = cache.resolve(host(2), 1, seconds(100));
    assert!(matches!(resolution, Resolution::Known(1, link, _) if link == station(2)));
    assert_eq!(cache.deadline(), seconds(105), "the confirmation was of its predecessor");
}

#[test]
fn what_waited_for_one_who_then_asks_is_sent_and_he_is_asked_later() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    cache.resolve(host(1), 1, seconds(0));
    cache.resolve(host(1), 2, seconds(0));
    cache.heard(host(1), station(1), false, seconds(0));
    assert!(matches!(cache.resolve(host(1), 3, seconds(0)), Resolution::Known(..)));
    assert_eq!(due(&mut cache, seconds(0)), [send(1, station(1)), send(2, station(1))]);
    assert_eq!(due(&mut cache, seconds(4)), []);
    assert_eq!(due(&mut cache, seconds(5)), [ask(host(1), Some(station(1)))]);
}

#[test]
fn only_whoever_asks_for_this_host_is_learnt() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    cache.heard(host(1), station(1), false, seconds(0));
    assert_eq!(cache.resolve(host(1), 0, seconds(0)), Resolution::Waiting(None));
    cache.heard(host(2), station(2), true, seconds(0));
    assert!(matches!(cache.resolve(host(2), 0, seconds(0)), Resolution::Known(..)));
    assert!(!cache.advertised(told(host(3), Some(station(3))), seconds(0)));
    assert_eq!(cache.resolve(host(3), 0, seconds(0)), Resolution::Waiting(None), "answers nobody asked for");
}

/// RFC 4861 §7.2.5, I and II, and appendix C.
#[test]
fn advertisements_change_what_they_may() {
    let unasked = |link, overrides| Advertised { is_solicited: false, overrides, ..told(host(1), link) };
    let answer = |link, overrides| Advertised { overrides, ..told(host(1), link) };
    // What is said at second 1 of a reachable neighbour, the station after it, and whether it
    // still counts as reachable.
    let cases = [
        (answer(Some(station(2)), false), station(1), false),
        (unasked(Some(station(2)), false), station(1), false),
        (unasked(Some(station(2)), true), station(2), false),
        (answer(Some(station(2)), true), station(2), true),
        (unasked(Some(station(1)), false), station(1), true),
        (unasked(Some(station(1)), true), station(1), true),
        (answer(None, false), station(1), true),
    ];
    for (said, link, is_reachable) in cases {
        let mut places = entries(16);
        let mut cache = with_one_known(&mut places);
        cache.advertised(said, seconds(1));
        let resolution = cache.resolve(host(1), 1, seconds(2));
        assert!(matches!(resolution, Resolution::Known(_, to, _) if to == link), "{said:?}: {resolution:?}");
        assert_eq!(cache.deadline() == Instant::NEVER, is_reachable, "{said:?}");
    }
}

#[test]
fn who_no_longer_is_a_router_is_told_once() {
    let mut places = entries(16);
    let mut cache = with_one_known(&mut places);
    let said = |is_router| Advertised { is_router: Some(is_router), ..told(host(1), None) };
    assert!(!cache.advertised(said(false), seconds(1)));
    assert!(!cache.advertised(said(true), seconds(1)));
    assert!(cache.advertised(said(false), seconds(1)));
    assert!(!cache.advertised(said(false), seconds(1)));
}

#[test]
fn a_sweep_takes_no_place_from_those_in_use() {
    let mut places = entries(512);
    let mut cache = Cache::new(&mut places, key(1));
    let real = 200;
    let mut now = seconds(0);
    for number in 0..real {
        cache.heard(host(number), station(number as u8), true, now);
        assert!(matches!(cache.resolve(host(number), 0, now), Resolution::Known(..)), "{number}");
    }
    for round in 0..50 {
        now = seconds(round);
        for number in 0..2000 {
            let stranger = host(1_000_000 + round as u32 * 2000 + number);
            if number % 2 == 0 {
                let _ = cache.resolve(stranger, 1, now);
            } else {
                cache.heard(stranger, station(9), true, now);
            }
            while cache.poll(now).is_some() {}
        }
        if round % 20 == 0 {
            for number in 0..real {
                let found = cache.resolve(host(number), 0, now);
                let link = station(number as u8);
                assert!(
                    matches!(found, Resolution::Known(_, to, place) if to == link && {
                        cache.confirm(place, now);
                        true
                    }),
                    "{number}: {found:?}"
                );
            }
        }
    }
}

#[test]
fn a_station_that_answers_for_all_addresses_keeps_no_other_out() {
    let mut places = entries(32);
    let mut cache = Cache::new(&mut places, key(5));
    // Three that are there, and one that answers for whatever address somebody sends to.
    let honest = [host(1), host(2), host(3)];
    for (number, address) in (1..).zip(honest) {
        cache.heard(address, station(number), true, seconds(1));
        assert!(matches!(cache.resolve(address, 0, seconds(1)), Resolution::Known(..)));
    }
    for number in 100..1000 {
        let _ = cache.resolve(host(number), 0, seconds(2));
        cache.advertised(told(host(number), Some(station(99))), seconds(2));
        let _ = due(&mut cache, seconds(2));
        let _ = cache.resolve(host(number), 0, seconds(2));
    }
    for number in 10..20 {
        let own = station(number as u8);
        let _ = cache.resolve(host(number), 0, seconds(3));
        cache.advertised(told(host(number), Some(own)), seconds(3));
        let _ = due(&mut cache, seconds(3));
        assert!(matches!(cache.resolve(host(number), 0, seconds(3)), Resolution::Known(_, link, _) if link == own));
    }
    for (number, address) in (1..).zip(honest) {
        let found = cache.resolve(address, 0, seconds(3));
        assert!(matches!(found, Resolution::Known(_, link, _) if link == station(number)), "{address}");
    }
}

#[test]
fn one_who_is_there_is_found_during_a_sweep() {
    let mut places = entries(64);
    let mut cache = Cache::new(&mut places, key(1));
    let mut returned = 0;
    for number in 0..1000 {
        let _ = cache.resolve(host(number), number, seconds(0));
        let given_back = |action: &Action<u32>| matches!(action, Action::Unreachable { is_missing: false, .. });
        returned += due(&mut cache, seconds(0)).iter().filter(|action| given_back(action)).count();
    }
    assert_eq!(returned, 1000 - 64 / 4, "a quarter of the places is for those that do not answer");
    assert_eq!(cache.resolve(host(5000), 0, seconds(0)), Resolution::Waiting(None));
    cache.advertised(told(host(5000), Some(station(1))), seconds(0));
    assert!(matches!(cache.resolve(host(5000), 0, seconds(0)), Resolution::Known(..)));
}

#[test]
fn another_link_forgets_all_and_gives_back_what_waits() {
    let mut places = entries(16);
    let mut cache = with_one_known(&mut places);
    cache.resolve(host(2), 5, seconds(0));
    cache.forget(seconds(1));
    // Nobody was asked in vain, so nobody is gone.
    let given_back = Action::Unreachable { packet: 5, address: host(2), is_missing: false };
    assert_eq!(due(&mut cache, seconds(1)), [given_back]);
    assert_eq!(cache.resolve(host(1), 0, seconds(1)), Resolution::Waiting(None));
}

#[test]
fn without_places_everything_is_refused() {
    let mut cache = Neighbours::new(&mut [], key(1));
    assert_eq!(cache.resolve(host(1), 3, seconds(0)), Resolution::Refused(3));
    assert_eq!(cache.poll(seconds(9)), None);
    let mut places = entries(1).into_iter().map(|_| Entry::<u32, 0>::default()).collect::<Vec<_>>();
    let mut cache = Cache::new(&mut places, key(1));
    assert_eq!(cache.resolve(host(1), 3, seconds(0)), Resolution::Waiting(Some(3)), "nothing can wait");
}

#[test]
fn times_of_routers_are_bounded() {
    let second = Duration::from_secs(1);
    for random in [0, 1 << 31, u32::MAX] {
        let times = Times::new(30 * second, second, random);
        assert!((15 * second..=45 * second).contains(&times.reachable));
        assert_eq!(times.retransmit, second);
        let times = Times::new(Duration::MAX, Duration::MAX, random);
        assert!(times.reachable <= 5400 * second && times.retransmit == 60 * second);
        let times = Times::new(Duration::ZERO, Duration::ZERO, random);
        assert!(!times.reachable.is_zero() && times.retransmit == second / 10);
    }
}
