//! The registers of a virtio device on MMIO (VIRTIO 1.2 §4.2.2), but for those that the kernel
//! takes ([`culm_abi::guest::kernel_register`]): the guest's reading and acknowledging of causes.

use super::queue::{Broken, MAX_SIZE, Queue};
use super::{EVENT_INDEX, VERSION_1};

/// Registers, by offset.
pub(super) mod register {
    pub const MAGIC: u64 = 0x000;
    pub const VERSION: u64 = 0x004;
    pub const DEVICE: u64 = 0x008;
    pub const VENDOR: u64 = 0x00c;
    pub const DEVICE_FEATURES: u64 = 0x010;
    pub const DEVICE_FEATURES_SELECT: u64 = 0x014;
    pub const DRIVER_FEATURES: u64 = 0x020;
    pub const DRIVER_FEATURES_SELECT: u64 = 0x024;
    pub const QUEUE_SELECT: u64 = 0x030;
    pub const QUEUE_SIZE_MAX: u64 = 0x034;
    pub const QUEUE_SIZE: u64 = 0x038;
    pub const QUEUE_READY: u64 = 0x044;
    pub const STATUS: u64 = 0x070;
    pub const QUEUE_DESCRIPTORS: u64 = 0x080;
    pub const QUEUE_DRIVER: u64 = 0x090;
    pub const QUEUE_DEVICE: u64 = 0x0a0;
    /// Length of shared memory, low and high half: all ones where there is none (§4.2.2.1).
    pub const SHARED_LENGTH: u64 = 0x0b0;
    pub const SHARED_LENGTH_HIGH: u64 = 0x0b4;
    pub const GENERATION: u64 = 0x0fc;
    pub const CONFIGURATION: u64 = 0x100;
}

/// "virt".
const MAGIC: u32 = 0x7472_6976;
/// The modern interface.
const VERSION: u32 = 2;
/// "culm".
const VENDOR: u32 = 0x6d6c_7563;

/// Bits of the status (§2.1).
pub(super) mod status {
    pub const DRIVER_OK: u32 = 4;
    pub const FEATURES_OK: u32 = 8;
    pub const NEEDS_RESET: u32 = 64;
}

/// Causes of interrupts (§4.2.2).
mod cause {
    pub const USED: u64 = 1;
    pub const CHANGE: u64 = 2;
}

/// A change of what the guest reads of causes, and of its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Causes {
    /// Those of before are gone: the device was reset.
    pub are_cleared: bool,
    /// New ones, for which the guest is interrupted; bits of [`culm_abi::guest::device::CAUSES`].
    pub raised: u64,
}

/// The most queues of a device.
pub const MAX_QUEUES: usize = 2;

/// The most bytes of a device's configuration.
pub const MAX_CONFIGURATION: usize = 64;

/// A device as its guest sets it up.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Kind of device (§5).
    device: u32,
    offered: u64,
    /// The features that it offers from the next reset on.
    next_offered: u64,
    configuration: [u8; MAX_CONFIGURATION],
    generation: u32,
    /// How many queues it has.
    count: usize,
    accepted: u64,
    device_select: u32,
    driver_select: u32,
    queue_select: u32,
    status: u32,
    causes: Causes,
    /// How often it or one of its queues was reset, modulo 2³².
    resets: u32,
    queues: [Queue; MAX_QUEUES],
}

impl Transport {
    /// Creates a device of this kind, which offers these features besides those of every device.
    pub fn new(device: u32, features: u64, count: usize) -> Self {
        Self {
            device,
            offered: features | EVENT_INDEX | VERSION_1,
            next_offered: features | EVENT_INDEX | VERSION_1,
            configuration: [0; MAX_CONFIGURATION],
            generation: 0,
            count: count.min(MAX_QUEUES),
            accepted: 0,
            device_select: 0,
            driver_select: 0,
            queue_select: 0,
            status: 0,
            causes: Causes { are_cleared: true, raised: 0 },
            resets: 0,
            queues: [Queue::default(); MAX_QUEUES],
        }
    }

    /// Writes a field of the configuration, which the guest is told of if it works already.
    pub fn configure(&mut self, offset: usize, bytes: &[u8]) {
        let Some(field) = self.configuration.get_mut(offset..).and_then(|rest| rest.get_mut(..bytes.len())) else {
            return;
        };
        if field == bytes {
            return;
        }
        field.copy_from_slice(bytes);
        self.generation = self.generation.wrapping_add(1);
        if self.is_live() {
            self.causes.raised |= cause::CHANGE;
        }
    }

    /// Sets the features that it offers besides those of every device. A guest that has begun to
    /// set the device up keeps those that it was shown until it resets the device: it could not
    /// settle on one that is gone by then, and would be without the device.
    pub fn offer(&mut self, features: u64) {
        self.next_offered = features | EVENT_INDEX | VERSION_1;
        if self.status == 0 {
            self.offered = self.next_offered;
        }
    }

    /// Returns whether the guest uses the feature.
    pub fn has(&self, feature: u64) -> bool {
        self.accepted & feature != 0
    }

    /// Returns whether the guest has set it up and it works.
    pub fn is_live(&self) -> bool {
        self.status & (status::DRIVER_OK | status::NEEDS_RESET) == status::DRIVER_OK
    }

    /// Returns how often it or one of its queues was reset, modulo 2³²: a chain of before must
    /// not be given back after it.
    pub fn resets(&self) -> u32 {
        self.resets
    }

    /// Returns whether it interrupts the guest in this turn.
    pub fn is_interrupting(&self) -> bool {
        self.causes.raised != 0
    }

    /// Takes what has changed since this was last asked, if anything has.
    #[inline]
    pub fn take_causes(&mut self) -> Option<Causes> {
        const NONE: Causes = Causes { are_cleared: false, raised: 0 };
        (self.causes != NONE).then(|| core::mem::replace(&mut self.causes, NONE))
    }

    /// Returns a queue, if the device works.
    pub fn queue(&mut self, number: usize) -> Option<&mut Queue> {
        let is_live = self.is_live();
        self.queues.get_mut(number).filter(|queue| is_live && queue.ready)
    }

    /// Interrupts the guest if it wants to be told of buffers, as [`Queue::publish`] returns.
    pub fn tell(&mut self, wanted: Result<bool, Broken>) {
        match wanted {
            Ok(true) => self.causes.raised |= cause::USED,
            Ok(false) => {}
            Err(Broken) => self.fail(),
        }
    }

    /// Stops until the guest resets the device.
    pub fn fail(&mut self) {
        self.status |= status::NEEDS_RESET;
        self.causes.raised |= cause::CHANGE;
    }

    /// Takes the value, or stops the device if the guest has broken a queue.
    pub fn sound<T>(&mut self, result: Result<T, Broken>) -> Option<T> {
        if result.is_err() {
            self.fail();
        }
        result.ok()
    }

    /// Reads `size` bytes at an offset; what is no register reads as zero.
    pub fn read(&self, offset: u64, size: u8) -> u64 {
        if let Some(offset) = offset.checked_sub(register::CONFIGURATION) {
            let bytes = usize::try_from(offset).ok().and_then(|offset| self.configuration.get(offset..));
            let bytes = bytes.unwrap_or_default().iter().take(size.into());
            return bytes.rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        }
        if size != 4 {
            return 0;
        }
        match offset {
            register::MAGIC => MAGIC.into(),
            register::VERSION => VERSION.into(),
            register::DEVICE => self.device.into(),
            register::VENDOR => VENDOR.into(),
            register::DEVICE_FEATURES => half(self.offered, self.device_select).into(),
            register::QUEUE_SIZE_MAX if self.selected().is_some() => MAX_SIZE.into(),
            register::QUEUE_READY => self.selected().is_some_and(|queue| queue.ready).into(),
            register::STATUS => self.status.into(),
            register::SHARED_LENGTH | register::SHARED_LENGTH_HIGH => u32::MAX.into(),
            register::GENERATION => self.generation.into(),
            _ => 0,
        }
    }

    /// Writes `size` bytes at an offset; what is no register ignores them.
    pub fn write(&mut self, offset: u64, size: u8, value: u64) {
        if size != 4 {
            return;
        }
        let value = value as u32;
        match offset {
            register::DEVICE_FEATURES_SELECT => self.device_select = value,
            register::DRIVER_FEATURES_SELECT => self.driver_select = value,
            register::DRIVER_FEATURES if self.status & status::FEATURES_OK == 0 => {
                set_half(&mut self.accepted, self.driver_select, value);
            }
            register::QUEUE_SELECT => self.queue_select = value,
            register::STATUS => self.set_status(value),
            _ => self.write_queue(offset, value),
        }
    }

    fn set_status(&mut self, value: u32) {
        if value == 0 {
            self.reset();
            return;
        }
        // The device alone sets and clears that it needs a reset.
        let mut next = value & 0xff & !status::NEEDS_RESET | self.status & status::NEEDS_RESET;
        // Features stay as they are once they are settled; those that cannot be are not (§3.1.1).
        let can_settle = self.accepted & !self.offered == 0 && self.has(VERSION_1);
        if self.status & status::FEATURES_OK == 0 && !can_settle {
            next &= !status::FEATURES_OK;
        }
        if next & status::FEATURES_OK == 0 {
            next &= !status::DRIVER_OK;
        }
        self.status = next;
    }

    /// Puts it into its first state: what its guest has set up is gone.
    pub fn reset(&mut self) {
        let (device, next_offered, count) = (self.device, self.next_offered, self.count);
        let (configuration, generation) = (self.configuration, self.generation);
        let resets = self.resets.wrapping_add(1);
        *self = Self {
            offered: next_offered,
            next_offered,
            configuration,
            generation,
            resets,
            ..Self::new(device, 0, count)
        };
    }

    fn selected(&self) -> Option<&Queue> {
        self.queues[..self.count].get(self.queue_select as usize)
    }

    /// Writes a register of the selected queue, which stays as it is while it is ready.
    fn write_queue(&mut self, offset: u64, value: u32) {
        let has_events = self.has(EVENT_INDEX);
        let Some(queue) = self.queues[..self.count].get_mut(self.queue_select as usize) else { return };
        if offset == register::QUEUE_READY {
            if value & 1 == 0 {
                *queue = Queue::default();
                self.resets = self.resets.wrapping_add(1);
            } else {
                (queue.ready, queue.has_events) = (queue.is_valid(), has_events);
            }
            return;
        }
        if queue.ready {
            return;
        }
        let high = (offset >> 2 & 1) as u32;
        match offset & !4 {
            // Too large a size is none: the queue does not get ready.
            register::QUEUE_SIZE if high == 0 => queue.size = u16::try_from(value).unwrap_or(0),
            register::QUEUE_DESCRIPTORS => set_half(&mut queue.descriptors, high, value),
            register::QUEUE_DRIVER => set_half(&mut queue.driver, high, value),
            register::QUEUE_DEVICE => set_half(&mut queue.device, high, value),
            _ => {}
        }
    }
}

/// The low (0) or high (1) half; there are no others.
fn half(value: u64, which: u32) -> u32 {
    match which {
        0 => value as u32,
        1 => (value >> 32) as u32,
        _ => 0,
    }
}

fn set_half(value: &mut u64, which: u32, half: u32) {
    match which {
        0 => *value = *value & !0xffff_ffff | u64::from(half),
        1 => *value = *value & 0xffff_ffff | u64::from(half) << 32,
        _ => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;
