//! Base address registers (6.2.5.1): what kind each is, and how many bytes the device answers for.

use crate::{ConfigSpace, Function, register};

/// Registers of a device's header.
pub const BARS: u8 = 6;

/// The use of a base address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// Ports of input and output, which Culm leaves off.
    Ports,
    /// Memory below 4 GiB.
    Memory32,
    /// Memory anywhere: the next register has the upper half of its address.
    Memory64,
}

/// A base address register of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Which one, less than [`BARS`].
    pub index: u8,
    /// Its use.
    pub kind: BarKind,
}

/// A register with the bytes that the device answers for there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizedBar {
    /// The register.
    pub bar: Bar,
    /// Bytes, a power of two.
    pub size: u64,
}

/// Bits of a register for memory that are no address.
const MEMORY_FLAGS: u32 = 0xf;
/// Bits of a register for ports that are no address.
const PORT_FLAGS: u32 = 0x3;

/// The result of a look at one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The device has no such register.
    None,
    /// It has one.
    Found(SizedBar),
    /// Its answer is no base address register.
    Nonsense,
}

fn offset(index: u8) -> u8 {
    register::BAR + 4 * index
}

/// Finds out what register `index` is, by writing ones to it; leaves 0 in it. The device must not
/// decode addresses meanwhile: it would answer at those that the ones make.
pub fn look(space: &mut impl ConfigSpace, function: Function, index: u8) -> Look {
    let flags = space.read(function, offset(index));
    let ones = probe(space, function, index);
    if flags & 1 != 0 {
        let size = size_of_ones((ones & !PORT_FLAGS).into(), 32, true);
        let bar = Bar { index, kind: BarKind::Ports };
        return size.map_or(Look::Nonsense, |size| Look::Found(SizedBar { bar, size }));
    }
    if ones & !MEMORY_FLAGS == 0 && flags >> 1 & 3 == 0 {
        return Look::None;
    }
    let (kind, ones, bits) = match flags >> 1 & 3 {
        0 => (BarKind::Memory32, (ones & !MEMORY_FLAGS).into(), 32),
        2 if index + 1 < BARS => {
            let upper = probe(space, function, index + 1);
            (BarKind::Memory64, u64::from(ones & !MEMORY_FLAGS) | u64::from(upper) << 32, 64)
        }
        _ => return Look::Nonsense,
    };
    let size = size_of_ones(ones, bits, false);
    size.map_or(Look::Nonsense, |size| Look::Found(SizedBar { bar: Bar { index, kind }, size }))
}

/// Writes ones, reads what stays, and writes 0.
fn probe(space: &mut impl ConfigSpace, function: Function, index: u8) -> u32 {
    space.write(function, offset(index), u32::MAX);
    let ones = space.read(function, offset(index));
    space.write(function, offset(index), 0);
    ones
}

/// Returns the size that the bits of an address tell: those that can be set are the upper ones.
/// Ports may have their upper 16 bits at zero.
fn size_of_ones(ones: u64, bits: u32, may_be_short: bool) -> Option<u64> {
    let lowest = ones.checked_ilog2().map(|_| ones.trailing_zeros())?;
    let full = |bits: u32| (u64::MAX >> (64 - bits)) & (u64::MAX << lowest);
    (ones == full(bits) || may_be_short && lowest < 16 && ones == full(16)).then_some(1 << lowest)
}

/// Writes an address; returns whether the register has it then.
pub fn place(space: &mut impl ConfigSpace, function: Function, bar: Bar, address: u64) -> bool {
    space.write(function, offset(bar.index), address as u32);
    if bar.kind == BarKind::Memory64 {
        space.write(function, offset(bar.index + 1), (address >> 32) as u32);
    }
    placed(space, function, bar.index) == Some((bar.kind, address))
}

/// Returns what register `index` is for by its own bits, and the address in it; `None` if it is no
/// memory. What follows a register of 64 bits is its upper half, which only the caller knows.
pub fn placed(space: &impl ConfigSpace, function: Function, index: u8) -> Option<(BarKind, u64)> {
    let lower = space.read(function, offset(index));
    let address = u64::from(lower & !MEMORY_FLAGS);
    match lower & 7 {
        0 => Some((BarKind::Memory32, address)),
        4 if index + 1 < BARS => {
            Some((BarKind::Memory64, address | u64::from(space.read(function, offset(index + 1))) << 32))
        }
        _ => None,
    }
}
