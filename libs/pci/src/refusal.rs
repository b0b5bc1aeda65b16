//! Why a device is left off.

use crate::virtio::Name;
use core::fmt;

/// Why a device is left off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing answers in its slot.
    Absent,
    /// Another device sits there.
    Other {
        /// Its vendor.
        vendor: u16,
        /// Its number among its vendor's devices.
        product: u16,
        /// Its class code: class, subclass, interface.
        class: u32,
    },
    /// It is no plain device: 1 is a bridge.
    Header(u8),
    /// It does not let itself be turned off.
    Unruly,
    /// A base address register is none, or none for memory where the plan has memory.
    Bar(u8),
    /// It answers for another count of bytes.
    Size {
        /// The base address register.
        bar: u8,
        /// Bytes that it answers for.
        found: u64,
    },
    /// A base address register does not take the address.
    Address(u8),
    /// Registers that nobody uses take more than there is to set them aside.
    Aside {
        /// The base address register.
        bar: u8,
        /// Bytes that it answers for.
        found: u64,
    },
    /// It interrupts by another pin than INTA#, 0 for none.
    Pin(u8),
    /// Its capabilities lead nowhere or in a circle.
    Capabilities,
    /// A virtio device that says of no such structure where it is in the planned registers.
    NoStructure(Name),
    /// A virtio device with a structure that is too short, or not at such a place, or not in the
    /// planned registers as a whole.
    Structure(Name),
    /// It does not take its command.
    Command,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Absent => write!(to, "nothing answers there"),
            Self::Other { vendor, product, class } => {
                write!(to, "a device {vendor:04x}:{product:04x} of the class {class:06x} sits there")
            }
            Self::Header(1) => write!(to, "a bridge sits there"),
            Self::Header(layout) => write!(to, "its header has the layout {layout}"),
            Self::Unruly => write!(to, "it does not let itself be turned off"),
            Self::Bar(bar) => write!(to, "its base address register {bar} is not for memory"),
            Self::Size { bar, found } => write!(to, "it has {found:#x} bytes at base address register {bar}"),
            Self::Address(bar) => write!(to, "its base address register {bar} does not take the address"),
            Self::Aside { bar, found } => {
                write!(to, "there is no place to set {found:#x} bytes of base address register {bar} aside")
            }
            Self::Pin(0) => write!(to, "it has no interrupt pin"),
            Self::Pin(pin) => write!(to, "it interrupts by the pin {pin}, not by INTA"),
            Self::Capabilities => write!(to, "its list of capabilities has no end"),
            Self::NoStructure(name) => write!(to, "it does not say where among its registers its {} is", name.text()),
            Self::Structure(name) => write!(to, "its {} cannot be where it says among its registers", name.text()),
            Self::Command => write!(to, "it does not take its command"),
        }
    }
}
