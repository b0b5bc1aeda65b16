//! The domain of driver and virtualisers dies before every step whose effect outlives it, under
//! traffic in both directions, and its next life goes on.
//!
//! A step is a store to a queue, to a virtqueue, to an account or to the checkpoint, or an access
//! to a register ([`culm_queue::crash`]). The device and the clients act only on what they are
//! told. A buffer is written when the device receives something, and read when the client takes it
//! or the device sends it: so a buffer that is lent too early shows as a torn frame.

mod world;

use culm::testing::deadline;
use culm_net::Descriptor;
use culm_virtio::registers::Causes;
use proptest::prelude::*;
use world::{Act, SENDERS, SIZE, World};

/// A run that goes through all that can happen without a failure of the device.
const STORY: &[Act] = {
    use Act::*;
    &[
        Receive(0, 1),
        Receive(1, 1),
        Turn,
        Send(0, 2),
        Send(1, 3),
        Turn,
        Receive(2, 1),
        Sent(3),
        Turn,
        Read(0),
        Receive(1, 3),
        Receive(0, 1),
        Send(1, 5),
        Turn,
        Read(1),
        Sent(9),
        Send(0, 6),
        Turn,
        Receive(0, 2),
        Sent(4),
        Turn,
        Read(0),
        Read(1),
        Turn,
        Send(0, 3),
        Send(1, 8),
        Sent(20),
        Turn,
        Receive(2, 2),
        Turn,
        Read(0),
        Read(1),
        Receive(0, 3),
        Receive(1, 3),
        Turn,
    ]
};

/// Plays a story in which the domain dies after so many steps. Returns whether it did.
fn play(story: &[Act], size: u32, event_index: bool, deaths: &[u32]) -> bool {
    let mut world = World::new(size, event_index);
    let context = format!("queues of {size}, event index {event_index}, deaths at {deaths:?}");
    world.deaths = deaths.iter().copied().collect();
    world.death = world.deaths.pop_front();
    for act in story {
        world.act(*act);
    }
    let all_died = world.death.is_none() && world.deaths.is_empty();
    world.death = None;
    world.finish();
    world.check(&context);
    world.check_buffers(&context);
    all_died
}

#[test]
fn a_death_at_any_step_loses_and_doubles_nothing() {
    for (size, event_index) in [(64, true), (64, false), (16, true)] {
        let steps = (0..).take_while(|steps| play(STORY, size, event_index, &[*steps])).count();
        assert!(steps > 250, "{steps} steps only");
    }
}

/// The second life dies too, while it finds its place or soon after.
#[test]
fn a_death_soon_after_a_death_loses_and_doubles_nothing() {
    for first in (0..).step_by(7) {
        let mut died = false;
        for second in (0..40).step_by(3) {
            died |= play(STORY, 64, true, &[first, second]);
        }
        if !died {
            return;
        }
    }
}

#[test]
fn a_device_that_is_reset_doubles_nothing_and_goes_on() {
    let story: Vec<Act> =
        STORY[..14].iter().copied().chain([Act::Fail, Act::Turn]).chain(STORY.iter().copied()).collect();
    for steps in (0..).step_by(3) {
        if !play(&story, 64, true, &[steps]) {
            return;
        }
    }
}

/// A reset comes while a frame is incomplete, and buffers are lent that came by the entries before.
#[test]
fn a_death_in_a_reset_takes_no_buffer_from_a_client() {
    use Act::*;
    let before = [Receive(0, 1), Turn, Read(0)].repeat(9);
    let after = [
        [Receive(0, 1), Announce(1), Turn, Fail, Turn, Read(0)],
        [Receive(0, 1), Announce(1), Fail, Turn, Read(0), Turn],
    ];
    for after in after {
        let story = [&before[..], &after].concat();
        let steps = (0..).take_while(|steps| play(&story, 64, true, &[*steps])).count();
        assert!(steps > 100, "{steps} steps only");
    }
}

/// The device fails in the round in which a frame arrives.
#[test]
fn a_death_while_the_device_fails_shows_no_frame_that_is_not_lent() {
    use Act::*;
    let [one, fail] = [[Receive(0, 1), Turn, Read(0), Turn], [Receive(0, 1), Fail, Turn, Read(0)]];
    let returns_unread = [&one[..3], &fail].concat();
    let in_three = vec![Receive(0, 1), Fail, Announce(2), Receive(0, 1), Turn];
    for story in [[one, fail].concat(), returns_unread, in_three] {
        let steps = (0..).take_while(|steps| play(&story, 64, true, &[*steps])).count();
        assert!(steps > 10, "{steps} steps only");
        // The next life dies too: soon, while it finds its place, or in the reset.
        for first in 0..steps as u32 {
            let soon = (0..40).chain((40 + first % 4..).step_by(4));
            let _ = soon.take_while(|second| play(&story, 64, true, &[first, *second])).count();
        }
    }
}

/// A reset gives frames' buffers back at once, even if a client is left alone for a while.
#[test]
fn a_reset_does_not_wait_for_a_client_that_has_used_up_its_allowance() {
    let mut world = World::new(64, true);
    world.waits = false;
    world.act(Act::Send(1, 8));
    world.act(Act::Turn);
    let none = Descriptor { offset: 64 * SIZE, ..Descriptor::empty(0) };
    let is_left_alone = (0..12).any(|_| {
        // The client is lent 8 buffers of its queue of 64, so there is space for these.
        world.tx[0].send(&[none; 32]);
        world.told.insert(SENDERS[0]);
        world.act(Act::Turn);
        deadline().is_some()
    });
    assert!(is_left_alone);
    world.act(Act::Fail);
    world.act(Act::Turn);
    assert_eq!(world.state.resets.get(), 2);
    world.act(Act::Read(1));
    assert_eq!(world.free[1].len(), 8);
}

/// The device refuses its reset, and the domain dies before it tries again.
#[test]
fn a_domain_that_dies_while_its_device_is_out_of_service_waits_for_it_too() {
    let mut world = World::new(64, true);
    world.waits = false;
    world.state.accepts_features.set(false);
    for act in [Act::Fail, Act::Turn] {
        world.act(act);
    }
    for _ in 0..3 {
        world.fused = None;
        world.act(Act::Turn);
    }
    world.state.accepts_features.set(true);
    world.waits = true;
    world.finish();
    world.check_buffers("the device works again");
}

/// A life that waited for sent frames asked for interrupts; one that does not wait gets none.
#[test]
fn a_wish_for_interrupts_ends_with_the_life_that_had_it() {
    let mut world = World::new(64, false);
    for act in [Act::Send(1, 8), Act::Turn, Act::Sent(8)] {
        world.act(act);
    }
    assert_ne!(world.state.causes.get(), Causes::ZERO, "the domain waits for sent frames");
    world.death = Some(0);
    for act in [Act::Turn, Act::Read(1), Act::Send(1, 2), Act::Turn] {
        world.act(act);
    }
    assert_eq!(world.lives, 1);
    let before = world.state.interrupts.get();
    for act in [Act::Sent(1), Act::Sent(1)] {
        world.act(act);
    }
    assert_eq!(world.state.interrupts.get(), before, "nobody waits for these");
}

/// Returns the names of a manifest's counters.
fn counters(manifest: &str) -> Vec<&str> {
    let (_, rest) = manifest.split_once("counters = [").expect("it has counters");
    let (names, _) = rest.split_once(']').expect("a list ends");
    names.split(',').map(|name| name.trim().trim_matches('"')).filter(|name| !name.is_empty()).collect()
}

/// It counts what the three count, in this order: observers find a counter by its place.
#[test]
fn the_manifest_has_the_counters_of_the_three() {
    let (own, driver) = (include_str!("../component.toml"), include_str!("../../virtio/component.toml"));
    let receive = counters(include_str!("../../../../virtualisers/net/rx/component.toml"));
    let transmit = counters(include_str!("../../../../virtualisers/net/tx/component.toml"));
    let mut expected: Vec<String> = counters(driver).into_iter().map(str::to_owned).collect();
    expected.extend(receive.iter().map(|name| format!("rx_{name}")));
    expected.extend(transmit.iter().map(|name| format!("tx_{name}")));
    assert_eq!(counters(own), expected);
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3_usize, prop_oneof![3 => Just(1_usize), 1 => 2..4_usize])
            .prop_map(|(to, pieces)| Act::Receive(to, pieces)),
        3 => (0..2_usize).prop_map(Act::Read),
        4 => (0..2_usize, 1..5_usize).prop_map(|(client, count)| Act::Send(client, count)),
        3 => (1..8_usize).prop_map(Act::Sent),
        6 => Just(Act::Turn),
        1 => (0..3_usize).prop_map(Act::Announce),
        1 => Just(Act::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_a_death_loses_and_doubles_nothing(
        acts in prop::collection::vec(act(), 1..60),
        deaths in prop::collection::vec(0_u32..200, 1..4),
        event_index: bool,
    ) {
        play(&acts, 64, event_index, &deaths);
    }
}
