//! Commands that fail, cards that come and go, controllers that lie.

use super::world::{Mode, World, segment};
use super::{BOTH, Options};
use crate::registers::Events;
use crate::testing::{FakeCard, Flaw};
use culm::{testing, time};
use culm_block::{Error, NotSent, Request};
use culm_mmio::Layout as _;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn write(block: u64, place: u64, blocks: u32) -> Request {
    Request::write(block, &[segment(place, blocks)]).expect("one")
}

fn read(block: u64, place: u64, blocks: u32) -> Request {
    Request::read(block, &[segment(place, blocks)]).expect("one")
}

/// Everything that can go wrong with a command.
const FLAWS: [Flaw; 13] = [
    Flaw::Silent,
    Flaw::Reply,
    Flaw::Data(0),
    Flaw::Data(1),
    Flaw::Stall(0),
    Flaw::Stall(2),
    Flaw::Hang,
    Flaw::Status(1 << 19),
    Flaw::Status(0xf << 9),
    Flaw::Late,
    Flaw::Events(1 << 25),
    Flaw::Events(1 << 24),
    Flaw::Events(1 << 15),
];

#[test]
fn each_failure_is_repaired_if_it_was_the_only_one() {
    for mode in BOTH {
        for flaw in FLAWS {
            for is_second in [false, true] {
                let mut world = World::new(mode, FakeCard::new(2, 7));
                world.fill(0, 4, 0x40);
                let flaws = if is_second { vec![Flaw::None, flaw] } else { vec![flaw] };
                world.fake.0.flaws.borrow_mut().extend(flaws.iter());
                assert_eq!(world.ask(&write(9, 0, 4)), Ok(()), "{flaw:?} {mode:?}");
                assert_eq!((world.block_of_card(9)[0], world.block_of_card(12)[0]), (0x40, 0x43), "{flaw:?}");
                world.fake.0.flaws.borrow_mut().clear();
                world.fake.0.flaws.borrow_mut().extend(flaws.iter());
                assert_eq!(world.ask(&read(9, 10, 4)), Ok(()), "{flaw:?} {mode:?}");
                assert_eq!((world.memory(10)[0], world.memory(13)[0]), (0x40, 0x43), "{flaw:?} {mode:?}");
                world.fake.0.flaws.borrow_mut().clear();
                world.fake.0.flaws.borrow_mut().extend(flaws.iter());
                assert_eq!(world.ask(&Request::write_zeroes(10, 2, false)), Ok(()), "{flaw:?}");
                assert_eq!((world.block_of_card(10)[0], world.block_of_card(12)[0]), (0, 0x43), "{flaw:?}");
            }
        }
    }
}

/// No CMD12 follows a single block, so only CMD13 can tell.
#[test]
fn a_single_block_that_was_not_kept_is_written_again() {
    for mode in BOTH {
        let mut world = World::new(mode, FakeCard::new(2, 7));
        world.fill(0, 1, 0x40);
        world.fake.0.flaws.borrow_mut().push_back(Flaw::Late);
        assert_eq!(world.ask(&write(9, 0, 1)), Ok(()));
        assert_eq!((world.block_of_card(9)[0], world.driver.counts().faults), (0x40, 1));
    }
}

#[test]
fn what_fails_again_and_again_is_answered_by_an_error() {
    for flaw in FLAWS.into_iter().filter(|flaw| !matches!(flaw, Flaw::Status(_))) {
        let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
        world.fake.0.flaws.borrow_mut().extend([flaw; 3000]);
        let before = time::now();
        let result = world.ask(&write(9, 0, 4));
        // A card that cannot even be set up again counts as gone.
        assert!(matches!(result, Err(Error::Failed | Error::Absent | Error::Changed)), "{flaw:?}: {result:?}");
        assert!(time::now() - before < time::Duration::from_secs(3600));
        world.fake.0.flaws.borrow_mut().clear();
        world.run_for_a_while();
        testing::set_time(time::now() + time::Duration::from_secs(20));
        world.run_for_a_while();
        assert_eq!(world.ask(&write(9, 0, 4)), Ok(()), "the disk is of use again");
    }
}

/// A card whose commands of this number never end, whatever is done; how long a request takes.
#[test]
fn a_request_that_never_ends_has_a_bound() {
    let erasure = Request::discard(0, 2000);
    for (command, request, seconds) in [(18, read(9, 0, 4), 25), (25, write(9, 0, 4), 60), (38, erasure, 60)] {
        let mut world = World::new(Mode::Dma, FakeCard::new(2, 7).with(|card| card.discards = true));
        world.fake.0.hangs.set(Some(command));
        let before = time::now();
        assert_eq!(world.ask(&request), Err(Error::Failed));
        let time = time::now() - before;
        assert!(time <= time::Duration::from_secs(seconds), "command {command}: {time:?}");
        world.fake.0.hangs.set(None);
        world.run_for_a_while();
        assert_eq!(world.ask(&request), Ok(()));
    }
}

/// A card that stays busy after what it has taken is bounded too.
#[test]
fn a_card_that_stays_busy_has_a_bound() {
    // An erasure is the third of its commands.
    for (request, before, seconds) in [(write(9, 0, 4), 0, 60), (Request::discard(0, 2000), 2, 60)] {
        let mut world = World::new(Mode::Dma, FakeCard::new(2, 7).with(|card| card.discards = true));
        let flaws = std::iter::repeat_n(Flaw::None, before).chain([Flaw::Busy(1_000_000)]);
        world.fake.0.flaws.borrow_mut().extend(flaws);
        world.send(&request, 77);
        let before = time::now();
        loop {
            world.run();
            if let [(77, result)] = world.completions()[..] {
                assert!(result.is_err() || request.operation.moves_data(), "{result:?}");
                break;
            }
            let now = time::now();
            assert!(now - before <= time::Duration::from_secs(seconds), "{:?}", request.operation);
            testing::set_time(world.deadline.expect("it looks again").max(now));
        }
    }
}

/// Each request that fails keeps everybody else from the card: after a few, one try must do.
#[test]
fn requests_that_fail_one_after_the_other_are_tried_once() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    let tries = |world: &mut World, command: Option<u8>| {
        world.fake.0.hangs.set(command);
        world.fake.0.log.borrow_mut().clear();
        let result = world.ask(&read(9, 0, 4));
        world.run_for_a_while();
        (result.is_ok(), world.fake.0.log.borrow().iter().filter(|command| **command == 18).count())
    };
    for expected in [3, 3, 3, 1, 1] {
        assert_eq!(tries(&mut world, Some(18)), (false, expected));
    }
    assert_eq!(tries(&mut world, None), (true, 1));
    assert_eq!(tries(&mut world, Some(18)), (false, 3), "the card is trusted again");
}

#[test]
fn a_card_that_refuses_writes_is_not_asked_again() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    world.fake.0.flaws.borrow_mut().push_back(Flaw::Status(1 << 26));
    assert_eq!(world.ask(&write(9, 0, 1)), Err(Error::ReadOnly));
    assert_eq!(world.driver.counts().faults, 0);
}

#[test]
fn a_card_that_is_pulled_ends_what_is_under_way() {
    for mode in BOTH {
        let mut world = World::new(mode, FakeCard::new(2, 7));
        world.fake.0.hold.set(true);
        for tag in 0..5 {
            world.send(&write(8 * tag, 0, 3), tag);
        }
        world.run();
        let card = world.fake.pull().expect("it was there");
        world.run_for_a_while();
        let mut done = world.completions();
        done.sort_unstable_by_key(|(tag, _)| *tag);
        let tags: Vec<u64> = done.iter().map(|(tag, _)| *tag).collect();
        assert_eq!(tags, [0, 1, 2, 3, 4], "each ends once");
        assert!(done.iter().all(|(_, result)| matches!(result, Err(Error::Absent | Error::Changed))), "{done:?}");
        assert!(world.disk().is_some_and(|disk| !disk.is_present()));
        assert_eq!(world.client.send(&read(0, 0, 1), 9), Err(NotSent::Refused(Error::Absent)));
        world.fake.0.hold.set(false);
        world.fake.insert(card);
        world.run_for_a_while();
        assert_eq!(world.ask(&write(0, 0, 3)), Ok(()));
    }
}

#[test]
fn a_card_that_is_back_at_once_was_gone_all_the_same() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    let (medium, changes) = (world.disk().expect("known").medium, world.client.changes());
    let card = world.fake.pull().expect("it was there");
    world.fake.insert(card);
    world.run_for_a_while();
    assert_eq!(world.disk().expect("known").medium, medium);
    assert!(world.client.changes() != changes);
    let _ = world.fake.pull();
    world.fake.insert(FakeCard::new(3, 8));
    world.run_for_a_while();
    let disk = world.disk().expect("known");
    assert!(disk.medium != medium && disk.blocks == 3072);
}

#[test]
fn a_controller_that_does_not_reset_keeps_the_request() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    world.fake.0.never_resets.set(true);
    world.fake.0.flaws.borrow_mut().push_back(Flaw::Stall(1));
    world.send(&read(0, 0, 4), 1);
    world.run_for_a_while();
    assert_eq!(world.completions(), [], "it may still write to the memory");
    world.fake.0.never_resets.set(false);
    world.fake.end_reset();
    world.run_for_a_while();
    assert_eq!(world.completions(), [(1, Ok(()))]);
}

#[test]
fn a_clock_that_never_gets_stable_is_no_disk() {
    let mut world = World::with(Mode::Dma, Options::default(), |fake| {
        fake.0.is_unstable.set(true);
        fake.insert(FakeCard::new(2, 7));
    });
    assert!(world.disk().is_some_and(|disk| !disk.is_present()));
    world.fake.0.is_unstable.set(false);
    world.run_for_a_while();
    assert!(world.disk().is_some_and(|disk| disk.is_present()));
}

/// The controller waits for 2^27 cycles of its clock at most, 2.6 s at 52 MHz.
#[test]
fn a_card_that_is_busy_for_longer_than_the_controller_waits_has_not_failed() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7).with(|card| card.discards = true));
    world.fake.0.log.borrow_mut().clear();
    world.fake.0.flaws.borrow_mut().extend([Flaw::None, Flaw::None, Flaw::Busy(3)]);
    assert_eq!(world.ask(&Request::discard(0, 2000)), Ok(()));
    assert_eq!(*world.fake.0.log.borrow(), [32, 33, 38, 13, 13, 13, 13]);
    let counts = world.driver.counts();
    assert_eq!((counts.faults, counts.resets), (0, 1), "the card keeps its power");
}

/// The same if the card was busy when it was told to stop, and if it refused that.
#[test]
fn a_card_that_is_busy_after_a_failure_keeps_its_power() {
    for (flaws, log) in
        [(&[Flaw::Stall(1), Flaw::Busy(20)][..], 12), (&[Flaw::None, Flaw::None, Flaw::Busy(20), Flaw::Silent], 38)]
    {
        let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
        world.fill(0, 4, 0x40);
        world.fake.0.flaws.borrow_mut().extend(flaws);
        let request = if log == 12 { write(9, 0, 4) } else { Request::discard(9, 4) };
        assert_eq!(world.ask(&request), Ok(()));
        assert!(world.fake.0.log.borrow().contains(&log));
        assert_eq!(world.driver.counts().resets, 1);
    }
}

#[test]
fn data_may_end_before_the_reply_is_told_of() {
    for request in [read(9, 10, 1), write(9, 0, 4)] {
        let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
        world.fake.0.flaws.borrow_mut().push_back(Flaw::Early);
        world.send(&request, 1);
        world.run();
        assert_eq!(world.completions(), []);
        let interrupts = world.interrupts;
        world.fake.let_go();
        world.run();
        assert_eq!(world.completions(), [(1, Ok(()))]);
        assert!(world.interrupts > interrupts);
        assert_eq!(world.driver.counts().faults, 0);
    }
}

/// A controller whose lines stay in reset, from the first failure on.
#[test]
fn lines_that_do_not_end_their_reset_are_no_loop() {
    for is_ready in [false, true] {
        let _ = testing::take_log();
        testing::observe();
        let mut world = World::with(Mode::Dma, Options::default(), |fake| {
            fake.0.keeps_lines.set(true);
            if !is_ready {
                fake.0.flaws.borrow_mut().extend([Flaw::Silent; 1000]);
            }
            fake.insert(FakeCard::new(2, 7));
        });
        if is_ready {
            world.fake.0.flaws.borrow_mut().extend([Flaw::Silent; 1000]);
            assert!(world.ask(&read(0, 0, 4)).is_err());
        }
        assert!(world.disk().is_some_and(|disk| !disk.is_present()));
        let (resets, before) = (world.driver.counts().resets, time::now());
        while time::now() - before < time::Duration::from_secs(60) {
            world.run();
            testing::set_time(world.deadline.expect("it tries again").max(time::now()));
        }
        let resets = world.driver.counts().resets - resets;
        assert!((1..20).contains(&resets), "{resets} resets in a minute");
        assert!(testing::take_log().contains("does not end the reset of its lines"));
        assert!(testing::trouble().contains("the reset of its lines"), "{}", testing::trouble());
        world.fake.0.flaws.borrow_mut().clear();
        world.run_for_a_while();
        testing::set_time(time::now() + time::Duration::from_secs(20));
        world.run_for_a_while();
        assert_eq!(world.ask(&read(0, 0, 4)), Ok(()));
        assert_eq!(testing::trouble(), "");
    }
}

/// Until then the controller may write to the memory of requests for the earlier life.
#[test]
fn a_new_life_touches_no_queue_before_the_first_reset_is_done() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    world.fake.0.hold.set(true);
    world.send(&read(0, 0, 4), 1);
    world.run();
    world.fake.0.never_resets.set(true);
    testing::observe();
    let mut starting = world.restart();
    let (changes, before) = (world.client.changes(), time::now());
    while time::now() - before < time::Duration::from_secs(5) {
        starting = world.take_over(starting).expect_err("the reset is not done");
        world.client.begin();
        assert!(world.client.next_completion().is_none());
        assert_eq!((world.client.changes(), world.client.under_way()), (changes, 1));
        testing::set_time(testing::deadline().expect("it looks again").max(time::now()));
    }
    assert!(testing::take_log().contains("does not end its reset"));
    assert!(testing::trouble().contains("does not end its reset"), "{}", testing::trouble());
    world.fake.0.never_resets.set(false);
    world.fake.0.hold.set(false);
    world.fake.end_reset();
    world.take_over(starting).expect("it is done");
    world.run_for_a_while();
    assert_eq!(world.completions(), [(1, Ok(()))]);
}

/// The wait after failures is as short as at first if there was a card that could be used.
#[test]
fn a_wait_after_failures_gets_short_again() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    let mut waits = Vec::new();
    for _ in 0..2 {
        world.fake.0.flaws.borrow_mut().extend([Flaw::Silent; 300]);
        let _ = world.ask(&read(0, 0, 1));
        world.fake.0.flaws.borrow_mut().clear();
        testing::set_time(time::now() + time::Duration::from_secs(20));
        world.run_for_a_while();
        assert_eq!(world.ask(&read(0, 0, 1)), Ok(()));
        world.fake.0.flaws.borrow_mut().extend([Flaw::Silent; 2]);
        let before = time::now();
        assert_eq!(world.ask(&read(0, 0, 1)), Ok(()));
        waits.push(time::now() - before);
    }
    assert!(waits.iter().all(|wait| *wait < time::Duration::from_millis(500)), "{waits:?}");
}

/// A card without power for less than that may not notice.
#[test]
fn a_card_is_without_power_for_a_while_before_it_is_set_up_anew() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    world.fake.0.flaws.borrow_mut().extend([Flaw::Stall(0), Flaw::None, Flaw::None, Flaw::Stall(0)]);
    world.send(&read(0, 0, 4), 1);
    let (mut off, mut longest) = (None, time::Duration::ZERO);
    while world.completions().is_empty() {
        world.run();
        match (world.fake.has_power(), off) {
            (false, None) => off = Some(time::now()),
            (true, Some(since)) => {
                longest = longest.max(time::now() - since);
                off = None;
            }
            _ => {}
        }
        if let Some(deadline) = world.deadline {
            testing::set_time(deadline.max(time::now()));
        }
    }
    assert!(longest >= time::Duration::from_millis(10), "{longest:?}");
}

/// The reset of the controller forgets what it has said of the card.
#[test]
fn a_card_that_is_pulled_right_before_a_reset_was_gone() {
    let mut world = World::new(Mode::Dma, FakeCard::new(2, 7));
    let changes = world.client.changes();
    world.fake.0.hold.set(true);
    world.send(&read(0, 0, 4), 1);
    world.run();
    world.fake.0.keeps_lines.set(true);
    // It fails, and while its lines are being reset the card is changed.
    world.fake.raise(1 << 25);
    world.turn();
    let card = world.fake.pull().expect("it was there");
    world.fake.0.hold.set(false);
    world.fake.insert(card);
    world.run_for_a_while();
    assert!(matches!(world.completions()[..], [(1, Err(Error::Absent | Error::Changed))]));
    assert!(world.client.changes() != changes);
}

fn flaw() -> impl Strategy<Value = Flaw> {
    let events = Events::ZERO.with(Events::ERRORS, u16::MAX).set(Events::TRANSFERRED).set(Events::CAN_READ).bits();
    prop_oneof![
        6 => Just(Flaw::None),
        4 => prop::sample::select(FLAWS.to_vec()),
        1 => Just(Flaw::Pull),
        1 => (0_u32..5).prop_map(Flaw::Busy),
        1 => Just(Flaw::Early),
        1 => (0_u16..6).prop_map(Flaw::Data),
        1 => (0_u16..6).prop_map(Flaw::Stall),
        1 => any::<u32>().prop_map(move |bits| Flaw::Events(bits & events)),
        1 => any::<u32>().prop_map(Flaw::Status),
    ]
}

/// One act of a test on the world.
#[derive(Clone, Debug)]
enum Act {
    Write { block: u64, blocks: u32 },
    Read { block: u64, blocks: u32 },
    Zero { block: u64, blocks: u32 },
    Pull,
    Insert,
    LetGo,
    Time,
}

fn act() -> impl Strategy<Value = Act> {
    let range = || (0_u64..40, 1_u32..9);
    prop_oneof![
        4 => range().prop_map(|(block, blocks)| Act::Write { block, blocks }),
        4 => range().prop_map(|(block, blocks)| Act::Read { block, blocks }),
        1 => range().prop_map(|(block, blocks)| Act::Zero { block, blocks }),
        1 => Just(Act::Pull),
        2 => Just(Act::Insert),
        3 => Just(Act::LetGo),
        1 => Just(Act::Time),
    ]
}

/// Blocks of the model: what each holds, if that is known.
type Model = [Option<u8>; 64];

/// A request that was sent, with the byte that it writes.
struct Sent {
    act: Act,
    tag: u64,
    place: u64,
    byte: u8,
}

/// Checks what was answered against the model, in the order of sending; every request has one
/// answer.
fn check(world: &mut World, model: &mut Model, sent: &mut Vec<Sent>) -> Result<(), TestCaseError> {
    let done = world.completions();
    prop_assert_eq!(done.len(), sent.len(), "each request ends once: {:?}", done);
    for Sent { act, tag, place, byte } in sent.drain(..) {
        let results: Vec<_> = done.iter().filter(|(other, _)| *other == tag).collect();
        prop_assert_eq!(results.len(), 1);
        let result = results[0].1;
        match act {
            Act::Read { block, blocks } if result.is_ok() => {
                for index in 0..u64::from(blocks) {
                    if let Some(known) = model[(block + index) as usize] {
                        prop_assert_eq!(world.memory(place + index)[5], known, "block {}", block + index);
                    }
                }
            }
            Act::Read { .. } => {}
            Act::Write { block, blocks } | Act::Zero { block, blocks } => {
                for index in 0..blocks as usize {
                    let value = if matches!(act, Act::Zero { .. }) { 0 } else { byte.wrapping_add(index as u8) };
                    model[block as usize + index] = result.is_ok().then_some(value);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever fails: each request ends once, and what was answered as done is so.
    #[test]
    fn any_failures_lose_no_request(
        acts in prop::collection::vec(act(), 1..40),
        flaws in prop::collection::vec(flaw(), 0..60),
        is_pio in any::<bool>(),
        holds in any::<bool>(),
    ) {
        let mut world = World::new(if is_pio { Mode::Pio } else { Mode::Dma }, FakeCard::new(2, 7));
        // A status that is made up can hide an error, but no command is answered without one.
        let flaws = flaws.into_iter().filter(|flaw| !hides(*flaw));
        world.fake.0.flaws.borrow_mut().extend(flaws);
        let (mut model, mut sent): (Model, Vec<Sent>) = ([Some(0); 64], Vec::new());
        let mut out = None;
        world.fake.0.hold.set(holds);
        for (tag, act) in (0..).zip(acts) {
            let byte = (tag as u8).wrapping_mul(17);
            let place = 16 * sent.len() as u64;
            let request = match act {
                Act::Write { block, blocks } => {
                    world.fill(place, blocks.into(), byte);
                    Some(write(block, place, blocks))
                }
                Act::Read { block, blocks } => Some(read(block, place, blocks)),
                Act::Zero { block, blocks } => Some(Request::write_zeroes(block, blocks, false)),
                Act::Pull => {
                    out = world.fake.pull().or(out);
                    None
                }
                Act::Insert => {
                    if let Some(card) = out.take() {
                        world.fake.insert(card);
                    }
                    None
                }
                Act::LetGo => {
                    world.fake.let_go();
                    None
                }
                Act::Time => {
                    world.run_for_a_while();
                    None
                }
            };
            if let Some(request) = request
                && world.client.send(&request, tag).is_ok()
            {
                sent.push(Sent { act, tag, place, byte });
            }
            world.run();
            out = world.fake.take_pulled().or(out);
            if sent.len() > 6 {
                finish(&mut world, &mut out);
                check(&mut world, &mut model, &mut sent)?;
                world.fake.0.hold.set(holds);
            }
        }
        finish(&mut world, &mut out);
        check(&mut world, &mut model, &mut sent)?;
        world.fake.0.flaws.borrow_mut().clear();
        if let Some(card) = out.take() {
            world.fake.insert(card);
        }
        for _ in 0..3 {
            testing::set_time(time::now() + time::Duration::from_secs(20));
            world.run_for_a_while();
        }
        prop_assert!(world.disk().is_some_and(|disk| disk.is_present()), "the disk is of use again");
        prop_assert_eq!(world.ask(&read(0, 0, 8)), Ok(()));
    }
}

/// Whether a flaw can take an error away that the card reports.
fn hides(flaw: Flaw) -> bool {
    matches!(flaw, Flaw::Status(bits) if bits & 1 << 19 != 0 && bits != 1 << 19)
}

/// Lets everything come to its end.
fn finish(world: &mut World, out: &mut Option<FakeCard>) {
    world.fake.0.hold.set(false);
    world.fake.let_go();
    for _ in 0..5 {
        world.run_for_a_while();
        *out = world.fake.take_pulled().or(out.take());
    }
}
