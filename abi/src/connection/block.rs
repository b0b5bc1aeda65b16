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
