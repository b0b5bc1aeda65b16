//! A flush's answer is true, whoever asked for it and whatever became of others.

use super::*;

/// Tests that a failed flush is told to each client whose writes it covered.
#[test]
fn a_failed_flush_is_told_to_all_whom_it_concerns() {
    let mut world = World::new(&[ALL, ALL, ALL], Disk::new(400, 7));
    world.run();
    for number in 0..3 {
        assert_eq!(world.ask(number, &Request::flush()), Ok(()), "what earlier lives wrote");
    }
    assert_eq!(world.ask(1, &write(5, 0, 1)), Ok(()));
    assert_eq!(world.ask(0, &write(6, 0, 1)), Ok(()));
    world.disk.failing = Some(Error::Failed);
    assert_eq!(world.ask(0, &Request::flush()), Err(Error::Failed));
    world.disk.failing = None;
    assert_eq!(world.ask(0, &Request::flush()), Ok(()), "it has been told");
    assert_eq!(world.ask(1, &Request::flush()), Err(Error::Failed), "its write may be lost");
    assert_eq!(world.ask(1, &Request::flush()), Ok(()));
    assert_eq!(world.ask(2, &Request::flush()), Ok(()), "it has written nothing");
}

/// Returns how many flushes the disk has.
fn flushes(world: &World) -> usize {
    world.disk.taken.iter().filter(|taken| taken.request.operation == Operation::Flush).count()
}

/// Tests that flushes of many become one, and that one which nobody needs is none.
#[test]
fn waiting_flushes_are_joined() {
    let mut world = World::new(&[ALL; 4], Disk::new(400, 7));
    world.run();
    for number in 0..4 {
        assert_eq!(world.ask(number, &write(number as u64, 0, 1)), Ok(()));
    }
    for tag in 0..20 {
        for client in &mut world.clients {
            client.send(&Request::flush(), tag).expect("there is space");
        }
    }
    for _ in 0..6 {
        world.round();
        world.disk.take();
    }
    assert_eq!(flushes(&world), 1);
    let before = world.disk.results.len();
    let complete = world.run();
    assert_eq!((complete.len(), world.disk.results.len() - before), (80, 1), "each is answered");
    assert!(complete.iter().all(|(_, complete)| complete.result.is_ok()));
}

/// Tests that a flush does not count for what was answered after it was sent.
#[test]
fn a_flush_covers_what_was_answered_before_it() {
    let mut world = World::new(&[ALL, ALL], Disk::new(400, 7));
    world.run();
    assert_eq!(world.ask(0, &write(0, 0, 1)), Ok(()));
    world.clients[0].send(&Request::flush(), 1).expect("there is space");
    for _ in 0..3 {
        world.round();
        world.disk.take();
    }
    assert_eq!(flushes(&world), 1);
    world.data[1].write(0, &[0xbb; BLOCK]).expect("inside");
    world.clients[1].send(&write(5, 0, 1), 2).expect("there is space");
    for _ in 0..3 {
        world.round();
        world.disk.take();
    }
    // The flush is done by the device before the write, and answered after it.
    world.disk.finish(0);
    world.disk.finish(0);
    let _ = world.disk.end_round();
    world.run();
    assert_eq!(world.disk.durable[5 * BLOCK], 0);
    assert_eq!(world.ask(1, &Request::flush()), Ok(()));
    assert_eq!(world.disk.durable[5 * BLOCK], 0xbb);
}

/// Has the disk do, and answer, the first of what it has that is of this operation at this block.
fn finish(world: &mut World, operation: Operation, block: u64) {
    let is_it = |request: &Request| request.operation == operation && request.block == block;
    let found = world.disk.taken.iter().position(|taken| is_it(&taken.request));
    world.disk.finish(found.expect("it is under way"));
    let _ = world.disk.end_round();
    pass(world);
}

/// Passes requests and answers on, and has the disk do nothing.
fn pass(world: &mut World) {
    for _ in 0..3 {
        world.round();
        world.disk.take();
    }
}

/// Tests that a flush that went well does not hide that an older write may be lost, which was
/// answered while that flush was under way.
#[test]
fn a_flush_that_went_well_hides_no_lost_write() {
    let mut world = World::new(&[ALL, ALL], Disk::new(400, 7));
    world.run();
    for number in 0..2 {
        assert_eq!(world.ask(number, &Request::flush()), Ok(()));
    }
    assert_eq!(world.ask(1, &write(5, 0, 1)), Ok(()));
    world.clients[0].send(&write(0, 0, 1), 1).expect("there is space");
    world.clients[1].send(&Request::flush(), 2).expect("there is space");
    pass(&mut world);
    world.disk.failing = Some(Error::Failed);
    finish(&mut world, Operation::Flush, 0);
    world.disk.failing = None;
    world.clients[0].send(&write(1, 0, 1), 3).expect("there is space");
    pass(&mut world);
    finish(&mut world, Operation::Write, 1);
    world.clients[0].send(&Request::flush(), 4).expect("there is space");
    pass(&mut world);
    finish(&mut world, Operation::Write, 0);
    finish(&mut world, Operation::Flush, 0);
    world.run();
    assert_eq!(world.ask(0, &Request::flush()), Err(Error::Failed));
    assert_eq!(world.ask(0, &Request::flush()), Ok(()), "it has been told");
}

/// Tests that a write that was under way when another client's flush failed is not taken for
/// durable: the device may have done it before, and lost it then.
#[test]
fn a_failed_flush_concerns_what_was_under_way() {
    let mut world = World::new(&[ALL, ALL], Disk::new(400, 7));
    world.run();
    for number in 0..2 {
        assert_eq!(world.ask(number, &Request::flush()), Ok(()));
    }
    assert_eq!(world.ask(0, &write(0, 0, 1)), Ok(()));
    world.clients[1].send(&write(5, 0, 1), 1).expect("there is space");
    world.clients[0].send(&Request::flush(), 2).expect("there is space");
    for _ in 0..3 {
        world.round();
        world.disk.take();
    }
    let flush = world.disk.taken.iter().position(|taken| taken.request.operation == Operation::Flush);
    world.disk.failing = Some(Error::Failed);
    world.disk.finish(flush.expect("it is under way"));
    world.disk.failing = None;
    let mut results: Vec<_> = world.run().iter().map(|(_, complete)| complete.result).collect();
    results.sort_unstable_by_key(Result::is_err);
    assert_eq!(results, [Ok(()), Err(Error::Failed)]);
    assert_eq!(world.ask(1, &Request::flush()), Err(Error::Failed));
    assert_eq!(world.ask(1, &Request::flush()), Ok(()));
}

/// Tests that a flush that its client did not live to see sent is none that failed, to others.
#[test]
fn a_dead_clients_flush_is_no_failure() {
    let mut world = World::new(&[ALL, ALL], Disk::new(400, 7));
    world.run();
    for number in 0..2 {
        assert_eq!(world.ask(number, &write(number as u64, 0, 1)), Ok(()));
    }
    // The driver is away.
    world.disk.port = World::port(&world.connection);
    world.round();
    world.clients[0].send(&Request::flush(), 1).expect("there is space");
    world.round();
    world.round();
    world.clients[0] = Client::connect(&World::client(&world.shares[0]));
    for _ in 0..4 {
        world.round();
    }
    world.disk.port.set_disk(world.disk.disk);
    world.run();
    let before = world.disk.results.len();
    assert_eq!(world.ask(1, &Request::flush()), Ok(()));
    assert_eq!(world.disk.results.len() - before, 1, "the device has not done one yet");
}

/// Tests that the next life of the virtualiser does not take writes for durable of which it knows
/// nothing.
#[test]
fn a_restarted_virtualiser_flushes() {
    let mut world = World::new(&[ALL], Disk::new(400, 7));
    world.run();
    world.data[0].write(0, &[0xbb; BLOCK]).expect("inside");
    assert_eq!(world.ask(0, &write(5, 0, 1)), Ok(()));
    world.restart();
    world.run();
    assert_eq!(world.ask(0, &Request::flush()), Ok(()));
    assert_eq!(world.disk.durable[5 * BLOCK], 0xbb);
}

proptest! {
    /// Whatever clients write and flush, in whatever order the device does it, and whatever it
    /// loses at a flush that fails: if a client's flush is done, its writes that were answered
    /// before it was sent are durable, or were written anew.
    #[test]
    fn a_flush_that_is_done_is_true(
        steps in proptest::collection::vec((0..6_u8, 0..3_usize, 0..8_usize), 1..120)
    ) {
        let mut world = World::new(&[(0, 0, 8, false), (0, 8, 8, false), (0, 16, 8, false)], Disk::new(24, 7));
        world.run();
        // Of each client and block, what was written last, whether that is answered, and whether
        // it counts: a client that is told of a failed flush knows that it may be lost. Of each
        // flush under way, what was answered and counted when it was sent.
        let mut written = [[0_u8; 8]; 3];
        let (mut answered, mut counts) = ([[true; 8]; 3], [[true; 8]; 3]);
        let mut promises: [Option<[Option<u8>; 8]>; 3] = [None; 3];
        let mut number_of_write = 0_u8;
        for (step, number, index) in steps {
            match step {
                0 if answered[number][index] => {
                    number_of_write = number_of_write.wrapping_add(1).max(1);
                    world.data[number].write(index * BLOCK, &[number_of_write; BLOCK]).expect("inside");
                    world.clients[number].send(&write(index as u64, index as u64, 1), index as u64).expect("space");
                    (written[number][index], answered[number][index]) = (number_of_write, false);
                    counts[number][index] = true;
                }
                1 if promises[number].is_none() => {
                    let promise = core::array::from_fn(|block| {
                        (answered[number][block] && counts[number][block]).then_some(written[number][block])
                    });
                    promises[number] = Some(promise);
                    world.clients[number].send(&Request::flush(), 100).expect("there is space");
                }
                2 => world.disk.take(),
                // A flush fails, and what was not durable is lost.
                3 => {
                    let flush = world.disk.taken.iter().position(|taken| taken.request.operation == Operation::Flush);
                    if let Some(flush) = flush {
                        world.disk.failing = Some(Error::Failed);
                        world.disk.finish(flush);
                        world.disk.failing = None;
                        world.disk.content = world.disk.durable.clone();
                    }
                }
                _ if !world.disk.taken.is_empty() => world.disk.finish(index % world.disk.taken.len()),
                _ => {}
            }
            let _ = world.disk.end_round();
            for (number, complete) in world.round() {
                if complete.tag < 100 {
                    answered[number][complete.tag as usize] = true;
                    continue;
                }
                let promise = promises[number].take().expect("it was asked for");
                if complete.result.is_err() {
                    for (counts, answered) in counts[number].iter_mut().zip(answered[number]) {
                        *counts &= !answered;
                    }
                    continue;
                }
                for (block, promised) in promise.into_iter().enumerate() {
                    let durable = world.disk.durable[(8 * number + block) * BLOCK];
                    let is_newer = promised != Some(written[number][block]);
                    prop_assert!(promised.is_none() || is_newer || promised == Some(durable));
                }
            }
        }
    }
}

/// A disk whose driver counts the flushes that failed.
const COUNTING: Disk = Disk { failures: 1, ..Disk::new(400, 7) };

/// Two clients who have nothing in doubt, and have each written a block.
fn writers() -> World {
    let mut world = World::new(&[ALL, ALL], COUNTING);
    world.run();
    for number in 0..2 {
        assert_eq!(world.ask(number, &Request::flush()), Ok(()), "what earlier lives wrote");
        assert_eq!(world.ask(number, &write(5 + number as u64, 0, 1)), Ok(()));
    }
    world
}

/// Has both clients flush twice: each is told once of the flush that failed.
fn both_are_told(world: &mut World) {
    for expected in [Err(Error::Failed), Ok(())] {
        for number in 0..2 {
            assert_eq!(world.ask(number, &Request::flush()), expected, "client {number}");
        }
    }
}

#[test]
fn a_flush_that_failed_is_told_by_the_next_life() {
    let mut world = writers();
    world.clients[0].send(&Request::flush(), 9).expect("there is space");
    world.round();
    world.disk.failing = Some(Error::Failed);
    let _ = world.disk.round();
    // The virtualiser dies with the answer in its queue.
    world.restart();
    world.disk.failing = None;
    let complete = world.run();
    assert_eq!(complete, [(0, Completion { tag: 9, result: Err(Error::Failed) })]);
    assert_eq!(world.ask(1, &Request::flush()), Err(Error::Failed), "its write may be lost");
    assert_eq!(world.ask(1, &Request::flush()), Ok(()));
}

#[test]
fn who_was_not_told_of_a_failed_flush_is_told_by_the_next_life() {
    let mut world = writers();
    world.disk.failing = Some(Error::Failed);
    assert_eq!(world.ask(0, &Request::flush()), Err(Error::Failed));
    world.disk.failing = None;
    world.restart();
    world.run();
    both_are_told(&mut world);
    // The next lives have nobody to tell.
    world.restart();
    world.run();
    assert_eq!((world.ask(0, &Request::flush()), world.ask(1, &Request::flush())), (Ok(()), Ok(())));
}

/// A driver that dies after its device failed a flush: it is sent again, and goes well.
#[test]
fn a_flush_that_failed_in_an_earlier_life_of_the_driver_has_failed() {
    let mut world = writers();
    world.clients[0].send(&Request::flush(), 9).expect("there is space");
    world.round();
    world.disk.take();
    assert_eq!(flushes(&world), 1);
    world.disk.disk.failures = 2;
    world.disk = world.disk.restarted(World::port(&world.connection));
    let complete = world.run();
    assert_eq!(complete, [(0, Completion { tag: 9, result: Err(Error::Failed) })]);
    assert_eq!(world.ask(1, &Request::flush()), Err(Error::Failed), "its write may be lost");
    for number in 0..2 {
        assert_eq!(world.ask(number, &Request::flush()), Ok(()));
    }
}

/// A device that fails a flush and has no cache after its reset, whoever else is restarted then.
#[test]
fn a_lost_write_is_told_though_the_disk_has_no_cache_any_more() {
    for (virtualiser_dies, client_dies) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = writers();
        world.disk.failing = Some(Error::Failed);
        assert_eq!(world.ask(0, &Request::flush()), Err(Error::Failed));
        world.disk.failing = None;
        world.disk.insert(Disk { caches: false, ..world.disk.disk });
        world.run();
        if virtualiser_dies {
            world.restart();
        }
        if client_dies {
            world.clients[1] = Client::connect(&World::client(&world.shares[1]));
        }
        world.run();
        let told = world.ask(1, &Request::flush());
        assert_eq!(told, Err(Error::Failed), "restarts: virtualiser {virtualiser_dies}, client {client_dies}");
    }
}

/// A driver that is restarted while all goes well.
#[test]
fn a_flush_that_is_only_sent_again_has_not_failed() {
    let mut world = writers();
    world.clients[0].send(&Request::flush(), 9).expect("there is space");
    world.round();
    world.disk.take();
    world.disk = world.disk.restarted(World::port(&world.connection));
    world.restart();
    let complete = world.run();
    assert_eq!(complete, [(0, Completion { tag: 9, result: Ok(()) })]);
    assert_eq!(world.ask(1, &Request::flush()), Ok(()));
}
