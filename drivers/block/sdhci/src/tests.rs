//! The driver between a fake controller and a virtualiser.

mod faults;
mod seated;
mod trouble;
mod world;

use crate::sdhci::Unusable;
use crate::testing::FakeCard;
use crate::{Options, Starting};
use culm::Region;
use culm_block::{BLOCK, Disk, Error, MAX_SEGMENTS, Request};
use std::vec::Vec;
use world::{Mode, World, place, segment};

const BOTH: [Mode; 2] = [Mode::Dma, Mode::Pio];

#[test]
fn a_card_is_found_and_told_of() {
    for mode in BOTH {
        let world = World::new(mode, FakeCard::new(2, 7));
        let disk = world.disk().expect("it is known");
        assert_eq!((disk.blocks, disk.read_only, disk.discards, disk.writes_zeroes), (2048, false, true, true));
        assert!(disk.medium != 0 && disk.is_valid());
        assert!(!world.driver_asks_for_time(), "a card that waits costs nothing");
    }
}

#[test]
fn what_was_written_is_read() {
    for mode in BOTH {
        for card in [FakeCard::new(2, 7), FakeCard::old(7)] {
            let mut world = World::new(mode, card);
            world.fill(0, 8, 0x30);
            let write = Request::write(2040, &[segment(0, 3), segment(6, 2), segment(5, 1)]).expect("three");
            assert_eq!(world.ask(&write), Ok(()));
            assert_eq!(world.block_of_card(2043)[0], 0x36);
            let read = Request::read(2041, &[segment(20, 1), segment(30, 4)]).expect("two");
            assert_eq!(world.ask(&read), Ok(()));
            let found = [20, 30, 31, 32, 33].map(|block| world.memory(block)[BLOCK - 1]);
            assert_eq!(found, [0x31, 0x32, 0x36, 0x37, 0x35]);
            assert_eq!(world.ask(&Request::read(2046, &[segment(8, 2)]).expect("one")), Ok(()));
            assert_eq!((world.memory(8)[0], world.memory(9)[0]), (0, 0), "the last blocks");
        }
    }
}

#[test]
fn one_block_is_read_with_few_accesses() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    let before = world.fake.0.accesses.get();
    assert_eq!(world.ask(&Request::read(5, &[segment(0, 1)]).expect("one")), Ok(()));
    assert_eq!(world.fake.0.accesses.get() - before, 8, "state, five to send, events twice, reply");
    world.fake.0.log.borrow_mut().clear();
    let before = world.fake.0.accesses.get();
    assert_eq!(world.ask(&Request::read(5, &[segment(0, 256)]).expect("one")), Ok(()));
    assert_eq!(world.fake.0.accesses.get() - before, 9, "the same, and the reply to CMD12");
    assert_eq!(*world.fake.0.log.borrow(), [18]);
    assert!(world.interrupts == 0, "what is done at once needs no interrupt");
}

#[test]
fn requests_under_way_end_by_interrupts() {
    for mode in BOTH {
        let mut world = World::new(mode, FakeCard::new(2, 7));
        world.fake.0.hold.set(true);
        for tag in 0..4 {
            world.send(&Request::write(8 * tag, &[segment(8 * tag, 3)]).expect("one"), tag);
        }
        world.run();
        assert_eq!(world.completions(), []);
        for tag in 0..4 {
            // The data, then the status.
            world.fake.let_go();
            world.run();
            world.fake.let_go();
            world.run();
            assert_eq!(world.completions(), [(tag, Ok(()))]);
        }
        assert!(world.interrupts >= 8);
    }
}

#[test]
fn blocks_are_cleared_by_erasing() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7).with(|card| card.discards = true));
    world.fill(0, 8, 1);
    assert_eq!(world.ask(&Request::write(0, &[segment(0, 8)]).expect("one")), Ok(()));
    world.fake.0.log.borrow_mut().clear();
    assert_eq!(world.ask(&Request::write_zeroes(1, 2, false)), Ok(()));
    assert_eq!(world.ask(&Request::discard(4, 1)), Ok(()));
    assert_eq!(*world.fake.0.log.borrow(), [32, 33, 38, 13, 32, 33, 38, 13]);
    let left: Vec<u8> = (0..8).map(|block| world.block_of_card(block)[0]).collect();
    assert_eq!(left, [1, 0, 0, 4, 0, 6, 7, 8]);
    assert_eq!(world.ask(&Request::flush()), Ok(()));
    assert_eq!(world.fake.0.log.borrow().len(), 8, "a flush has nothing to do");
}

#[test]
fn a_card_says_what_it_cannot() {
    let ones = [0x02, 0xb5, 0x80, 0x03, 0, 0, 0, 0];
    let disk = World::new(Mode::Dma, FakeCard::new(2, 7).with(|card| card.scr = ones)).disk();
    assert!(disk.is_some_and(|disk| disk.discards && !disk.writes_zeroes));
    let disk = World::new(Mode::Dma, FakeCard::new(2, 7).with(|card| card.is_protected = true)).disk();
    assert!(disk.is_some_and(|disk| disk.read_only));
    let with_switch = |has_no_switch| {
        let options = Options { has_no_switch, ..Options::default() };
        let world = World::with(Mode::Dma, options, |fake| {
            fake.0.is_protected.set(true);
            fake.insert(FakeCard::new(2, 7));
        });
        world.disk().expect("it is known").read_only
    };
    assert!(with_switch(false) && !with_switch(true));
}

#[test]
fn a_controller_that_counts_blocks_sends_no_stop() {
    for (has_bits, stays) in [(true, true), (false, false)] {
        let mut world = World::with(Mode::Dma, Options::default(), |fake| {
            fake.0.version.set(2);
            fake.0.counts_blocks.set(has_bits);
            fake.insert(FakeCard::new(2, 7));
        });
        assert_eq!(world.driver.auto == crate::registers::Auto::COUNT, stays);
        world.fill(0, 4, 9);
        assert_eq!(world.ask(&Request::write(0, &[segment(0, 4)]).expect("one")), Ok(()));
        assert_eq!(world.ask(&Request::read(0, &[segment(10, 4)]).expect("one")), Ok(()));
        assert_eq!(world.memory(13)[7], 12);
        assert_eq!(world.driver.counts().faults, 0);
        let stops = world.fake.0.stops.get();
        assert_eq!((stops, world.fake.0.log.borrow().contains(&12)), (if stays { 0 } else { 2 }, false));
    }
}

/// Which a card may say after its last block only.
#[test]
fn a_read_that_the_card_calls_out_of_range_has_failed() {
    for (block, fails) in [(2044, false), (2040, true)] {
        let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
        world.fake.0.stop_status.set(1 << 31);
        world.send(&Request::read(block, &[segment(0, 4)]).expect("one"), 1);
        world.run();
        assert_eq!(world.driver.counts().faults > 0, fails);
    }
}

#[test]
fn reserved_bits_beside_the_resets_mean_nothing() {
    let world = World::with(Mode::Dma, Options::default(), |fake| {
        fake.0.reserved.set(0xf8 << 24);
        fake.insert(FakeCard::new(2, 7));
    });
    assert!(world.disk().is_some_and(|disk| disk.is_present()));
}

#[test]
fn long_requests_and_full_tables_are_divided() {
    // A slow clock: 2.5 blocks in a second over four lines.
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    world.driver.most = 3;
    world.fill(0, 64, 1);
    world.fake.0.log.borrow_mut().clear();
    assert_eq!(world.ask(&Request::write(0, &[segment(0, 8)]).expect("one")), Ok(()));
    assert_eq!(*world.fake.0.log.borrow(), [25, 13, 25, 13, 25, 13]);
    assert_eq!(world.block_of_card(7)[0], 8);
    // A table of six descriptors.
    let mut world = World::with_table(48, FakeCard::new(2, 7));
    world.fill(0, 64, 1);
    let segments: Vec<_> = (0..MAX_SEGMENTS as u64).map(|index| segment(2 * index, 1)).collect();
    world.fake.0.log.borrow_mut().clear();
    assert_eq!(world.ask(&Request::write(0, &segments).expect("sixteen")), Ok(()));
    assert_eq!(*world.fake.0.log.borrow(), [25, 13, 25, 13, 25, 13]);
    assert_eq!((world.block_of_card(0)[0], world.block_of_card(15)[0]), (1, 31));
}

#[test]
fn memory_out_of_reach_is_refused() {
    let far = culm_block::Segment { place: 1 << 23, blocks: 1 };
    for mode in BOTH {
        let mut world = World::new(mode, FakeCard::new(2, 7));
        assert_eq!(world.ask(&Request::read(0, &[segment(0, 1), far]).expect("two")), Err(Error::Invalid));
        assert_eq!(world.ask(&Request::read(0, &[segment(0, 1)]).expect("one")), Ok(()));
    }
    let far = culm_block::Segment { place: place(0) - 1, blocks: 2 };
    let mut world = World::new(Mode::Pio, FakeCard::new(2, 7));
    assert_eq!(world.ask(&Request::read(0, &[far]).expect("one")), Err(Error::Invalid));
}

#[test]
fn a_controller_that_is_of_no_use_is_refused() {
    let fake = |capabilities| {
        let fake = crate::testing::Fake::new(Vec::new());
        fake.0.capabilities.set(capabilities);
        fake
    };
    let new = |capabilities, options| {
        let memory = Region::new(culm::testing::memory(64, 0x1000));
        Starting::new(fake(capabilities), &memory, Vec::new(), options).err()
    };
    assert_eq!(new(0x0178_34b4, Options::default()), None);
    assert_eq!(new(0x0078_34b4, Options::default()), Some(Unusable::Slot));
    assert_eq!(new(0x0178_00b4, Options::default()), Some(Unusable::Slot));
    assert_eq!(new(0x0178_00b4, Options { base_clock: 50_000_000, ..Options::default() }), None);
    assert_eq!(new(0x0170_34b4, Options::default()), Some(Unusable::Dma));
    // Version 2 divides by 256 at most: the clock would be too fast for the initialisation.
    assert_eq!(new(0x0178_00b4, Options { base_clock: 200_000_000, ..Options::default() }), Some(Unusable::Slot));
    let none = Region::new(culm::testing::memory(0, 0x1000));
    let refused = Starting::new(fake(0x0178_34b4), &none, Vec::new(), Options::default()).err();
    assert_eq!(refused, Some(Unusable::Memory));
}

#[test]
fn a_slot_without_a_card_is_a_disk_without_a_medium() {
    let mut world = World::with(Mode::Dma, Options::default(), |_| ());
    assert_eq!(world.disk(), Some(Disk::ABSENT));
    assert!(!world.driver_asks_for_time());
    world.fake.insert(FakeCard::new(2, 7));
    world.run_for_a_while();
    assert!(world.disk().is_some_and(|disk| disk.is_present()));
}
