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
mod tests {
    use super::*;
    use culm_abi::guest::{VIRTIO_BLOCK, VIRTIO_ENTROPY, VIRTIO_NET};

    /// A load of a word to `x3`, by a translation fault of level 3.
    const LOAD: u64 = 0x24 << 26 | 1 << 25 | 1 << 24 | 0b10 << 22 | 3 << 16 | 0b000111;
    const STORE: u64 = LOAD | 1 << 6;

    fn page(slot: VirtioSlot) -> u64 {
        slot.registers().address >> 8
    }

    #[test]
    fn accesses_are_told_by_device_register_and_direction() {
        let at = |slot: VirtioSlot, syndrome, offset: u64| {
            device_access(syndrome, 0xffff_8000_0000_0000 | offset, page(slot))
        };
        let found = |slot, register| Some(DeviceAccess { slot, register, general: 3 });
        assert_eq!(at(VIRTIO_NET, LOAD, 0x60), found(0, Register::Status));
        assert_eq!(at(VIRTIO_BLOCK, STORE, 0x64), found(1, Register::Acknowledge));
        assert_eq!(at(VIRTIO_ENTROPY, STORE, 0x50), found(2, Register::Notify));
        for (syndrome, offset) in
            [(STORE, 0x60), (LOAD, 0x64), (LOAD, 0x50), (LOAD, 0x61), (STORE, 0x70), (STORE, 0x1050)]
        {
            let expected = if offset == 0x1050 { found(0, Register::Notify) } else { None };
            assert_eq!(at(VIRTIO_NET, syndrome, offset), expected, "{offset:#x}");
        }
        for slots in [VIRTIO.address - 0x1000, VIRTIO.address + VIRTIO.size, 0, 0xff_ffff_f000] {
            assert_eq!(device_access(LOAD, 0x60, slots >> 8), None, "{slots:#x}");
        }
    }

    #[test]
    fn an_access_whose_place_or_register_is_not_known_exits() {
        for syndrome in [
            LOAD & !(1 << 24),                 // no description
            LOAD ^ 1 << 22,                    // 8 bytes
            LOAD ^ 1 << 23,                    // a byte
            LOAD | 1 << 7,                     // of a walk
            LOAD & !0x3f | 0b001111,           // a permission fault
            LOAD & !0x3f | 0b000011,           // an address size fault
            LOAD & !0x3f | 0b010000,           // an external abort
            LOAD & !(0x3f << 26) | 0x20 << 26, // an instruction fetched there
            LOAD & !(0x3f << 26) | 0x25 << 26, // the kernel's own
        ] {
            assert_eq!(device_access(syndrome, 0x60, page(VIRTIO_NET)), None, "{syndrome:#x}");
        }
    }

    #[test]
    fn causes_are_read_and_acknowledged_without_the_monitor() {
        let word = AtomicU64::new(device::THERE | device::RUNG | 0b11);
        assert_eq!(take_access(&word, Register::Status, 0), Some((Some(0b11), Trap::Passed)));
        assert_eq!(take_access(&word, Register::Acknowledge, u64::MAX ^ 0b10), Some((None, Trap::Passed)));
        assert_eq!(word.load(Ordering::Relaxed), device::THERE | device::RUNG | 0b10, "only what was seen");
        assert_eq!(take_access(&word, Register::Status, 0), Some((Some(0b10), Trap::Passed)));
    }

    #[test]
    fn the_monitor_is_told_once_until_it_looks() {
        let word = AtomicU64::new(device::THERE | 1);
        assert_eq!(take_access(&word, Register::Notify, 0), Some((None, Trap::Rings)));
        assert_eq!(take_access(&word, Register::Notify, 1), Some((None, Trap::Passed)));
        assert_eq!(word.fetch_and(!device::RUNG, Ordering::Relaxed), device::THERE | device::RUNG | 1);
        assert_eq!(take_access(&word, Register::Notify, 0), Some((None, Trap::Rings)));
    }

    #[test]
    fn a_device_that_is_not_there_is_the_monitors_affair() {
        let word = AtomicU64::new(0b11);
        for register in [Register::Status, Register::Acknowledge, Register::Notify] {
            assert_eq!(take_access(&word, register, u64::MAX), None);
        }
        assert_eq!(word.load(Ordering::Relaxed), 0b11);
    }
}
