//! The fake card: a memory card as SD Physical Layer 9.10 describes it.

use culm_block::BLOCK;
use culm_sd::Bus;
use std::vec;
use std::vec::Vec;

/// State of a card (§4.10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Idle = 0,
    Ready = 1,
    Identification = 2,
    StandBy = 3,
    Transfer = 4,
    Sending = 5,
    Receiving = 6,
    Programming = 7,
}

/// A memory card.
#[derive(Clone, Debug)]
pub struct FakeCard {
    /// Its blocks.
    pub content: Vec<u8>,
    /// Its serial number.
    pub serial: u32,
    /// Its SCR.
    pub scr: [u8; 8],
    /// Whether it knows CMD8, and so has version 2 or later.
    pub is_version_2: bool,
    /// Whether it has high capacity.
    pub is_high_capacity: bool,
    /// Whether its CSD says that it is write-protected.
    pub is_protected: bool,
    /// How often it says that it is not powered up yet.
    pub busy: u32,
    /// Whether it knows discarding.
    pub discards: bool,
    /// The value of an erased byte.
    pub erased: u8,
    mode: Mode,
    is_application: bool,
    /// The bus, as the host has told it to use it.
    bus: Bus,
    /// Errors for the next status.
    errors: u32,
    /// Where data goes on.
    at: usize,
    /// Blocks that are left, if they were counted.
    counted: Option<u16>,
    /// Whether more than one block goes.
    is_open_ended: bool,
    /// The register that is sent in place of blocks.
    register: Option<Vec<u8>>,
    erase: [usize; 2],
    /// Whether it loses the blocks that are written.
    loses: bool,
    /// Statuses that say that it is busy.
    programming: u32,
}

impl FakeCard {
    /// A card of high capacity, of so many KiB times 512.
    pub fn new(units: usize, serial: u32) -> Self {
        Self {
            content: vec![0; units * 512 * 1024],
            serial,
            scr: [0x02, 0x35, 0x80, 0x03, 0, 0, 0, 0],
            is_version_2: true,
            is_high_capacity: true,
            is_protected: false,
            busy: 2,
            discards: false,
            erased: 0,
            mode: Mode::Idle,
            is_application: false,
            bus: Bus::default(),
            errors: 0,
            at: 0,
            counted: None,
            is_open_ended: false,
            register: None,
            erase: [0; 2],
            loses: false,
            programming: 0,
        }
    }

    /// Makes the card busy until it was asked for its status so often.
    pub fn stay_busy(&mut self, statuses: u32) {
        self.programming = statuses;
    }

    /// A card of standard capacity and of version 1, with 1 MiB.
    pub fn old(serial: u32) -> Self {
        Self { is_version_2: false, is_high_capacity: false, scr: [0, 0x25, 0, 0, 0, 0, 0, 0], ..Self::new(2, serial) }
    }

    /// The same with other properties.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Returns whether the next command is one of the application's.
    pub fn is_application(&self) -> bool {
        self.is_application
    }

    /// Returns the bus that it was told to use: over so many lines (ACMD6), so fast (CMD6).
    pub fn bus(&self) -> Bus {
        self.bus
    }

    /// CMD23.
    pub fn count(&mut self, blocks: u16) {
        self.counted = Some(blocks);
    }

    fn csd(&self) -> u128 {
        let blocks = (self.content.len() / BLOCK) as u128;
        let common = 0x5b5 << 84 | 9 << 80 | 1 << 46 | u128::from(self.is_protected) << 12;
        match self.is_high_capacity {
            true => common | 1 << 126 | (blocks / 1024 - 1) << 48,
            false => common | (blocks / 4 - 1) << 62,
        }
    }

    /// Returns its status in the state in which the command found it.
    fn status(&mut self, mode: Mode) -> [u32; 4] {
        let status = (mode as u32) << 9 | 1 << 8 | core::mem::take(&mut self.errors);
        [status | u32::from(self.is_application) << 5, 0, 0, 0]
    }

    fn address(&mut self, argument: u32) -> Option<usize> {
        let at = if self.is_high_capacity { argument as usize * BLOCK } else { argument as usize };
        let is_inside = at < self.content.len();
        if !is_inside {
            self.errors |= 1 << 31;
        }
        is_inside.then_some(at)
    }

    /// Hears a command; returns the words of its reply, lowest first.
    pub fn command(&mut self, index: u8, argument: u32, loses: bool) -> Option<[u32; 4]> {
        let is_application = core::mem::take(&mut self.is_application);
        let mode = self.mode;
        let long = |register: u128| {
            let bits = register >> 8;
            Some([0, 32, 64, 96].map(|shift| (bits >> shift) as u32))
        };
        let mine = argument >> 16 == 0x4567;
        match (index, is_application, mode) {
            (0, ..) => {
                (self.mode, self.bus) = (Mode::Idle, Bus::default());
                (self.errors, self.counted, self.register, self.programming) = (0, None, None, 0);
                None
            }
            (8, _, Mode::Idle) if self.is_version_2 => Some([argument, 0, 0, 0]),
            (55, _, Mode::Idle) => self.announce(mode),
            (55, _, Mode::Transfer) if mine => self.announce(mode),
            (41, true, Mode::Idle) => Some([self.operate(argument), 0, 0, 0]),
            (2, _, Mode::Ready) => {
                self.mode = Mode::Identification;
                long(0x1b << 120 | u128::from(self.serial) << 24)
            }
            (3, _, Mode::Identification) => {
                self.mode = Mode::StandBy;
                Some([0x4567_0500, 0, 0, 0])
            }
            (9, _, Mode::StandBy) if mine => long(self.csd()),
            (7, _, Mode::StandBy) if mine => {
                self.mode = Mode::Transfer;
                Some(self.status(mode))
            }
            (16, _, Mode::Transfer) => Some(self.status(mode)),
            (6, true, Mode::Transfer) => {
                self.bus.has_four_lines = argument & 0b11 == 0b10;
                Some(self.status(mode))
            }
            (13, true, Mode::Transfer) => {
                let mut register = vec![0; 64];
                register[24] = u8::from(self.discards) << 1;
                self.send_register(register)
            }
            (51, true, Mode::Transfer) => self.send_register(self.scr.to_vec()),
            (6, false, Mode::Transfer) => {
                // Bit 31 switches, to the access mode that bits 3 to 0 say (§4.3.10).
                self.bus.is_high_speed |= argument >> 31 != 0 && argument & 0xf == 1;
                let mut status = vec![0; 64];
                (status[13], status[16]) = (0x03, 0x01);
                self.send_register(status)
            }
            (13, false, Mode::Transfer) if mine && self.programming > 0 => {
                self.programming -= 1;
                Some([(Mode::Programming as u32) << 9, 0, 0, 0])
            }
            // A card that is busy hears nothing else.
            (1..=54 | 56.., ..) if self.programming > 0 => None,
            (13, false, Mode::StandBy | Mode::Transfer | Mode::Sending | Mode::Receiving) if mine => {
                Some(self.status(mode))
            }
            (12, _, Mode::Sending | Mode::Receiving) => {
                self.mode = Mode::Transfer;
                Some(self.status(mode))
            }
            (17 | 18 | 24 | 25, _, Mode::Transfer) => {
                if let Some(at) = self.address(argument) {
                    (self.at, self.is_open_ended, self.loses) = (at, matches!(index, 18 | 25), loses);
                    self.mode = if index < 20 { Mode::Sending } else { Mode::Receiving };
                }
                Some(self.status(mode))
            }
            (32 | 33, _, Mode::Transfer) => {
                let at = self.address(argument);
                self.erase[usize::from(index - 32)] = at.unwrap_or(0);
                Some(self.status(mode))
            }
            (38, _, Mode::Transfer) => {
                let [first, last] = self.erase;
                let erased = self.erased;
                if let Some(range) = self.content.get_mut(first..last + BLOCK).filter(|_| !loses) {
                    range.fill(erased);
                }
                self.errors |= u32::from(loses) << 19;
                Some(self.status(mode))
            }
            _ => None,
        }
    }

    fn announce(&mut self, mode: Mode) -> Option<[u32; 4]> {
        self.is_application = true;
        Some(self.status(mode))
    }

    fn operate(&mut self, argument: u32) -> u32 {
        let takes_it = !self.is_high_capacity || argument >> 30 & 1 != 0;
        if self.busy > 0 || !takes_it {
            self.busy = self.busy.saturating_sub(1);
            return 0x00ff_8000;
        }
        self.mode = Mode::Ready;
        0x80ff_8000 | u32::from(self.is_high_capacity) << 30
    }

    fn send_register(&mut self, register: Vec<u8>) -> Option<[u32; 4]> {
        self.register = Some(register);
        (self.mode, self.is_open_ended) = (Mode::Sending, false);
        Some(self.status(Mode::Transfer))
    }

    /// Sends the next block.
    pub fn send_data(&mut self, bytes: &mut [u8]) {
        if self.mode != Mode::Sending {
            return;
        }
        if let Some(register) = self.register.take() {
            bytes.iter_mut().zip(register).for_each(|(byte, value)| *byte = value);
            self.mode = Mode::Transfer;
            return;
        }
        match self.content.get(self.at..self.at + bytes.len()) {
            Some(block) => bytes.copy_from_slice(block),
            None => self.errors |= 1 << 31,
        }
        self.end_block(bytes.len());
    }

    /// Takes the next block.
    pub fn take_data(&mut self, bytes: &[u8]) {
        if self.mode != Mode::Receiving {
            return;
        }
        match self.content.get_mut(self.at..self.at + bytes.len()) {
            _ if self.loses => self.errors |= 1 << 19,
            Some(block) => block.copy_from_slice(bytes),
            None => self.errors |= 1 << 31,
        }
        self.end_block(bytes.len());
    }

    fn end_block(&mut self, bytes: usize) {
        self.at += bytes;
        let is_last = self.counted.as_mut().is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left == 0
        });
        if is_last || !self.is_open_ended {
            (self.mode, self.counted) = (Mode::Transfer, None);
        }
    }
}
