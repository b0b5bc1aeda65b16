//! The registers by which the guest controls its interrupt controller: a frame of the distributor,
//! for shared interrupts, and two of each redistributor, the second for private ones.

use super::{BANK, Bank, Controller, SOFTWARE, TIMER};
use culm_abi::guest::REDISTRIBUTOR_SIZE;
use culm_abi::system::AFFINITY;

/// Interrupts that there are: 32 private ones of each CPU, 32 shared ones.
const INTERRUPTS: u32 = 64;

/// Registers that both frames have, by offset; each word is about 32 interrupts, but for those of
/// priority (4) and trigger (16).
pub(super) mod register {
    pub const GROUP: u64 = 0x080;
    pub const SET_ENABLE: u64 = 0x100;
    pub const CLEAR_ENABLE: u64 = 0x180;
    pub const SET_PENDING: u64 = 0x200;
    pub const CLEAR_PENDING: u64 = 0x280;
    pub const SET_ACTIVE: u64 = 0x300;
    pub const CLEAR_ACTIVE: u64 = 0x380;
    pub const PRIORITY: u64 = 0x400;
    pub const TRIGGER: u64 = 0xc00;
    pub const IDENTITY: u64 = 0xffe8;
}

/// Registers of the distributor alone.
pub(super) mod distributor {
    pub const CTLR: u64 = 0x000;
    pub const TYPER: u64 = 0x004;
    /// The routes of shared interrupts, of 8 bytes each.
    pub const ROUTE: u64 = 0x6100;
    pub const END_ROUTE: u64 = 0x6200;
}

/// Registers of a redistributor alone.
pub(super) mod redistributor {
    pub const TYPER: u64 = 0x008;
    pub const TYPER_HIGH: u64 = 0x00c;
    pub const WAKER: u64 = 0x014;
    pub const PRIVATE: u64 = 0x1_0000;
}

/// `GICD_TYPER`: 64 interrupts with numbers of 10 bits, each of which goes to one CPU (No1N).
const KIND: u32 = 1 << 25 | 9 << 19 | (INTERRUPTS / 32 - 1);
/// `GICR_TYPER`: the last redistributor.
pub(super) const LAST: u32 = 1 << 4;
/// `GICR_TYPER`: where the number of its CPU stands.
const NUMBER_SHIFT: u32 = 8;
/// `GICD_PIDR2`: architecture 3.
const ARCHITECTURE: u32 = 0x30;
/// `GICD_CTLR`: affinity routing is always on, and there is one security state.
const AFFINITY_ROUTING: u32 = 1 << 4 | 1 << 6;
/// `GICD_CTLR`: the groups that may be enabled.
const GROUPS: u32 = 0b11;
/// `GICD_CTLR.RWP`: a CPU still has an interrupt that was disabled meanwhile.
pub(super) const BUSY: u32 = 1 << 31;

/// Which interrupts a register is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// Shared ones.
    Shared,
    /// Those of this CPU.
    Private(usize),
}

impl Frame {
    fn of(self, set: u64) -> u32 {
        if self == Self::Shared { (set >> 32) as u32 } else { set as u32 }
    }

    fn to(self, set: u32) -> u64 {
        if self == Self::Shared { u64::from(set) << 32 } else { set.into() }
    }
}

impl Controller {
    /// Reads `size` bytes of the distributor.
    pub fn read_distributor(&self, offset: u64, size: u8) -> u64 {
        by_words(offset, size, |offset| match offset {
            distributor::CTLR => self.groups | AFFINITY_ROUTING | if self.is_busy() { BUSY } else { 0 },
            distributor::TYPER => KIND,
            distributor::ROUTE..distributor::END_ROUTE => {
                let (index, shift) = route(offset);
                (self.routes[index] >> shift) as u32
            }
            register::IDENTITY => ARCHITECTURE,
            _ => self.read_word(offset, Frame::Shared),
        })
    }

    /// Writes `size` bytes of the distributor.
    pub fn write_distributor(&mut self, offset: u64, size: u8, value: u64) {
        match offset {
            distributor::CTLR if size == 4 => {
                self.groups = value as u32 & GROUPS;
                self.cpus.iter_mut().for_each(|cpu| cpu.is_stale = true);
            }
            distributor::ROUTE..distributor::END_ROUTE if size >= 4 => {
                self.write_route(offset, value);
                if size == 8 {
                    self.write_route(offset + 4, value >> 32);
                }
            }
            _ => self.write(offset, size, value, Frame::Shared),
        }
    }

    /// Returns whether there is a redistributor at this offset from the first.
    pub fn has_redistributor(&self, offset: u64) -> bool {
        offset < self.count as u64 * REDISTRIBUTOR_SIZE
    }

    /// Reads `size` bytes of the redistributors, by the offset from the first.
    pub fn read_redistributor(&self, offset: u64, size: u8) -> u64 {
        let Some((cpu, offset)) = self.redistributor(offset) else { return 0 };
        by_words(offset, size, |offset| match offset {
            redistributor::TYPER => {
                let last = if cpu + 1 == self.count { LAST } else { 0 };
                (cpu as u32) << NUMBER_SHIFT | last
            }
            // The affinity, which is the number.
            redistributor::TYPER_HIGH => cpu as u32,
            redistributor::WAKER => 0,
            register::IDENTITY => ARCHITECTURE,
            redistributor::PRIVATE.. => self.read_word(offset - redistributor::PRIVATE, Frame::Private(cpu)),
            _ => 0,
        })
    }

    /// Writes `size` bytes of the redistributors, by the offset from the first.
    pub fn write_redistributor(&mut self, offset: u64, size: u8, value: u64) {
        let Some((cpu, offset)) = self.redistributor(offset) else { return };
        if let Some(offset) = offset.checked_sub(redistributor::PRIVATE) {
            self.write(offset, size, value, Frame::Private(cpu));
            self.cpus[cpu].is_stale = true;
        }
    }

    /// The CPU to which a register of the redistributors belongs, and its offset there.
    fn redistributor(&self, offset: u64) -> Option<(usize, u64)> {
        let place = ((offset / REDISTRIBUTOR_SIZE) as usize, offset % REDISTRIBUTOR_SIZE);
        self.has_redistributor(offset).then_some(place)
    }

    /// Returns whether a CPU may still take a shared interrupt that is disabled.
    fn is_busy(&self) -> bool {
        let cpus = self.cpus[..self.count].iter().enumerate();
        cpus.fold(0, |all, (cpu, state)| all | state.pending & !self.enabled(cpu)) >> 32 != 0
    }

    fn write_route(&mut self, offset: u64, value: u64) {
        if !(distributor::ROUTE..distributor::END_ROUTE).contains(&offset) || !offset.is_multiple_of(4) {
            return;
        }
        let (index, shift) = route(offset);
        let others = self.routes[index] & !(0xffff_ffff << shift);
        self.routes[index] = (others | (value & 0xffff_ffff) << shift) & AFFINITY;
        for (number, cpu) in self.cpus[..self.count].iter_mut().enumerate() {
            let bit = 1 << index;
            let is_routed = self.routes[index] == number as u64;
            cpu.routed = if is_routed { cpu.routed | bit } else { cpu.routed & !bit };
        }
    }

    fn bank(&self, frame: Frame) -> &Bank {
        match frame {
            Frame::Shared => &self.shared,
            Frame::Private(cpu) => &self.cpus[cpu].private,
        }
    }

    fn bank_mut(&mut self, frame: Frame) -> &mut Bank {
        match frame {
            Frame::Shared => &mut self.shared,
            Frame::Private(cpu) => &mut self.cpus[cpu].private,
        }
    }

    /// The CPUs whose interrupts a frame is about.
    fn cpus_of(&mut self, frame: Frame) -> &mut [super::Cpu] {
        match frame {
            Frame::Shared => &mut self.cpus[..self.count],
            Frame::Private(cpu) => &mut self.cpus[cpu..=cpu],
        }
    }

    /// Reads a word of the registers about interrupts. What is none reads as zero, as do those of
    /// other interrupts. What a CPU that is in the guest has done with an interrupt meanwhile is
    /// not known.
    fn read_word(&self, offset: u64, frame: Frame) -> u32 {
        let Some((base, index)) = split(offset, frame) else { return 0 };
        let bank = self.bank(frame);
        let of_cpus = |set: fn(&super::Cpu) -> u64| match frame {
            Frame::Shared => self.cpus.iter().fold(0, |all, cpu| all | set(cpu)),
            Frame::Private(cpu) => set(&self.cpus[cpu]),
        };
        match base {
            register::GROUP => u32::MAX,
            register::SET_ENABLE | register::CLEAR_ENABLE => bank.enabled,
            register::SET_PENDING | register::CLEAR_PENDING => bank.pending() | frame.of(of_cpus(|cpu| cpu.offered)),
            register::SET_ACTIVE | register::CLEAR_ACTIVE => frame.of(of_cpus(|cpu| cpu.active)),
            register::PRIORITY => {
                let first = index * 4;
                (0..4).fold(0, |value, at| value | u32::from(bank.priorities[first + at]) << (8 * at))
            }
            _ => (0..16).fold(0, |value, at| {
                let edge = bank.edges >> (index * 16 + at) & 1;
                value | edge << (2 * at + 1)
            }),
        }
    }

    /// Writes what [`Self::read_word`] reads: words, or single bytes of priorities.
    fn write(&mut self, offset: u64, size: u8, value: u64, frame: Frame) {
        let Some((base, index)) = split(offset & !3, frame) else { return };
        let bank = self.bank_mut(frame);
        if base == register::PRIORITY {
            let first = index * 4 + (offset & 3) as usize;
            for at in 0..usize::from(size.min(4)) {
                if let Some(priority) = bank.priorities.get_mut(first + at) {
                    *priority = (value >> (8 * at)) as u8;
                }
            }
            return;
        }
        if size != 4 || !offset.is_multiple_of(4) {
            return;
        }
        let set = value as u32;
        match base {
            register::SET_ENABLE => bank.enabled |= set,
            register::CLEAR_ENABLE => bank.enabled &= !set,
            register::SET_PENDING => bank.latched |= set,
            register::CLEAR_PENDING => {
                bank.latched &= !set;
                self.cpus_of(frame).iter_mut().for_each(|cpu| cpu.offered &= !frame.to(set));
            }
            register::SET_ACTIVE => self.set_active(frame, set),
            register::CLEAR_ACTIVE => {
                for cpu in self.cpus_of(frame) {
                    cpu.active &= !frame.to(set);
                    cpu.ended |= cpu.held & frame.to(set);
                }
            }
            // The trigger of those that are generated by software cannot be changed.
            register::TRIGGER if frame == Frame::Shared || index > 0 => {
                for at in 0..16 {
                    let bit = 1 << (index * 16 + at);
                    let edge = value >> (2 * at + 1) & 1 != 0;
                    bank.edges = if edge { bank.edges | bit } else { bank.edges & !bit };
                }
            }
            _ => {}
        }
    }

    /// Makes interrupts active, of the CPU to which they are routed. Those that a CPU has already
    /// are left alone, and the timer's, which the kernel has in a list register of its own.
    fn set_active(&mut self, frame: Frame, set: u32) {
        let has = self.cpus_of(frame).iter().fold(0, |all, cpu| all | cpu.active | cpu.held);
        let set = frame.to(set) & !has & !TIMER;
        for cpu in self.cpus_of(frame) {
            // Several that are generated by software have one list register.
            let possible = if frame == Frame::Shared { frame.to(cpu.routed) } else { !SOFTWARE };
            cpu.active |= set & possible;
        }
    }
}

/// The index of the interrupt whose route is at this offset, and how far the word there is from the
/// lowest.
fn route(offset: u64) -> (usize, u64) {
    let from = offset - distributor::ROUTE;
    ((from / 8) as usize % BANK, (from & 4) * 8)
}

/// The register to which a word at `offset` belongs, and its index among those of the frame's
/// interrupts. `None` where it is none, or of interrupts of the other frame.
fn split(offset: u64, frame: Frame) -> Option<(u64, usize)> {
    let interrupts_per_word = |base: u64| match base {
        register::PRIORITY => 4,
        register::TRIGGER => 16,
        _ => 32,
    };
    let bases = [
        register::GROUP,
        register::SET_ENABLE,
        register::CLEAR_ENABLE,
        register::SET_PENDING,
        register::CLEAR_PENDING,
        register::SET_ACTIVE,
        register::CLEAR_ACTIVE,
        register::PRIORITY,
        register::TRIGGER,
    ];
    let words = |base: u64| BANK as u64 / interrupts_per_word(base);
    // The registers of shared interrupts follow those of private ones, or where those would be.
    let first = |base: u64| if frame == Frame::Shared { base + 4 * words(base) } else { base };
    let within = |base: &&u64| (first(**base)..first(**base) + 4 * words(**base)).contains(&offset);
    let base = *bases.iter().find(within)?;
    Some((base, ((offset - first(base)) / 4) as usize))
}

/// Reads bytes of registers of 32 bits: a part of one, or two.
fn by_words(offset: u64, size: u8, word: impl Fn(u64) -> u32) -> u64 {
    let low = u64::from(word(offset & !3)) >> (8 * (offset & 3));
    if size == 8 { low | u64::from(word((offset & !3) + 4)) << 32 } else { low }
}
