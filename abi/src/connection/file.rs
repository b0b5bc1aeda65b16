//! The file class. Entries of its rings are `culm_file::RequestEntry`s and
//! `culm_file::AnswerEntry`s.

use super::block::BLOCK;
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

/// The most bytes of a client's memory: places have 24 bits.
pub const MAX_MEMORY: u64 = BLOCK as u64 * ((1 << 24) - 1);

/// The most bytes of a path.
pub const MAX_PATH: usize = 480;

/// The most bytes of a name.
pub const MAX_NAME: usize = 255;

/// The most names in a path.
pub const MAX_DEPTH: usize = 16;

/// Returns whether text is a path: see `culm_file::path`.
pub fn is_path(path: &str) -> bool {
    if path == "/" {
        return true;
    }
    let Some(names) = path.strip_prefix('/') else { return false };
    path.len() <= MAX_PATH && names.split('/').count() <= MAX_DEPTH && names.split('/').all(is_name)
}

/// Returns whether text is a name in a path.
pub fn is_name(name: &str) -> bool {
    let is_ordinary = !matches!(name, "" | "." | "..") && name.len() <= MAX_NAME;
    is_ordinary && !name.chars().any(|letter| letter.is_control() || matches!(letter, '/' | '\\'))
}

/// File class, provider: whoever has the files.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 145, name = "file-provider", class = "file", role = Provider)]
#[repr(C)]
pub struct FileProvider<F: Form = Start> {
    /// The clients.
    pub clients: F::List<FileProviderClient<F>>,
}

/// One client of a [`FileProvider`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct FileProviderClient<F: Form = Start> {
    /// Requests, from the client.
    pub requests: F::Ring,
    /// Answers, to the client.
    pub answers: F::Ring,
    /// The client's memory. If the provider has a disk, it is a part of the memory that it has for
    /// that.
    pub memory: F::Memory,
    /// Where it begins there, in bytes.
    pub place: u64,
    /// The folder that is the client's root, a path.
    pub folder: F::Text,
    /// The client's name.
    pub name: F::Text,
    /// Channel to the client.
    pub channel: F::Channel,
    /// Whether the client may write.
    pub may_write: F::Flag,
}

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
