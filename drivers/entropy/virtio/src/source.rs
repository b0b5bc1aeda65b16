//! The device: asks it for a seed's bits, and takes them.

use crate::counters;
use culm::{Progress, Region, time};
use culm_mmio::Registers;
use culm_random::Seed;
use culm_virtio::registers::{CONFIGURATION, Kind};
use culm_virtio::transport::FEATURES;
use culm_virtio::virtqueue::Access;
use culm_virtio::{ResetBackoff, Transport, Unusable, Virtqueue};

/// Bytes that the registers take. The device has no configuration (§5.4.4).
pub const SIZE: usize = CONFIGURATION;

/// The queue of buffers to fill (§5.4.2).
const QUEUE: u32 = 0;

/// Descriptors in it, at most. One buffer is under way at a time.
const QUEUE_LIMIT: u16 = 4;

/// Bytes of a seed.
const BYTES: usize = size_of::<Seed>();

/// A source of random bits.
#[derive(Debug)]
pub struct Source<R> {
    device: Transport<R>,
    queue: Virtqueue,
    memory: Region,
    /// Offset of the buffer that the device fills.
    buffer: usize,
    /// The bytes of the next seed that it has given: it may give less than the buffer holds
    /// (§5.4.6.1).
    bytes: [u8; BYTES],
    count: usize,
    /// Whether the device needs a reset.
    failed: bool,
    backoff: ResetBackoff,
}

impl<R: Registers> Source<R> {
    /// Sets the device up, whatever state a previous life left it in, and asks it for a seed.
    pub fn new(registers: R, memory: Region) -> Result<Self, Unusable> {
        let device = Transport::find(registers, Kind::ENTROPY)?;
        let queue = device.find_queue(QUEUE, QUEUE_LIMIT, &memory, 0, Access::Write)?;
        let buffer = queue.layout().end;
        memory.clear(buffer, BYTES).map_err(|_| Unusable::Queue)?;
        let (bytes, backoff) = ([0; BYTES], ResetBackoff::new());
        let mut source = Self { device, queue, memory, buffer, bytes, count: 0, failed: false, backoff };
        source.reset()?;
        Ok(source)
    }

    fn reset(&mut self) -> Result<(), Unusable> {
        counters::RESETS.add(1);
        self.failed = false;
        self.device.reset(|offered| offered & FEATURES)?;
        self.queue.clear();
        self.queue.renew(self.device.has_event_index());
        self.device.set_to_work(&self.memory, &[(QUEUE, &self.queue)]);
        self.ask();
        Ok(())
    }

    /// Handles the device's interrupt.
    pub fn interrupted(&mut self) {
        counters::INTERRUPTS.add(1);
        self.device.acknowledge();
        if self.device.has_changed() && self.device.needs_reset() {
            self.failed = true;
        }
    }

    /// Asks for what is missing of the next seed, unless that is under way.
    pub fn ask(&mut self) {
        if self.failed || self.queue.in_flight() > 0 {
            return;
        }
        let address = self.memory.dma() + self.buffer as u64;
        self.queue.add(address, (BYTES - self.count) as u16, 0);
        if self.queue.publish() {
            self.device.ring_doorbell(QUEUE);
        }
    }

    /// Takes what the device has given. Returns the seed once there is all of it; the next one must
    /// be asked for.
    pub fn take(&mut self) -> Option<Seed> {
        if self.failed {
            self.repair();
        }
        self.queue.refresh();
        let used = self.queue.take();
        let given = used.map_or(0, |used| used.length as usize);
        // A device that gives nothing is asked again only after a reset, which it has to wait for.
        self.failed |= self.queue.is_broken() || (used.is_some() && given == 0);
        counters::DEVICE_ERRORS.add(u64::from(self.queue.errors()));
        if given == 0 {
            return None;
        }
        let end = self.count + given;
        // The queue believes no length beyond what was asked for.
        let bytes = self.bytes.get_mut(self.count..end)?;
        self.memory.read(self.buffer, bytes).ok()?;
        let _ = self.memory.clear(self.buffer, BYTES);
        if end < BYTES {
            self.count = end;
            self.ask();
            return None;
        }
        self.count = 0;
        let bytes = core::mem::replace(&mut self.bytes, [0; BYTES]);
        let (words, _) = bytes.as_chunks::<8>();
        Some(core::array::from_fn(|index| u64::from_le_bytes(words[index])))
    }

    /// Resets a device that failed, or asks for a turn when that is due.
    #[cold]
    fn repair(&mut self) {
        if let Err(when) = self.backoff.ask(time::now()) {
            culm::wake_at(when);
        } else if let Err(reason) = self.reset() {
            culm::error!("the device cannot be used: {reason}");
            self.failed = true;
        }
    }

    /// Asks for an interrupt when the device gives something, unless it has.
    pub fn sleep(&mut self) -> Progress {
        if self.failed {
            self.repair();
            // The reset, or the wait for the next.
            return Progress::more_if(!self.failed);
        }
        if self.queue.in_flight() == 0 { Progress::Asleep } else { self.queue.wait_for(1) }
    }
}
