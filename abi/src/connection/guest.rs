//! Guests: what a virtual machine monitor is given of the guest that it runs.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// A guest, for its virtual machine monitor.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 56, name = "guest", role = Described)]
#[repr(C)]
pub struct Guest<F: Form = Start> {
    /// The guest's memory, from [`crate::guest::MEMORY`] on, in one piece. The guest writes it at
    /// any time.
    pub memory: F::Memory,
    /// Its kernel, read-only, which stands at the beginning of its memory when it begins.
    pub kernel: F::Memory,
    /// Its device tree and initial RAM disk, read-only, which stand at `device_tree` then.
    pub end: F::Memory,
    /// Guest-physical address of the device tree.
    pub device_tree: u64,
    /// Its name.
    pub name: F::Text,
    /// Its virtual CPUs, by their numbers.
    pub cpus: F::List<GuestCpu<F>>,
}

/// One virtual CPU of a guest.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct GuestCpu<F: Form = Start> {
    /// Its page ([`crate::guest::VirtualCpu`]).
    pub page: F::Memory,
    /// Channel that is notified when it leaves the core, and over which it is resumed and stopped.
    pub channel: F::Channel,
    /// Reserved, 0.
    pub reserved: u32,
}
