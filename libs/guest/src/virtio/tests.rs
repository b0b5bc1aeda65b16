//! For the tests here: a driver's side of a queue in a guest's memory.

use super::Memory;
use super::queue::Queue;
pub(crate) use super::testing::Ram;

/// The driver's side of a queue whose parts lie in the first pages of [`Ram`].
pub(crate) struct Driver {
    base: u64,
    size: u16,
    /// Descriptors in use, from the first on.
    taken: u16,
    available: u16,
    seen: u16,
}

impl Driver {
    pub fn new(size: u16) -> Self {
        Self::at(Ram::BASE, size)
    }

    /// One whose parts lie from `base` on, in less than 4096 bytes.
    pub fn at(base: u64, size: u16) -> Self {
        Self { base, size, taken: 0, available: 0, seen: 0 }
    }

    fn driver(&self) -> u64 {
        self.base + 1024
    }

    fn device(&self) -> u64 {
        self.base + 2048
    }

    /// Returns the addresses of descriptors, driver's and device's part.
    pub fn places(&self) -> [u64; 3] {
        [self.base, self.driver(), self.device()]
    }

    /// Returns the device's side, set up.
    pub fn queue(&self, has_events: bool) -> Queue {
        let [descriptors, driver, device] = self.places();
        Queue { size: self.size, ready: true, descriptors, driver, device, has_events, ..Queue::default() }
    }

    /// Makes a chain available: address, length, whether the device writes it.
    pub fn offer(&mut self, ram: &Ram, parts: &[(u64, u32, bool)]) {
        let head = self.taken % self.size;
        for (index, (address, length, written)) in parts.iter().enumerate() {
            let has_next = index + 1 < parts.len();
            let number = self.taken % self.size;
            self.taken += 1;
            let flags = u16::from(has_next) | u16::from(*written) << 1;
            self.set_descriptor(ram, number, (*address, *length, flags, self.taken % self.size));
        }
        self.set_entry(ram, self.available % self.size, head);
        self.set_index(ram, self.available + 1);
    }

    pub fn set_descriptor(&self, ram: &Ram, number: u16, (address, length, flags, next): (u64, u32, u16, u16)) {
        let word = u128::from(address) | u128::from(length) << 64 | u128::from(flags) << 96 | u128::from(next) << 112;
        ram.write(self.base + 16 * u64::from(number), &word.to_le_bytes()).expect("inside");
    }

    pub fn set_entry(&self, ram: &Ram, entry: u16, head: u16) {
        ram.store(self.driver() + 4 + 2 * u64::from(entry), head).expect("inside");
    }

    pub fn set_index(&mut self, ram: &Ram, index: u16) {
        self.available = index;
        ram.store(self.driver() + 2, index).expect("inside");
    }

    /// Asks for interrupts: the flags, or the index where there are events.
    pub fn ask(&self, ram: &Ram, has_events: bool, asked: u16) {
        let at = if has_events { 4 + 2 * u64::from(self.size) } else { 0 };
        ram.store(self.driver() + at, asked).expect("inside");
    }

    /// Returns the index at which the device asks for its doorbell.
    pub fn doorbell_at(&self, ram: &Ram) -> u16 {
        ram.load(self.device() + 4 + 8 * u64::from(self.size)).expect("inside")
    }

    /// Takes the next chain that the device has given back: its head and the bytes in it.
    pub fn used(&mut self, ram: &Ram) -> Option<(u32, u32)> {
        if ram.load(self.device() + 2).expect("inside") == self.seen {
            return None;
        }
        let mut bytes = [0; 8];
        ram.read(self.device() + 4 + 8 * u64::from(self.seen % self.size), &mut bytes).expect("inside");
        self.seen += 1;
        let word = u64::from_le_bytes(bytes);
        Some((word as u32, (word >> 32) as u32))
    }
}
