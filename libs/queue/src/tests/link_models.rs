//! Exhaustive checks of how the two ends of a link find each other, under the memory model: see
//! [`super::models`].

use crate::{Event, Link, Shared, Storage};
use loom::sync::{Arc, Notify};
use loom::thread;
use std::boxed::Box;

type Ring = Shared<u64>;

fn rings() -> [Ring; 2] {
    // Loom's atomics must be new in every execution it explores; what they leak is small.
    [(); 2].map(|()| Box::leak(Box::new(Storage::<u64, 2>::new())).shared())
}

/// The two notifications.
#[derive(Clone)]
struct Bells {
    own: Arc<Notify>,
    peer: Arc<Notify>,
}

fn bells() -> [Bells; 2] {
    let (a, b) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    [Bells { own: a.clone(), peer: b.clone() }, Bells { own: b, peer: a }]
}

/// A whole turn: looks, shows, notifies, and sleeps unless there is more.
fn turn(link: &mut Link<u64>, bells: &Bells) -> Event {
    let event = link.begin();
    if (link.output.publish() | link.input.release()).is_asleep() {
        bells.peer.notify();
    }
    event
}

/// Takes turns until it is live with the peer's life of this generation.
fn find(mut link: Link<u64>, peer: u32, bells: &Bells) -> Link<u64> {
    loop {
        let _ = turn(&mut link, bells);
        if link.is_live() && link.generations().peer == peer {
            return link;
        }
        if link.sleep().is_asleep() {
            bells.own.wait();
        }
    }
}

/// Both are live with each other: what one sends the other reads, and nothing else.
fn check(mut one: Link<u64>, mut other: Link<u64>) {
    for (from, to) in [(1, 2), (2, 1)] {
        let (giver, taker) = if from == 1 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        giver.output.push(to).unwrap();
        let _ = giver.output.publish();
        assert_eq!((taker.begin(), taker.input.pop(), taker.input.pop()), (Event::None, Some(to), None));
        let _ = taker.input.release();
    }
    assert_eq!((one.violations(), other.violations()), (0, 0));
}

/// Runs through all interleavings with at most so many preemptions.
fn check_all(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn both_begin_at_once() {
    check_all(1, || {
        let [there, back] = rings();
        let [bell, peers] = bells();
        let thread = thread::spawn(move || find(Link::attach(there, back, 1), 2, &bell));
        let other = find(Link::attach(back, there, 2), 1, &peers);
        check(thread.join().unwrap(), other);
    });
}

/// Two sides that are live, and have told each other.
fn warm([there, back]: [Ring; 2]) -> [Link<u64>; 2] {
    let (mut one, mut other) = (Link::attach(there, back, 1), Link::attach(back, there, 2));
    assert_eq!((one.begin(), other.begin(), one.begin()), (Event::Changed, Event::Renewed, Event::Renewed));
    for link in [&mut one, &mut other] {
        let _ = (link.output.publish(), link.input.release());
    }
    [one, other]
}

#[test]
fn a_new_life_finds_a_peer_that_works() {
    check_all(2, || {
        let [there, back] = rings();
        let [_, mut other] = warm([there, back]);
        let [bell, peers] = bells();
        let thread = thread::spawn(move || find(Link::attach(there, back, 3), 2, &bell));
        // It is for the previous life, whether or not the new one shows already.
        other.output.push(99).unwrap();
        let _ = other.output.publish();
        let other = find(other, 3, &peers);
        check(thread.join().unwrap(), other);
    });
}

#[test]
fn a_side_that_starts_over_by_itself_takes_the_other_along() {
    check_all(2, || {
        let [mut one, other] = warm(rings());
        let [bell, peers] = bells();
        let thread = thread::spawn(move || {
            one.start_over();
            find(one, 2, &bell)
        });
        let other = find(other, 2, &peers);
        check(thread.join().unwrap(), other);
    });
}
