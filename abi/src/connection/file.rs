//! The file class. Entries of its rings are `culm_file::RequestEntry`s and
//! `culm_file::AnswerEntry`s.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Bytes of an entry of every queue.
pub const ENTRY_SIZE: u32 = 16;

/// The least entries of each queue.
pub const MIN_QUEUE: u32 = 16;

/// Bytes at the beginning of a client's memory that hold the paths of its requests.
pub const PATHS: u64 = 8 * 1024;

/// The least bytes of a client's memory.
pub const MIN_MEMORY: u64 = 2 * PATHS;

/// File class, client.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 144, name = "file-client", class = "file", role = Client)]
#[repr(C)]
pub struct FileClient<F: Form = Start> {
    /// Requests.
    pub requests: F::Ring,
    /// Answers, and which volume is there.
    pub answers: F::Ring,
    /// The client's memory, which the device reads and writes: places of requests count from its
    /// beginning.
    pub memory: F::Memory,
    /// Channel to the provider.
    pub channel: F::Channel,
}
