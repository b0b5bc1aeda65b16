//! The decision.

use crate::bridge::{Bridge, Cause, PortSetup, Verdict};
use crate::table::{AGE, Table};
use crate::vlan::{AT, Edit, LENGTH, TAG};
use crate::{Address, HEAD, PortOptions, PortSet};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

const ALL: Address = [0xff; 6];
const GROUP: Address = [1, 0, 0x5e, 0, 0, 1];

fn station(number: u8) -> Address {
    [2, 0, 0, 0, 0, number]
}

/// A frame's beginning, with a tag if there is one.
fn head(to: Address, from: Address, tag: Option<u16>) -> Vec<u8> {
    let mut head = [to, from].concat();
    if let Some(tag) = tag {
        head.extend([0x81, 0]);
        head.extend(tag.to_be_bytes());
    }
    head.extend([8, 0, 0x45, 0, 0, 46]);
    head
}

fn bridge(options: &[&str]) -> Bridge {
    let setup = |text: &&str| PortSetup {
        options: PortOptions::parse(text).expect("options of the test"),
        learns: true,
        ..PortSetup::default()
    };
    Bridge::new(options.iter().map(setup), Table::new(1024, options.len(), AGE, [3, 4]))
}

/// The ports to which a frame goes; none if it is dropped.
fn targets(verdict: Verdict) -> Vec<usize> {
    match verdict {
        Verdict::Forward(forwarding) => forwarding.targets.iter().collect(),
        Verdict::Drop(_) => vec![],
    }
}

#[test]
fn sets_of_ports_have_each_bit() {
    let mut set = PortSet::default();
    assert!(set.is_empty());
    for port in [0, 63, 5, 64] {
        set.add(port);
    }
    assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, 63]);
    assert!(set.contains(63) && !set.contains(64) && set.without(PortSet::of(5)).and(PortSet::of(5)).is_empty());
}

#[test]
fn a_decision_is_made_anew_after_each_change() {
    let mut bridge = bridge(&["", "", ""]);
    let (mut to, mut back) = (vec![], vec![]);
    for (second, port) in [(0, 1), (0, 1), (0, 2), (0, 2), (300, 2), (601, 0)] {
        let now = second * 1_000_000_000;
        if port > 0 {
            back.push(targets(bridge.decide(now, port, &head(station(1), station(2), None))));
        }
        to.push(targets(bridge.decide(now, 0, &head(station(2), station(1), None))));
    }
    // Nobody knows where station 1 is at first; station 2 moves, and is forgotten at last.
    assert_eq!(back, [vec![0, 2], vec![0], vec![0], vec![0], vec![0]]);
    assert_eq!(to, [vec![1], vec![1], vec![2], vec![2], vec![2], vec![1, 2]]);
}

#[test]
fn a_frame_like_the_last_one_is_decided_on_in_short() {
    for (options, tag, is_short) in [
        (["", "", ""], None, true),
        (["", "", "mirror"], None, false),
        (["vlan 2", "vlan 2", ""], None, true),
        (["vlan 2", "trunk 2", ""], None, false),
        (["trunk 2", "trunk 2", ""], Some(2), true),
    ] {
        let mut bridge = bridge(&options);
        let frame = head(station(2), station(1), tag);
        bridge.decide(0, 1, &head(station(1), station(2), if options[1] == "trunk 2" { Some(2) } else { None }));
        assert_eq!(bridge.decided(0, 0, &frame), None, "nobody has decided: {options:?}");
        assert_eq!(targets(bridge.decide(0, 0, &frame)), [1], "{options:?}");
        assert_eq!(bridge.decided(0, 0, &frame), is_short.then_some(1), "{options:?}");
        // Not in the next second, not by another port, not if it is for another station.
        assert_eq!(bridge.decided(1, 0, &frame), None);
        assert_eq!(bridge.decided(0, 2, &frame), None);
        assert_eq!(bridge.decided(0, 0, &head(station(3), station(1), tag)), None);
        // Nor after the table has changed.
        bridge.decide(0, 1, &head(ALL, station(4), if options[1] == "trunk 2" { Some(2) } else { None }));
        assert_eq!(bridge.decided(0, 0, &frame), None, "{options:?}");
    }
}

#[test]
fn who_was_heard_is_found_and_who_was_not_is_looked_for() {
    let mut bridge = bridge(&["", "", ""]);
    assert_eq!(targets(bridge.decide(0, 0, &head(station(2), station(1), None))), [1, 2]);
    assert_eq!(targets(bridge.decide(0, 1, &head(station(1), station(2), None))), [0]);
    assert_eq!(targets(bridge.decide(0, 0, &head(station(2), station(1), None))), [1]);
    // It moves.
    assert_eq!(targets(bridge.decide(0, 2, &head(station(1), station(2), None))), [0]);
    assert_eq!(targets(bridge.decide(0, 0, &head(station(2), station(1), None))), [2]);
    // It is behind the port where the frame comes from.
    assert_eq!(bridge.decide(0, 2, &head(station(2), station(3), None)), Verdict::Drop(Cause::Nobody));
    assert_eq!(targets(bridge.decide(0, 2, &head(ALL, station(3), None))), [0, 1]);
    let tally = bridge.tally();
    assert_eq!((tally.learned, tally.unlearned, tally.flooded), (4, 0, 1));
}

#[test]
fn what_no_bridge_passes_on_stays() {
    let mut bridge = bridge(&["", ""]);
    let mut cause = |to, from| match bridge.decide(0, 0, &head(to, from, None)) {
        Verdict::Drop(cause) => Some(cause),
        Verdict::Forward(_) => None,
    };
    assert_eq!(cause(ALL, GROUP), Some(Cause::Malformed));
    assert_eq!(cause(ALL, [0; 6]), Some(Cause::Malformed));
    assert_eq!(cause([1, 0x80, 0xc2, 0, 0, 0], station(1)), Some(Cause::LinkLocal));
    assert_eq!(cause([1, 0x80, 0xc2, 0, 0, 0x0f], station(1)), Some(Cause::LinkLocal));
    assert_eq!(cause([1, 0x80, 0xc2, 0, 0, 0x10], station(1)), None);
    assert_eq!(bridge.decide(0, 0, &head(ALL, station(1), None)[..13]), Verdict::Drop(Cause::Malformed));
    assert_eq!(bridge.decide(0, 2, &head(ALL, station(1), None)), Verdict::Drop(Cause::Nobody));
}

#[test]
fn an_owner_keeps_its_address() {
    let owner = |number| PortSetup { owner: Some(station(number)), ..PortSetup::default() };
    let outside = PortSetup { learns: true, ..PortSetup::default() };
    let mut bridge = Bridge::new([owner(1), owner(2), outside], Table::new(64, 3, AGE, [3, 4]));
    // It is found before it has said anything.
    assert_eq!(targets(bridge.decide(0, 0, &head(station(2), station(1), None))), [1]);
    assert_eq!(bridge.decide(0, 2, &head(station(1), station(2), None)), Verdict::Drop(Cause::Stolen));
    assert_eq!(targets(bridge.decide(0, 0, &head(station(2), station(1), None))), [1]);
    // Behind a port that learns nobody, others are not heard, and stay unknown.
    assert_eq!(targets(bridge.decide(0, 0, &head(station(9), station(7), None))), [2]);
    assert_eq!(bridge.decide(0, 2, &head(station(7), station(8), None)), Verdict::Drop(Cause::Nobody));
    assert_eq!(targets(bridge.decide(0, 0, &head(station(8), station(1), None))), [2]);
}

#[test]
fn isolated_ports_reach_the_others_only() {
    let mut bridge = bridge(&["isolated", "isolated", ""]);
    assert_eq!(targets(bridge.decide(0, 0, &head(ALL, station(1), None))), [2]);
    assert_eq!(targets(bridge.decide(0, 2, &head(ALL, station(3), None))), [0, 1]);
    assert_eq!(bridge.decide(0, 1, &head(station(1), station(2), None)), Verdict::Drop(Cause::Isolated));
    // What is for somebody behind the same port is kept from nobody by isolation.
    assert_eq!(bridge.decide(0, 0, &head(station(1), station(4), None)), Verdict::Drop(Cause::Nobody));
}

/// Isolation is no reason where another VLAN would be one as well.
#[test]
fn isolation_is_told_within_a_vlan() {
    let mut bridge = bridge(&["vlan 10 isolated", "vlan 10 isolated", "vlan 20 isolated"]);
    assert_eq!(bridge.decide(0, 0, &head(ALL, station(1), None)), Verdict::Drop(Cause::Isolated));
    assert_eq!(bridge.decide(0, 2, &head(ALL, station(3), None)), Verdict::Drop(Cause::Nobody));
}

#[test]
fn a_port_reaches_those_that_it_may() {
    let setup = |reaches: Option<PortSet>| PortSetup { learns: true, reaches, ..PortSetup::default() };
    let ports = [setup(Some(PortSet::of(2))), setup(None), setup(Some(PortSet::of(2)))];
    let mut bridge = Bridge::new(ports, Table::new(64, 3, AGE, [3, 4]));
    assert_eq!(targets(bridge.decide(0, 0, &head(ALL, station(1), None))), [2]);
    assert_eq!(targets(bridge.decide(0, 1, &head(ALL, station(2), None))), [0, 2]);
    assert_eq!(targets(bridge.decide(0, 2, &head(ALL, station(3), None))), []);
    // The second port, where the station was heard, is not for the first one: it is looked for.
    assert_eq!(targets(bridge.decide(0, 0, &head(station(2), station(1), None))), [2]);
}

#[test]
fn a_storm_is_held_to_its_rate_and_stops_nothing_else() {
    let mut bridge = bridge(&["storm 4", "", ""]);
    bridge.decide(0, 1, &head(ALL, station(2), None));
    let mut passed = 0;
    for millisecond in 0..1000 {
        let now = millisecond * 1_000_000;
        passed += targets(bridge.decide(now, 0, &head(ALL, station(1), None))).len();
        assert_eq!(targets(bridge.decide(now, 0, &head(station(2), station(1), None))), [1]);
    }
    assert!((4..=5).contains(&(passed / 2)), "{passed}");
    assert_eq!(bridge.decide(999_999_999, 0, &head(ALL, station(1), None)), Verdict::Drop(Cause::Storm));
    assert_eq!(targets(bridge.decide(999_999_999, 0, &head(station(9), station(1), None))), [1, 2]);
    assert_eq!(targets(bridge.decide(999_999_999, 1, &head(ALL, station(2), None))), [0, 2]);
}

#[test]
fn frames_stay_in_their_vlan_and_are_tagged_where_they_must_be() {
    let mut bridge = bridge(&["vlan 10", "vlan 20", "trunk 10,20", "vlan 10 trunk 20", ""]);
    let edits = |bridge: &mut Bridge, from, tag| -> Vec<(usize, Edit)> {
        let verdict = bridge.decide(0, from, &head(ALL, station(1), tag));
        let Verdict::Forward(forwarding) = verdict else { return vec![] };
        forwarding.targets.iter().map(|port| (port, bridge.edit(&forwarding, port))).collect()
    };
    let insert = |vlan| Edit::Insert([0x81, 0, 0, vlan]);
    assert_eq!(edits(&mut bridge, 0, None), [(2, insert(10)), (3, Edit::Keep)]);
    assert_eq!(edits(&mut bridge, 1, None), [(2, insert(20)), (3, insert(20))]);
    assert_eq!(edits(&mut bridge, 2, Some(20)), [(1, Edit::Remove), (3, Edit::Keep)]);
    assert_eq!(edits(&mut bridge, 3, Some(10)), [(0, Edit::Remove), (2, Edit::Keep)]);
    // No VLAN of the port's; nobody else in it; the default VLAN, whose only port this is.
    assert_eq!(
        [edits(&mut bridge, 0, Some(20)), edits(&mut bridge, 2, None), edits(&mut bridge, 4, None)].concat(),
        []
    );
}

/// A tag behind the one that is taken out would make the frame one of another VLAN at the next
/// bridge: the port says that what has no tag is of its own.
#[test]
fn no_frame_leaves_with_a_tag_that_was_behind_another() {
    let hiding = |tag| {
        let mut head = head(ALL, station(1), Some(tag));
        head[16..18].copy_from_slice(&[0x81, 0]);
        head
    };
    let mut bridge = bridge(&["vlan 10", "vlan 10 trunk 20", "trunk 10", "vlan 10 trunk 30"]);
    for (from, tag) in [(0, 0), (1, 0), (1, 10), (3, 10)] {
        assert_eq!(targets(bridge.decide(0, from, &hiding(tag))), [2], "from {from}, tag {tag}");
    }
    assert_eq!(bridge.decide(0, 2, &hiding(10)), Verdict::Drop(Cause::Vlan));
}

/// Zeros that a card puts behind a short frame would complete a tag that nobody has looked at.
#[test]
fn a_tag_that_is_cut_off_is_none() {
    let frame = head(ALL, station(1), Some(0x0100));
    let mut keeping = bridge(&["vlan 10", "vlan 10 trunk 20"]);
    for length in 14..18 {
        assert_eq!(keeping.decide(0, 0, &frame[..length]), Verdict::Drop(Cause::Malformed), "{length} bytes");
    }
    assert_eq!(targets(bridge(&["", ""]).decide(0, 0, &frame[..15])), [1]);
}

/// Two uplinks, each for one client, may hear the same station: on one network, or since one claims
/// to be it. Neither keeps the other's client from reaching it.
#[test]
fn a_station_that_was_heard_where_a_port_does_not_reach_is_looked_for() {
    let ports = |to: &[usize]| {
        let mut set = PortSet::default();
        to.iter().for_each(|port| set.add(*port));
        Some(set)
    };
    let client = |number, to| PortSetup { owner: Some(station(number)), reaches: ports(to), ..PortSetup::default() };
    let uplink = |to| PortSetup { learns: true, reaches: ports(&[to]), ..PortSetup::default() };
    let setups = [client(1, &[1, 2]), client(2, &[0, 3]), uplink(0), uplink(1)];
    let mut bridge = Bridge::new(setups, Table::new(64, 4, AGE, [3, 4]));
    let router = station(9);
    for heard in [2, 3] {
        bridge.decide(0, heard, &head(ALL, router, None));
        assert_eq!(targets(bridge.decide(0, 0, &head(router, station(1), None))), [2], "heard at {heard}");
        assert_eq!(targets(bridge.decide(0, 1, &head(router, station(2), None))), [3], "heard at {heard}");
    }
    // Where an owner is, is known: it is not looked for.
    assert_eq!(bridge.decide(0, 2, &head(station(2), router, None)), Verdict::Drop(Cause::Nobody));
}

#[test]
fn a_transparent_bridge_takes_tags_for_content() {
    let mut bridge = bridge(&["", ""]);
    let verdict = bridge.decide(0, 0, &head(ALL, station(1), Some(4095)));
    let Verdict::Forward(forwarding) = verdict else { panic!("it goes out") };
    assert_eq!(bridge.edit(&forwarding, 1), Edit::Keep);
}

/// A port of the model: its own VLAN, those of tagged frames, whether it is isolated.
type ModelPort = (Option<u16>, Vec<u16>, bool);

fn model_port() -> impl Strategy<Value = ModelPort> {
    (prop::option::of(1_u16..4), prop::collection::btree_set(1_u16..4, 0..3), any::<bool>())
        .prop_map(|(own, tagged, isolated)| (own, tagged.into_iter().collect(), isolated))
}

fn written((own, tagged, isolated): &ModelPort) -> std::string::String {
    use std::format;
    let own = own.map(|own| format!("vlan {own} ")).unwrap_or_default();
    let list: Vec<std::string::String> = tagged.iter().map(|vlan| format!("{vlan}")).collect();
    let trunk = if list.is_empty() { std::string::String::new() } else { format!("trunk {} ", list.join(",")) };
    format!("{own}{trunk}{}", if *isolated { "isolated" } else { "" })
}

proptest! {
    /// The bridge against one of sets and maps: where frames go, and with what tag.
    #[test]
    fn the_bridge_is_as_the_model_says(
        ports in prop::collection::vec(model_port(), 2..6),
        frames in prop::collection::vec((0_usize..6, 0_u8..6, 1_u8..6, prop::option::of(0_u16..5)), 1..60),
    ) {
        let texts: Vec<_> = ports.iter().map(written).collect();
        let texts: Vec<&str> = texts.iter().map(|text| text.as_str()).collect();
        let mut bridge = bridge(&texts);
        let is_transparent = ports.iter().all(|(own, tagged, _)| own.is_none() && tagged.is_empty());
        let own = |port: usize| match &ports[port] {
            (None, tagged, _) if tagged.is_empty() => Some(1),
            (own, ..) => *own,
        };
        let is_in = |port: usize, vlan: u16| is_transparent || own(port) == Some(vlan) || ports[port].1.contains(&vlan);
        let mut places = BTreeMap::<(u16, u8), usize>::new();
        for (from, to, source, tag) in frames {
            let from = from % ports.len();
            let destination = if to == 0 { ALL } else { station(to) };
            let frame = head(destination, station(source), tag);
            let short = bridge.decided(0, from, &frame);
            let verdict = bridge.decide(0, from, &frame);
            let vlan = match tag {
                _ if is_transparent => Some(0),
                None | Some(0) => own(from),
                Some(vlan) if ports[from].1.contains(&vlan) => Some(vlan),
                Some(vlan) => own(from).filter(|own| *own == vlan && !ports[from].1.is_empty()),
            };
            let mut wanted = vec![];
            if let Some(vlan) = vlan {
                places.insert((vlan, source), from);
                let place = places.get(&(vlan, to)).filter(|_| to != 0);
                wanted = (0..ports.len())
                    .filter(|port| *port != from && is_in(*port, vlan))
                    .filter(|port| !(ports[from].2 && ports[*port].2))
                    .filter(|port| place.is_none_or(|place| place == port))
                    .collect();
            }
            prop_assert_eq!(targets(verdict), wanted.clone());
            if let Some(port) = short {
                prop_assert_eq!(vec![port], wanted);
                prop_assert!(matches!(verdict, Verdict::Forward(forwarding) if bridge.edit(&forwarding, port) == Edit::Keep));
            }
            let (Verdict::Forward(forwarding), Some(vlan)) = (verdict, vlan) else { continue };
            for port in forwarding.targets.iter() {
                let leaves_with = match bridge.edit(&forwarding, port) {
                    Edit::Keep => tag,
                    Edit::Remove => None,
                    Edit::Insert(bytes) | Edit::Replace(bytes) => Some(u16::from_be_bytes([bytes[2], bytes[3]])),
                };
                let wanted = if is_transparent { tag } else { Some(vlan).filter(|vlan| own(port) != Some(*vlan)) };
                prop_assert_eq!(leaves_with, wanted);
            }
        }
    }

    /// Whatever comes, what goes out by a port has a whole header, and a tag of the port's or none.
    #[test]
    fn what_leaves_is_of_the_ports_vlans(
        ports in prop::collection::vec(model_port(), 2..5),
        frames in prop::collection::vec((0_usize..5, prop::collection::vec(0_u8..5, 0..3), 0_usize..24), 1..40),
    ) {
        prop_assume!(ports.iter().any(|(own, tagged, _)| own.is_some() || !tagged.is_empty()));
        let texts: Vec<_> = ports.iter().map(written).collect();
        let texts: Vec<&str> = texts.iter().map(|text| text.as_str()).collect();
        let mut bridge = bridge(&texts);
        for (from, tags, length) in frames {
            let mut frame = [ALL, station(1)].concat();
            tags.iter().for_each(|tag| frame.extend([0x81, 0, 0, *tag]));
            frame.extend([8, 0, 0, 0]);
            frame.truncate(length);
            let verdict = bridge.decide(0, from % ports.len(), &frame[..length.min(HEAD).min(frame.len())]);
            let Verdict::Forward(forwarding) = verdict else { continue };
            for port in forwarding.targets.iter() {
                let mut room = [0; AT + LENGTH];
                let (beginning, instead_of) = bridge.edit(&forwarding, port).beginning(&frame, &mut room);
                let sent = [beginning, &frame[instead_of..]].concat();
                prop_assert!(sent.len() >= 14, "{sent:?}");
                if sent[12..14] == TAG {
                    prop_assert!(sent.len() >= HEAD && ports[port].1.contains(&sent[15].into()), "{sent:?}");
                }
            }
        }
    }
}
