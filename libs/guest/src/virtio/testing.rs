//! For host tests: a guest's memory, and how its driver begins with a device.

use super::transport::{Transport, register, status};
use super::{Memory, VERSION_1};
use std::cell::RefCell;
use std::vec;
use std::vec::Vec;

/// The status of a driver that has seen the device, and knows what it is (VIRTIO 1.2 §2.1).
pub(crate) const SEEN: u64 = 3;

/// Memory of a guest.
#[derive(Debug)]
pub struct Ram(RefCell<Vec<u8>>);

impl Ram {
    /// Its first address.
    pub const BASE: u64 = 0x4000_0000;

    /// Returns so many bytes of zeroes.
    pub fn new(size: usize) -> Self {
        Self(RefCell::new(vec![0; size]))
    }

    fn range(&self, address: u64, length: usize) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(Self::BASE)?).ok()?;
        let end = start.checked_add(length).filter(|end| *end <= self.0.borrow().len())?;
        Some(start..end)
    }
}

impl Memory for Ram {
    fn contains(&self, address: u64, length: u32) -> bool {
        self.range(address, length as usize).is_some()
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let range = self.range(address, bytes.len())?;
        bytes.copy_from_slice(&self.0.borrow()[range]);
        Some(())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Option<()> {
        let range = self.range(address, bytes.len())?;
        self.0.borrow_mut()[range].copy_from_slice(bytes);
        Some(())
    }

    fn load(&self, address: u64) -> Option<u16> {
        let mut bytes = [0; 2];
        self.read(address, &mut bytes)?;
        Some(u16::from_le_bytes(bytes))
    }

    fn store(&self, address: u64, value: u16) -> Option<()> {
        self.write(address, &value.to_le_bytes())
    }

    fn load_double(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        address.is_multiple_of(8).then_some(u64::from_le_bytes(bytes))
    }

    fn store_word(&self, address: u64, value: u32) -> Option<()> {
        if !address.is_multiple_of(4) {
            return None;
        }
        self.write(address, &value.to_le_bytes())
    }
}

/// Accepts features, half by half.
pub(crate) fn accept(transport: &mut Transport, features: u64) {
    for half in 0..2 {
        transport.write(register::DRIVER_FEATURES_SELECT, 4, half);
        transport.write(register::DRIVER_FEATURES, 4, features >> (32 * half) & 0xffff_ffff);
    }
}

/// Sets a queue up, whose descriptors, driver's part and device's part are at these places.
pub(crate) fn set_up_queue(transport: &mut Transport, number: u64, places: [u64; 3], size: u64) {
    transport.write(register::QUEUE_SELECT, 4, number);
    transport.write(register::QUEUE_SIZE, 4, size);
    let registers = [register::QUEUE_DESCRIPTORS, register::QUEUE_DRIVER, register::QUEUE_DEVICE];
    for (register, place) in registers.into_iter().zip(places) {
        transport.write(register, 4, place);
        transport.write(register + 4, 4, place >> 32);
    }
    transport.write(register::QUEUE_READY, 4, 1);
}

/// Returns the features that a device offers.
fn offered(transport: &mut Transport) -> u64 {
    let mut half = |number| {
        transport.write(register::DEVICE_FEATURES_SELECT, 4, number);
        transport.read(register::DEVICE_FEATURES, 4)
    };
    half(0) | half(1) << 32
}

/// Resets a device and sets it up as a driver does (§3.1.1), with those of the wanted features
/// that it offers, and with queues of one size.
pub fn set_up(transport: &mut Transport, wanted: u64, queues: &[[u64; 3]], size: u64) {
    const SETTLED: u64 = SEEN | status::FEATURES_OK as u64;
    transport.write(register::STATUS, 4, 0);
    let features = (wanted | VERSION_1) & offered(transport);
    accept(transport, features);
    transport.write(register::STATUS, 4, SETTLED);
    for (number, places) in (0..).zip(queues) {
        set_up_queue(transport, number, *places, size);
    }
    transport.write(register::STATUS, 4, SETTLED | u64::from(status::DRIVER_OK));
}
