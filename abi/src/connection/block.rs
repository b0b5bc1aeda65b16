//! The block class. Entries of its rings are `culm_block::RequestEntry`s and
//! `culm_block::AnswerEntry`s.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Bytes of an entry of every queue.
pub const ENTRY_SIZE: u32 = 16;

/// Bytes of a block, whatever unit the device has inside (VIRTIO 1.2 §5.2.6; SD Physical Layer 9.10
/// §4.3.14).
pub const BLOCK: usize = 512;

/// The least entries of each queue: a request of the most segments always finds space in the end,
/// although a provider puts off the release of some entries.
pub const MIN_QUEUE: u32 = 32;

/// The least bytes of its heap that a client keeps for each request that may be under way. What the
/// client itself remembers of it comes on top, so a heap that has so many may still be too small.
pub const CLIENT_REQUEST: u32 = 286;

/// Bytes of what a virtualiser keeps for its next life.
pub const ACCOUNT_SIZE: u64 = 8;

/// Block class, driver's side. Rings and channel are absent where the virtualiser is in the
/// driver's own domain.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 96, name = "block-driver", class = "block", role = Driver)]
#[repr(C)]
pub struct BlockDriver<F: Form = Start> {
    /// Requests. Places of memory in them count from the device's address 0.
    pub requests: F::Optional<F::Ring>,
    /// Answers, and what the disk is.
    pub answers: F::Optional<F::Ring>,
    /// Channel to the virtualiser.
    pub channel: F::Optional<F::Channel>,
}

/// Block class, driver's side: the memory of requests, where the driver is to move their data.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 99, name = "block-memory", class = "block", role = Made)]
#[repr(C)]
pub struct BlockMemory<F: Form = Start> {
    /// All that requests may name.
    pub regions: F::List<BlockMemoryRegion<F>>,
}

/// One region of a [`BlockMemory`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct BlockMemoryRegion<F: Form = Start> {
    /// The memory, mapped; requests name it by the address at which a device would see it.
    pub data: F::Memory,
}

/// Block class, client.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 98, name = "block-client", class = "block", role = Client)]
#[repr(C)]
pub struct BlockClient<F: Form = Start> {
    /// Requests.
    pub requests: F::Ring,
    /// Answers, and what the disk is.
    pub answers: F::Ring,
    /// The client's data region, which the device reads and writes: places of requests count from
    /// its beginning.
    pub data: F::Memory,
    /// Channel to the virtualiser.
    pub channel: F::Channel,
}

/// Block class, virtualiser. Rings and channel to the driver are absent where that is in the same
/// domain.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 97, name = "block-virtualiser", class = "block", role = Made)]
#[repr(C)]
pub struct BlockVirtualiser<F: Form = Start> {
    /// Requests, to the driver.
    pub requests: F::Optional<F::Ring>,
    /// Answers, from the driver.
    pub answers: F::Optional<F::Ring>,
    /// Memory of the virtualiser's own, into which it has the partition table read:
    /// `culm_partition::MAX_READ` blocks.
    pub table: F::Memory,
    /// Memory of the virtualiser's own that outlives it: [`ACCOUNT_SIZE`] bytes.
    pub account: F::Memory,
    /// Who has a part of the disk.
    pub clients: F::List<BlockVirtualiserClient<F>>,
    /// Channel to the driver.
    pub channel: F::Optional<F::Channel>,
}

/// One client of a [`BlockVirtualiser`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct BlockVirtualiserClient<F: Form = Start> {
    /// Requests, from the client.
    pub requests: F::Ring,
    /// Answers, to the client.
    pub answers: F::Ring,
    /// The client's data region. It is not mapped.
    pub data: F::Memory,
    /// The first block of the client's part, within the disk or the partition.
    pub first: u64,
    /// The count of blocks of the part; 0 for all that follow.
    pub blocks: u64,
    /// The partition, as `culm_partition::Selector` reads it; empty for the disk.
    pub partition: F::Text,
    /// The client's name.
    pub name: F::Text,
    /// Channel to the client.
    pub channel: F::Channel,
    /// Whether the client may not write.
    pub read_only: F::Flag,
}
