//! The controller: what its registers do, each call without waiting.

use crate::clock::{self, Divider, divider};
use crate::registers::*;
use culm_mmio::Registers;
use culm_sd::{Bus, Direction};

/// Looks at a register that changes within some clocks. What takes longer is looked at again in a
/// later turn.
const LOOKS: u32 = 8;

/// Events that are recorded. What was not recorded does not come to light later.
const RECORDED_EVENTS: Events = Events::ZERO
    .set(Events::REPLIED)
    .set(Events::TRANSFERRED)
    .set(Events::CAN_WRITE)
    .set(Events::CAN_READ)
    .set(Events::INSERTED)
    .set(Events::REMOVED);

/// Events that interrupt at all times.
pub const CARD_EVENTS: Events = Events::ZERO.set(Events::INSERTED).set(Events::REMOVED);

/// Returns whether a card was put in or taken out.
#[inline(always)]
pub fn is_of_card(events: Events) -> bool {
    events.has(Events::INSERTED) || events.has(Events::REMOVED)
}

/// How a command's data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// There is none.
    None,
    /// The controller reads and writes memory, by the table at this address.
    Dma(u64),
    /// The driver reads and writes it.
    Port,
}

/// A part of the controller that can be reset by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The circuit for commands.
    Command,
    /// The circuit for data.
    Data,
}

/// A controller.
#[derive(Debug)]
pub struct Host<R> {
    pub registers: R,
    /// Frequency of the base clock, in Hz.
    base_clock: u32,
    /// Whether the controller knows version 3 of the specification.
    is_version_3: bool,
    capabilities: Capabilities,
    /// The events that interrupt, as last written.
    signalled: Events,
    /// The bus and clock in use.
    bus: Bus,
    hertz: u32,
    is_long: bool,
}

impl<R: Registers> Host<R> {
    /// Finds out what the controller can. `base_clock` is used where it does not say.
    pub fn new(registers: R, base_clock: u32) -> Self {
        let capabilities = registers.read(CAPABILITIES);
        let is_version_3 = registers.read(VERSION).get(Version::NUMBER) >= 2;
        let megahertz = capabilities.get(Capabilities::BASE_CLOCK) & if is_version_3 { 0xff } else { 0x3f };
        let base_clock = if megahertz == 0 { base_clock } else { u32::from(megahertz) * 1_000_000 };
        Self {
            registers,
            base_clock,
            is_version_3,
            capabilities,
            signalled: Events::ZERO,
            bus: Bus::default(),
            hertz: clock::SLOW,
            is_long: false,
        }
    }

    /// Returns whether the controller can be used at all: its clock is known and can be made slow
    /// enough for the initialisation, and it has 3.3 V.
    pub fn is_usable(&self) -> bool {
        let is_slow = divider(self.base_clock, clock::SLOW, self.is_version_3).hertz <= clock::SLOW;
        self.base_clock > 0 && is_slow && self.capabilities.has(Capabilities::VOLTAGE_33)
    }

    /// Returns whether it has ADMA2.
    pub fn has_dma(&self) -> bool {
        self.capabilities.has(Capabilities::ADMA2)
    }

    /// Returns whether its DMA has addresses of 64 bits.
    pub fn has_long_addresses(&self) -> bool {
        self.is_version_3 && self.capabilities.has(Capabilities::LONG_ADDRESSES)
    }

    /// Says whether tables have addresses of 64 bits.
    pub fn use_long_addresses(&mut self, is_long: bool) {
        self.is_long = is_long;
    }

    /// Returns the buses that it can use.
    pub fn buses(&self) -> Bus {
        Bus { has_four_lines: true, is_high_speed: self.capabilities.has(Capabilities::HIGH_SPEED) }
    }

    /// Returns bytes per second over the bus as it is.
    pub fn bytes_per_second(&self) -> u32 {
        self.hertz / if self.bus.has_four_lines { 2 } else { 8 }
    }

    /// Begins to reset everything: from the end of that on the controller touches no memory.
    pub fn reset(&mut self) {
        self.registers.write(RESET, Reset::ZERO.set(Reset::ALL));
        (self.signalled, self.bus) = (Events::ZERO, Bus::default());
    }

    /// Returns whether the reset is done.
    pub fn is_reset(&self) -> bool {
        let is_done = |reset: Reset| !reset.has(Reset::ALL) && !reset.has(Reset::COMMAND) && !reset.has(Reset::DATA);
        (0..LOOKS).any(|_| is_done(self.registers.read(RESET)))
    }

    /// Begins to reset what commands use, or what data uses, after a failure. Some controllers take
    /// one of the two at a time.
    #[cold]
    pub fn reset_line(&mut self, line: Line) {
        let bit = match line {
            Line::Command => Reset::COMMAND,
            Line::Data => Reset::DATA,
        };
        self.registers.write(RESET, Reset::ZERO.set(bit));
    }

    /// Forgets what the failed command still had to say, but not what is said of the card.
    pub fn forget_events(&self) {
        let events = RECORDED_EVENTS.clear(Events::INSERTED).clear(Events::REMOVED);
        self.registers.write(STATUS, events.set(Events::ERROR).with(Events::ERRORS, u16::MAX));
    }

    /// Has events recorded, and those of the card signalled.
    pub fn begin(&mut self) {
        self.registers.write(RECORDED, RECORDED_EVENTS.with(Events::ERRORS, u16::MAX));
        self.registers.write(TIME_OUT, 0xe);
        self.signalled = Events::ZERO;
        self.signal(CARD_EVENTS);
    }

    /// Lets these events interrupt, and no others.
    #[inline(always)]
    pub fn signal(&mut self, events: Events) {
        if self.signalled != events {
            self.signalled = events;
            self.registers.write(SIGNALLED, events);
        }
    }

    /// Takes what has happened since the last call.
    #[inline(always)]
    pub fn take_events(&self) -> Events {
        let events = self.registers.read(STATUS);
        if events != Events::ZERO {
            self.registers.write(STATUS, events);
        }
        events
    }

    /// Returns the state of controller and slot.
    pub fn state(&self) -> State {
        self.registers.read(STATE)
    }

    /// Switches the slot's power on.
    pub fn power_up(&self) {
        let power = Power::ZERO.with(Power::VOLTAGE, Voltage::V33);
        self.registers.write(POWER, power);
        self.registers.write(POWER, power.set(Power::ON));
    }

    /// Stops the card's clock, and begins to change the controller's to a slow one, or to what
    /// `bus` uses; sets the bus's width and timing ("SD Clock Frequency Change Sequence", "Changing
    /// Bus Width").
    pub fn change_clock(&mut self, bus: Option<Bus>) {
        let target = match bus {
            None => clock::SLOW,
            Some(Bus { is_high_speed: false, .. }) => clock::DEFAULT,
            Some(Bus { is_high_speed: true, .. }) => clock::HIGH,
        };
        self.registers.write(CLOCK, Clock::ZERO);
        self.bus = bus.unwrap_or_default();
        let dma = if self.is_long { Dma::ADMA2_64 } else { Dma::ADMA2_32 };
        let control = Control::ZERO
            .with(Control::FOUR_LINES, self.bus.has_four_lines)
            .with(Control::HIGH_SPEED, self.bus.is_high_speed)
            .with(Control::DMA, dma);
        self.registers.write(CONTROL, control);
        let Divider { value, hertz } = divider(self.base_clock, target, self.is_version_3);
        self.hertz = hertz;
        let clock = Clock::ZERO.with(Clock::DIVIDER, value as u8).with(Clock::UPPER, (value >> 8) as u8);
        self.registers.write(CLOCK, clock.set(Clock::INTERNAL));
    }

    /// Lets the card have its clock, if the controller's is stable. Returns whether it has it.
    pub fn start_clock(&self) -> bool {
        let is_stable = |clock: &Clock| clock.has(Clock::STABLE);
        let Some(clock) = (0..LOOKS).map(|_| self.registers.read(CLOCK)).find(is_stable) else { return false };
        self.registers.write(CLOCK, clock.set(Clock::CARD));
        true
    }

    /// Returns whether the controller sends CMD23 by itself: some of version 3 have no such bit.
    pub fn counts_blocks(&self) -> bool {
        let mode = TransferMode::ZERO.with(TransferMode::AUTO, Auto::COUNT);
        self.registers.write(TRANSFER_MODE, mode);
        let has_stuck = self.registers.read(TRANSFER_MODE).get(TransferMode::AUTO) == Auto::COUNT;
        self.registers.write(TRANSFER_MODE, TransferMode::ZERO);
        self.is_version_3 && has_stuck
    }

    /// Sends a command. Returns false if the controller takes none now, although none is under way.
    #[inline]
    pub fn send(&self, command: &culm_sd::Command, way: Way, auto: Auto) -> bool {
        let state = self.registers.read(STATE);
        // CMD12 and CMD13 are for a card that is busy too.
        let is_free = !state.has(State::IS_SENDING) && (!state.has(State::IS_BUSY) || matches!(command.index, 12 | 13));
        if !is_free {
            return false;
        }
        let mut word = reply_of(command.reply).with(Command::INDEX, command.index);
        if command.index == 12 {
            word = word.with(Command::KIND, Kind::ABORT);
        }
        if let Some(data) = command.data {
            word = word.set(Command::DATA).with(Command::READ, data.direction == Direction::Read);
            if let Way::Dma(table) = way {
                word = word.set(Command::DMA);
                self.registers.write(TABLE_LOW, table as u32);
                if self.is_long {
                    self.registers.write(TABLE_HIGH, (table >> 32) as u32);
                }
            }
            if command.is_open_ended {
                word = word.set(Command::COUNTS).set(Command::MULTIPLE).with(Command::AUTO, auto);
                if auto == Auto::COUNT {
                    self.registers.write(AUTO_ARGUMENT, data.blocks.into());
                }
            }
            self.registers.write(BLOCKS, Blocks::ZERO.with(Blocks::SIZE, data.size).with(Blocks::COUNT, data.blocks));
        }
        self.registers.write(ARGUMENT, command.argument);
        self.registers.write(COMMAND, word);
        true
    }

    /// Returns a command's reply: bits 127 to 8 of a long one, in their places.
    #[inline]
    pub fn reply(&self, reply: culm_sd::Reply) -> u128 {
        match reply {
            culm_sd::Reply::None => 0,
            culm_sd::Reply::R2 => {
                let words = [REPLY_3, REPLY_2, REPLY_1, REPLY_0].map(|word| self.registers.read(word));
                words.into_iter().fold(0, |reply, word| reply << 32 | u128::from(word)) << 8
            }
            _ => self.registers.read(REPLY_0).into(),
        }
    }

    /// Returns the reply to the CMD12 that the controller has sent by itself.
    pub fn auto_reply(&self) -> u32 {
        self.registers.read(REPLY_3)
    }
}

/// Returns the bits of a command that say what reply it gets (Command).
#[inline(always)]
const fn reply_bits(length: u32, checks: bool) -> u32 {
    length << 16 | if checks { 0b11 << 19 } else { 0 }
}

#[inline(always)]
fn reply_of(reply: culm_sd::Reply) -> Command {
    use culm_mmio::Layout as _;
    Command::from_bits(match reply {
        culm_sd::Reply::None => reply_bits(0, false),
        culm_sd::Reply::R2 => reply_bits(1, false) | 1 << 19,
        culm_sd::Reply::R3 => reply_bits(2, false),
        culm_sd::Reply::R1 | culm_sd::Reply::R6 | culm_sd::Reply::R7 => reply_bits(2, true),
        culm_sd::Reply::R1b => reply_bits(3, true),
    })
}
