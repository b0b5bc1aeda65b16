//! Driver for virtio block devices, modern interface (VIRTIO 1.2 §5.2): all of it but the entry
//! point of the component for those on MMIO. `block-virtio-pci` has it for those on a PCI bus.
//!
//! It moves requests between the virtualiser's queues and the device's, and maps no data: the
//! device reads and writes that itself. `device` sets a device up by `culm-virtio`'s transport and
//! says what disk it is, `requests` has the records of what is under way, `engine` gives them to
//! the device and takes them back, `reset` resets one that failed, and `block` moves requests
//! between the engine and the virtualiser. `fused` is the engine for a virtualiser in the same
//! domain.
//!
//! # Order
//!
//! Requests that are under way have no order, so they are given to the device as they come, and
//! answered as it uses them. What keeps a request that is done twice from doing harm is one rule:
//! *an unanswered request may be done again; an answered one has ended.* Three places keep it:
//!
//! * A life of the driver leaves nothing to the next. That one resets the device, which ends what
//!   the previous life gave it, before it takes requests: those that were not answered come again
//!   from the virtualiser. Hazard: if it took requests first, the device could carry out an earlier
//!   write after a later one of the same blocks.
//! * A device that fails is reset too, and then gets the unanswered requests again, from the
//!   driver. The virtualiser learns nothing of it. Hazard: a request that is answered before the
//!   reset could still be carried out, so a request that ends by a failure of the device is
//!   answered after it.
//! * A flush covers the writes that were answered before it was sent. A write that is done again
//!   was not answered. A flush is not done again by this driver: see `requests`.
//!
//! A device that is reset keeps what it has answered, flushed or not. VIRTIO does not say so; those
//! of emulators do, whose cache is their host's. So a reset is no change of the medium.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod block;
mod device;
mod driver;
pub mod engine;
mod fused;
pub mod registers;
mod requests;
mod reset;
#[cfg(test)]
mod tests;
mod trouble;

pub use block::Block;
pub use driver::Driver;
pub use engine::Engine;
pub use trouble::Trouble;

culm::manifest!();
