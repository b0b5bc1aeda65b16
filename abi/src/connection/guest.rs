//! Guests: what a virtual machine monitor is given of the guest that it runs.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// A guest, for its virtual machine monitor.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 56, name = "guest", role = Described)]
#[repr(C)]
pub struct Guest<F: Form = Start> {
    /// The page of the virtual CPU ([`crate::guest::VirtualCpu`]).
    pub virtual_cpu: F::Memory,
    /// The guest's memory, from [`crate::guest::MEMORY`] on, in one piece. The guest writes it at
    /// any time.
    pub memory: F::Memory,
    /// Channel that is notified when the virtual CPU leaves the core, and over which it is resumed,
    /// stopped and restarted.
    pub channel: F::Channel,
    /// Reserved, 0.
    pub reserved: u32,
}
