//! Clients that ask for what is not theirs, and that cause work without use.

use super::*;
use culm::Link;
use culm_block::{Answer, AnswerEntry, RequestEntry};

/// Tests what a client gets that asks for more than its part, past its library's checks.
#[test]
fn nobody_reaches_outside() {
    let mut world = World::new(&[(1, 0, 0, true), (2, 0, 0, false), ALL], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100), (200, 50)]);
    world.run();
    let before = world.disk.content.clone();
    // Clients that ask for blocks outside of their parts, and for memory that is not theirs.
    for (number, share) in world.shares.clone().iter().enumerate().take(2) {
        let mut hostile =
            culm::Link::<culm_block::RequestEntry, culm_block::AnswerEntry>::new(share.requests, share.answers, 9);
        let mut requests = vec![write(100, 0, 1), write(99, 0, 2), write(50, 0, 1), write(u64::MAX >> 24, 0, 1)];
        requests.extend([write(0, MEMORY, 1), write(0, MEMORY - 1, 2), Request::discard(0, 100)]);
        if number == 0 {
            requests.push(write(0, 0, 1));
        }
        for _ in 0..6 {
            let _ = hostile.begin();
            hostile.publish();
            world.notify(number);
            let _ = world.disk.round();
        }
        let results = world.disk.results.len();
        for (token, request) in (0..).zip(&requests) {
            if number == 1 && token == 2 {
                continue;
            }
            let mut entries = [culm_block::RequestEntry::default(); culm_block::MAX_SEGMENTS];
            let count = culm_block::RequestEntry::write(request, token, &mut entries);
            assert_eq!(hostile.output.push_slice(&entries[..count]), count);
        }
        hostile.publish();
        for _ in 0..6 {
            world.notify(number);
            let _ = world.disk.round();
        }
        assert_eq!(world.disk.results.len(), results, "nothing of that reaches the disk");
    }
    assert!(world.disk.content == before);
}

/// A client without the library, whose pair is live.
fn raw(world: &mut World, number: usize) -> Link<RequestEntry, AnswerEntry> {
    let share = world.shares[number];
    let mut hostile = Link::new(share.requests, share.answers, 9);
    for _ in 0..6 {
        let _ = hostile.begin();
        hostile.publish();
        world.notify(number);
        let _ = world.disk.round();
    }
    hostile
}

/// Lets a hostile client have its way for so many turns, then checks that it is left alone, while
/// another one is served, and that it is served again after a while.
fn storm(turns: u32, mut act: impl FnMut(&mut World, &mut Link<RequestEntry, AnswerEntry>)) {
    let mut world = World::new(&[ALL, ALL], Disk::new(400, 7));
    world.run();
    let mut hostile = raw(&mut world, 0);
    for _ in 0..turns {
        let _ = hostile.begin();
        while hostile.input.pop().is_some() {}
        act(&mut world, &mut hostile);
        hostile.publish();
        world.notify(0);
    }
    assert!(world.virtualiser.is_paused(0), "the client is left alone");
    assert_eq!(world.ask(1, &read(0, 0, 1)), Ok(()));
    assert!(world.virtualiser.is_paused(0));
    for _ in 0..20 {
        set_time(time::now() + Duration::from_millis(25));
        let _ = world.virtualiser.round();
        let _ = world.disk.round();
        let _ = hostile.begin();
        while hostile.input.pop().is_some() {}
        hostile.publish();
    }
    assert!(!world.virtualiser.is_paused(0));
    world.clients[0] = Client::connect(&World::client(&world.shares[0]));
    world.run();
    assert_eq!(world.ask(0, &read(0, 0, 1)), Ok(()));
}

#[test]
fn nonsense_is_paid_for() {
    storm(20, |_, hostile| while hostile.output.push(RequestEntry([7 << 56, 0])).is_ok() {});
}

/// A request of which each segment says that there are more.
#[test]
fn requests_without_end_are_paid_for() {
    let mut has_begun = false;
    storm(20, |_, hostile| {
        if !core::mem::replace(&mut has_begun, true) {
            hostile.output.push(RequestEntry([1 << 56 | 1 << 60, 1 << 40])).expect("space");
        }
        while hostile.output.push(RequestEntry([6 << 56 | 1 << 60, 1 << 40])).is_ok() {}
    });
}

#[test]
fn requests_that_are_refused_are_paid_for() {
    storm(20, |_, hostile| {
        let mut entries = [RequestEntry::default(); culm_block::MAX_SEGMENTS];
        RequestEntry::write(&read(1 << 39, 0, 1), 3, &mut entries);
        while hostile.output.push(entries[0]).is_ok() {}
    });
}

#[test]
fn flushes_without_writes_are_paid_for() {
    storm(20, |world, hostile| {
        while hostile.output.push(RequestEntry([3 << 56, 0])).is_ok() {}
        let _ = world.disk.round();
    });
}

#[test]
fn notifications_without_reason_are_paid_for() {
    storm(1000, |_, _| {});
}

#[test]
fn lives_without_end_are_paid_for() {
    storm(100, |_, hostile| hostile.start_over());
}

/// Tests that work with use costs nothing: a client that is served is never left alone.
#[test]
fn who_is_served_is_never_left_alone() {
    let mut world = World::new(&[ALL], Disk::new(400, 7));
    world.run();
    for _ in 0..3000 {
        world.clients[0].send(&read(0, 0, 1), 0).expect("there is space");
        let _ = world.round();
        let _ = world.disk.round();
        assert!(!world.virtualiser.is_paused(0));
    }
    world.run();
    assert_eq!(world.disk.results.len(), 3000);
}

/// Tests that the flush of a client that cannot write needs no device.
#[test]
fn a_read_only_clients_flush_does_not_reach_the_device() {
    let mut world = World::new(&[(1, 0, 0, true)], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100)]);
    world.run();
    let before = world.disk.results.len();
    assert_eq!(world.ask(0, &Request::flush()), Ok(()));
    assert_eq!(world.disk.results.len(), before);
    // One with numbers is none.
    let mut hostile = raw(&mut world, 0);
    let _ = hostile.output.push(RequestEntry([3 << 56 | 0xff_ffff_ffff, 0xff_ffff << 40]));
    hostile.publish();
    world.notify(0);
    let _ = world.disk.round();
    let _ = hostile.begin();
    let answers: Vec<_> = core::iter::from_fn(|| hostile.input.pop()).filter_map(AnswerEntry::read).collect();
    assert_eq!(answers.last(), Some(&Answer::Of { token: 0, result: Err(Error::Invalid) }));
    assert_eq!(world.disk.results.len(), before);
}
