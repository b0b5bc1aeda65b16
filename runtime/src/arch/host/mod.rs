//! The host, where components and this crate run in tests: threads of one process, each a world of
//! its own ([`testing`]).

pub(crate) mod copy;
mod domain_static;
pub(crate) mod syscall;
pub mod testing;

pub(crate) use domain_static::{DomainCell, domain_static};
pub use testing::start_block;
pub(crate) use testing::{counter, log as log_line};

/// Items that only tests on the host have.
pub mod offered {
    pub use super::testing;
}

/// Whether memory is where [`culm_abi::memory`] says, and the start block names all of it. Here it
/// is anywhere, and its addresses come from [`testing`].
pub(crate) const HAS_ADDRESS_SPACE: bool = false;

/// The greatest level that is logged before a start block was read: tests see all of it.
pub(crate) const FIRST_LOG_LEVEL: u32 = u32::MAX;
