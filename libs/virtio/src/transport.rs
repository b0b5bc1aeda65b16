//! Finding a device at work or setting it up (VIRTIO 1.2 §3.1.1, §4.2.3), and talking to its
//! registers.

use crate::registers::*;
use crate::virtqueue::{Access, Layout, Virtqueue};
use core::fmt;
use culm::Region;
use culm_mmio::Registers;

/// Features that the transport and the virtqueue use if the device has them. A driver asks for them
/// together with those of its class.
pub const FEATURES: u64 = FEATURE_EVENT_INDEX | FEATURE_VERSION_1 | FEATURE_ACCESS_PLATFORM | FEATURE_ORDER_PLATFORM;

/// Reads of the status register that a reset may take.
const RESET_LIMIT: u32 = 100_000;

/// Times that the configuration is read while the device goes on changing it.
const CONFIGURATION_LIMIT: u32 = 8;

/// [`STATUS`] of a device whose driver is there.
const KNOWN: Status = Status::ZERO.set(Status::ACKNOWLEDGE).set(Status::DRIVER);

/// [`STATUS`] of a device whose features are settled.
const SETTLED: Status = KNOWN.set(Status::FEATURES_OK);

/// [`STATUS`] of a device that works.
const AT_WORK: Status = SETTLED.set(Status::DRIVER_OK);

/// The reason why a device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// There is none at this address.
    Absent,
    /// It has the legacy interface, from before VIRTIO 1.0.
    Legacy,
    /// It is of another kind.
    Kind {
        /// The kind that the driver is for.
        wanted: Kind,
        /// The kind of the device.
        found: Kind,
    },
    /// It does not reset.
    Stuck,
    /// It does not accept the driver's features.
    Features,
    /// It lacks a queue, or its DMA memory is too small.
    Queue,
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => formatter.write_str("no virtio device there: check the address in the board's file"),
            Self::Legacy => formatter.write_str("a legacy device: QEMU needs -global virtio-mmio.force-legacy=false"),
            Self::Kind { wanted, found } => {
                write!(formatter, "a virtio device of kind {}, not {}", found.number(), wanted.number())
            }
            Self::Stuck => formatter.write_str("the device does not reset"),
            Self::Features => formatter.write_str("the device refuses the features that the driver knows"),
            Self::Queue => formatter
                .write_str("the device lacks a queue, or has less memory for its queues than component.toml asks for"),
        }
    }
}

impl core::error::Error for Unusable {}

/// A device on MMIO.
#[derive(Debug)]
pub struct Transport<R> {
    registers: R,
    features: u64,
}

impl<R: Registers> Transport<R> {
    /// Finds the device of a kind (§5) behind `registers`, in whatever state it is.
    pub fn find(registers: R, kind: Kind) -> Result<Self, Unusable> {
        match (registers.read(MAGIC), registers.read(VERSION), registers.read(DEVICE_ID)) {
            (Magic::VIRT, Version::MODERN, found) if found == kind => Ok(Self { registers, features: 0 }),
            (Magic::VIRT, Version::LEGACY, _) => Err(Unusable::Legacy),
            (Magic::VIRT, Version::MODERN, found) if found != Kind::NONE => Err(Unusable::Kind { wanted: kind, found }),
            _ => Err(Unusable::Absent),
        }
    }

    /// Finds queue `number` in `memory` from `start` on, as a previous life left it; it gets
    /// `limit` descriptors at most.
    pub fn find_queue(
        &self,
        number: u32,
        limit: u16,
        memory: &Region,
        start: usize,
        access: Access,
    ) -> Result<Virtqueue, Unusable> {
        self.registers.write(QUEUE_SELECT, number);
        let largest = self.registers.read(QUEUE_SIZE_MAX).min(limit.into());
        // The largest power of two; not all that a device allows are (§2.7).
        let size = largest.checked_ilog2().map(|exponent| 1 << exponent).ok_or(Unusable::Queue)?;
        Virtqueue::new(memory, Layout::new(size, start), access).ok_or(Unusable::Queue)
    }

    /// Takes a device over that the previous life left at work with these features and queues.
    /// Returns false if it is not at work so, as far as its registers show.
    pub fn resume(&mut self, features: u64, queues: impl IntoIterator<Item = u32>) -> bool {
        self.features = features;
        let is_ready = |queue| {
            self.registers.write(QUEUE_SELECT, queue);
            self.registers.read(QUEUE_READY).has(Ready::READY)
        };
        self.has(FEATURE_VERSION_1) && self.registers.read(STATUS) == AT_WORK && queues.into_iter().all(is_ready)
    }

    /// Returns whether the device says that it cannot go on without a reset (§2.1.1).
    pub fn needs_reset(&self) -> bool {
        self.registers.read(STATUS).has(Status::NEEDS_RESET)
    }

    /// Resets the device and negotiates its features: `choose` gets those that it offers, and
    /// returns those to use, [`FEATURES`] among them. The device touches no memory from here on.
    pub fn reset(&mut self, choose: impl FnOnce(u64) -> u64) -> Result<(), Unusable> {
        self.registers.write(STATUS, Status::ZERO);
        // The reset is done when the register reads as 0 (§2.4.2).
        if !(0..RESET_LIMIT).any(|_| self.registers.read(STATUS) == Status::ZERO) {
            return Err(Unusable::Stuck);
        }
        self.registers.write(STATUS, Status::ZERO.set(Status::ACKNOWLEDGE));
        self.registers.write(STATUS, KNOWN);
        let mut offered = 0;
        for half in 0..2 {
            self.registers.write(DEVICE_FEATURES_SELECT, half);
            offered |= u64::from(self.registers.read(DEVICE_FEATURES)) << (32 * half);
        }
        self.features = choose(offered) & offered;
        if !self.has(FEATURE_VERSION_1) {
            return Err(Unusable::Legacy);
        }
        for half in 0..2 {
            self.registers.write(DRIVER_FEATURES_SELECT, half);
            self.registers.write(DRIVER_FEATURES, (self.features >> (32 * half)) as u32);
        }
        self.registers.write(STATUS, SETTLED);
        if self.registers.read(STATUS).has(Status::FEATURES_OK) { Ok(()) } else { Err(Unusable::Features) }
    }

    /// Sets a device that was reset to work in these queues, which were renewed; each has its
    /// number before it.
    pub fn set_to_work(&self, memory: &Region, queues: &[(u32, &Virtqueue)]) {
        for (number, queue) in queues {
            self.set_up_queue(*number, memory, queue.layout());
        }
        self.registers.write(STATUS, AT_WORK);
    }

    fn set_up_queue(&self, number: u32, memory: &Region, layout: Layout) {
        self.registers.write(QUEUE_SELECT, number);
        self.registers.write(QUEUE_SIZE, layout.size.into());
        for (low, high, offset) in [
            (QUEUE_DESCRIPTORS_LOW, QUEUE_DESCRIPTORS_HIGH, layout.descriptors),
            (QUEUE_DRIVER_LOW, QUEUE_DRIVER_HIGH, layout.available),
            (QUEUE_DEVICE_LOW, QUEUE_DEVICE_HIGH, layout.used),
        ] {
            let address = memory.dma() + offset as u64;
            self.registers.write(low, address as u32);
            self.registers.write(high, (address >> 32) as u32);
        }
        self.registers.write(QUEUE_READY, Ready::ZERO.set(Ready::READY));
    }

    /// Returns the features that were negotiated.
    pub fn features(&self) -> u64 {
        self.features
    }

    /// Returns whether a feature was negotiated.
    pub fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// Returns whether interrupts and doorbells are asked for by index.
    pub fn has_event_index(&self) -> bool {
        self.has(FEATURE_EVENT_INDEX)
    }

    /// Returns what `read` makes of the configuration, of one state of it (§2.5.1). A device that
    /// changes it all the time is believed the last time.
    pub fn configuration<T>(&self, read: impl Fn(&R) -> T) -> T {
        let mut tries = 0;
        loop {
            let generation = self.registers.read(CONFIGURATION_GENERATION);
            let value = read(&self.registers);
            tries += 1;
            if self.registers.read(CONFIGURATION_GENERATION) == generation || tries == CONFIGURATION_LIMIT {
                return value;
            }
        }
    }

    /// Acknowledges that buffers were used. The cause of the interrupt is not read first: if the
    /// configuration changed, its line stays high until [`Self::has_changed`], and a board that
    /// says `trigger = "level"`, as it must, has it interrupt again.
    #[inline(always)]
    pub fn acknowledge(&self) {
        self.registers.write(INTERRUPT_ACKNOWLEDGE, Causes::ZERO.set(Causes::USED));
    }

    /// Returns whether its configuration changed, or it met an error, since the last call of this.
    pub fn has_changed(&self) -> bool {
        let changed = self.registers.read(INTERRUPT_STATUS).has(Causes::CHANGE);
        if changed {
            // Acknowledge before the configuration is read: a later change interrupts again.
            self.registers.write(INTERRUPT_ACKNOWLEDGE, Causes::ZERO.set(Causes::CHANGE));
        }
        changed
    }

    /// Rings the doorbell of a queue.
    #[inline(always)]
    pub fn ring_doorbell(&self, queue: u32) {
        self.registers.write(QUEUE_NOTIFY, queue);
    }
}
