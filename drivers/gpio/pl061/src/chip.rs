//! The use of the chip's registers: lines are read, and it interrupts where they change.

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

/// The findings of a look at the chip.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The levels of all lines.
    pub levels: u32,
    /// The watched lines that had an edge since the look before.
    pub edges: u32,
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

    /// Has it interrupt at the next edge; returns what was seen until then.
    pub fn listen(&mut self) -> Seen {
        let edges = self.take_edges();
        self.registers.write(INTERRUPT_ENABLE, self.watched);
        self.look(edges)
    }

    /// Has it interrupt no more; returns what was seen until then.
    pub fn ignore(&mut self) -> Seen {
        self.registers.write(INTERRUPT_ENABLE, 0);
        let edges = self.take_edges();
        self.look(edges)
    }

    /// Returns the lines that had an edge, and forgets that they had.
    fn take_edges(&mut self) -> u32 {
        let edges = self.registers.read(RAW_STATUS) & self.watched;
        self.registers.write(INTERRUPT_CLEAR, self.watched);
        edges
    }

    /// Reads the levels, after the edges were taken: an edge that comes before this is in the
    /// levels, one that comes after is kept for the next look; the other order loses those in
    /// between.
    fn look(&self, edges: u32) -> Seen {
        Seen { levels: self.registers.read(DATA) & LINES, edges }
    }
}
