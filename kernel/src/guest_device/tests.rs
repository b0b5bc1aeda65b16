//! Accesses as processors describe them, and the words of devices.

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
    let at =
        |slot: VirtioSlot, syndrome, offset: u64| device_access(syndrome, 0xffff_8000_0000_0000 | offset, page(slot));
    let found = |slot, register| Some(DeviceAccess { slot, register, general: 3 });
    assert_eq!(at(VIRTIO_NET, LOAD, 0x60), found(0, Register::Status));
    assert_eq!(at(VIRTIO_BLOCK, STORE, 0x64), found(1, Register::Acknowledge));
    assert_eq!(at(VIRTIO_ENTROPY, STORE, 0x50), found(2, Register::Notify));
    for (syndrome, offset) in [(STORE, 0x60), (LOAD, 0x64), (LOAD, 0x50), (LOAD, 0x61), (STORE, 0x70), (STORE, 0x1050)]
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
