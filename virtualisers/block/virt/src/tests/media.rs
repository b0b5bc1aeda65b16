//! Media that come and go, and parts that move on them.

use super::*;

#[test]
fn another_medium_has_its_own_parts() {
    let mut world = World::new(&[(1, 0, 0, false), ALL], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100)]);
    world.run();
    world.clients[0].send(&write(0, 0, 1), 3).expect("there is space");
    world.disk.insert(Disk::ABSENT);
    let complete = world.run();
    assert!(
        matches!(complete[..], [(0, Completion { tag: 3, result: Err(Error::Absent | Error::Changed) })]),
        "{complete:?}"
    );
    assert!(world.clients.iter().all(|client| client.disk() == Some(&Disk::ABSENT)));
    world.disk.insert(Disk::new(300, 8));
    partition(&mut world.disk, &[(10, 20)]);
    world.run();
    let blocks: Vec<u64> = world.clients.iter().map(|client| client.disk().expect("it is known").blocks).collect();
    assert_eq!(blocks, [20, 300]);
    assert_eq!(world.ask(0, &write(19, 0, 1)), Ok(()));
}

/// Tests that a write to a partition does not reach the medium after it was taken out, partitioned
/// anew elsewhere, and put in again, though nobody had a round in between.
#[test]
fn out_and_in_again_is_another_medium() {
    let mut world = World::new(&[(1, 0, 0, false)], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100)]);
    world.run();
    world.data[0].write(0, &[0xbb; BLOCK]).expect("inside");
    world.clients[0].send(&write(0, 0, 1), 1).expect("there is space");
    world.disk.insert(Disk::ABSENT);
    world.disk.insert(Disk::new(400, 7));
    partition(&mut world.disk, &[(200, 100)]);
    let complete = world.run();
    assert!(matches!(complete[..], [(0, Completion { tag: 1, result: Err(_) })]), "{complete:?}");
    assert!(!world.disk.content.contains(&0xbb));
    assert_eq!(world.ask(0, &write(0, 0, 1)), Ok(()));
    assert_eq!(world.disk.content[200 * BLOCK], 0xbb);
}

/// Tests that a request that waits while its client's partition becomes smaller is refused as a
/// later one is: otherwise it would reach what is behind the partition now.
#[test]
fn what_waits_must_fit_what_the_part_is_then() {
    let mut world = crowd();
    partition(&mut world.disk, &[(1, 3000)]);
    // Another property of the same medium has its table read again.
    world.disk.insert(Disk { discards: true, ..world.disk.disk });
    let mut complete = Vec::new();
    for _ in 0..10 {
        let _ = world.disk.end_round();
        complete.extend(world.round());
        world.disk.take();
        // The table is read before any of the writes is done.
        if world.disk.taken.last().is_some_and(|taken| taken.request.operation == Operation::Read) {
            world.disk.finish(world.disk.taken.len() - 1);
        }
    }
    complete.extend(world.run());
    let failed = complete.iter().filter(|(_, complete)| complete.result == Err(Error::OutOfRange)).count();
    assert_eq!((complete.len(), failed), (6, 4));
    assert_eq!(world.disk.results.len(), 4, "the table was read twice, and what was under way was done");
}

/// Tests that a partition that moved is given to nobody before what is under way to its earlier
/// place has ended, and that no request for that place is done at the new one.
#[test]
fn a_partition_that_moved_is_another_medium() {
    let mut world = World::new(&[(1, 0, 0, false), (2, 0, 0, false)], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 50), (200, 50)]);
    world.run();
    world.data[0].write(0, &[0xbb; BLOCK]).expect("inside");
    world.clients[0].send(&write(0, 0, 1), 1).expect("there is space");
    world.round();
    world.round();
    world.disk.take();
    assert_eq!(world.disk.taken.len(), 1, "it is under way");
    partition(&mut world.disk, &[(300, 50), (100, 50)]);
    world.disk.insert(Disk { discards: true, ..world.disk.disk });
    let (before, mut complete) = (world.clients[1].disk().copied(), Vec::new());
    for _ in 0..10 {
        let _ = world.disk.end_round();
        complete.extend(world.round());
        world.disk.take();
        while let Some(read) = world.disk.taken.iter().position(|taken| taken.request.operation == Operation::Read) {
            world.disk.finish(read);
        }
    }
    assert_eq!(world.clients[1].disk().copied(), before, "it has no blocks to which something is under way");
    world.clients[0].send(&write(1, 0, 1), 2).expect("there is space");
    world.round();
    complete.extend(world.run());
    let results: Vec<_> = complete.iter().map(|(_, complete)| (complete.tag, complete.result)).collect();
    assert!(
        matches!(results[..], [(1, _), (2, Err(Error::Changed))] | [(2, Err(Error::Changed)), (1, _)]),
        "{results:?}"
    );
    let written = world.disk.content.chunks(BLOCK).filter(|block| block.iter().all(|byte| *byte == 0xbb)).count();
    assert_eq!((written, world.disk.content[100 * BLOCK]), (1, 0xbb), "only what was under way was done");
    assert_eq!(world.ask(0, &write(0, 0, 1)), Ok(()));
    assert_eq!(world.disk.content[300 * BLOCK], 0xbb);
}

/// Tests that who has another partition is told nothing, and that all its requests are done at
/// their place, while one moves, is gone, and is there again.
#[test]
fn a_bystander_goes_on_undisturbed() {
    let mut world = World::new(&[(1, 0, 0, false), (2, 0, 0, false)], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 50), (200, 50)]);
    world.run();
    let media = world.clients[1].changes();
    for (first, step) in [300, 900, 100].into_iter().zip(0_u8..) {
        let block = u64::from(step);
        world.data[1].write(0, &[0xb0 + step; BLOCK]).expect("inside");
        for client in &mut world.clients {
            if client.disk().is_some_and(Disk::is_present) {
                client.send(&write(block, 0, 1), 1).expect("there is space");
            }
        }
        world.round();
        world.round();
        world.disk.take();
        partition(&mut world.disk, &[(first, 50), (200, 50)]);
        world.disk.insert(Disk { discards: !world.disk.disk.discards, ..world.disk.disk });
        // This one comes while the virtualiser waits for what is under way.
        world.clients[1].send(&write(10 + block, 0, 1), 2).expect("there is space");
        let complete = world.run();
        let own = complete.iter().filter(|(number, _)| *number == 1).map(|(_, complete)| complete);
        let mut own: Vec<_> = own.map(|complete| (complete.tag, complete.result)).collect();
        own.sort_unstable_by_key(|(tag, _)| *tag);
        assert_eq!(own, [(1, Ok(())), (2, Ok(()))]);
        for block in [200 + block, 210 + block] {
            assert_eq!(world.disk.content[block as usize * BLOCK], 0xb0 + step);
        }
        let is_present = world.clients[0].disk().is_some_and(Disk::is_present);
        assert_eq!(is_present, first < 400, "the other's partition is within the disk or not");
        assert_eq!(world.clients[1].changes(), media, "its own is the one that it was");
    }
}

/// Lets rounds pass in which every read of the table fails.
fn fail_reads(world: &mut World) -> Vec<(usize, Completion<u64>)> {
    let mut complete = Vec::new();
    world.disk.failing = Some(Error::Failed);
    for _ in 0..10 {
        let _ = world.disk.end_round();
        complete.extend(world.round());
        world.disk.take();
        while let Some(read) = world.disk.taken.iter().position(|taken| taken.request.operation == Operation::Read) {
            world.disk.finish(read);
        }
    }
    world.disk.failing = None;
    complete
}

/// Tests that nobody loses a part of a medium that stays because its table cannot be read again.
#[test]
fn a_table_that_cannot_be_read_again_takes_nothing_away() {
    let mut world = World::new(&[(1, 0, 0, false)], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100)]);
    world.run();
    world.clients[0].send(&write(0, 0, 1), 1).expect("there is space");
    world.disk.insert(Disk { discards: true, ..world.disk.disk });
    let mut complete = fail_reads(&mut world);
    complete.extend(world.run());
    assert!(matches!(complete[..], [(0, Completion { tag: 1, result: Ok(()) })]), "{complete:?}");
    let disk = world.clients[0].disk().expect("it is known");
    assert_eq!((disk.blocks, disk.discards), (100, true));
}

/// Tests that a table that cannot be read at first is read again after a while.
#[test]
fn a_table_that_could_not_be_read_is_read_again() {
    let mut world = World::new(&[(1, 0, 0, false), ALL], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100)]);
    fail_reads(&mut world);
    let is_present = |world: &World, number: usize| world.clients[number].disk().is_some_and(Disk::is_present);
    assert!(!is_present(&world, 0) && is_present(&world, 1));
    for _ in 0..3 {
        await_rescan();
        fail_reads(&mut world);
        assert!(!is_present(&world, 0));
    }
    await_rescan();
    world.run();
    assert!(is_present(&world, 0));
    assert_eq!(culm::testing::deadline(), None);
}

/// Waits until the virtualiser reads the table again.
fn await_rescan() {
    let at = culm::testing::deadline().expect("it asks to be woken");
    assert!(at > time::now());
    set_time(at);
}

/// A virtualiser whose client has written, and sent one request more before it was restarted.
fn restarted_under_load() -> World {
    let mut world = World::new(&[(1, 0, 0, false), ALL], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100)]);
    world.run();
    world.data[0].write(0, &[0xbb; BLOCK]).expect("inside");
    assert_eq!(world.ask(0, &write(5, 0, 1)), Ok(()));
    world.clients[0].send(&write(0, 0, 1), 1).expect("there is space");
    world.round();
    world.restart();
    world
}

/// Tests that a client does not lose its part, nor what it has asked for, to a read of the table
/// that fails after a restart, and that its flush is true.
#[test]
fn a_table_that_cannot_be_read_after_a_restart_takes_nothing_away() {
    let mut world = restarted_under_load();
    let media = world.clients[0].changes();
    for _ in 0..2 {
        assert!(fail_reads(&mut world).is_empty(), "nothing of the client's ends");
        assert_eq!(world.ask(1, &read(0, 0, 1)), Ok(()), "who needs no table is served");
        await_rescan();
    }
    let complete = world.run();
    assert!(matches!(complete[..], [(0, Completion { tag: 1, result: Ok(()) })]), "{complete:?}");
    assert_eq!(world.clients[0].changes(), media);
    assert_eq!(world.ask(0, &Request::flush()), Ok(()));
    assert_eq!(world.disk.durable[105 * BLOCK], 0xbb);
}

/// Tests that a client that lacked its part for a while is not told by a flush that what it wrote
/// is durable without the device being asked.
#[test]
fn a_part_that_comes_back_has_its_writes_still_to_flush() {
    let mut world = restarted_under_load();
    for _ in 0..2 {
        assert!(fail_reads(&mut world).is_empty());
        await_rescan();
    }
    let complete = fail_reads(&mut world);
    assert!(matches!(complete[..], [(0, Completion { tag: 1, result: Err(Error::Changed) })]), "{complete:?}");
    assert_eq!(world.clients[0].disk(), Some(&Disk::ABSENT), "it does not wait for ever");
    await_rescan();
    assert!(world.run().is_empty());
    assert_eq!(world.ask(0, &Request::flush()), Ok(()));
    assert_eq!(world.disk.durable[105 * BLOCK], 0xbb);
}

/// Tests that the medium cannot choose who shares blocks: what the system file does not give to
/// two clients is not given to both.
#[test]
fn parts_that_overlap_by_the_tables_choice_are_refused() {
    let cases: [(&[Share], &[u64]); 6] = [
        // A range of the disk and a partition that is there.
        (&[(0, 0, 150, false), (1, 0, 0, false)], &[150, 0]),
        (&[(1, 0, 0, false), (0, 0, 150, false)], &[100, 0]),
        (&[(0, 0, 100, false), (1, 0, 0, false)], &[100, 100]),
        (&[(0, 0, 150, true), (1, 0, 0, true)], &[150, 100]),
        // The system file says so.
        (&[ALL, (1, 0, 0, false)], &[400, 100]),
        (&[(1, 0, 0, false), (1, 0, 50, true)], &[100, 50]),
    ];
    for (shares, expected) in cases {
        let mut world = World::new(shares, Disk::new(400, 7));
        partition(&mut world.disk, &[(100, 100)]);
        world.run();
        let blocks: Vec<u64> = world.clients.iter().map(|client| client.disk().expect("it is known").blocks).collect();
        assert_eq!(blocks, expected, "{shares:?}");
    }
}

/// Tests what the log and the status page tell of a table with partitions that cannot be used, and
/// of a range that overlaps one.
#[test]
fn who_has_no_disk_is_told_with_the_reason() {
    testing::observe();
    let _ = testing::take_log();
    let shares = [(1, 0, 0, false), (2, 0, 0, false), (3, 0, 0, false), (0, 310, 20, false), (4, 0, 0, false)];
    let mut world = World::new(&shares, Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100), (199, 50), (390, 20), (300, 50)]);
    world.run();
    let reasons = [
        "A has no disk: it overlaps partition 2",
        "B has no disk: it overlaps partition 1",
        "C has no disk: it lies outside the disk, or outside what its table allows",
        "E has no disk: its part overlaps that of D",
    ];
    let log = testing::take_log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("has no disk")).collect();
    assert!(lines.iter().zip(reasons).all(|(line, reason)| line.ends_with(reason)), "{log}");
    assert_eq!((lines.len(), testing::trouble()), (reasons.len(), reasons.join("; ")));
}

/// Tests that a write of a dead client that the driver has not seen is not done: it would be done
/// with the memory of the next life.
#[test]
fn what_a_dead_client_left_unsent_is_not_done() {
    let mut world = World::new(&[(1, 0, 0, false), ALL], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100)]);
    world.run();
    world.data[0].write(0, &[0xbb; BLOCK]).expect("inside");
    // The driver is away: its next life has not shown what the disk is.
    world.disk.port = World::port(&world.connection);
    world.round();
    world.clients[0].send(&write(0, 0, 1), 1).expect("there is space");
    world.round();
    world.round();
    world.clients[0] = Client::connect(&World::client(&world.shares[0]));
    for _ in 0..4 {
        world.round();
    }
    world.disk.port.set_disk(world.disk.disk);
    world.run();
    assert!(!world.disk.content.contains(&0xbb));
    assert_eq!(world.ask(0, &write(0, 0, 1)), Ok(()));
}
