//! The registers of a guest's virtio devices that it uses with each interrupt and each request. An
//! exit to the monitor for each would cost more than what the device does. So the kernel takes
//! them, on words that it shares with the monitor ([`VirtualCpu::devices`]), and knows nothing
//! else of the devices.
//!
//! [`VirtualCpu::devices`]: culm_abi::guest::VirtualCpu::devices

use core::sync::atomic::{AtomicU64, Ordering};
use culm_abi::guest::{VIRTIO, VIRTIO_SLOTS, VirtioSlot, device, kernel_register};
use culm_kernel_core::Trap;

/// What a guest does with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// It reads the causes of the device's interrupt.
    Status,
    /// It has seen some of them.
    Acknowledge,
    /// It rings the doorbell.
    Notify,
}

/// An access to one of these registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// The device's place in [`culm_abi::guest::VirtualCpu::devices`].
    pub slot: usize,
    /// The register.
    pub register: Register,
    /// The general register that takes part; 31 is the zero register.
    pub general: usize,
}

/// Returns the access that an exception tells of; `address` is `FAR_EL2`, `page` is `HPFAR_EL2`
/// (Arm ARM, `ESR_EL2`, "ISS encoding for an exception from a Data Abort"). It is of one word, with
/// a valid description (ISV), and was stopped by a translation fault at stage 2 that is not of a
/// stage 1 walk (S1PTW): only so do both registers hold where it went.
pub fn device_access(syndrome: u64, address: u64, page: u64) -> Option<DeviceAccess> {
    const CLASS: u64 = 0x3f << 26;
    const VALID: u64 = 1 << 24;
    const SIZE: u64 = 0b11 << 22;
    const OF_WALK: u64 = 1 << 7;
    const FAULT: u64 = 0b11_1100;
    const WORD: u64 = 0x24 << 26 | VALID | 0b10 << 22 | 0b00_0100;
    if syndrome & (CLASS | VALID | SIZE | OF_WALK | FAULT) != WORD {
        return None;
    }
    let is_write = syndrome >> 6 & 1 != 0;
    let register = match (address & (VirtioSlot::SIZE - 1), is_write) {
        (kernel_register::INTERRUPT_STATUS, false) => Register::Status,
        (kernel_register::INTERRUPT_ACKNOWLEDGE, true) => Register::Acknowledge,
        (kernel_register::QUEUE_NOTIFY, true) => Register::Notify,
        _ => return None,
    };
    let page = page >> 4 & 0xff_ffff_ffff;
    let slot = page.checked_sub(VIRTIO.address / VirtioSlot::SIZE)? as usize;
    (slot < VIRTIO_SLOTS).then_some(DeviceAccess { slot, register, general: (syndrome >> 16 & 0x1f) as usize })
}

/// Takes an access to a device with this word, if the device is there: returns what is read, if
/// that is what it does, and what becomes of the guest. `value` is what it writes.
pub fn take_access(word: &AtomicU64, register: Register, value: u64) -> Option<(Option<u64>, Trap)> {
    // Acquire: what the guest reads of the device after this is at least as new as the causes.
    let state = word.load(Ordering::Acquire);
    if state & device::THERE == 0 {
        return None;
    }
    Some(match register {
        Register::Status => (Some(state & device::CAUSES), Trap::Passed),
        Register::Acknowledge => {
            word.fetch_and(!(value & device::CAUSES), Ordering::AcqRel);
            (None, Trap::Passed)
        }
        // Release: a monitor that finds it rung sees what the guest has put into the queue.
        Register::Notify => {
            let was_rung = word.fetch_or(device::RUNG, Ordering::AcqRel) & device::RUNG != 0;
            (None, if was_rung { Trap::Passed } else { Trap::Rings })
        }
    })
}

#[cfg(test)]
mod tests;
