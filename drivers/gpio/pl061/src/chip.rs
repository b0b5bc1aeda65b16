//! What is done with the chip's registers: lines are read, and it interrupts where they change.

use crate::registers::*;
use culm_mmio::Registers;

/// Lines of a chip.
pub const LINES: u32 = 0xff;

/// A chip of lines.
pub struct Chip<R> {
    registers: R,
    /// The lines that are watched.
    watched: u32,
}

impl<R: Registers> Chip<R> {
    /// Takes over a chip in whatever state a previous life left it, and makes the lines that are
    /// `watched` inputs. Others stay as they are. It interrupts for none yet.
    pub fn new(registers: R, watched: u32) -> Self {
        let watched = watched & LINES;
        registers.write(INTERRUPT_ENABLE, 0);
        registers.write(ALTERNATE, registers.read(ALTERNATE) & !watched);
        registers.write(DIRECTION, registers.read(DIRECTION) & !watched);
        registers.write(SENSE, registers.read(SENSE) & !watched);
        registers.write(BOTH_EDGES, registers.read(BOTH_EDGES) | watched);
        Self { registers, watched }
    }

    /// Has it interrupt at the next edge; returns the levels. Read the levels last: an edge that
    /// comes before is in them, one that comes after interrupts; the other order loses those in
    /// between.
    pub fn listen(&mut self) -> u32 {
        self.registers.write(INTERRUPT_CLEAR, self.watched);
        self.registers.write(INTERRUPT_ENABLE, self.watched);
        self.levels()
    }

    /// Has it interrupt no more; returns the levels.
    pub fn ignore(&mut self) -> u32 {
        self.registers.write(INTERRUPT_ENABLE, 0);
        self.registers.write(INTERRUPT_CLEAR, self.watched);
        self.levels()
    }

    fn levels(&self) -> u32 {
        self.registers.read(DATA) & LINES
    }
}
