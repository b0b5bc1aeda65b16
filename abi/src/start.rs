//! The start block: what one protection domain is told about itself.
//!
//! The build tool writes one per domain; the runtime reads it once at start. It is mapped read-only
//! at [`crate::memory::START_BASE`]. It begins with a [`StartHeader`]; everything else is found by
//! [`Span`]s, offsets into the block. A restarted domain finds the same block.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Count of the 64-bit words of randomness that a domain is given at each start, in `x2` and the
/// registers after it: fresh each time, for this domain alone. All are zero where no source of the
/// machine has ever given anything.
pub const SEED_WORDS: usize = 4;

/// First word of a start block ("CULMSTA1").
pub const MAGIC: u64 = u64::from_le_bytes(*b"CULMSTA1");

/// Bytes within the start block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Span {
    /// Offset of the first byte from the start of the block, 8-byte aligned.
    pub offset: u32,
    /// Count of elements (of bytes, where the elements are bytes).
    pub count: u32,
}

/// Memory in the domain's address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Memory {
    /// Virtual address of the first byte; 0 where it is not mapped into this domain.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Address at which devices see the first byte; 0 where this domain has no need of it.
    pub dma: u64,
}

/// Head of a start block.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StartHeader {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`crate::VERSION`].
    pub version: u32,
    /// Bytes of the whole block.
    pub size: u32,
    /// The instance's name, UTF-8.
    pub name: Span,
    /// Configuration: one [`Value`] per field, in the order of the component's manifest.
    pub config: Span,
    /// Connections: one [`Connection`] per connection of the manifest that the system description
    /// makes, in the manifest's order, then those that are [`IMPLICIT`].
    pub connections: Span,
    /// The heap, size 0 for none.
    pub heap: Memory,
    /// The stack.
    pub stack: Memory,
    /// Page of named counters that this domain may write ([`crate::connection::Counters`]), size 0
    /// for none.
    pub counters: Memory,
    /// Index of the log level: 0 off, 1 error, 2 warn, 3 info, 4 debug, 5 trace.
    pub log_level: u32,
    /// Index of this domain in the image.
    pub domain: u32,
}

/// One configuration value; its type is known from the manifest.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Value {
    /// `bool`, `u8`–`u64`, `i64`: the value itself (sign-extended). `string`, `mac`: offset in the
    /// block. `list`: offset of the elements, each a `Value`. `file`, `folder`: virtual address of
    /// its content, mapped read-only.
    pub a: u64,
    /// `string`, `file`, `folder`: bytes. `list`: count of elements. Else 0. An optional value that
    /// is absent has `a` = `b` = [`u64::MAX`].
    pub b: u64,
}

/// [`Connection::slot`] of a connection that no manifest lists: the log and the right to observe.
/// They follow the manifest's.
pub const IMPLICIT: u32 = u32::MAX;

/// One connection of the domain.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Connection {
    /// Its kind: the number that its declaration in [`crate::connection`] gives.
    pub kind: u32,
    /// Position of this connection in the manifest's list, or [`IMPLICIT`].
    pub slot: u32,
    /// The other side's name, as the system description has it (device or instance).
    pub peer: Span,
    /// The structure that belongs to the kind.
    pub data: Span,
}
