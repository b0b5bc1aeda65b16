//! Registers as cards have them, and the initialisation with cards of every kind, and with none.

use crate::*;
use proptest::prelude::*;
use std::vec::Vec;

/// The CSD of a card of this many blocks, as §5.3.3 has it (version 2).
fn csd_2(units: u32) -> u128 {
    1 << 126 | 0x5b5 << 84 | 9 << 80 | u128::from(units - 1) << 48 | 1 << 46 | 9 << 22
}

/// The CSD of a card of (`size` + 1) * 2^(`multiplier` + 2) blocks of 2^`length` bytes (§5.3.2).
fn csd_1(size: u32, multiplier: u32, length: u32) -> u128 {
    0x5f5 << 84 | u128::from(length) << 80 | u128::from(size) << 62 | u128::from(multiplier) << 47 | 1 << 46
}

#[test]
fn capacities_are_those_of_the_csd() {
    for (register, blocks) in [
        (csd_1(0, 0, 9), 4),
        (csd_1(4095, 7, 9), 1 << 21),
        (csd_1(4095, 7, 10), 1 << 22),
        (csd_1(4095, 7, 11), 1 << 23),
        (csd_2(1), 1 << 10),
        (csd_2(1 << 22), 1 << 32),
    ] {
        let csd = Csd::read(register).expect("a card");
        assert_eq!(csd.blocks, blocks);
        assert!(csd.erases_blocks && csd.has(Csd::CLASS_ERASE) && csd.has(Csd::CLASS_SWITCH) && !csd.is_protected);
    }
    assert_eq!(Csd::read(csd_1(1, 1, 8)), Err(NotUsable::BlockLength(8)));
    assert_eq!(Csd::read(csd_1(1, 1, 12)), Err(NotUsable::BlockLength(12)));
    assert_eq!(Csd::read(2 << 126), Err(NotUsable::Version(2)));
    assert_eq!(Csd::read(3 << 126), Err(NotUsable::Version(3)));
    assert!(Csd::read(csd_2(4) | 1 << 12).expect("a card").is_protected);
    assert!(Csd::read(csd_2(4) | 1 << 13).expect("a card").is_protected);
    assert!(!Csd::read(csd_1(0, 0, 9) & !(1 << 46)).expect("a card").erases_blocks);
}

#[test]
fn an_identification_is_printed() {
    // 0xaa, "XY", "QEMU!", 0.1, 0xdeadbeef, February 2006.
    let cid = Cid::new(0xaa58_5951_454d_5521_01de_adbe_ef00_6200);
    assert_eq!((cid.manufacturer(), &cid.application(), &cid.name()), (0xaa, b"XY", b"QEMU!"));
    assert_eq!(std::format!("{cid}"), "QEMU! 0.1, serial deadbeef, 2006-02");
    let odd = std::format!("{}", Cid::new(u128::MAX));
    assert!(odd.is_ascii() && odd.starts_with("....."), "{odd}");
}

#[test]
fn a_configuration_is_read() {
    let scr = Scr::read(&[0x02, 0x35, 0x80, 0x03, 0, 0, 0, 0]);
    assert_eq!(scr, Scr { version: 2, erases_to_ones: false, has_four_lines: true, counts_blocks: true });
    assert!(Scr::read(&[0x02, 0xb5, 0, 0, 0, 0, 0, 0]).erases_to_ones);
    let unknown = Scr::read(&[0x12, 0x35, 0x80, 0x03, 0, 0, 0, 0]);
    assert_eq!(unknown, Scr { erases_to_ones: true, ..Scr::default() });
}

#[test]
fn statuses_are_read_where_they_are() {
    let mut register = [0; 64];
    assert_eq!(SdStatus::read(&register), SdStatus::default());
    // Bytes count from bit 511 down: bit 313 is in byte 24, bits 423 to 400 in bytes 11 to 13.
    register[24] = 0x02;
    register[12] = 16;
    register[13] = 5 << 2 | 1;
    assert_eq!(SdStatus::read(&register), SdStatus { discards: true, erase_seconds: Some(6) });
    let mut status = [0; 64];
    status[13] = 0x02;
    assert_eq!(Switch::read(&status), Switch { has_high_speed: true, is_high_speed: false });
    status[16] = 0xf1;
    assert!(Switch::read(&status).is_high_speed);
    status[16] = 0x0f;
    assert!(!Switch::read(&status).is_high_speed);
}

/// A card in the places of commands' numbers.
#[derive(Clone, Copy)]
struct Fake {
    knows_condition: bool,
    ocr: u32,
    busy: u32,
    csd: u128,
    scr: [u8; 8],
    has_high_speed: bool,
    is_application: bool,
}

const SCR: [u8; 8] = [0x02, 0x35, 0x80, 0x03, 0, 0, 0, 0];

impl Fake {
    fn new() -> Self {
        Self {
            knows_condition: true,
            ocr: 0xc0ff_ff00,
            busy: 3,
            csd: csd_2(8),
            scr: SCR,
            has_high_speed: true,
            is_application: false,
        }
    }

    /// Answers a command; `data` is the space for its data.
    fn answer<'a>(&mut self, command: &Command, data: &'a mut [u8; 64]) -> Outcome<'a> {
        const READY: u128 = 4 << 9 | 1 << 8;
        data.fill(0);
        let is_application = core::mem::take(&mut self.is_application);
        match command.index {
            0 => Outcome::Done,
            8 if self.knows_condition => Outcome::Reply(command.argument.into(), &[]),
            8 => Outcome::Silent,
            55 => {
                self.is_application = true;
                Outcome::Reply(READY | 1 << 5, &[])
            }
            41 if is_application && self.busy > 0 => {
                self.busy -= 1;
                Outcome::Reply(u128::from(self.ocr & !(1 << 31)), &[])
            }
            41 if is_application => Outcome::Reply(self.ocr.into(), &[]),
            2 => Outcome::Reply(7 << 24, &[]),
            3 => Outcome::Reply(0x4567_0500, &[]),
            9 => Outcome::Reply(self.csd, &[]),
            7 | 16 => Outcome::Reply(READY, &[]),
            6 if is_application => Outcome::Reply(READY, &[]),
            13 if is_application => Outcome::Reply(READY, &data[..]),
            51 if is_application => {
                data[..8].copy_from_slice(&self.scr);
                Outcome::Reply(READY, &data[..8])
            }
            6 => {
                (data[13], data[16]) = if self.has_high_speed { (0x03, 0x01) } else { (0x01, 0x0f) };
                Outcome::Reply(READY, &data[..])
            }
            _ => Outcome::Silent,
        }
    }
}

const HOST: Bus = Bus { has_four_lines: true, is_high_speed: true };

/// Initialises a card; returns what it is, and the buses that were used.
fn init(mut fake: Fake, host: Bus) -> (Result<Card, Problem>, Vec<Bus>) {
    let (mut init, mut data, mut buses) = (Init::new(host), [0; 64], Vec::new());
    for _ in 0..500 {
        let outcome = match init.action() {
            Action::Send(command) => fake.answer(&command, &mut data),
            Action::Wait(_) => Outcome::Done,
            Action::Use(bus) => {
                buses.push(bus);
                Outcome::Done
            }
        };
        match init.proceed(outcome) {
            Ok(None) => {}
            Ok(Some(card)) => return (Ok(card), buses),
            Err(problem) => return (Err(problem), buses),
        }
    }
    panic!("there is no end to it");
}

#[test]
fn a_card_of_high_capacity_is_made_wide_and_fast() {
    let (card, buses) = init(Fake::new(), HOST);
    let card = card.expect("a card");
    assert_eq!((card.blocks(), card.address, card.bus), (8192, 0x4567, HOST));
    assert_eq!(buses, [Bus::default(), Bus { has_four_lines: true, is_high_speed: false }, HOST]);
    assert_eq!(card.address_of(8191), Some(8191));
    assert_eq!(card.address_of(8192), None);
    assert!(card.erases_to_zeroes());
    let command = card.transfer(Direction::Write, 8190, 2).expect("inside");
    assert_eq!((command.index, command.argument, command.is_open_ended), (25, 8190, true));
    assert!(card.transfer(Direction::Read, 8190, 3).is_none() && card.transfer(Direction::Read, 0, 0).is_none());
    assert!(card.clear(Clearing::Erase, 8191, 2).is_none() && card.clear(Clearing::Erase, u64::MAX, 2).is_none());
    let erase = card.clear(Clearing::Discard, 5, 3).expect("inside").map(|command| (command.index, command.argument));
    assert_eq!(erase, [(32, 5), (33, 7), (38, 0)], "a card that does not know discarding erases");
}

#[test]
fn old_and_simple_cards_are_used_as_they_are() {
    let old = Fake { knows_condition: false, ocr: 0x80ff_8000, csd: csd_1(4095, 7, 9), scr: [0; 8], ..Fake::new() };
    let (card, buses) = init(old, HOST);
    let card = card.expect("a card");
    assert_eq!((card.blocks(), card.bus), (1 << 21, Bus::default()));
    assert_eq!(buses.len(), 1);
    assert_eq!(card.address_of((1 << 21) - 1), Some((1 << 30) - 512));
    let slow = init(Fake { has_high_speed: false, ..Fake::new() }, HOST).0.expect("a card");
    assert_eq!(slow.bus, Bus { has_four_lines: true, is_high_speed: false });
    let narrow = init(Fake::new(), Bus::default()).0.expect("a card");
    assert_eq!(narrow.bus, Bus::default());
}

#[test]
fn what_is_no_usable_card_is_said() {
    let fake = Fake::new();
    for (fake, problem) in [
        (Fake { ocr: 0xc000_0080, ..fake }, Problem::Voltage),
        (Fake { busy: u32::MAX, ..fake }, Problem::NeverReady),
        (Fake { csd: csd_1(1, 1, 9), ..fake }, Problem::Contradiction),
        (Fake { ocr: 0x80ff_ff00, ..fake }, Problem::Contradiction),
        (Fake { csd: 2 << 126, ..fake }, Problem::Csd(NotUsable::Version(2))),
    ] {
        assert_eq!(init(fake, HOST).0, Err(problem));
    }
}

#[test]
fn a_slot_without_a_card_is_no_memory() {
    let mut init = Init::new(HOST);
    for _ in 0..10 {
        let outcome = match init.action() {
            Action::Send(Command { reply: Reply::None, .. }) => Outcome::Done,
            Action::Send(_) => Outcome::Silent,
            other => panic!("{other:?}"),
        };
        if let Err(problem) = init.proceed(outcome) {
            assert_eq!(problem, Problem::NotMemory);
            return;
        }
    }
    panic!("there is no end to it");
}

#[test]
fn each_number_of_a_card_is_its_own() {
    let card = init(Fake::new(), HOST).0.expect("a card");
    let other = Card { cid: Cid::new(8 << 24), ..card };
    let larger = Card { csd: Csd::read(csd_2(9)).expect("a card"), ..card };
    assert!(card.number() != other.number() && card.number() != larger.number() && card.number() != 0);
}

proptest! {
    /// Whatever a card answers, the initialisation ends, and what it takes for a card is within
    /// what addresses can express.
    #[test]
    fn any_answers_come_to_an_end(
        answers in prop::collection::vec((0_u8..8, any::<u128>(), any::<[u8; 64]>()), 1..40),
        is_mostly_right in any::<bool>(),
    ) {
        let (mut init, mut fake, mut space) = (Init::new(HOST), Fake::new(), [0; 64]);
        for step in 0..2000 {
            let (kind, reply, data) = &answers[step % answers.len()];
            let outcome = match (kind, init.action()) {
                (_, Action::Wait(_) | Action::Use(_)) => Outcome::Done,
                (0, _) => Outcome::Silent,
                (1, _) => Outcome::Failed,
                (2, _) => Outcome::Reply(*reply, data),
                (3, _) => Outcome::Reply(*reply, &data[..8]),
                (_, Action::Send(command)) if is_mostly_right => fake.answer(&command, &mut space),
                _ => Outcome::Reply(*reply, data),
            };
            match init.proceed(outcome) {
                Ok(None) => {}
                Ok(Some(card)) => {
                    prop_assert!(card.blocks() <= 1 << 32 && card.address != 0);
                    prop_assert!(card.address_of(card.blocks() - 1).is_some());
                    return Ok(());
                }
                Err(_) => return Ok(()),
            }
        }
        prop_assert!(false, "there is no end to it");
    }

    /// Any register is read without a panic, and bounded.
    #[test]
    fn any_register_is_read(register in any::<u128>(), bytes in any::<[u8; 64]>()) {
        if let Ok(csd) = Csd::read(register) {
            prop_assert!(csd.blocks > 0 && csd.blocks <= 1 << 32);
            prop_assert!(csd.is_high_capacity || csd.blocks <= 1 << 23);
        }
        let printed = std::format!("{}", Cid::new(register));
        prop_assert!(printed.is_ascii());
        let _ = (SdStatus::read(&bytes), Switch::read(&bytes));
    }
}
