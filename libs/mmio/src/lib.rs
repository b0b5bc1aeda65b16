//! Typed device registers, behind a trait that a fake device of a host test can implement.
//!
//! A driver says in one file where its registers are, how wide they are, what may be done with each
//! and what its bits mean ([`registers!`], [`values!`]), and is generic over [`Registers`]; it
//! needs no unsafe code:
//!
//! ```
//! use culm_mmio::Registers;
//!
//! culm_mmio::registers! {
//!     /// Control register.
//!     pub CONTROL: Control(u32) at 0x30, read write {
//!         /// The port is on.
//!         ENABLE: 0,
//!         /// Bits of a character.
//!         LENGTH: 5..=6 as Length,
//!     }
//! }
//!
//! culm_mmio::values! {
//!     /// Bits of a character.
//!     pub Length: 2 bits {
//!         /// Seven.
//!         SEVEN = 0b10,
//!         /// Eight.
//!         EIGHT = 0b11,
//!     }
//! }
//!
//! fn enable(registers: &impl Registers) {
//!     let control = registers.read(CONTROL).with(Control::LENGTH, Length::EIGHT);
//!     registers.write(CONTROL, control.set(Control::ENABLE));
//! }
//! ```
//!
//! A register that can only be read is not written, which the compiler sees to:
//!
//! ```compile_fail
//! use culm_mmio::Registers;
//!
//! culm_mmio::registers! {
//!     /// Status.
//!     pub STATUS: u32 at 0x04, read;
//! }
//!
//! fn clear(registers: &impl Registers) {
//!     registers.write(STATUS, 0);
//! }
//! ```
//!
//! [`Mapped`] is the real thing. Its size is part of its type, so that the check of a constant
//! register's bounds costs nothing when the program runs.

#![no_std]

#[cfg(test)]
extern crate std;

mod field;
mod mapped;

pub use field::{Field, Value};
pub use mapped::{Mapped, Width};

use core::marker::PhantomData;

/// A register: its offset, the layout of what it holds, and what may be done with it.
#[derive(Debug)]
pub struct Register<L, A = ReadWrite> {
    offset: usize,
    kind: PhantomData<(L, A)>,
}

impl<L: Layout, A> Register<L, A> {
    /// Returns the register at `offset`.
    ///
    /// # Panics
    ///
    /// If its width does not divide the offset; in a constant, that does not compile.
    pub const fn at(offset: usize) -> Self {
        assert!(
            offset.is_multiple_of(size_of::<L::Width>()),
            "a register at an address that its width does not divide"
        );
        Self { offset, kind: PhantomData }
    }

    /// Returns its offset from the device's first register.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        self.offset
    }
}

impl<L, A> Clone for Register<L, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, A> Copy for Register<L, A> {}

/// The content of a register: a number, or fields that [`registers!`] names.
pub trait Layout: Copy {
    /// The number that is read and written.
    type Width: Width;

    /// Takes a register's bits as they are.
    fn from_bits(bits: Self::Width) -> Self;

    /// Returns the bits as the register is to have them.
    fn bits(self) -> Self::Width;
}

impl<W: Width> Layout for W {
    type Width = Self;

    #[inline(always)]
    fn from_bits(bits: Self) -> Self {
        bits
    }

    #[inline(always)]
    fn bits(self) -> Self {
        self
    }
}

/// Access to a register that can only be read.
#[derive(Debug)]
pub enum ReadOnly {}

/// Access to a register that can only be written.
#[derive(Debug)]
pub enum WriteOnly {}

/// Access to a register that can be read and written.
#[derive(Debug)]
pub enum ReadWrite {}

/// Access that allows reading.
pub trait Readable {}
impl Readable for ReadOnly {}
impl Readable for ReadWrite {}

/// Access that allows writing.
pub trait Writable {}
impl Writable for WriteOnly {}
impl Writable for ReadWrite {}

/// The registers of a device, or of what stands in for it.
pub trait Registers {
    /// Reads at an offset, with whatever side effect that has. This is for whoever stands in for a
    /// device; a driver says [`Self::read`].
    fn load<W: Width>(&self, offset: usize) -> W;

    /// Writes at an offset; a driver says [`Self::write`].
    fn store<W: Width>(&self, offset: usize, value: W);

    /// Reads a register, with whatever side effect that has.
    #[inline(always)]
    fn read<L: Layout, A: Readable>(&self, register: Register<L, A>) -> L {
        L::from_bits(self.load(register.offset))
    }

    /// Writes a register.
    #[inline(always)]
    fn write<L: Layout, A: Writable>(&self, register: Register<L, A>, value: L) {
        self.store(register.offset, value.bits());
    }
}
