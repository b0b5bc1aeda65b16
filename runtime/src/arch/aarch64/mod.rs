//! AArch64, in a protection domain: registers, instructions, and what lies where.

pub(crate) mod copy;
pub(crate) mod counter;
mod domain_static;
mod entry;
pub mod heap;
pub(crate) mod syscall;

pub(crate) use domain_static::{DomainCell, domain_static};

use crate::start::StartBlock;
use culm_abi::start::StartHeader;

/// Items that only components on the target have.
pub mod offered {
    pub use super::heap;
}

/// Whether memory is where [`culm_abi::memory`] says, and the start block names all of it.
pub(crate) const HAS_ADDRESS_SPACE: bool = true;

/// The greatest level that is logged before the start block was read.
pub(crate) const FIRST_LOG_LEVEL: u32 = 0;

/// Hears of each line that is logged: here nobody does.
#[inline(always)]
pub(crate) fn log_line(_: &[u8]) {}

/// This domain's start block.
pub fn start_block() -> StartBlock {
    let base = culm_abi::memory::START_BASE as *const u8;
    // SAFETY: [A3] the build tool maps the start block here, read-only for everybody, page aligned
    // and never smaller than a page.
    let size = unsafe { (*base.cast::<StartHeader>()).size };
    // SAFETY: [A3] as above; the whole block is mapped, and its head says how long it is.
    StartBlock::new(unsafe { core::slice::from_raw_parts(base, size as usize) })
}
