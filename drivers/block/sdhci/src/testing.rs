//! A fake controller with a fake card behind its registers, for host tests and the fuzzer.
//!
//! The controller does at once what it is told, as QEMU's does, or when it is let
//! ([`State::hold`]). Each command can be made to fail ([`Flaw`]).

mod card;

pub use card::FakeCard;

use crate::registers::*;
use culm::Region;
use culm_block::BLOCK;
use culm_mmio::{Layout as _, Registers, Width};
use culm_sd::Direction;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// A fault that a test plans for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// The card does not hear it.
    Silent,
    /// The card does it, but its reply is damaged.
    Reply,
    /// Data is damaged after so many blocks.
    Data(u16),
    /// Data stops after so many blocks, and the controller does not notice.
    Stall(u16),
    /// The card hears it, and nothing is ever said of it.
    Hang,
    /// The card's status has these bits besides its own, in this reply.
    Status(u32),
    /// Written blocks are not kept, which only the next status says.
    Late,
    /// The controller says that this has happened besides.
    Events(u32),
    /// The card is pulled out meanwhile.
    Pull,
    /// The card is busy for so many statuses, which is longer than the controller waits.
    Busy(u32),
    /// Data ends before the reply is said to be there, which follows by an interrupt.
    Early,
}

/// Data that is under way.
#[derive(Debug)]
struct Transfer {
    direction: Direction,
    size: usize,
    left: u16,
    is_counted: bool,
    auto: Auto,
    buffer: Vec<u8>,
    position: usize,
    flaw: Flaw,
}

/// The fake's state.
#[derive(Debug)]
pub struct State {
    /// The card in the slot.
    pub card: RefCell<Option<FakeCard>>,
    /// The flaws of the next commands.
    pub flaws: RefCell<VecDeque<Flaw>>,
    /// The numbers of the commands that were sent, those of applications with 64 more.
    pub log: RefCell<Vec<u8>>,
    /// Commands wait until [`Fake::let_go`].
    pub hold: Cell<bool>,
    /// Commands of this number never end.
    pub hangs: Cell<Option<u8>>,
    /// Resets do not end.
    pub never_resets: Cell<bool>,
    /// Resets of the lines do not end; that of everything ends all.
    pub keeps_lines: Cell<bool>,
    /// The clock does not get stable.
    pub is_unstable: Cell<bool>,
    /// The write-protect switch.
    pub is_protected: Cell<bool>,
    /// The register of the controller's capabilities.
    pub capabilities: Cell<u32>,
    /// Version of the specification.
    pub version: Cell<u16>,
    /// Whether the controller has the bits for CMD23.
    pub counts_blocks: Cell<bool>,
    /// Accesses of registers.
    pub accesses: Cell<u64>,
    /// Descriptors in the tables that were read.
    pub descriptors: Cell<u32>,
    /// CMD12 that the controller has sent by itself.
    pub stops: Cell<u32>,
    /// Bits that are inverted in the replies to those.
    pub stop_status: Cell<u32>,
    /// Reserved bits of the register of resets.
    pub reserved: Cell<u32>,
    memory: Vec<Region>,
    words: RefCell<[u32; 64]>,
    held: Cell<Option<u32>>,
    /// The bus when the last command was sent. The driver may have changed it since, where a
    /// controller has said of a reset that it is done and it is not.
    sent_under: Cell<Control>,
    /// Events that the controller reports later.
    late_events: Cell<u32>,
    /// The card that a flaw has pulled.
    pulled: RefCell<Option<FakeCard>>,
    transfer: RefCell<Option<Transfer>>,
}

/// A fake controller.
#[derive(Clone, Debug)]
pub struct Fake(pub Rc<State>);

const STATUS_AT: usize = 0x30 / 4;
const RECORDED_AT: usize = 0x34 / 4;
const SIGNALLED_AT: usize = 0x38 / 4;

/// Errors in [`STATUS`].
const DATA_TIME_OUT: u32 = 1 << 20;
const REPLY_SUM: u32 = 1 << 17;
const DATA_SUM: u32 = 1 << 21;
const DMA_ERROR: u32 = 1 << 25;

impl Fake {
    /// A controller of version 2 with a base clock of 52 MHz, ADMA2 and high speed, which sees
    /// `memory`.
    pub fn new(memory: Vec<Region>) -> Self {
        Self(Rc::new(State {
            card: RefCell::new(None),
            flaws: RefCell::default(),
            log: RefCell::default(),
            hold: Cell::default(),
            hangs: Cell::default(),
            never_resets: Cell::default(),
            keeps_lines: Cell::default(),
            is_unstable: Cell::default(),
            is_protected: Cell::default(),
            capabilities: Cell::new(0x0178_34b4),
            version: Cell::new(1),
            counts_blocks: Cell::default(),
            accesses: Cell::default(),
            descriptors: Cell::default(),
            stops: Cell::default(),
            stop_status: Cell::default(),
            reserved: Cell::default(),
            memory,
            words: RefCell::new([0; 64]),
            held: Cell::default(),
            sent_under: Cell::new(Control::ZERO),
            late_events: Cell::default(),
            pulled: RefCell::default(),
            transfer: RefCell::default(),
        }))
    }

    fn word(&self, index: usize) -> u32 {
        self.0.words.borrow()[index]
    }

    fn set_word(&self, index: usize, value: u32) {
        self.0.words.borrow_mut()[index] = value;
    }

    /// Has this happen, as far as it is recorded.
    pub fn raise(&self, events: u32) {
        let errors = if events >> 16 != 0 { 1 << 15 } else { 0 };
        let recorded = self.word(RECORDED_AT) | 1 << 15;
        self.set_word(STATUS_AT, self.word(STATUS_AT) | (events | errors) & recorded);
    }

    /// Returns whether the controller interrupts.
    pub fn interrupts(&self) -> bool {
        self.word(STATUS_AT) & self.word(SIGNALLED_AT) != 0
    }

    /// Returns whether a command waits until [`Fake::let_go`].
    pub fn is_sending(&self) -> bool {
        self.0.held.get().is_some()
    }

    /// Returns whether the card has power.
    pub fn has_power(&self) -> bool {
        self.word(0x28 / 4) & 0x100 != 0
    }

    /// Puts a card in.
    pub fn insert(&self, card: FakeCard) {
        *self.0.card.borrow_mut() = Some(card);
        self.raise(Events::ZERO.set(Events::INSERTED).bits());
    }

    /// Pulls the card out.
    pub fn pull(&self) -> Option<FakeCard> {
        *self.0.transfer.borrow_mut() = None;
        // Power and clock go off by themselves, as with QEMU's controller.
        self.set_word(0x28 / 4, self.word(0x28 / 4) & !0x100);
        self.set_word(0x2c / 4, self.word(0x2c / 4) & !4);
        self.raise(Events::ZERO.set(Events::REMOVED).bits());
        self.0.card.borrow_mut().take()
    }

    /// Returns the card that a flaw has pulled.
    pub fn take_pulled(&self) -> Option<FakeCard> {
        self.0.pulled.borrow_mut().take()
    }

    /// Ends the resets that did not end, if there are any. One that nobody asked for would take
    /// events from a driver that cannot know.
    pub fn end_reset(&self) {
        let word = self.word(0x2c / 4);
        self.set_word(0x2c / 4, word & 0x00ff_ffff);
        self.reset((word >> 24) as u8);
    }

    /// Does the command that was held, or says what was held back.
    pub fn let_go(&self) {
        self.raise(self.0.late_events.take());
        if let Some(word) = self.0.held.take() {
            self.carry_out(word);
        }
    }

    fn load_word(&self, offset: usize) -> u32 {
        let state = &self.0;
        match offset {
            0x20 => self.load_data(),
            0x24 => {
                let is_sending = state.held.get().is_some();
                let is_busy = is_sending || state.transfer.borrow().is_some();
                let has_card = state.card.borrow().is_some();
                u32::from(is_sending)
                    | u32::from(is_busy) << 1
                    | u32::from(has_card) << 16
                    | 1 << 17
                    | u32::from(!state.is_protected.get()) << 19
            }
            0x2c => {
                let word = self.word(offset / 4);
                let word = word | state.reserved.get();
                if word & 1 != 0 && !state.is_unstable.get() { word | 2 } else { word & !2 }
            }
            0x40 => state.capabilities.get(),
            0xfc => u32::from(state.version.get()) << 16,
            _ => self.word(offset / 4),
        }
    }

    fn store_word(&self, offset: usize, value: u32, mask: u32) {
        let index = offset / 4;
        let merged = self.word(index) & !mask | value & mask;
        match offset {
            0x0c => {
                let merged = if self.0.counts_blocks.get() { merged } else { merged & !8 };
                self.set_word(index, merged);
                // The highest byte sends.
                if mask >> 24 != 0 {
                    self.send(merged);
                }
            }
            0x20 => self.store_data(value),
            0x2c => {
                self.set_word(index, merged & 0x00ff_ffff);
                self.reset((merged >> 24) as u8);
            }
            0x30 => {
                let left = self.word(index) & !(value & mask);
                let is_error = left >> 16 != 0;
                self.set_word(index, left & !(1 << 15) | u32::from(is_error) << 15);
            }
            _ => self.set_word(index, merged),
        }
    }

    fn reset(&self, bits: u8) {
        if bits == 0 {
            return;
        }
        if self.0.never_resets.get() || self.0.keeps_lines.get() && bits & 1 == 0 {
            self.set_word(0x2c / 4, self.word(0x2c / 4) | u32::from(bits) << 24);
            return;
        }
        self.0.held.set(None);
        *self.0.transfer.borrow_mut() = None;
        if bits & 1 != 0 {
            *self.0.words.borrow_mut() = [0; 64];
        }
    }

    fn send(&self, word: u32) {
        let is_on = self.word(0x2c / 4) & 5 == 5 && self.word(0x28 / 4) & 0x100 != 0;
        if !is_on {
            return;
        }
        self.0.sent_under.set(Control::from_bits(self.word(0x28 / 4) as u8));
        if self.0.hold.get() { self.0.held.set(Some(word)) } else { self.carry_out(word) }
    }

    fn carry_out(&self, word: u32) {
        let command = Command::from_bits(word);
        let index = command.get(Command::INDEX);
        let flaw = self.0.flaws.borrow_mut().pop_front().unwrap_or(Flaw::None);
        if flaw == Flaw::Pull {
            *self.0.pulled.borrow_mut() = self.pull();
        }
        let argument = self.word(2);
        let mut held = self.0.card.borrow_mut();
        let card = held.as_mut().filter(|_| flaw != Flaw::Silent);
        let is_application = card.as_ref().is_some_and(|card| card.is_application());
        self.0.log.borrow_mut().push(index + if is_application { 64 } else { 0 });
        let count = command.get(Command::AUTO) == Auto::COUNT && command.has(Command::MULTIPLE);
        let reply = card.and_then(|card| {
            if count {
                card.count(self.word(0) as u16);
            }
            card.command(index, argument, flaw == Flaw::Late)
        });
        drop(held);
        if flaw == Flaw::Hang || self.0.hangs.get() == Some(index) {
            return;
        }
        let mut events = Events::ZERO.set(Events::REPLIED).bits();
        match reply {
            None if command.get(Command::REPLY) != Reply::NONE => events = Events::ZERO.set(Events::SILENT).bits(),
            None => {}
            Some(mut reply) => {
                if let Flaw::Status(bits) = flaw {
                    reply[0] ^= bits;
                }
                self.0.words.borrow_mut()[4..8].copy_from_slice(&reply);
            }
        }
        if let Flaw::Events(more) = flaw {
            events |= more;
        }
        if let (Flaw::Busy(statuses), Some(card)) = (flaw, self.0.card.borrow_mut().as_mut()) {
            card.stay_busy(statuses);
            events |= DATA_TIME_OUT;
        } else if command.get(Command::REPLY) == Reply::SHORT_BUSY && reply.is_some() {
            events |= Events::ZERO.set(Events::TRANSFERRED).bits();
        }
        if flaw == Flaw::Reply {
            events |= REPLY_SUM;
        }
        let is_early = flaw == Flaw::Early && reply.is_some() && command.has(Command::DATA);
        if is_early {
            self.0.late_events.set(events);
        } else {
            self.raise(events);
        }
        if command.has(Command::DATA) && reply.is_some() {
            self.begin_transfer(command, flaw);
        }
    }

    /// Checks that controller and card used the bus alike when the command was sent, as data needs.
    ///
    /// # Panics
    ///
    /// If the driver has told the controller another width or timing than the card.
    fn check_bus(&self, index: u8) {
        let control = self.0.sent_under.get();
        let Some(bus) = self.0.card.borrow().as_ref().map(FakeCard::bus) else { return };
        assert_eq!(control.has(Control::FOUR_LINES), bus.has_four_lines, "CMD{index}: over four lines");
        // A card is fast after the status that CMD6 sends. It sends it again if it was damaged.
        if index != 6 {
            assert_eq!(control.has(Control::HIGH_SPEED), bus.is_high_speed, "CMD{index}: at high speed");
        }
    }

    fn begin_transfer(&self, command: Command, flaw: Flaw) {
        self.check_bus(command.get(Command::INDEX));
        let blocks = Blocks::from_bits(self.word(1));
        let is_read = command.has(Command::READ);
        let size = usize::from(blocks.get(Blocks::SIZE));
        let is_counted = command.has(Command::MULTIPLE);
        *self.0.transfer.borrow_mut() = Some(Transfer {
            direction: if is_read { Direction::Read } else { Direction::Write },
            size,
            left: if is_counted { blocks.get(Blocks::COUNT) } else { 1 },
            is_counted,
            auto: command.get(Command::AUTO),
            buffer: vec![0; size],
            position: 0,
            flaw,
        });
        if command.has(Command::DMA) { self.run_dma() } else { self.next_block() }
    }

    /// Returns whether the flaw of the transfer strikes before its next block.
    fn strikes(&self) -> bool {
        let mut transfer = self.0.transfer.borrow_mut();
        let Some(Transfer { flaw, .. }) = transfer.as_mut() else { return true };
        let (Flaw::Data(left) | Flaw::Stall(left)) = flaw else { return false };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        let is_noticed = matches!(flaw, Flaw::Data(_));
        drop(transfer);
        if is_noticed {
            self.raise(DATA_SUM);
        }
        true
    }

    /// Gets the next block from the card, or space for it ready.
    fn next_block(&self) {
        if self.strikes() {
            return;
        }
        let mut transfer = self.0.transfer.borrow_mut();
        let Some(transfer) = transfer.as_mut() else { return };
        transfer.position = 0;
        let event = match transfer.direction {
            Direction::Read => {
                if let Some(card) = self.0.card.borrow_mut().as_mut() {
                    card.send_data(&mut transfer.buffer);
                }
                Events::CAN_READ
            }
            Direction::Write => Events::CAN_WRITE,
        };
        self.raise(Events::ZERO.set(event).bits());
    }

    /// Ends a block; returns whether it was the last.
    fn end_block(&self) -> bool {
        let mut slot = self.0.transfer.borrow_mut();
        let Some(transfer) = slot.as_mut() else { return true };
        transfer.left -= 1;
        if transfer.left > 0 {
            return false;
        }
        let (is_counted, auto) = (transfer.is_counted, transfer.auto);
        *slot = None;
        drop(slot);
        if is_counted && auto == Auto::STOP {
            let reply = self.0.card.borrow_mut().as_mut().and_then(|card| card.command(12, 0, false));
            self.0.stops.set(self.0.stops.get() + 1);
            self.set_word(7, reply.map_or(0, |reply| reply[0] ^ self.0.stop_status.get()));
        }
        self.raise(Events::ZERO.set(Events::TRANSFERRED).bits());
        true
    }

    fn load_data(&self) -> u32 {
        let mut slot = self.0.transfer.borrow_mut();
        let Some(transfer) = slot.as_mut() else { return 0 };
        let bytes = transfer.buffer.get(transfer.position..transfer.position + 4);
        let word = bytes.map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("four")));
        transfer.position += 4;
        let is_over = transfer.position == transfer.size;
        drop(slot);
        if is_over && !self.end_block() {
            self.next_block();
        }
        word
    }

    fn store_data(&self, word: u32) {
        let mut slot = self.0.transfer.borrow_mut();
        let Some(transfer) = slot.as_mut() else { return };
        let position = transfer.position;
        let Some(bytes) = transfer.buffer.get_mut(position..position + 4) else { return };
        bytes.copy_from_slice(&word.to_le_bytes());
        transfer.position += 4;
        if transfer.position == transfer.size {
            if let Some(card) = self.0.card.borrow_mut().as_mut() {
                card.take_data(&transfer.buffer);
            }
            drop(slot);
            if !self.end_block() {
                self.next_block();
            }
        }
    }

    fn find(&self, address: u64, length: usize) -> Option<(Region, usize)> {
        self.0.memory.iter().find_map(|region| {
            let offset = address.checked_sub(region.dma())? as usize;
            region.contains(offset, length).then_some((*region, offset))
        })
    }

    /// Reads the table and moves all blocks.
    ///
    /// # Panics
    ///
    /// Where the driver's table leads outside of memory, or has an entry that is none.
    fn run_dma(&self) {
        let control = Control::from_bits(self.word(0x28 / 4) as u8);
        let is_long = control.get(Control::DMA) == Dma::ADMA2_64;
        let mut table = u64::from(self.word(0x58 / 4)) | u64::from(self.word(0x5c / 4)) << 32;
        loop {
            let size = if is_long { 12 } else { 8 };
            let (region, offset) = self.find(table, size).expect("the table is in memory");
            let word: u32 = region.load(offset).expect("inside");
            let low: u32 = region.load(offset + 4).expect("inside");
            let high: u32 = if is_long { region.load(offset + 8).expect("inside") } else { 0 };
            table += size as u64;
            self.0.descriptors.set(self.0.descriptors.get() + 1);
            assert_eq!(word & 0x3d, 0x21, "a descriptor that is none");
            let length = match word >> 16 {
                0 => 65536,
                length => length as usize,
            };
            let address = u64::from(low) | u64::from(high) << 32;
            let (region, offset) = self.find(address, length).expect("a descriptor of memory");
            for block in 0..length / BLOCK {
                if self.strikes() {
                    return;
                }
                if self.move_block(&region, offset + block * BLOCK) {
                    let is_end = word & 2 != 0 && block + 1 == length / BLOCK;
                    assert!(is_end, "the table is longer than the data");
                    return;
                }
            }
            if word & 2 != 0 {
                self.raise(DMA_ERROR);
                return;
            }
        }
    }

    /// Moves a block between card and memory; returns whether it was the last.
    fn move_block(&self, region: &Region, offset: usize) -> bool {
        let Some(direction) = self.0.transfer.borrow().as_ref().map(|transfer| transfer.direction) else { return true };
        let mut bytes = [0; BLOCK];
        if let Some(card) = self.0.card.borrow_mut().as_mut() {
            match direction {
                Direction::Read => {
                    card.send_data(&mut bytes);
                    region.write(offset, &bytes).expect("inside");
                }
                Direction::Write => {
                    region.read(offset, &mut bytes).expect("inside");
                    card.take_data(&bytes);
                }
            }
        }
        self.end_block()
    }
}

impl Registers for Fake {
    fn load<W: Width>(&self, offset: usize) -> W {
        self.0.accesses.set(self.0.accesses.get() + 1);
        W::truncate(self.load_word(offset & !3) >> (8 * (offset & 3)))
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        self.0.accesses.set(self.0.accesses.get() + 1);
        let shift = 8 * (offset & 3);
        let ones = u32::MAX >> (32 - 8 * size_of::<W>());
        self.store_word(offset & !3, value.extend() << shift, ones << shift);
    }
}
