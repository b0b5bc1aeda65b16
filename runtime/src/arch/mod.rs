//! The machine below the runtime: the target's processor and kernel, or the host, where tests run.
//! Both offer the same names; whether one or the other is compiled is decided here and nowhere
//! else.

#[cfg(target_os = "none")]
#[path = "aarch64/mod.rs"]
mod machine;
#[cfg(not(target_os = "none"))]
#[path = "host/mod.rs"]
mod machine;

pub use machine::copy::sum;
pub(crate) use machine::{
    DomainCell, FIRST_LOG_LEVEL, HAS_ADDRESS_SPACE, copy, counter, domain_static, log_line, syscall,
};
pub use machine::{offered, start_block};

/// The end of a wait: the words of a call, an event, a set of notifications
/// ([`culm_abi::syscall::Event`]).
pub(crate) type Arrival = ([u64; 8], u64, u64);
