//! Finding a device at work or setting it up (VIRTIO 1.2 §3.1.1), and talking to it, over whatever
//! interface it has.

use crate::registers::*;
use crate::virtqueue::{Access, Layout, Virtqueue};
use crate::{Configuration, Interface};
use core::fmt;
use culm::Region;

/// Features that the transport and the virtqueue use if the device has them. A driver asks for them
/// together with those of its class.
pub const FEATURES: u64 = FEATURE_EVENT_INDEX | FEATURE_VERSION_1 | FEATURE_ACCESS_PLATFORM | FEATURE_ORDER_PLATFORM;

/// Reads of the status register that a reset may take.
const RESET_LIMIT: u32 = 100_000;

/// Times that the configuration is read while the device goes on changing it.
const CONFIGURATION_LIMIT: u32 = 8;

/// The status of a device whose driver is there.
const KNOWN: Status = Status::ZERO.set(Status::ACKNOWLEDGE).set(Status::DRIVER);

/// The status of a device whose features are settled.
const SETTLED: Status = KNOWN.set(Status::FEATURES_OK);

/// The status of a device that works.
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

/// A device behind its interface.
#[derive(Debug)]
pub struct Transport<I> {
    interface: I,
    features: u64,
}

impl<I: Interface> Transport<I> {
    /// Finds the device of a kind (§5) behind `interface`, in whatever state it is.
    pub fn find(interface: I, kind: Kind) -> Result<Self, Unusable> {
        let found = interface.kind()?;
        if found != kind {
            return Err(Unusable::Kind { wanted: kind, found });
        }
        Ok(Self { interface, features: 0 })
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
        let largest = self.interface.find_queue(number).min(limit.into());
        // The largest power of two; not all that a device allows are (§2.7).
        let size = largest.checked_ilog2().map(|exponent| 1 << exponent).ok_or(Unusable::Queue)?;
        Virtqueue::new(memory, Layout::new(size, start), access).ok_or(Unusable::Queue)
    }

    /// Takes a device over that the previous life left at work with these features and queues.
    /// Returns false if it is not at work so, as far as its registers show.
    pub fn resume(&mut self, features: u64, queues: impl IntoIterator<Item = u32>) -> bool {
        self.features = features;
        let is_ready = |queue| self.interface.is_ready(queue);
        self.has(FEATURE_VERSION_1) && self.interface.status() == AT_WORK && queues.into_iter().all(is_ready)
    }

    /// Returns whether the device says that it cannot go on without a reset (§2.1.1).
    pub fn needs_reset(&self) -> bool {
        self.interface.status().has(Status::NEEDS_RESET)
    }

    /// Resets the device and negotiates its features: `choose` gets those that it offers, and
    /// returns those to use, [`FEATURES`] among them. The device touches no memory from here on.
    pub fn reset(&mut self, choose: impl FnOnce(u64) -> u64) -> Result<(), Unusable> {
        self.interface.set_status(Status::ZERO);
        // The reset is done when the register reads as 0 (§2.4.2).
        if !(0..RESET_LIMIT).any(|_| self.interface.status() == Status::ZERO) {
            return Err(Unusable::Stuck);
        }
        self.interface.set_status(Status::ZERO.set(Status::ACKNOWLEDGE));
        self.interface.set_status(KNOWN);
        let offered = self.interface.offered();
        self.features = choose(offered) & offered;
        if !self.has(FEATURE_VERSION_1) {
            return Err(Unusable::Legacy);
        }
        self.interface.choose(self.features);
        self.interface.set_status(SETTLED);
        if self.interface.status().has(Status::FEATURES_OK) { Ok(()) } else { Err(Unusable::Features) }
    }

    /// Sets a device that was reset to work in these queues, which were renewed; each has its
    /// number before it.
    pub fn set_to_work(&self, memory: &Region, queues: &[(u32, &Virtqueue)]) {
        for (number, queue) in queues {
            let Layout { size, descriptors, available, used, .. } = queue.layout();
            let addresses = [descriptors, available, used].map(|offset| memory.dma() + offset as u64);
            self.interface.set_up_queue(*number, size, addresses);
        }
        self.interface.set_status(AT_WORK);
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
    pub fn configuration<T>(&self, read: impl Fn(&Configuration<'_, I>) -> T) -> T {
        let mut tries = 0;
        loop {
            let generation = self.interface.generation();
            let value = read(&Configuration(&self.interface));
            tries += 1;
            if self.interface.generation() == generation || tries == CONFIGURATION_LIMIT {
                return value;
            }
        }
    }

    /// Acknowledges an interrupt: that buffers were used, and more perhaps, of which
    /// [`Self::was_told_of_change`] tells.
    #[inline(always)]
    pub fn acknowledge(&self) {
        self.interface.acknowledge();
    }

    /// Returns whether an interrupt that was acknowledged was about a change too, for which
    /// [`Self::has_changed`] was not called since. Where this is false, a change interrupts by
    /// itself until then.
    #[inline(always)]
    pub fn was_told_of_change(&self) -> bool {
        self.interface.was_told_of_change()
    }

    /// Returns whether its configuration changed, or it met an error, since the last call of this.
    pub fn has_changed(&self) -> bool {
        self.interface.has_changed()
    }

    /// Rings the doorbell of a queue.
    #[inline(always)]
    pub fn ring_doorbell(&self, queue: u32) {
        self.interface.ring_doorbell(queue);
    }
}
