//! The heap of components whose manifest declares one.
//!
//! Only a component that uses `alloc` links this. The allocator takes the declared memory from the
//! start block at the first allocation; there is never more. An allocation that does not fit ends
//! in a panic, thus a fault of this component alone: declare enough, and bound what peers can make
//! a component hold.

use crate::{exhaustion, start};
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use talc::base::{Talc, binning::Binning};
use talc::cell::TalcSyncCell;
use talc::source::Source;
use talc::{DefaultBinning, TalcCell};

#[global_allocator]
static HEAP: Heap = Heap {
    // SAFETY: [D1] a protection domain has exactly one thread, and nothing interrupts it that runs
    // code in its address space.
    allocator: unsafe { TalcSyncCell::new(TalcCell::new(Declared { taken: false })) },
    used: AtomicUsize::new(0),
};

/// Bytes of the heap in use, without what the allocator needs for itself.
pub fn used() -> u64 {
    HEAP.used.load(Relaxed) as u64
}

/// The allocator, which counts.
struct Heap {
    allocator: TalcSyncCell<Declared, DefaultBinning>,
    used: AtomicUsize,
}

impl Heap {
    /// One thread counts, so it need not be one step.
    fn count(&self, allocated: usize, freed: usize) {
        self.used.store(self.used.load(Relaxed).wrapping_add(allocated).wrapping_sub(freed), Relaxed);
    }
}

// SAFETY: every call is passed on as it is. None is inlined: most places allocate once, when the
// component starts, and each would have a copy of the allocator.
unsafe impl GlobalAlloc for Heap {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises what the allocator asks for.
        let place = unsafe { self.allocator.alloc(layout) };
        if place.is_null() {
            exhaustion::record_refusal(layout.size());
        } else {
            self.count(layout.size(), 0);
        }
        place
    }

    #[inline(never)]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller promises what the allocator asks for.
        unsafe { self.allocator.dealloc(place, layout) };
        self.count(0, layout.size());
    }

    #[inline(never)]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises what the allocator asks for.
        let moved = unsafe { self.allocator.realloc(place, layout, size) };
        if moved.is_null() {
            exhaustion::record_refusal(size);
        } else {
            self.count(size, layout.size());
        }
        moved
    }
}

/// The memory that the build tool mapped for the heap.
#[derive(Debug)]
struct Declared {
    taken: bool,
}

// SAFETY: `acquire` uses the allocator only through `talc`, and allocates nothing.
unsafe impl Source for Declared {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, _: Layout) -> Result<(), ()> {
        if core::mem::replace(&mut talc.source.taken, true) {
            return Err(());
        }
        let heap = start::current().header().heap;
        if heap.size == 0 {
            return Err(());
        }
        // SAFETY: [A1] mapped for this domain alone, and given to nobody but this allocator, once.
        match unsafe { talc.claim(heap.address as *mut u8, heap.size as usize) } {
            Some(_) => Ok(()),
            None => Err(()),
        }
    }
}
