//! The interface of a device on MMIO (VIRTIO 1.2 §4.2): its registers as they are.

use crate::registers::*;
use crate::{Interface, Unusable};
use culm_mmio::{Registers, Width};

impl<R: Registers> Interface for R {
    fn kind(&self) -> Result<Kind, Unusable> {
        match (self.read(MAGIC), self.read(VERSION), self.read(DEVICE_ID)) {
            (Magic::VIRT, Version::LEGACY, _) => Err(Unusable::Legacy),
            (Magic::VIRT, Version::MODERN, found) if found != Kind::NONE => Ok(found),
            _ => Err(Unusable::Absent),
        }
    }

    fn status(&self) -> Status {
        self.read(STATUS)
    }

    fn set_status(&self, status: Status) {
        self.write(STATUS, status);
    }

    fn offered(&self) -> u64 {
        (0..2).fold(0, |offered, half| {
            self.write(DEVICE_FEATURES_SELECT, half);
            offered | u64::from(self.read(DEVICE_FEATURES)) << (32 * half)
        })
    }

    fn choose(&self, features: u64) {
        for half in 0..2 {
            self.write(DRIVER_FEATURES_SELECT, half);
            self.write(DRIVER_FEATURES, (features >> (32 * half)) as u32);
        }
    }

    fn find_queue(&self, queue: u32) -> u32 {
        self.write(QUEUE_SELECT, queue);
        self.read(QUEUE_SIZE_MAX)
    }

    fn is_ready(&self, queue: u32) -> bool {
        self.write(QUEUE_SELECT, queue);
        self.read(QUEUE_READY).has(Ready::READY)
    }

    fn set_up_queue(&self, queue: u32, size: u16, addresses: [u64; 3]) {
        self.write(QUEUE_SELECT, queue);
        self.write(QUEUE_SIZE, size.into());
        let registers = [
            (QUEUE_DESCRIPTORS_LOW, QUEUE_DESCRIPTORS_HIGH),
            (QUEUE_DRIVER_LOW, QUEUE_DRIVER_HIGH),
            (QUEUE_DEVICE_LOW, QUEUE_DEVICE_HIGH),
        ];
        for ((low, high), address) in registers.into_iter().zip(addresses) {
            self.write(low, address as u32);
            self.write(high, (address >> 32) as u32);
        }
        self.write(QUEUE_READY, Ready::ZERO.set(Ready::READY));
    }

    fn generation(&self) -> u32 {
        self.read(CONFIGURATION_GENERATION)
    }

    #[inline(always)]
    fn read_configuration<W: Width>(&self, offset: usize) -> W {
        self.load(CONFIGURATION + offset)
    }

    /// The cause is not read first: if the configuration changed, its line stays high until
    /// [`Interface::has_changed`], and a board that says `trigger = "level"`, as it must, has it
    /// interrupt again.
    #[inline(always)]
    fn acknowledge(&self) {
        self.write(INTERRUPT_ACKNOWLEDGE, Causes::ZERO.set(Causes::USED));
    }

    #[inline(always)]
    fn was_told_of_change(&self) -> bool {
        false
    }

    fn has_changed(&self) -> bool {
        let changed = self.read(INTERRUPT_STATUS).has(Causes::CHANGE);
        if changed {
            // Acknowledge before the configuration is read: a later change interrupts again.
            self.write(INTERRUPT_ACKNOWLEDGE, Causes::ZERO.set(Causes::CHANGE));
        }
        changed
    }

    #[inline(always)]
    fn ring_doorbell(&self, queue: u32) {
        self.write(QUEUE_NOTIFY, queue);
    }
}
