//! The block class. Entries of its rings are `culm_block::RequestEntry`s and
//! `culm_block::AnswerEntry`s.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Bytes of an entry of every queue.
pub const ENTRY_SIZE: u32 = 16;

/// Block class, client.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
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

/// Block class, virtualiser.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 97, name = "block-virtualiser", class = "block", role = Made)]
#[repr(C)]
pub struct BlockVirtualiser<F: Form = Start> {
    /// Requests, to the driver.
    pub requests: F::Ring,
    /// Answers, from the driver.
    pub answers: F::Ring,
    /// Memory of the virtualiser's own, into which it has the partition table read:
    /// `culm_partition::MAX_READ` blocks.
    pub table: F::Memory,
    /// Who has a part of the disk.
    pub clients: F::List<BlockVirtualiserClient<F>>,
    /// Channel to the driver.
    pub channel: F::Channel,
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
