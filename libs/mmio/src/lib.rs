//! Typed device registers, behind a trait that a fake device of a host test can implement.
//!
//! A driver lists its registers as constants and is generic over [`Registers`]; it needs no unsafe
//! code:
//!
//! ```
//! use culm_mmio::{Register, Registers};
//!
//! /// Control register.
//! const CONTROL: Register<u32> = Register::at(0x30);
//!
//! fn enable(registers: &impl Registers) {
//!     registers.write(CONTROL, registers.read(CONTROL) | 1);
//! }
//! ```
//!
//! [`Mapped`] is the real thing. Its size is part of its type, so that the check of a constant
//! register's bounds costs nothing when the program runs.

#![no_std]

use core::marker::PhantomData;
use core::ptr::NonNull;
use culm_abi::memory::{ADDRESS_BITS, REGION_BASE};
use culm_abi::start::Memory;

/// A register: its offset, and its width as a type.
#[derive(Debug)]
pub struct Register<T> {
    offset: usize,
    width: PhantomData<T>,
}

impl<T: Width> Register<T> {
    /// The register at `offset`.
    pub const fn at(offset: usize) -> Self {
        assert!(offset.is_multiple_of(size_of::<T>()), "a register at an address that its width does not divide");
        Self { offset, width: PhantomData }
    }

    /// Its offset from the device's first register.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        self.offset
    }
}

impl<T> Clone for Register<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Register<T> {}

/// What a register can be as wide as: `u8`, `u16`, `u32`.
pub trait Width: Copy + sealed::Access {
    /// The low bits of `value`.
    fn truncate(value: u32) -> Self;

    /// The value in the low bits, the others 0.
    fn extend(self) -> u32;
}

mod sealed {
    /// An access to device memory.
    pub trait Access {
        /// Reads.
        ///
        /// # Safety
        ///
        /// `address` must be that of a device's register, or of memory that can be read.
        unsafe fn read(address: *const Self) -> Self;

        /// Writes.
        ///
        /// # Safety
        ///
        /// `address` must be that of a device's register, or of memory that can be written and that
        /// no reference covers.
        unsafe fn write(address: *mut Self, value: Self);
    }
}

macro_rules! width {
    ($($integer:ty),*) => { $(
        impl Width for $integer {
            #[inline(always)]
            fn truncate(value: u32) -> Self {
                value as Self
            }

            #[inline(always)]
            fn extend(self) -> u32 {
                self.into()
            }
        }

        impl sealed::Access for $integer {
            #[inline(always)]
            unsafe fn read(address: *const Self) -> Self {
                // SAFETY: [A4] by the caller's word; aligned, as `Register::at` and `Mapped::new`
                // check.
                unsafe { address.read_volatile() }
            }

            #[inline(always)]
            unsafe fn write(address: *mut Self, value: Self) {
                // SAFETY: [A4] by the caller's word; aligned, as `Register::at` and `Mapped::new`
                // check.
                unsafe { address.write_volatile(value) }
            }
        }
    )* };
}

width!(u8, u16, u32);

/// The registers of a device, or of what stands in for it.
pub trait Registers {
    /// Reads a register, with whatever side effect that has.
    fn read<T: Width>(&self, register: Register<T>) -> T;

    /// Writes a register.
    fn write<T: Width>(&self, register: Register<T>, value: T);
}

/// Registers of a real device, mapped over `SIZE` bytes.
#[derive(Debug)]
pub struct Mapped<const SIZE: usize> {
    address: NonNull<u8>,
}

impl<const SIZE: usize> Mapped<SIZE> {
    /// The registers that a start block describes.
    ///
    /// # Panics
    ///
    /// Where they are fewer than `SIZE` bytes, not aligned to 4, or not where devices are mapped:
    /// the board's file gives the device too small a range.
    pub fn new(memory: Memory) -> Self {
        let end = memory.address.checked_add(memory.size);
        let mapped = memory.address >= REGION_BASE && end.is_some_and(|end| end <= 1 << ADDRESS_BITS);
        assert!(mapped && memory.address.is_multiple_of(4), "no registers at {:#x}", memory.address);
        assert!(memory.size >= SIZE as u64, "{} bytes of registers where the device has {SIZE}", memory.size);
        Self { address: NonNull::new(memory.address as *mut u8).expect("not below `REGION_BASE`") }
    }

    #[inline(always)]
    fn at<T: Width>(&self, register: Register<T>) -> *mut T {
        // Both are constants, so this leaves no trace in the program.
        assert!(register.offset + size_of::<T>() <= SIZE, "a register outside the device");
        // SAFETY: [A4] within the mapped range, as just checked.
        unsafe { self.address.add(register.offset) }.as_ptr().cast()
    }
}

impl<const SIZE: usize> Registers for Mapped<SIZE> {
    #[inline(always)]
    fn read<T: Width>(&self, register: Register<T>) -> T {
        // SAFETY: [A1] at or above `REGION_BASE` there is nothing that the compiler knows of: the
        // access reaches the device, or shared memory, or faults, which harms nobody else.
        unsafe { T::read(self.at(register)) }
    }

    #[inline(always)]
    fn write<T: Width>(&self, register: Register<T>, value: T) {
        // SAFETY: [A1] as above.
        unsafe { T::write(self.at(register), value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(address: u64, size: u64) -> Memory {
        Memory { address, size, dma: 0 }
    }

    #[test]
    fn registers_are_where_regions_are() {
        let _ = Mapped::<0x1000>::new(memory(REGION_BASE, 0x1000));
    }

    #[test]
    #[should_panic = "no registers at 0x200000"]
    fn a_program_is_no_device() {
        let _ = Mapped::<0x1000>::new(memory(0x20_0000, 0x1000));
    }

    #[test]
    #[should_panic = "512 bytes of registers where the device has 4096"]
    fn a_range_that_is_too_small_is_refused() {
        let _ = Mapped::<0x1000>::new(memory(REGION_BASE, 0x200));
    }
}
