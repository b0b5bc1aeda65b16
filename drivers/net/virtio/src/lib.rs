//! Driver for virtio network devices on MMIO, modern interface (VIRTIO 1.2): all of it but the
//! entry point.
//!
//! It moves descriptors between the device's queues and those of the two virtualisers and maps no
//! payload. `device` sets a device up by `culm-virtio`'s transport, `net` moves packets between its
//! virtqueues and a `pair` of queues, and `reset` resets the device if a restarted driver cannot go
//! on, or if the device failed.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

mod device;
mod driver;
pub mod fused;
mod health;
mod net;
mod pair;
pub mod registers;
mod reset;
#[cfg(test)]
mod tests;

pub use driver::Driver;
pub use net::Net;

culm::manifest!();
