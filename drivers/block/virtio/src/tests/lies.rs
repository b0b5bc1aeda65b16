//! Devices that fail, lie, or never answer.

use super::device::{Config, World, fake, kinds, segment};
use crate::engine::PERIOD;
use crate::registers::*;
use culm::time::{self, Duration};
use culm_block::{BLOCK, Error, NotSent, Request};
use culm_virtio::Layout;
use culm_virtio::registers::*;
use culm_virtio::testing::Given;
use std::vec::Vec;

/// Sends reads of this many blocks, each under the block's number.
fn read(world: &mut World, count: u64) {
    for block in 0..count {
        world.client.send(&Request::read(block, &[segment(block, 1)]).expect("one"), block).expect("space");
    }
    world.run();
}

/// Everything under way is done well, each once.
fn check(world: &mut World, count: u64) {
    for _ in 0..4 {
        world.serve(usize::MAX);
        world.run();
    }
    let mut done = world.completions();
    done.sort_unstable_by_key(|(tag, _)| *tag);
    assert_eq!(done, (0..count).map(|tag| (tag, Ok(()))).collect::<Vec<_>>());
    assert_eq!(world.client.under_way(), 0);
}

/// Lets the time of the next deadline come.
fn pass_time(world: &mut World) {
    let deadline = culm::testing::deadline().expect("it waits, but not for ever");
    culm::testing::set_time(deadline);
    world.run();
}

#[test]
fn a_device_that_returns_what_it_does_not_have_is_reset_and_gets_the_requests_again() {
    for lie in [Some(0xffff_fff0), Some(16), None] {
        let mut world = World::new();
        read(&mut world, 4);
        world.serve(1);
        let middle = || (0..16).find(|number| world.device.held.iter().all(|given| given.number != *number));
        let lie = lie.unwrap_or_else(|| u32::from(middle().expect("a descriptor that begins no chain")));
        world.state.use_raw(QUEUE, lie, 513);
        world.run();
        assert_eq!(world.state.resets.get(), 2, "{lie}");
        assert_eq!(world.completions(), [(0, Ok(()))], "what came before the lie counts");
        assert_eq!(world.take().len(), 3);
        check_rest(&mut world);
    }
}

/// Requests 1 to 3 are done.
fn check_rest(world: &mut World) {
    world.serve(usize::MAX);
    world.run();
    let mut done = world.completions();
    done.sort_unstable_by_key(|(tag, _)| *tag);
    assert_eq!(done, [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
}

#[test]
fn a_device_that_returns_a_request_twice_is_reset() {
    let mut world = World::new();
    read(&mut world, 3);
    world.serve(1);
    let number = (0..16).find(|number| world.device.held.iter().all(|given| given.number != *number));
    world.state.use_raw(QUEUE, number.expect("one that is free").into(), 513);
    world.run();
    assert_eq!(world.state.resets.get(), 2);
    check(&mut world, 3);
}

/// If it were sent again and done, writes that the device has lost would count as durable.
#[test]
fn a_flush_during_which_the_device_fails_has_failed() {
    let mut world = World::new();
    world.client.send(&Request::flush(), 9).expect("space");
    read(&mut world, 2);
    world.take();
    world.state.set_used_index(QUEUE, 500);
    world.run();
    assert_eq!(world.completions(), [(9, Err(Error::Failed))]);
    check(&mut world, 2);
}

#[test]
fn a_device_that_lost_its_place_is_reset() {
    let mut world = World::new();
    read(&mut world, 3);
    world.take();
    world.state.set_used_index(QUEUE, 500);
    world.run();
    assert_eq!(world.state.resets.get(), 2);
    check(&mut world, 3);
}

#[test]
fn a_device_that_asks_for_a_reset_gets_it() {
    let mut world = World::new();
    read(&mut world, 3);
    world.take();
    world.state.doorbells.borrow_mut().clear();
    world.state.status.set(world.state.status.get().set(Status::NEEDS_RESET));
    world.state.raise(Causes::CHANGE);
    world.run();
    assert_eq!(world.state.resets.get(), 2);
    assert!(world.state.rung(QUEUE), "it is told of what it has");
    check(&mut world, 3);
}

/// Of a read that wrote too little nobody knows what stands in memory; more than it was given to
/// write nobody can have written.
#[test]
fn a_read_of_another_length_has_failed() {
    for (length, expected) in
        [(513, Ok(())), (512, Err(Error::Failed)), (0, Err(Error::Failed)), (514, Err(Error::Failed))]
    {
        let mut world = World::new();
        read(&mut world, 1);
        world.take();
        let given = world.device.held[0].clone();
        world.serve_with(0, length);
        world.run();
        assert_eq!(world.completions(), [(0, expected)], "{length} bytes of {given:?}");
        assert_eq!(world.state.resets.get(), 1);
    }
}

/// A device that says that it has read, and has written nothing. No driver can tell; what stands in
/// memory then is the client's own.
#[test]
fn a_read_that_is_only_said_to_be_done_leaves_what_the_client_had() {
    let mut world = World::new();
    world.fill(0, 2, 0xc0);
    read(&mut world, 1);
    world.take();
    let given = world.device.held.pop_front().expect("it has one");
    let written = world.device.pretend(&given);
    world.state.use_raw(QUEUE, given.number.into(), written);
    world.run();
    assert_eq!(world.completions(), [(0, Ok(()))]);
    assert_eq!((world.memory(0), world.memory(1)), ([0xc0; BLOCK], [0xc1; BLOCK]));
}

/// The status of an earlier request must not be taken for this one's.
#[test]
fn a_request_without_a_status_has_failed() {
    let mut world = World::new();
    assert_eq!(world.ask(&Request::flush()), Ok(()));
    world.client.send(&Request::flush(), 5).expect("space");
    world.run();
    let given = world.take();
    world.state.use_raw(QUEUE, given[0].number.into(), 1);
    world.run();
    assert_eq!(world.completions(), [(5, Err(Error::Failed))]);
}

/// Nor that of its own first try, which the driver has not seen.
#[test]
fn a_request_without_a_status_has_failed_after_a_reset_too() {
    let mut world = World::new();
    read(&mut world, 1);
    let given = world.take();
    let written = world.device.carry_out(&given[0]);
    world.state.set_used_index(QUEUE, 500);
    world.run();
    assert_eq!(world.state.resets.get(), 2);
    let given = world.take();
    world.state.use_raw(QUEUE, given[0].number.into(), written);
    world.run();
    assert_eq!(world.completions(), [(0, Err(Error::Failed))]);
}

/// A device that meets an error at some requests, each time that it gets one of them: those of one
/// client that sends them together, and of one that sends others between them.
#[test]
fn requests_that_make_the_device_fail_take_no_other_with_them() {
    for (features, poison) in kinds().into_iter().zip([&[2, 5][..], &[2, 3, 4], &[0, 1, 2], &[1, 2, 3]]) {
        let mut world = World::with(Config::default(), features);
        // As many as the device takes at once, and some that wait for places.
        let count = world.client.space().min(12) as u64;
        read(&mut world, count);
        let guilty = |world: &World, given: &Given| poison.contains(&world.device.chain(given).block);
        let mut done = Vec::new();
        for _ in 0..40 {
            world.take();
            if let Some(first) = world.device.held.iter().position(|given| guilty(&world, given)) {
                // It has done some of the others before.
                (0..first.min(1)).for_each(|_| world.serve_one(0));
                world.state.status.set(world.state.status.get().set(Status::NEEDS_RESET));
                world.state.raise(Causes::CHANGE);
            } else {
                world.serve(usize::MAX);
            }
            world.run();
            done.extend(world.completions());
            culm::testing::set_time(time::now() + Duration::from_secs(1));
        }
        done.sort_unstable_by_key(|(tag, _)| *tag);
        let expected = |tag| (tag, if poison.contains(&tag) { Err(Error::Failed) } else { Ok(()) });
        assert_eq!(done, (0..count).map(expected).collect::<Vec<_>>());
        // All are given at once again.
        read(&mut world, 2);
        assert_eq!(world.take().len(), 2);
        check(&mut world, 2);
    }
}

#[test]
fn a_device_that_never_answers_is_reset_until_its_requests_end_by_an_error() {
    let mut world = World::new();
    read(&mut world, 5);
    let start = time::now();
    let mut turns = 0;
    let mut done = Vec::new();
    let count = 5;
    while done.len() < count as usize {
        turns += 1;
        assert!(turns < 20, "{} resets", world.state.resets.get());
        world.take();
        pass_time(&mut world);
        done.extend(world.completions());
    }
    done.sort_unstable_by_key(|(tag, _)| *tag);
    assert_eq!(done, (0..count).map(|tag| (tag, Err(Error::Failed))).collect::<Vec<_>>());
    // The first, two with all, and three with one request alone: then the device is the reason.
    assert_eq!(world.state.resets.get(), 6);
    assert!(time::now().since(start) >= 5 * PERIOD);
    // It comes to its senses.
    read(&mut world, 3);
    check(&mut world, 3);
}

/// A device that carries out requests in their order and stops at some for good, between which are
/// others, so that it is not taken for the reason because of several in a row.
#[test]
fn requests_that_are_never_answered_stop_the_others_for_a_bounded_time() {
    let (fake, memory) = fake(Config::default());
    fake.0.queue_size.set(64);
    let mut world = World::of(Config::default(), fake, memory);
    read(&mut world, 24);
    let is_poison = |block: u64| block.is_multiple_of(2);
    let (start, mut done) = (time::now(), Vec::new());
    while done.len() < 24 {
        let before = done.len();
        world.take();
        if world.device.held.front().is_some_and(|given| !is_poison(world.device.chain(given).block)) {
            world.serve_one(0);
            world.run();
        } else {
            pass_time(&mut world);
        }
        done.extend(world.completions());
        assert!(done.len() > before || time::now().since(start) < 60 * PERIOD, "{done:?}");
    }
    done.sort_unstable_by_key(|(tag, _)| *tag);
    assert!(
        done.iter().map(|(tag, _)| *tag).eq(0..24) && done.iter().all(|(tag, end)| !is_poison(*tag) || end.is_err())
    );
    // Two tries with all, of two periods at most, and eight with one alone.
    assert!(time::now().since(start) <= 12 * PERIOD, "{:?}", time::now().since(start));
    read(&mut world, 3);
    check(&mut world, 3);
}

/// A device that answers all but one request: the one is missed, and the others are done.
#[test]
fn a_request_that_the_device_forgot_is_given_to_it_again() {
    let mut world = World::new();
    read(&mut world, 1);
    world.take();
    world.device.held.clear();
    let (start, mut done) = (time::now(), Vec::new());
    while !done.contains(&(0, Ok(()))) {
        assert!(time::now().since(start) <= 3 * PERIOD);
        culm::testing::set_time(time::now() + Duration::from_secs(5));
        world.client.send(&Request::discard(20, 1), 9).expect("space");
        world.run();
        world.serve(usize::MAX);
        world.run();
        done = world.completions();
        assert!(done.contains(&(9, Ok(()))), "{done:?}");
    }
    assert!(time::now().since(start) >= PERIOD);
    assert_eq!(world.state.resets.get(), 2);
}

/// A flush takes as long as there is something in caches: that is no failure of the device's.
#[test]
fn a_flush_may_take_minutes() {
    let mut world = World::new();
    world.client.send(&Request::flush(), 9).expect("space");
    world.run();
    world.take();
    let start = time::now();
    while time::now().since(start) < 8 * PERIOD {
        pass_time(&mut world);
    }
    assert_eq!((world.completions(), world.state.resets.get()), (vec![], 1));
    world.serve(1);
    world.run();
    assert_eq!(world.completions(), [(9, Ok(()))]);
    // It is not waited for for ever.
    world.client.send(&Request::flush(), 8).expect("space");
    world.run();
    world.take();
    for _ in 0..20 {
        pass_time(&mut world);
        if world.state.resets.get() == 2 {
            break;
        }
    }
    world.run();
    assert_eq!(world.completions(), [(8, Err(Error::Failed))]);
}

/// A device that has done a flush, and fails before it returns the request.
#[test]
fn a_flush_that_the_device_has_done_is_done() {
    let mut world = World::new();
    world.client.send(&Request::flush(), 9).expect("space");
    read(&mut world, 1);
    world.take();
    for given in core::mem::take(&mut world.device.held) {
        world.device.carry_out(&given);
    }
    let held = world.take();
    assert_eq!(held, []);
    world.state.status.set(world.state.status.get().set(Status::NEEDS_RESET));
    world.state.raise(Causes::CHANGE);
    world.run();
    assert_eq!(world.completions(), [(9, Ok(()))], "the read is done again");
    world.serve(1);
    world.run();
    check(&mut world, 1);
}

/// An interrupt that gets lost: what the device has used is found when the period ends.
#[test]
fn an_answer_without_an_interrupt_is_found_in_the_end() {
    let mut world = World::new();
    read(&mut world, 2);
    world.serve(2);
    world.state.causes.set(Causes::ZERO);
    pass_time(&mut world);
    assert_eq!(world.completions(), [(0, Ok(())), (1, Ok(()))]);
    assert_eq!(world.state.resets.get(), 1);
}

#[test]
fn a_device_that_fails_for_ever_costs_little_and_is_never_given_up() {
    let mut world = World::new();
    let start = time::now();
    let mut turns = 0;
    while time::now().since(start) < Duration::from_secs(60) {
        world.state.set_used_index(QUEUE, 500);
        world.state.raise(Causes::USED);
        world.run();
        turns += 1;
        let deadline = culm::testing::deadline().filter(|deadline| *deadline > time::now());
        culm::testing::set_time(deadline.unwrap_or(time::now() + Duration::from_millis(1)));
    }
    assert!((60..100).contains(&world.state.resets.get()), "{} resets in a minute", world.state.resets.get());
    assert!(turns < 1000);
    for _ in 0..3 {
        world.run();
        if let Some(deadline) = culm::testing::deadline() {
            culm::testing::set_time(deadline);
        }
        world.serve(usize::MAX);
    }
    world.run();
    let _ = world.completions();
    read(&mut world, 3);
    check(&mut world, 3);
}

/// A device that does not reset may still write to buffers: no request of them may be ended.
#[test]
fn requests_wait_for_a_device_that_does_not_reset() {
    let mut world = World::new();
    read(&mut world, 2);
    world.take();
    world.state.is_stuck.set(true);
    world.state.set_used_index(QUEUE, 500);
    for _ in 0..5 {
        world.turn();
        world.run();
        assert_eq!(world.completions(), []);
        let deadline = culm::testing::deadline().expect("another try");
        culm::testing::set_time(deadline);
    }
    assert!(world.disk().is_some_and(|disk| disk.is_present()));
    world.state.is_stuck.set(false);
    culm::testing::set_time(time::now() + Duration::from_secs(2));
    world.run();
    check(&mut world, 2);
}

/// A flush that was counted as failed, because a reset was tried, is still one: the device keeps
/// it.
#[test]
fn a_device_that_does_not_reset_finds_a_flush_where_one_was() {
    let mut world = World::new();
    world.client.send(&Request::flush(), 7).expect("space");
    world.run();
    world.state.is_stuck.set(true);
    world.state.set_used_index(QUEUE, 500);
    world.turn();
    let taken = world.take();
    assert_eq!(taken.iter().map(|given| world.device.chain(given).kind).collect::<Vec<_>>(), [TYPE_FLUSH]);
    world.state.is_stuck.set(false);
    culm::testing::set_time(time::now() + Duration::from_secs(2));
    world.run();
    assert_eq!(world.completions(), [(7, Err(Error::Failed))]);
}

/// It has no requests any more, so they end; and there is no disk until it is of use again.
#[test]
fn a_device_that_resets_and_cannot_be_used_is_no_disk() {
    let mut world = World::new();
    let disk = world.disk();
    read(&mut world, 2);
    world.take();
    world.state.accepts_features.set(false);
    world.state.set_used_index(QUEUE, 500);
    world.run();
    let done = world.completions();
    assert!(done.iter().all(|(_, result)| result.is_err()) && done.len() == 2, "{done:?}");
    assert_eq!(world.client.send(&Request::flush(), 0), Err(NotSent::Refused(Error::Absent)));
    world.state.accepts_features.set(true);
    culm::testing::set_time(time::now() + Duration::from_secs(2));
    world.run();
    assert_eq!(world.disk(), disk);
    read(&mut world, 3);
    check(&mut world, 3);
}

/// A device that writes outside the used ring, over the driver's own records.
#[test]
fn a_device_that_changes_the_drivers_records_harms_only_what_it_had() {
    let mut world = World::new();
    read(&mut world, 3);
    world.take();
    let slots = Layout::new(16, 0).slots;
    let first = usize::from(world.device.held[0].number);
    for token in [7, 0xffff_ffff, 1] {
        let slot = world.own().atomic_u64(slots + 8 * first).expect("inside");
        let record = slot.load(core::sync::atomic::Ordering::Relaxed) & !0xffff_ffff;
        slot.store(record | token, core::sync::atomic::Ordering::Relaxed);
        world.serve(usize::MAX);
        world.run();
    }
    let mut ended = world.completions().len();
    for _ in 0..20 {
        world.serve(usize::MAX);
        world.run();
        ended += world.completions().len();
        if ended == 3 {
            break;
        }
        pass_time(&mut world);
    }
    assert_eq!(ended, 3);
    read(&mut world, 3);
    check(&mut world, 3);
    assert_eq!(world.memory(0), [0; BLOCK]);
}

/// A device that writes over the place of a status, once. Requests get that record one after the
/// other.
#[test]
fn a_record_that_a_device_has_changed_is_written_anew_after_a_reset() {
    let mut world = World::new();
    let status = Layout::new(16, 0).end.next_multiple_of(64) + 64 + 8 * 10;
    for offset in [status, status + 8] {
        let word = world.own().atomic_u64(offset).expect("inside");
        word.store(u64::MAX, core::sync::atomic::Ordering::Relaxed);
    }
    world.state.status.set(world.state.status.get().set(Status::NEEDS_RESET));
    world.state.raise(Causes::CHANGE);
    world.run();
    assert_eq!(world.state.resets.get(), 2);
    read(&mut world, 1);
    check(&mut world, 1);
}

/// A device that offers no flush any more after its reset: clients may have to be told of writes
/// that it has lost.
#[test]
fn a_disk_that_had_a_cache_keeps_it() {
    let mut world = World::new();
    world.state.features.set(world.state.features.get() & !FEATURE_FLUSH);
    read(&mut world, 2);
    world.take();
    world.state.set_used_index(QUEUE, 500);
    world.run();
    assert_eq!(world.state.resets.get(), 2);
    assert!(world.block.engine.disk().caches);
}
