//! Connections of no class: channels, regions, devices.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// A channel to another protection domain and nothing else.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 1, name = "channel", role = Described)]
#[repr(C)]
pub struct Channel<F: Form = Start> {
    /// This side's end of the channel.
    pub channel: F::Channel,
    /// The rights of this side over it.
    pub rights: F::Rights,
}

/// A shared region of memory.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 2, name = "region", role = Described)]
#[repr(C)]
pub struct Region<F: Form = Start> {
    /// The memory.
    pub region: F::Memory,
    /// Whether this side may write.
    pub writable: F::Flag,
}

/// A device: registers, interrupts, DMA memory. A driver has it, or a component that owns one.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 3, name = "device", role = Made)]
#[repr(C)]
pub struct Device<F: Form = Start> {
    /// The registers.
    pub registers: F::Memory,
    /// The device's interrupts, in the board's order.
    pub interrupts: F::List<Interrupt<F>>,
    /// DMA memory for the device's own structures (descriptor rings).
    pub dma: F::Optional<F::Memory>,
}

/// One interrupt of a [`Device`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct Interrupt<F: Form = Start> {
    /// The channel's end over which it is delivered.
    pub channel: F::Channel,
}
