//! Slots and cards with which something is wrong: whoever looks at the system reads what it is now.

use super::world::{Mode, World, segment};
use crate::Options;
use crate::testing::{FakeCard, Flaw};
use culm::testing::{observe, set_time, take_log, trouble};
use culm::time::{self, Duration};
use culm_block::{Error, Request};

/// The slot is tried again, and what comes of that is known.
fn try_again(world: &mut World) {
    set_time(time::now() + Duration::from_secs(20));
    world.run_for_a_while();
}

/// Has each attempt at the next request fail, while the card can be set up well, which takes so
/// many commands.
fn fail_next(world: &World, commands: usize) {
    let well = |count| std::iter::repeat_n(Flaw::None, count);
    let bad = || std::iter::once(Flaw::Data(0));
    // After the first one the card is told to stop and asked how it is, after the second set up.
    let flaws = bad().chain(well(2)).chain(bad()).chain(well(commands)).chain(bad());
    world.fake.0.flaws.borrow_mut().extend(flaws);
}

#[test]
fn the_trouble_is_the_present_one() {
    observe();
    let mut world = World::with(Mode::Dma, Options::default(), |fake| {
        fake.0.flaws.borrow_mut().extend([Flaw::Silent; 3000]);
        fake.insert(FakeCard::new(2, 7));
    });
    let card = "the card cannot be used: it is no SD memory card";
    assert!(trouble().starts_with(card), "{}", trouble());
    world.fake.0.is_unstable.set(true);
    try_again(&mut world);
    assert!(trouble().contains("clock does not get stable"), "{}", trouble());
    // The card is as it was, and that is what is wrong again.
    world.fake.0.is_unstable.set(false);
    try_again(&mut world);
    assert!(trouble().starts_with(card), "{}", trouble());
    world.fake.0.never_resets.set(true);
    try_again(&mut world);
    assert!(trouble().contains("does not end its reset: requests wait"), "{}", trouble());
    world.fake.0.never_resets.set(false);
    world.fake.end_reset();
    try_again(&mut world);
    assert!(trouble().starts_with(card), "{}", trouble());
    world.fake.pull();
    try_again(&mut world);
    assert_eq!(trouble(), "", "that there is no card the virtualiser says");
}

#[test]
fn requests_that_a_card_fails_are_told_of_until_there_is_another_one() {
    observe();
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    let request = Request::read(8, &[segment(0, 4)]).expect("one segment");
    // Two failures are survived, and show how many commands set the card up.
    fail_next(&world, 0);
    world.fake.0.flaws.borrow_mut().pop_back();
    world.fake.0.log.borrow_mut().clear();
    assert_eq!((world.ask(&request), trouble().as_str()), (Ok(()), ""));
    let commands = world.fake.0.log.borrow().len() - 5;
    let _ = take_log();
    let mut logged = 0;
    for failed in 1..=5_u32 {
        fail_next(&world, commands);
        assert_eq!(world.ask(&request), Err(Error::Failed));
        world.run_for_a_while();
        let text = format!("requests fail: {failed} so far, the last to read 4 blocks from block 8");
        assert!(trouble().starts_with(&text), "{}", trouble());
        assert_eq!(world.ask(&request), Ok(()));
        assert!(trouble().starts_with(&text), "the card is not to be trusted: {}", trouble());
        logged += take_log().matches("requests fail").count();
    }
    assert_eq!(logged, 3, "of many the log tells ever more seldom");
    world.fake.pull();
    world.fake.insert(FakeCard::new(2, 8));
    try_again(&mut world);
    assert_eq!(trouble(), "");
    assert_eq!(world.ask(&request), Ok(()));
}
