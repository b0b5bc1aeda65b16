//! Finding a device at work or setting it up (VIRTIO 1.2 §3.1.1, §4.2.3, §5.1.5), and talking to
//! its registers.

use crate::registers::*;
use crate::ring::{Layout, Ring};
use culm::Region;
use culm_mmio::{Register, Registers};
use culm_net::Mac;
use culm_net::descriptor::flags::{CHECKSUM_OFFLOAD, SEGMENTATION_OFFLOAD};

/// Descriptors in each queue, at most.
pub const QUEUE_LIMIT: u32 = 512;

/// Reads of the status register that a reset may take.
const RESET_LIMIT: u32 = 100_000;

/// Features that the driver uses if the device has them.
const WANTED: u64 = FEATURE_CHECKSUM
    | FEATURE_GUEST_CHECKSUM
    | FEATURE_SEGMENTS_4
    | FEATURE_MAC
    | FEATURE_STATUS
    | FEATURE_EVENT_INDEX
    | FEATURE_VERSION_1
    | FEATURE_ACCESS_PLATFORM
    | FEATURE_ORDER_PLATFORM;

/// Features that are used too if all clients take packets in several buffers.
const WANTED_FOR_LARGE: u64 = FEATURE_GUEST_SEGMENTS | FEATURE_MERGE;

/// [`STATUS`] of a device that works.
const AT_WORK: u32 = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK;

/// A device.
pub struct Device<R> {
    registers: R,
    /// Features that may be asked for.
    wanted: u64,
    features: u64,
}

/// The reason why a device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// There is none at this address.
    Absent,
    /// It has the legacy interface, from before VIRTIO 1.0.
    Legacy,
    /// It is of another kind.
    Kind(u32),
    /// It does not reset.
    Stuck,
    /// It does not accept the driver's features.
    Features,
    /// It lacks a queue, or its DMA memory is too small.
    Queue,
}

impl core::fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Absent => formatter.write_str("no virtio device there: check the address in the board's file"),
            Self::Legacy => formatter.write_str("a legacy device: QEMU needs -global virtio-mmio.force-legacy=false"),
            Self::Kind(kind) => write!(formatter, "a virtio device of kind {kind}, not 1 (network)"),
            Self::Stuck => formatter.write_str("the device does not reset"),
            Self::Features => formatter.write_str("the device refuses the features that the driver knows"),
            Self::Queue => formatter
                .write_str("the device lacks a queue, or has less memory for its queues than component.toml asks for"),
        }
    }
}

/// A device's two queues.
pub struct Rings {
    pub receive: Ring,
    pub transmit: Ring,
}

impl<R: Registers> Device<R> {
    /// Finds the device behind `registers`, and its queues in `memory` from `start` on, as the
    /// previous life left them. With `large`, received packets may lie in several buffers.
    pub fn find(registers: R, memory: &Region, start: usize, large: bool) -> Result<(Self, Rings), Unusable> {
        match (registers.read(MAGIC), registers.read(VERSION), registers.read(DEVICE_ID)) {
            (MAGIC_VALUE, VERSION_MODERN, DEVICE_NET) => {}
            (MAGIC_VALUE, 1, _) => return Err(Unusable::Legacy),
            (MAGIC_VALUE, VERSION_MODERN, kind) if kind != 0 => return Err(Unusable::Kind(kind)),
            _ => return Err(Unusable::Absent),
        }
        let wanted = if large { WANTED | WANTED_FOR_LARGE } else { WANTED };
        let device = Self { registers, wanted, features: 0 };
        let receive = device.find_queue(QUEUE_RECEIVE, memory, start, DESCRIPTOR_WRITE)?;
        let transmit = device.find_queue(QUEUE_TRANSMIT, memory, receive.layout.end, 0)?;
        Ok((device, Rings { receive, transmit }))
    }

    fn find_queue(&self, number: u32, memory: &Region, start: usize, flags: u16) -> Result<Ring, Unusable> {
        self.registers.write(QUEUE_SELECT, number);
        let largest = self.registers.read(QUEUE_SIZE_MAX).min(QUEUE_LIMIT);
        // The largest power of two; not all that a device allows are (§2.7).
        let size = largest.checked_ilog2().map(|exponent| 1 << exponent).ok_or(Unusable::Queue)?;
        Ring::new(memory, Layout::new(size, start), flags).ok_or(Unusable::Queue)
    }

    /// Returns whether the device is at work with these features, as far as its registers show.
    pub fn goes_on(&mut self, features: u64) -> bool {
        self.features = features;
        let is_ready = |queue| {
            self.registers.write(QUEUE_SELECT, queue);
            self.registers.read(QUEUE_READY) == 1
        };
        let credible = features & !self.wanted == 0 && self.has(FEATURE_VERSION_1);
        credible && self.registers.read(STATUS) == AT_WORK && is_ready(QUEUE_RECEIVE) && is_ready(QUEUE_TRANSMIT)
    }

    /// Returns whether the device says that it cannot go on without a reset (§2.1.1).
    pub fn needs_reset(&self) -> bool {
        self.registers.read(STATUS) & STATUS_NEEDS_RESET != 0
    }

    /// Resets the device and negotiates its features. The device touches no memory from here on.
    pub fn reset(&mut self) -> Result<(), Unusable> {
        self.registers.write(STATUS, 0);
        // The reset is done when the register reads as 0 (§2.4.2).
        if !(0..RESET_LIMIT).any(|_| self.registers.read(STATUS) == 0) {
            return Err(Unusable::Stuck);
        }
        self.registers.write(STATUS, STATUS_ACKNOWLEDGE);
        self.registers.write(STATUS, STATUS_ACKNOWLEDGE | STATUS_DRIVER);
        self.settle_features()
    }

    /// Sets a device that was reset to work in its queues, which were renewed.
    pub fn set_to_work(&self, memory: &Region, rings: &Rings) {
        self.set_up_queue(QUEUE_RECEIVE, memory, &rings.receive);
        self.set_up_queue(QUEUE_TRANSMIT, memory, &rings.transmit);
        self.registers.write(STATUS, AT_WORK);
    }

    fn set_up_queue(&self, number: u32, memory: &Region, ring: &Ring) {
        let layout = ring.layout;
        self.registers.write(QUEUE_SELECT, number);
        self.registers.write(QUEUE_SIZE, layout.size.into());
        for (parts, offset) in
            [(QUEUE_DESCRIPTORS, layout.descriptors), (QUEUE_DRIVER, layout.available), (QUEUE_DEVICE, layout.used)]
        {
            self.write_address(parts, memory.dma() + offset as u64);
        }
        self.registers.write(QUEUE_READY, 1);
    }

    fn settle_features(&mut self) -> Result<(), Unusable> {
        let mut offered = 0;
        for half in 0..2 {
            self.registers.write(DEVICE_FEATURES_SELECT, half);
            offered |= u64::from(self.registers.read(DEVICE_FEATURES)) << (32 * half);
        }
        self.features = offered & self.wanted;
        // Segmentation requires checksums (§5.1.3.1): do not use it if a device offers it alone.
        if !self.has(FEATURE_CHECKSUM) {
            self.features &= !FEATURE_SEGMENTS_4;
        }
        // Without packets in several buffers, each buffer would have to hold the largest packet.
        if !self.has(FEATURE_GUEST_CHECKSUM) || !self.has(FEATURE_MERGE) {
            self.features &= !WANTED_FOR_LARGE;
        }
        if self.features & FEATURE_VERSION_1 == 0 {
            return Err(Unusable::Legacy);
        }
        for half in 0..2 {
            self.registers.write(DRIVER_FEATURES_SELECT, half);
            self.registers.write(DRIVER_FEATURES, (self.features >> (32 * half)) as u32);
        }
        let settled = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
        self.registers.write(STATUS, settled);
        if self.registers.read(STATUS) & STATUS_FEATURES_OK == 0 { Err(Unusable::Features) } else { Ok(()) }
    }

    fn write_address(&self, [low, high]: [Register<u32>; 2], address: u64) {
        self.registers.write(low, address as u32);
        self.registers.write(high, (address >> 32) as u32);
    }

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// Returns the device's own address, if it has one.
    pub fn mac(&self) -> Option<Mac> {
        self.has(FEATURE_MAC).then(|| Mac::new(CONFIG_MAC.map(|register| self.registers.read(register))))
    }

    /// Returns whether its link is up; true if the device cannot tell.
    pub fn has_link(&self) -> bool {
        !self.has(FEATURE_STATUS) || self.registers.read(CONFIG_STATUS) & LINK_UP != 0
    }

    /// Returns its offloads for clients, as flags of the class.
    pub fn flags(&self) -> u16 {
        let flag = |feature, flag| if self.has(feature) { flag } else { 0 };
        flag(FEATURE_CHECKSUM, CHECKSUM_OFFLOAD) | flag(FEATURE_SEGMENTS_4, SEGMENTATION_OFFLOAD)
    }

    /// Returns the features that were negotiated.
    pub fn features(&self) -> u64 {
        self.features
    }

    /// Returns whether interrupts and doorbells are asked for by index.
    pub fn has_event_index(&self) -> bool {
        self.has(FEATURE_EVENT_INDEX)
    }

    /// Acknowledges that buffers were used. The cause of the interrupt is not read first: if the
    /// configuration changed, its line stays high until [`Self::has_changed`], and a board that
    /// says `trigger = "level"`, as it must, has it interrupt again.
    #[inline(always)]
    pub fn acknowledge(&self) {
        self.registers.write(INTERRUPT_ACKNOWLEDGE, INTERRUPT_USED);
    }

    /// Returns whether its configuration changed, or it met an error, since the last call of this.
    pub fn has_changed(&self) -> bool {
        let changed = self.registers.read(INTERRUPT_STATUS) & INTERRUPT_CHANGE != 0;
        if changed {
            // Acknowledge before the configuration is read: a later change interrupts again.
            self.registers.write(INTERRUPT_ACKNOWLEDGE, INTERRUPT_CHANGE);
        }
        changed
    }

    /// Rings the doorbell of a queue.
    #[inline(always)]
    pub fn ring_doorbell(&self, queue: u32) {
        self.registers.write(QUEUE_NOTIFY, queue);
    }
}
