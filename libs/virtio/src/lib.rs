//! Virtio devices on MMIO or a PCI bus, modern interface (VIRTIO 1.2), for drivers of any class.
//!
//! * [`transport`]: finds a device, resets it, negotiates its features, sets its queues up, and
//!   handles its interrupts and doorbells.
//! * [`Interface`]: what the transport needs of a device. On MMIO that is its registers, whose map
//!   is in [`registers`]; on a PCI bus it is [`Pci`].
//! * [`virtqueue`]: the split virtqueue, against a device that may write anything. Buffers are
//!   single descriptors, or chains of several.
//! * [`checkpoint`]: what one life of a driver leaves so that the next goes on with the device at
//!   work. A driver without a state worth keeping resets its device instead.
//! * [`backoff`]: the wait between resets of a device that fails.
//! * `testing` (host only): a device for tests, honest or not.
//!
//! A class's own registers are the [`Configuration`]; what they are, and which features to ask for,
//! is its driver's.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

pub mod backoff;
pub mod checkpoint;
mod interface;
mod mmio;
pub mod pci;
pub mod registers;
#[cfg(not(target_os = "none"))]
pub mod testing;
pub mod transport;
pub mod virtqueue;

pub use backoff::ResetBackoff;
pub use checkpoint::Checkpoint;
pub use interface::{Configuration, Interface};
pub use pci::Pci;
pub use transport::{Transport, Unusable};
pub use virtqueue::{Layout, Part, Used, Virtqueue};

#[cfg(test)]
mod tests;

/// Marks that the next store is seen by the device and by this driver's next life: tests end a life
/// just there.
#[inline(always)]
fn crash_point() {
    #[cfg(any(test, feature = "crash"))]
    culm_queue::crash::point();
    #[cfg(test)]
    tests::meanwhile();
}
