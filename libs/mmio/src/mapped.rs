//! Registers of a real device, and accesses of each width.

use crate::Registers;
use core::ptr::NonNull;
use culm_abi::memory::{ADDRESS_BITS, REGION_BASE};
use culm_abi::start::Memory;

/// The width of a register: `u8`, `u16`, `u32`.
pub trait Width: Copy + sealed::Access {
    /// Returns the low bits of `value`.
    fn truncate(value: u32) -> Self;

    /// Returns the value in the low bits, the others 0.
    fn extend(self) -> u32;
}

mod sealed {
    /// An access to device memory.
    pub trait Access {
        /// Reads.
        ///
        /// # Safety
        ///
        /// `address` must be that of a device's register, or of memory that can be read, and
        /// aligned.
        unsafe fn read(address: *const Self) -> Self;

        /// Writes.
        ///
        /// # Safety
        ///
        /// `address` must be that of a device's register, or of memory that can be written and that
        /// no reference covers, and aligned.
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
                // SAFETY: [A4] by the caller's word.
                unsafe { address.read_volatile() }
            }

            #[inline(always)]
            unsafe fn write(address: *mut Self, value: Self) {
                // SAFETY: [A4] by the caller's word.
                unsafe { address.write_volatile(value) }
            }
        }
    )* };
}

width!(u8, u16, u32);

/// Registers of a real device, mapped over `SIZE` bytes.
#[derive(Debug)]
pub struct Mapped<const SIZE: usize> {
    address: NonNull<u8>,
}

impl<const SIZE: usize> Mapped<SIZE> {
    /// Returns the registers that a start block describes.
    ///
    /// # Panics
    ///
    /// If they are fewer than `SIZE` bytes, not aligned to 4, or not where devices are mapped: the
    /// board's file gives the device too small a range.
    pub fn new(memory: Memory) -> Self {
        let end = memory.address.checked_add(memory.size);
        let mapped = memory.address >= REGION_BASE && end.is_some_and(|end| end <= 1 << ADDRESS_BITS);
        assert!(mapped && memory.address.is_multiple_of(4), "no registers at {:#x}", memory.address);
        assert!(memory.size >= SIZE as u64, "{} bytes of registers where the device has {SIZE}", memory.size);
        Self { address: NonNull::new(memory.address as *mut u8).expect("not below `REGION_BASE`") }
    }

    #[inline(always)]
    fn at<W: Width>(&self, offset: usize) -> *mut W {
        // Registers are constants, so this leaves no trace in the program.
        let inside = offset <= SIZE && size_of::<W>() <= SIZE - offset;
        assert!(inside && offset.is_multiple_of(size_of::<W>()), "a register outside the device");
        // SAFETY: [A4] within the mapped range, as just checked.
        unsafe { self.address.add(offset) }.as_ptr().cast()
    }
}

impl<const SIZE: usize> Registers for Mapped<SIZE> {
    #[inline(always)]
    fn load<W: Width>(&self, offset: usize) -> W {
        // SAFETY: [A1] at or above `REGION_BASE` there is nothing that the compiler knows of: the
        // access reaches the device, or shared memory, or faults, which harms nobody else. [A4] It
        // is aligned, as `at` and `new` check.
        unsafe { W::read(self.at(offset)) }
    }

    #[inline(always)]
    fn store<W: Width>(&self, offset: usize, value: W) {
        // SAFETY: [A1], [A4] as in `load`.
        unsafe { W::write(self.at(offset), value) }
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

    #[test]
    fn an_access_outside_or_across_is_refused() {
        let registers = Mapped::<0x10>::new(memory(REGION_BASE, 0x10));
        for (offset, possible) in [(0xc, true), (0xe, false), (0x10, false), (usize::MAX - 3, false), (2, false)] {
            let address = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| registers.at::<u32>(offset)));
            assert_eq!(address.is_ok(), possible, "{offset:#x}");
        }
    }
}
