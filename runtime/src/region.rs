//! Shared memory of known bounds, which a peer may read and write at any time.
//!
//! No reference to such memory is ever made: bytes are copied in and out, or accessed as atomics. A
//! copy cannot change between its check and its use. If a peer's offset is wrong, the access does
//! not happen and the caller gets an error.
//!
//! The one exception is [`Exclusive`]: memory that no peer may write, and that has one owner in
//! this component.

use crate::arch::{HAS_ADDRESS_SPACE, copy, domain_static};
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
use culm_abi::memory::{ADDRESS_BITS, REGION_BASE};
use culm_abi::start::Memory;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Memory that this component shares with others, or with a device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Region {
    address: NonNull<u8>,
    size: usize,
    dma: u64,
    writable: bool,
}

/// An offset and length that lie outside a region, or that are not aligned where they must be; or a
/// write to a region that is mapped read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds;

impl fmt::Display for OutOfBounds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an access outside a shared region, or one that the region does not allow")
    }
}

impl core::error::Error for OutOfBounds {}

impl Region {
    /// A region without bytes.
    pub const EMPTY: Self = Self { address: NonNull::dangling(), size: 0, dma: 0, writable: false };

    /// Returns the memory that a start block describes, for reading and writing.
    ///
    /// Memory that is not mapped into this component (address 0) is empty, but keeps its DMA
    /// address.
    ///
    /// # Panics
    ///
    /// If the address is not in shared memory, which no start block contains; and if it is memory
    /// for [`Exclusive::take`], to which there must be no second way.
    #[inline(never)]
    pub fn new(memory: Memory) -> Self {
        assert!(!exclusive().any(|other| overlap(other, memory)), "{:#x} is for one owner", memory.address);
        Self::of(memory)
    }

    fn of(memory: Memory) -> Self {
        let address = if memory.address == 0 { None } else { NonNull::new(shared_address(memory) as *mut u8) };
        match address {
            Some(address) => Self { address, size: memory.size as usize, dma: memory.dma, writable: true },
            None => Self { dma: memory.dma, ..Self::EMPTY },
        }
    }

    /// Returns the memory that a start block describes, for reading.
    ///
    /// # Panics
    ///
    /// As [`Region::new`].
    pub fn read_only(memory: Memory) -> Self {
        Self { writable: false, ..Self::new(memory) }
    }

    /// Returns memory of this program, for host tests and fakes.
    pub fn from_words(words: &'static [AtomicU64]) -> Self {
        Self { address: NonNull::from(words).cast(), size: size_of_val(words), dma: 0, writable: true }
    }

    /// Returns the count of bytes.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.size
    }

    /// Returns whether there is no byte.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Returns the address at which devices see the first byte; 0 if this component does not need
    /// it.
    #[inline(always)]
    pub const fn dma(&self) -> u64 {
        self.dma
    }

    /// Returns the address of the first byte, which gives no access.
    #[inline(always)]
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Returns whether `length` bytes at `offset` lie inside.
    #[inline(always)]
    pub const fn contains(&self, offset: usize, length: usize) -> bool {
        length <= self.size && offset <= self.size - length
    }

    /// Returns the part of `length` bytes at `offset`.
    #[inline(always)]
    pub fn part(&self, offset: usize, length: usize) -> Result<Self, OutOfBounds> {
        let address = self.at(offset, length)?;
        let dma = if self.dma == 0 { 0 } else { self.dma + offset as u64 };
        Ok(Self { address, size: length, dma, writable: self.writable })
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        let source = self.at(offset, bytes.len())?;
        // SAFETY: [A2, A4] the source is checked to lie in the region, the destination is
        // exclusively ours.
        unsafe { copy::shared(NonNull::from(&mut *bytes).cast(), source, bytes.len()) };
        Ok(())
    }

    /// Copies bytes in.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let destination = self.at_writable(offset, bytes.len())?;
        // SAFETY: [A2, A4] the destination is checked to lie in the region, the source is ours to
        // read.
        unsafe { copy::shared(destination, NonNull::from(bytes).cast(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes from one region to another, never looking at them.
    #[inline]
    pub fn copy(&self, offset: usize, to: &Self, to_offset: usize, length: usize) -> Result<(), OutOfBounds> {
        let source = self.at(offset, length)?;
        let destination = to.at_writable(to_offset, length)?;
        // SAFETY: [A2, A4] both are checked to lie in their regions.
        unsafe { copy::shared(destination, source, length) };
        Ok(())
    }

    /// Copies a value out.
    #[inline]
    pub fn load<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T, OutOfBounds> {
        let mut value = T::new_zeroed();
        self.read(offset, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Copies a value in.
    #[inline]
    pub fn store<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds> {
        self.write(offset, value.as_bytes())
    }

    /// Sets bytes to zero.
    pub fn clear(&self, offset: usize, length: usize) -> Result<(), OutOfBounds> {
        let destination = self.at_writable(offset, length)?;
        // SAFETY: [A2, A4] checked to lie in the region.
        unsafe { copy::clear(destination, length) };
        Ok(())
    }

    /// Writes bytes that caches hold back to memory, for whoever reads them without caches.
    pub fn clean(&self, offset: usize, length: usize) -> Result<(), OutOfBounds> {
        let first = self.at(offset, length)?;
        // SAFETY: [A2, A4] checked to lie in the region.
        unsafe { copy::clean(first, length) };
        Ok(())
    }

    /// Returns the half word at `offset`, a multiple of 2.
    #[inline(always)]
    pub fn atomic_u16(&self, offset: usize) -> Result<&'static AtomicU16, OutOfBounds> {
        self.atomic(offset)
    }

    /// Returns the word at `offset`, a multiple of 4.
    #[inline(always)]
    pub fn atomic_u32(&self, offset: usize) -> Result<&'static AtomicU32, OutOfBounds> {
        self.atomic(offset)
    }

    /// Returns the double word at `offset`, a multiple of 8.
    #[inline(always)]
    pub fn atomic_u64(&self, offset: usize) -> Result<&'static AtomicU64, OutOfBounds> {
        self.atomic(offset)
    }

    /// Returns `count` words from `offset` on, a multiple of 4.
    #[inline]
    pub fn atomics_u32(&self, offset: usize, count: usize) -> Result<&'static [AtomicU32], OutOfBounds> {
        self.atomics(offset, count)
    }

    /// Returns `count` half words from `offset` on, a multiple of 2.
    pub fn atomics_u16(&self, offset: usize, count: usize) -> Result<&'static [AtomicU16], OutOfBounds> {
        self.atomics(offset, count)
    }

    /// Returns `count` double words from `offset` on, a multiple of 8.
    #[inline]
    pub fn atomics_u64(&self, offset: usize, count: usize) -> Result<&'static [AtomicU64], OutOfBounds> {
        self.atomics(offset, count)
    }

    /// Returns the bytes as an ordinary slice.
    ///
    /// # Safety
    ///
    /// While the slice lives nobody may write these bytes: no peer that this component does not
    /// trust with its own safety may have them mapped writable, nor may a device write them, nor
    /// this component by this or another region.
    #[inline(always)]
    pub unsafe fn slice(&self, offset: usize, length: usize) -> Result<&'static [u8], OutOfBounds> {
        let address = self.at(offset, length)?;
        // SAFETY: [A3] mapped for as long as the component runs; unchanging by the caller's word.
        Ok(unsafe { NonNull::slice_from_raw_parts(address, length).as_ref() })
    }

    #[inline(always)]
    fn at(&self, offset: usize, length: usize) -> Result<NonNull<u8>, OutOfBounds> {
        if !self.contains(offset, length) {
            return Err(OutOfBounds);
        }
        // SAFETY: [A4] within the region, as just checked.
        Ok(unsafe { self.address.add(offset) })
    }

    #[inline(always)]
    fn at_writable(&self, offset: usize, length: usize) -> Result<NonNull<u8>, OutOfBounds> {
        if self.writable { self.at(offset, length) } else { Err(OutOfBounds) }
    }

    /// `T` is one of the atomics above.
    #[inline]
    fn atomics<T>(&self, offset: usize, count: usize) -> Result<&'static [T], OutOfBounds> {
        let length = count.checked_mul(size_of::<T>()).ok_or(OutOfBounds)?;
        let address = self.at(offset, length)?.cast::<T>();
        if !address.is_aligned() {
            return Err(OutOfBounds);
        }
        // SAFETY: [A2, A3, A4] as in `atomic`, for each of them.
        Ok(unsafe { NonNull::slice_from_raw_parts(address, count).as_ref() })
    }

    /// `T` is one of the atomics above.
    #[inline(always)]
    fn atomic<T>(&self, offset: usize) -> Result<&'static T, OutOfBounds> {
        let address = self.at(offset, size_of::<T>())?.cast::<T>();
        if !address.is_aligned() {
            return Err(OutOfBounds);
        }
        // SAFETY: [A2, A3, A4] inside the region, aligned, mapped for as long as the component
        // runs, and an atomic, which others may change at any time. Storing to a read-only region
        // faults, which harms nobody else.
        Ok(unsafe { address.as_ref() })
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.writable { "rw" } else { "r" };
        write!(formatter, "Region({:p}, {} bytes, {access})", self.address, self.size)
    }
}

/// Memory that its owner sees as ordinary bytes: peers may read it, but only the owner writes it.
///
/// The start block says which memory that is (the transmit buffers of a network's client). It is
/// taken once in a life of the component, and no [`Region`] shows it: so safe code cannot come by a
/// second way to bytes that are borrowed.
#[derive(Debug)]
pub struct Exclusive {
    region: Region,
}

domain_static! {
    /// Which of the start block's exclusive memory was taken, by position.
    TAKEN: Cell<u64> = Cell::new(0);
}

impl Exclusive {
    /// Takes the memory.
    ///
    /// # Panics
    ///
    /// If the start block has no such memory, or it was taken before. (In a host test memory that
    /// no start block names can be taken, which the test then leaves alone while it is borrowed.)
    #[inline(never)]
    pub fn take(memory: Memory) -> Self {
        let index = exclusive().position(|other| other == memory);
        assert!(index.is_some() || !HAS_ADDRESS_SPACE, "{:#x} is not for one owner", memory.address);
        if let Some(index) = index {
            let bit = 1_u64.checked_shl(index as u32).expect("so many pieces have one owner");
            let taken = TAKEN.with(Cell::get);
            assert!(taken & bit == 0, "{:#x} has an owner already", memory.address);
            TAKEN.with(|cell| cell.set(taken | bit));
        }
        Self { region: Region::of(memory) }
    }

    /// Returns the bytes, to be read and changed.
    #[inline(always)]
    pub fn slice_mut(&mut self, offset: usize, length: usize) -> Result<&mut [u8], OutOfBounds> {
        let address = self.region.at_writable(offset, length)?;
        // SAFETY: [A3, A5] mapped for as long as the component runs. Nobody else has it mapped
        // writable (the build tool's word for memory that `exclusive` names); in this component
        // only this value leads there, since it was taken once and `Region::new` refuses it; and
        // the slice borrows this value.
        Ok(unsafe { NonNull::slice_from_raw_parts(address, length).as_mut() })
    }
}

/// Returns the memory that the start block gives to one owner each.
fn exclusive() -> impl Iterator<Item = Memory> {
    crate::start::current().exclusive()
}

/// Returns whether two pieces of memory have a byte in common.
fn overlap(a: Memory, b: Memory) -> bool {
    a.address < b.address.saturating_add(b.size) && b.address < a.address.saturating_add(a.size)
}

/// Returns the address of memory that a start block describes as shared.
///
/// # Panics
///
/// If it is not shared memory. This makes [`Region::new`] and the rings safe: from [`REGION_BASE`]
/// upwards there is nothing that the compiler knows of (program, stack, heap and start block lie
/// below), so a volatile or atomic access there touches shared memory, or faults.
#[inline]
pub(crate) fn shared_address(memory: Memory) -> usize {
    let end = memory.address.checked_add(memory.size);
    let valid = memory.address >= REGION_BASE && end.is_some_and(|end| end <= 1 << ADDRESS_BITS);
    assert!(valid || !HAS_ADDRESS_SPACE, "{:#x} is no shared memory", memory.address);
    memory.address as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_abi::connection::{Connection as _, NetClient, Start};
    use culm_abi::start::{Connection, MAGIC, Span, StartHeader};
    use zerocopy::FromZeros;

    fn region() -> Region {
        let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        Region::from_words(words.leak())
    }

    #[test]
    fn bytes_go_in_and_out() {
        let region = region();
        region.write(3, b"abcdef").expect("inside");
        let mut bytes = [0; 4];
        region.read(4, &mut bytes).expect("inside");
        assert_eq!(&bytes, b"bcde");
        let other = self::region();
        region.copy(3, &other, 0, 6).expect("inside");
        assert_eq!(other.load::<u32>(0), Ok(u32::from_le_bytes(*b"abcd")));
        other.clear(1, 2).expect("inside");
        assert_eq!(other.load::<u32>(0), Ok(u32::from_le_bytes(*b"a\0\0d")));
    }

    #[test]
    fn nothing_outside_is_touched() {
        let region = region();
        for (offset, length) in [(0, 33), (32, 1), (33, 0), (usize::MAX, 2), (2, usize::MAX)] {
            assert!(!region.contains(offset, length), "{offset} {length}");
            assert_eq!(region.part(offset, length), Err(OutOfBounds));
        }
        assert_eq!(region.read(31, &mut [0; 2]), Err(OutOfBounds));
        assert_eq!(region.store(29, &0_u32), Err(OutOfBounds));
        assert!(
            region.atomics_u16(30, 1).is_ok() && region.atomics_u16(30, 2).is_err() && region.atomics_u64(8, 3).is_ok()
        );
        assert!(region.atomics_u64(4, 1).is_err() && region.atomics_u64(0, usize::MAX / 4).is_err());
        assert!(region.atomic_u32(2).is_err() && region.atomic_u64(32).is_err() && region.atomic_u64(24).is_ok());
        assert!(region.part(32, 0).is_ok());
    }

    #[test]
    fn a_part_has_its_own_bounds() {
        let part = region().part(8, 8).expect("inside");
        assert!(part.write(8, &[1]).is_err());
        assert!(part.write(7, &[1]).is_ok());
    }

    #[test]
    fn a_region_that_is_not_mapped_is_empty() {
        let region = Region::new(Memory { address: 0, size: 4096, dma: 0x5000_0000 });
        assert_eq!((region.len(), region.dma()), (0, 0x5000_0000));
        assert!(region.read(0, &mut [0]).is_err());
    }

    /// A start block with a network's client whose transmit buffers are this memory.
    fn with_transmit_buffers(tx_data: Memory) {
        let mut header = StartHeader::new_zeroed();
        let (connection, client) = (size_of::<StartHeader>(), size_of::<StartHeader>() + size_of::<Connection>());
        header.magic = MAGIC;
        header.version = culm_abi::VERSION;
        header.size = (client + size_of::<NetClient>().next_multiple_of(8)) as u32;
        header.connections = Span { offset: connection as u32, count: 1 };
        let data = Span { offset: client as u32, count: 1 };
        let connection = Connection { kind: NetClient::<Start>::KIND.number, slot: 0, peer: Span::default(), data };
        let mut client = vec![0; size_of::<NetClient>().next_multiple_of(8)];
        let at = core::mem::offset_of!(NetClient, tx_data);
        client[at..at + size_of::<Memory>()].copy_from_slice(tx_data.as_bytes());
        crate::testing::set_start_block(&[header.as_bytes(), connection.as_bytes(), &client].concat());
    }

    const BUFFERS: Memory = Memory { address: 0x4000_0000, size: 0x1000, dma: 0 };

    #[test]
    #[should_panic(expected = "has an owner already")]
    fn what_has_one_owner_is_given_out_once() {
        with_transmit_buffers(BUFFERS);
        let _ = Exclusive::take(BUFFERS);
        let _ = Exclusive::take(BUFFERS);
    }

    #[test]
    #[should_panic(expected = "is for one owner")]
    fn no_region_shows_what_has_one_owner() {
        with_transmit_buffers(BUFFERS);
        let _ = Region::new(Memory { address: 0x4000_0fff, size: 0x1000, dma: 0 });
    }

    #[test]
    fn what_lies_beside_can_be_shown() {
        with_transmit_buffers(BUFFERS);
        assert_eq!(Region::new(Memory { address: 0x4000_1000, size: 0x1000, dma: 0 }).len(), 0x1000);
        assert_eq!(Region::read_only(Memory { address: 0x3fff_f000, size: 0x1000, dma: 0 }).len(), 0x1000);
    }
}
