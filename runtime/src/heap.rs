//! The heap of components whose manifest declares one.
//!
//! Only a component that uses `alloc` links this. The allocator takes the declared memory from the start block at the
//! first allocation; there is never more. An allocation that does not fit ends in a panic, thus a fault of this
//! component alone: declare enough, and bound what peers can make a component hold.

use crate::start;
use core::alloc::Layout;
use talc::base::{Talc, binning::Binning};
use talc::cell::TalcSyncCell;
use talc::source::Source;
use talc::{DefaultBinning, TalcCell};

// SAFETY: a protection domain has exactly one thread, and nothing interrupts it that runs code in its address space.
#[global_allocator]
static HEAP: TalcSyncCell<Declared, DefaultBinning> =
    unsafe { TalcSyncCell::new(TalcCell::new(Declared { taken: false })) };

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
        // SAFETY: mapped for this domain alone, and given to nobody but this allocator, once.
        match unsafe { talc.claim(heap.address as *mut u8, heap.size as usize) } {
            Some(_) => Ok(()),
            None => Err(()),
        }
    }
}
