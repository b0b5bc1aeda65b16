//! The guest's source of random bytes (VIRTIO 1.2 §5.4).

use super::Memory;
use super::queue::MAX_SIZE;
use super::transport::Transport;

/// Kind of device (§5).
const DEVICE: u32 = 4;

/// The one queue.
const REQUESTS: usize = 0;

/// The most bytes that one buffer gets: what a kernel's generator takes for a seed, twice.
pub const PORTION: usize = 64;

/// The source.
#[derive(Clone, Debug)]
pub struct Entropy {
    /// Its registers.
    pub transport: Transport,
}

/// How far [`Entropy::fill`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// The bytes that the guest got.
    pub bytes: u64,
    /// Whether there is a buffer still, for which the guest need not ring.
    pub has_more: bool,
}

impl Default for Entropy {
    fn default() -> Self {
        Self { transport: Transport::new(DEVICE, 0, 1) }
    }
}

impl Entropy {
    /// Fills each buffer that waits, as many as the queue has at most, from `random`; where there
    /// is nothing random they wait on.
    pub fn fill(&mut self, memory: &impl Memory, mut random: impl FnMut() -> Option<[u8; PORTION]>) -> Filled {
        let (mut bytes, mut is_random) = (0, true);
        for _ in 0..MAX_SIZE {
            if !self.has_buffer(memory) {
                break;
            }
            let portion = random();
            is_random = portion.is_some();
            let Some(length) = portion.and_then(|portion| self.fill_next(memory, &portion)) else { break };
            bytes += length;
        }
        if let Some(queue) = self.transport.queue(REQUESTS) {
            let wanted = queue.publish(memory);
            self.transport.tell(wanted);
        }
        // The guest may have offered a buffer just before it was asked to ring.
        Filled { bytes, has_more: is_random && self.has_buffer(memory) }
    }

    fn has_buffer(&mut self, memory: &impl Memory) -> bool {
        let Some(queue) = self.transport.queue(REQUESTS) else { return false };
        let result = queue.has_next(memory);
        self.transport.sound(result).unwrap_or(false)
    }

    /// Fills the next buffer; returns how many bytes it got.
    fn fill_next(&mut self, memory: &impl Memory, portion: &[u8; PORTION]) -> Option<u64> {
        let next = self.transport.queue(REQUESTS)?.next(memory);
        let chain = self.transport.sound(next)??;
        let length = (PORTION as u64).min(chain.writable_bytes()) as usize;
        if chain.write(memory, 0, &portion[..length]).is_none() {
            self.transport.fail();
        }
        let result = self.transport.queue(REQUESTS)?.give_back(memory, &chain, length as u32);
        self.transport.sound(result).map(|()| length as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::EVENT_INDEX;
    use super::super::tests::{Driver, Ram};
    use super::super::transport::tests::live;
    use super::*;
    use core::cell::RefCell;

    #[test]
    fn buffers_get_bytes_as_many_as_they_hold() {
        let (ram, mut requests, none) = (Ram::new(16384), Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
        let mut entropy = Entropy::default();
        entropy.transport = live(entropy.transport, 0, [&requests, &none]);
        requests.offer(&ram, &[(Ram::BASE + 8192, 10, true)]);
        requests.offer(&ram, &[(Ram::BASE + 9000, 100, true)]);
        assert_eq!(entropy.fill(&ram, || Some([7; PORTION])), Filled { bytes: 74, has_more: false });
        assert_eq!([requests.used(&ram), requests.used(&ram)], [Some((0, 10)), Some((1, 64))]);
        let mut read = [0; 11];
        ram.read(Ram::BASE + 8192, &mut read).expect("inside");
        assert_eq!(read, [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
        requests.offer(&ram, &[(0, 10, true)]);
        let waits = Filled { bytes: 0, has_more: false };
        assert_eq!((entropy.fill(&ram, || None), entropy.transport.is_live()), (waits, true));
        assert_eq!(entropy.fill(&ram, || Some([7; PORTION])), waits);
        assert!(!entropy.transport.is_live());
    }
    /// Memory in which the guest offers a buffer just before it is asked to ring for the next one.
    struct Late(Ram, RefCell<Driver>);

    impl Memory for Late {
        fn contains(&self, address: u64, length: u32) -> bool {
            self.0.contains(address, length)
        }
        fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
            self.0.read(address, bytes)
        }
        fn write(&self, address: u64, bytes: &[u8]) -> Option<()> {
            self.0.write(address, bytes)
        }
        fn load(&self, address: u64) -> Option<u16> {
            self.0.load(address)
        }
        fn store(&self, address: u64, value: u16) -> Option<()> {
            let mut driver = self.1.borrow_mut();
            let event = driver.places()[2] + 4 + 8 * 4;
            if address == event && value == 0 {
                driver.offer(&self.0, &[(Ram::BASE + 8192, 10, true)]);
            }
            self.0.store(address, value)
        }
        fn load_double(&self, address: u64) -> Option<u64> {
            self.0.load_double(address)
        }
        fn store_word(&self, address: u64, value: u32) -> Option<()> {
            self.0.store_word(address, value)
        }
    }

    #[test]
    fn a_buffer_is_not_forgotten_that_comes_just_before_its_doorbell_is_asked_for() {
        let (requests, none) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
        let mut entropy = Entropy::default();
        entropy.transport = live(entropy.transport, EVENT_INDEX, [&requests, &none]);
        let late = Late(Ram::new(16384), RefCell::new(requests));
        let mut fill = || entropy.fill(&late, || Some([7; PORTION]));
        assert_eq!(fill(), Filled { bytes: 0, has_more: true });
        assert_eq!(fill(), Filled { bytes: 10, has_more: false });
    }
}
