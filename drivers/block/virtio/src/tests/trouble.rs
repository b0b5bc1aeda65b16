//! Devices with which something is wrong: whoever looks at the system reads what, until it is over.

use super::device::{Config, World, segment};
use crate::registers::*;
use culm::testing::{observe, set_time, take_log, trouble};
use culm::time::{self, Duration};
use culm_block::{Disk, Error, Request};
use culm_virtio::registers::*;

/// A device that somebody looks at, with blocks of so many bytes.
fn world(block_size: u32) -> World {
    observe();
    World::with(Config { block_size, ..Config::default() }, FEATURE_VERSION_1 | FEATURE_BLOCK_SIZE)
}

/// The device says that it cannot go on.
fn fail(world: &mut World) {
    world.state.status.set(world.state.status.get().set(Status::NEEDS_RESET));
    world.state.raise(Causes::CHANGE);
    world.run();
}

/// So much time passes that the device is reset again.
fn rest(world: &mut World) {
    set_time(time::now() + Duration::from_secs(2));
    world.run();
}

#[test]
fn a_device_with_impossible_blocks_is_told_of_until_they_are_others() {
    let mut world = world(520);
    assert_eq!(world.disk(), Some(Disk::ABSENT));
    assert!(trouble().starts_with("there is no disk: the device has blocks of 520 bytes"), "{}", trouble());
    assert!(take_log().contains("blocks of 520 bytes"));
    let config = Config { block_size: 4096, ..Config::default() };
    world.device.configure(&world.state, config);
    world.state.raise(Causes::CHANGE);
    world.run();
    assert_eq!((world.disk().map(|disk| disk.granule), trouble().as_str()), (Some(3), ""));
    assert!(take_log().contains("can be used again"));
    // A disk without a medium is no trouble of the device's.
    world.device.configure(&world.state, Config { capacity: 0, ..config });
    world.state.raise(Causes::CHANGE);
    world.run();
    assert_eq!((world.disk(), trouble().as_str()), (Some(Disk::ABSENT), ""));
}

#[test]
fn a_device_that_fails_again_and_again_is_told_of_until_it_works() {
    let mut world = world(512);
    fail(&mut world);
    assert_eq!((world.state.resets.get(), trouble().as_str()), (2, ""), "once is told in the log");
    assert!(take_log().contains("has met an error"));
    fail(&mut world);
    assert!(trouble().contains("fails again and again"), "{}", trouble());
    assert!(world.disk().is_some_and(|disk| disk.is_present()), "requests wait");
    rest(&mut world);
    assert_eq!((world.state.resets.get(), trouble().as_str()), (3, ""));
}

#[test]
fn a_device_that_does_not_reset_is_told_of_until_it_does() {
    let mut world = world(512);
    world.state.is_stuck.set(true);
    fail(&mut world);
    assert!(trouble().contains("does not reset: requests wait"), "{}", trouble());
    let _ = take_log();
    rest(&mut world);
    assert!(trouble().contains("does not reset"), "{}", trouble());
    assert_eq!(take_log(), "", "it is logged once");
    world.state.is_stuck.set(false);
    rest(&mut world);
    assert_eq!(trouble(), "");
}

#[test]
fn a_device_that_cannot_be_used_after_its_reset_is_told_of_until_it_can() {
    let mut world = world(512);
    world.state.accepts_features.set(false);
    fail(&mut world);
    assert_eq!(world.disk(), Some(Disk::ABSENT));
    assert!(trouble().starts_with("there is no disk: the device has failed, cannot be used"), "{}", trouble());
    assert!(trouble().contains("refuses the features"), "{}", trouble());
    world.state.accepts_features.set(true);
    rest(&mut world);
    assert_eq!(trouble(), "");
    assert!(world.disk().is_some_and(|disk| disk.is_present()));
}

#[test]
fn requests_that_a_device_fails_are_told_of_and_counted() {
    let mut world = world(512);
    let read = Request::read(3, &[segment(0, 1)]).expect("one segment");
    let _ = take_log();
    for failed in 1..=5 {
        world.device.status = Some(STATUS_FAILED);
        assert_eq!(world.ask(&read), Err(Error::Failed));
        world.device.status = None;
        assert_eq!(world.ask(&read), Ok(()));
        assert!(trouble().starts_with(&format!("requests fail: {failed} so far")), "{}", trouble());
    }
    assert_eq!(take_log().matches("requests fail").count(), 3, "of many the log tells ever more seldom");
    fail(&mut world);
    assert!(trouble().starts_with("requests fail: 5 so far"), "a reset mends no disk: {}", trouble());
    // That a device cannot do something is no failure.
    world.device.status = Some(STATUS_UNSUPPORTED);
    assert_eq!(world.ask(&read), Err(Error::Unsupported));
    assert!(trouble().starts_with("requests fail: 5 so far"), "{}", trouble());
}
