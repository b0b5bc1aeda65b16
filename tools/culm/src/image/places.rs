//! Where things are, for those who write their addresses.

use super::archive::Contents;
use crate::plan::{DomainId, GuestId, Plan, RegionId};
use culm_abi::start::Memory;
use std::path::Path;

/// Something that has an address.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A region.
    Region(RegionId),
    /// A domain's stack.
    Stack(DomainId),
    /// A domain's heap.
    Heap(DomainId),
    /// A file or a packed folder.
    File(&'a Path),
    /// The system's picture.
    Picture,
    /// Accounts of the cores.
    CoreAccounts,
    /// Accounts of the domains.
    DomainAccounts,
    /// The kernel of a guest.
    GuestKernel(GuestId),
    /// Device tree and initial RAM disk of a guest.
    GuestEnd(GuestId),
}

/// Where things are.
pub trait Places {
    /// Where `domain` sees the item, if it does.
    fn address(&self, domain: DomainId, item: Item<'_>) -> Option<u64>;

    /// Where `domain` sees the item's byte at `offset`, if it does.
    fn address_within(&self, domain: DomainId, item: Item<'_>, offset: u64) -> Option<u64>;

    /// Where the item is in physical memory.
    fn physical(&self, item: Item<'_>) -> u64;
}

/// No addresses yet: the size of a start block does not depend on them, and the layout needs it.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Places for Nowhere {
    fn address(&self, _: DomainId, _: Item<'_>) -> Option<u64> {
        None
    }

    fn address_within(&self, _: DomainId, _: Item<'_>, _: u64) -> Option<u64> {
        None
    }

    fn physical(&self, _: Item<'_>) -> u64 {
        0
    }
}

/// The context in which the parts of a start block are written.
pub(super) struct Context<'a> {
    pub plan: &'a Plan,
    pub contents: &'a Contents,
    pub picture_size: usize,
    pub places: &'a dyn Places,
    /// The domain whose start block it is.
    pub domain: DomainId,
}

impl Context<'_> {
    /// Where this domain sees the item, 0 where it does not.
    pub fn address(&self, item: Item<'_>) -> u64 {
        self.places.address(self.domain, item).unwrap_or(0)
    }

    /// Memory of this domain that devices have nothing to do with.
    pub fn memory(&self, item: Item<'_>, size: u64) -> Memory {
        Memory { address: self.address(item), size, dma: 0 }
    }
}
