//! The list of capabilities (6.7), and the interrupts by message among them (6.8).

use crate::{ConfigSpace, Function, register, status};

/// Lowest offset of a capability: the header is below.
const FIRST: u8 = 0x40;

/// Most capabilities: each takes 4 bytes at least.
const MOST: usize = (256 - FIRST as usize) / 4;

/// Number of the capability for interrupts by message (MSI).
const MSI: u8 = 0x05;
/// Number of the capability for interrupts by message from a table (MSI-X).
const MSI_X: u8 = 0x11;
/// MSI's enabling bit in the first word (6.8.1.3).
const MSI_ON: u32 = 1 << 16;
/// MSI-X's enabling bit in the first word (6.8.2.3).
const MSI_X_ON: u32 = 1 << 31;

/// A capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its number.
    pub number: u8,
    /// Where it is, a multiple of 4, at least 64.
    pub offset: u8,
}

/// Calls `each` with every capability, and with the word that it begins with. Returns whether the
/// list has an end: one that leads into the header or in a circle has none.
pub fn capabilities(space: &impl ConfigSpace, function: Function, mut each: impl FnMut(Capability, u32)) -> bool {
    if space.read(function, register::COMMAND) & status::CAPABILITIES == 0 {
        return true;
    }
    // The two lowest bits are reserved, and to be masked (6.7).
    let mut offset = space.read(function, register::CAPABILITIES) as u8 & !3;
    for _ in 0..MOST {
        if offset == 0 {
            return true;
        }
        if offset < FIRST {
            return false;
        }
        let word = space.read(function, offset);
        each(Capability { number: word as u8, offset }, word);
        offset = (word >> 8) as u8 & !3;
    }
    offset == 0
}

/// Turns interrupts by message off. Returns whether there is MSI-X, `None` if the list has no end.
pub fn silence_messages(space: &mut impl ConfigSpace, function: Function) -> Option<bool> {
    let (mut on, mut count, mut has_msi_x) = ([(0, 0); MOST], 0, false);
    let ends = capabilities(space, function, |capability, word| {
        has_msi_x |= capability.number == MSI_X;
        let enabled = match capability.number {
            MSI => word & MSI_ON,
            MSI_X => word & MSI_X_ON,
            _ => 0,
        };
        if enabled != 0 {
            on[count] = (capability.offset, word & !enabled);
            count += 1;
        }
    });
    for &(offset, word) in &on[..count] {
        space.write(function, offset, word);
    }
    ends.then_some(has_msi_x)
}
