//! A ring's memory: the only place of this crate where addresses become references.

#[cfg(not(loom))]
use crate::HEADER_SIZE;
use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::entry::{Entry, sealed::Slot};
use crate::{ALIGNMENT, MAX_CAPACITY, index};
use core::fmt;
use core::ptr::NonNull;

/// The atomics of one slot of a ring of `T`.
type Cell<T> = <<T as Entry>::Word as Slot>::Cell;

/// The words that one side publishes, on a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct Side {
    /// `generation << 32 | index`.
    pub(crate) word: AtomicU64,
    /// The other side's index which, when it is passed, is to wake this side.
    pub(crate) wanted: AtomicU32,
    /// For a producer that is an end of a [`Link`](crate::Link):
    /// `generation of the consumer << 32 | index`. Entries from this index on are meant for the
    /// consumer's life of this generation; all before are void.
    pub(crate) start: AtomicU64,
}

/// Head of a ring.
#[repr(C)]
pub(crate) struct Header {
    /// Written by the producer.
    pub(crate) producer: Side,
    /// Written by the consumer.
    pub(crate) consumer: Side,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() == HEADER_SIZE && align_of::<Header>() == ALIGNMENT);

/// A ring's memory, as one side sees it.
pub struct Shared<T: Entry> {
    header: NonNull<Header>,
    cells: NonNull<Cell<T>>,
    mask: u32,
}

/// The reason why memory cannot be a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The capacity is not a power of two of at most [`MAX_CAPACITY`].
    Capacity(u32),
    /// The address is not a multiple of [`ALIGNMENT`].
    Address(usize),
}

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(capacity) => {
                write!(formatter, "a ring of {capacity} entries: make it a power of two of at most {MAX_CAPACITY}")
            }
            Self::Address(address) => {
                write!(formatter, "a ring at {address:#x}: put it at a multiple of {ALIGNMENT}")
            }
        }
    }
}

impl core::error::Error for Invalid {}

/// How full a ring looks to a third party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Entries queued, at most the capacity.
    pub queued: u32,
    /// All entries that ever went in, modulo 2³².
    pub total: u32,
}

impl<T: Entry> Shared<T> {
    /// Returns the ring of `capacity` entries at `address`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if the capacity or the address cannot be a ring's.
    ///
    /// # Safety
    ///
    /// [`crate::layout`] bytes at `address` must be mapped for as long as the program runs, for
    /// writing too if a [`Producer`](crate::Producer) or [`Consumer`](crate::Consumer) is attached,
    /// and this program must touch them only through this type and through atomics. Other
    /// protection domains may do with them as they like.
    #[cfg(not(loom))]
    pub unsafe fn from_raw(address: NonNull<u8>, capacity: u32) -> Result<Self, Invalid> {
        if !capacity.is_power_of_two() || capacity > MAX_CAPACITY {
            return Err(Invalid::Capacity(capacity));
        }
        if !address.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            return Err(Invalid::Address(address.as_ptr().addr()));
        }
        // SAFETY: [A4] the header lies within the bytes that the caller vouches for.
        let cells = unsafe { address.add(HEADER_SIZE) };
        Ok(Self { header: address.cast(), cells: cells.cast(), mask: capacity - 1 })
    }

    /// The count of slots.
    #[inline(always)]
    pub fn capacity(&self) -> u32 {
        // The capacity is at most `MAX_CAPACITY`, so this does not overflow.
        self.mask.wrapping_add(1)
    }

    /// Returns how full the ring is, without taking part in it: observers may map it read-only.
    pub fn depth(&self) -> Depth {
        let consumer = index(self.header().consumer.word.load(Ordering::Relaxed));
        let total = index(self.header().producer.word.load(Ordering::Relaxed));
        Depth { queued: total.wrapping_sub(consumer).min(self.capacity()), total }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: [A2, A3] mapped for as long as the program runs and made of atomics only
        // (`from_raw`, `Storage::shared`).
        unsafe { self.header.as_ref() }
    }

    #[inline(always)]
    fn cell(&self, index: u32) -> &Cell<T> {
        // SAFETY: [A2, A3, A4] the masked index is below the capacity, so the cell is one of the
        // ring's, which are mapped for as long as the program runs and made of atomics only
        // (`from_raw`, `Storage::shared`).
        unsafe { self.cells.add((index & self.mask) as usize).as_ref() }
    }

    /// Copies out what stands in the slot of any index. If that is not published, it is what the
    /// producer wrote there last.
    #[inline(always)]
    pub fn load(&self, index: u32) -> T {
        T::from_word(Slot::load(self.cell(index)))
    }

    /// Copies an entry into the slot of any index.
    #[inline(always)]
    pub(crate) fn store(&self, index: u32, entry: T) {
        crate::crash_point();
        entry.into_word().store(self.cell(index));
    }
}

impl<T: Entry> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Entry> Copy for Shared<T> {}

// SAFETY: [A2] the memory is made of atomics only, which any thread may use.
unsafe impl<T: Entry> Send for Shared<T> {}

// SAFETY: [A2] as above.
unsafe impl<T: Entry> Sync for Shared<T> {}

impl<T: Entry> fmt::Debug for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("address", &self.header)
            .field("capacity", &self.capacity())
            .field("depth", &self.depth())
            .finish()
    }
}

/// Memory for a ring within one program: for tests, and for both sides of a fake.
#[repr(C)]
pub struct Storage<T: Entry, const CAPACITY: usize> {
    header: Header,
    cells: [Cell<T>; CAPACITY],
}

impl<T: Entry, const CAPACITY: usize> Storage<T, CAPACITY> {
    const VALID: () = assert!(CAPACITY.is_power_of_two() && CAPACITY <= MAX_CAPACITY as usize);

    /// An empty ring.
    pub fn new() -> Self {
        let () = Self::VALID;
        let side = || Side { word: AtomicU64::new(0), wanted: AtomicU32::new(0), start: AtomicU64::new(0) };
        Self {
            header: Header { producer: side(), consumer: side() },
            cells: core::array::from_fn(|_| <T::Word as Slot>::zero()),
        }
    }

    /// Returns the ring in this memory. A test gets the needed lifetime by `Box::leak`.
    pub fn shared(&'static self) -> Shared<T> {
        Shared {
            header: NonNull::from(&self.header),
            cells: NonNull::from(&self.cells).cast(),
            mask: CAPACITY as u32 - 1,
        }
    }
}

impl<T: Entry, const CAPACITY: usize> Default for Storage<T, CAPACITY> {
    fn default() -> Self {
        Self::new()
    }
}
