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

impl Default for Entropy {
    fn default() -> Self {
        Self { transport: Transport::new(DEVICE, 0, 1) }
    }
}

impl Entropy {
    /// Fills each buffer that waits, as many as the queue has at most, from `random`; where there
    /// is nothing random they wait on. Returns how many bytes there were.
    pub fn fill(&mut self, memory: &impl Memory, mut random: impl FnMut() -> Option<[u8; PORTION]>) -> u64 {
        let mut given = 0;
        for _ in 0..MAX_SIZE {
            let Some(queue) = self.transport.queue(REQUESTS) else { return given };
            let has_next = queue.has_next(memory);
            if self.transport.sound(has_next) != Some(true) {
                break;
            }
            let Some(bytes) = random() else { break };
            let next = self.transport.queue(REQUESTS).map_or(Ok(None), |queue| queue.next(memory));
            let Some(Some(chain)) = self.transport.sound(next) else { break };
            let length = (PORTION as u64).min(chain.writable_bytes()) as usize;
            if chain.write(memory, 0, &bytes[..length]).is_none() {
                self.transport.fail();
                return given;
            }
            if let Some(queue) = self.transport.queue(REQUESTS) {
                let result = queue.give_back(memory, &chain, length as u32);
                self.transport.sound(result);
                given += length as u64;
            }
        }
        if let Some(queue) = self.transport.queue(REQUESTS) {
            let wanted = queue.publish(memory);
            self.transport.tell(wanted);
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Driver, Ram};
    use super::super::transport::tests::live;
    use super::*;

    #[test]
    fn buffers_get_bytes_as_many_as_they_hold() {
        let (ram, mut requests, none) = (Ram::new(16384), Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
        let mut entropy = Entropy::default();
        entropy.transport = live(entropy.transport, 0, [&requests, &none]);
        requests.offer(&ram, &[(Ram::BASE + 8192, 10, true)]);
        requests.offer(&ram, &[(Ram::BASE + 9000, 100, true)]);
        assert_eq!(entropy.fill(&ram, || Some([7; PORTION])), 74);
        assert_eq!([requests.used(&ram), requests.used(&ram)], [Some((0, 10)), Some((1, 64))]);
        let mut read = [0; 11];
        ram.read(Ram::BASE + 8192, &mut read).expect("inside");
        assert_eq!(read, [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
        requests.offer(&ram, &[(0, 10, true)]);
        assert_eq!((entropy.fill(&ram, || None), entropy.transport.is_live()), (0, true), "it waits");
        assert_eq!(entropy.fill(&ram, || Some([7; PORTION])), 0);
        assert!(!entropy.transport.is_live());
    }
}
