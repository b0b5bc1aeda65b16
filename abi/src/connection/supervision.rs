//! Supervision: the connections of a component that is told of the faults of others.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Supervision of other protection domains.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 48, name = "supervision", role = Made)]
#[repr(C)]
pub struct Supervision<F: Form = Start> {
    /// The domains under supervision.
    pub children: F::List<Child<F>>,
}

/// One domain under supervision.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct Child<F: Form = Start> {
    /// The supervisor's channel end for this domain.
    pub channel: F::Channel,
    /// The action at a fault: [`fault_action`].
    pub action: u32,
    /// Restarts that the domain may owe service for before it is stopped for good.
    pub limit: u32,
    /// Nanoseconds of service that pay for `limit` restarts.
    pub window: u64,
    /// Nanoseconds before a restart; doubled for each that service is owed for.
    pub backoff: u64,
    /// The domain's stack as the supervisor sees it, read-only, for a backtrace.
    pub stack: F::Memory,
    /// Address of the stack's first byte in the domain's own address space.
    pub stack_base: u64,
    /// The domain's name.
    pub name: F::Text,
}

/// Values of [`Child::action`].
pub mod fault_action {
    /// Restart the domain.
    pub const RESTART: u32 = 0;
    /// Leave it stopped.
    pub const STOP: u32 = 1;
    /// Halt the whole system with a status that is not 0.
    pub const HALT: u32 = 2;
}
