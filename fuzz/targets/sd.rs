//! SD cards that answer anything.
//!
//! The input is what a card sends, reply by reply. Its initialisation ends whatever that is, and
//! what is taken for a card can be addressed to its last block, and not beyond.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_sd::{Action, Bus, Card, Clearing, Command, Direction, Init, LONGEST_REGISTER, Outcome, Reply};
use input::Input;
use libfuzzer_sys::fuzz_target;

/// More steps than an initialisation can have.
const STEPS: usize = 1000;

/// A reply that a card could give: an operating card, with what the input changes in it.
fn reply(command: &Command, input: &mut Input<'_>) -> u128 {
    let usual = match (command.index, command.reply) {
        (8, _) => command.argument.into(),
        (55, _) => 0x920,
        (_, Reply::R3) => 0xc0ff_8000,
        (_, Reply::R6) => 0x4567_0500,
        (_, Reply::R2) => 1 << 126 | 0x5b5 << 84 | 9 << 80 | 7 << 48,
        _ => 0x900,
    };
    let changed = input.bytes(16).iter().rev().fold(0_u128, |word, byte| word << 8 | u128::from(*byte));
    if command.reply == Reply::R2 { usual ^ changed & !0xff } else { usual ^ changed & 0xffff_ffff }
}

/// Checks that an accepted card has no blocks but its own.
fn ask(card: &Card, input: &mut Input<'_>) {
    let last = card.blocks() - 1;
    assert!(card.address != 0 && card.blocks() <= 1 << 32);
    assert!(card.address_of(last).is_some() && card.address_of(last + 1).is_none());
    assert!(card.transfer(Direction::Read, last, 1).is_some() && card.transfer(Direction::Write, last, 2).is_none());
    assert!(card.clear(Clearing::Erase, last, 1).is_some() && card.clear(Clearing::Discard, last, 2).is_none());
    while !input.is_over() {
        let block = input.bytes(5).iter().fold(0, |block, byte| block << 8 | u64::from(*byte));
        assert_eq!(card.transfer(Direction::Read, block, 1).is_some(), block <= last);
    }
    assert!(card.number() != 0 && card.cid.to_string().is_ascii());
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let host = input.byte();
    let mut init = Init::new(Bus { has_four_lines: host & 1 != 0, is_high_speed: host & 2 != 0 });
    for _ in 0..STEPS {
        let mut data = [0; LONGEST_REGISTER];
        let outcome = match (init.action(), input.byte()) {
            (Action::Wait(_) | Action::Use(_), _) => Outcome::Done,
            (_, 1) => Outcome::Silent,
            (_, 2) => Outcome::Failed,
            (Action::Send(Command { reply: Reply::None, .. }), _) => Outcome::Done,
            (Action::Send(command), _) => {
                let reply = reply(&command, &mut input);
                let length = command.data.map_or(0, |data| usize::from(data.size));
                data[..8].copy_from_slice(&[0x02, 0x35, 0x80, 0x03, 0, 0, 0, 0]);
                let changed = usize::from(input.byte()) % (length + 1);
                data[..changed].iter_mut().zip(input.bytes(changed)).for_each(|(byte, change)| *byte ^= change);
                Outcome::Reply(reply, &data[..length])
            }
        };
        match init.proceed(outcome) {
            Ok(None) => {}
            Ok(Some(card)) => return ask(&card, &mut input),
            Err(_) => return,
        }
    }
    panic!("there is no end to it");
});
