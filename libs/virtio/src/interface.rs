//! The operations that a driver needs of a virtio device, whatever the device is attached to
//! (VIRTIO 1.2 §4).
//!
//! Registers on MMIO are an interface as they are (module `mmio`); [`crate::Pci`] is that of a
//! device on a PCI bus.

use crate::Unusable;
use crate::registers::{Kind, Status};
use culm_mmio::{Layout, Readable, Register, Width};

/// The interface of a device.
pub trait Interface {
    /// Returns the kind of the device.
    ///
    /// # Errors
    ///
    /// If there is none, or none with the modern interface.
    fn kind(&self) -> Result<Kind, Unusable>;

    /// Returns the device's status (§2.1).
    fn status(&self) -> Status;

    /// Sets the device's status; zero begins a reset.
    fn set_status(&self, status: Status);

    /// Returns the features that the device offers.
    fn offered(&self) -> u64;

    /// Tells the device the features that are used.
    fn choose(&self, features: u64);

    /// Finds a queue; returns the largest size that it can have, 0 if it does not exist or cannot
    /// be used.
    fn find_queue(&self, queue: u32) -> u32;

    /// Returns whether a queue is set up.
    fn is_ready(&self, queue: u32) -> bool;

    /// Sets a queue up, with the addresses of its descriptors, and of what the driver and what the
    /// device writes.
    fn set_up_queue(&self, queue: u32, size: u16, addresses: [u64; 3]);

    /// Returns the count of the configuration's changes (§2.5.1).
    fn generation(&self) -> u32;

    /// Reads at an offset of the configuration; a driver says [`Configuration::read`].
    fn read_configuration<W: Width>(&self, offset: usize) -> W;

    /// Acknowledges an interrupt: that buffers were used, and more perhaps.
    fn acknowledge(&self);

    /// Returns whether an interrupt that was acknowledged said that the configuration changed, and
    /// [`Self::has_changed`] has not been asked since. False where a change interrupts by itself
    /// until then.
    fn was_told_of_change(&self) -> bool;

    /// Returns whether the configuration changed, or the device met an error, since the last call
    /// of this.
    fn has_changed(&self) -> bool;

    /// Rings the doorbell of a queue that was found.
    fn ring_doorbell(&self, queue: u32);
}

/// A device's configuration, which depends on its kind. Its registers count from its beginning.
#[derive(Debug)]
pub struct Configuration<'a, I>(pub(crate) &'a I);

impl<I: Interface> Configuration<'_, I> {
    /// Reads a register.
    #[inline(always)]
    pub fn read<L: Layout, A: Readable>(&self, register: Register<L, A>) -> L {
        L::from_bits(self.0.read_configuration(register.offset()))
    }
}
