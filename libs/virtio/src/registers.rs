//! Registers of a virtio device on MMIO, version 2 (VIRTIO 1.2 §4.2.2), and what is the same for
//! devices of every kind.

use culm_mmio::{registers, values};

/// Offset of the first register of the device's configuration, which depends on its kind.
pub const CONFIGURATION: usize = 0x100;

registers! {
    /// [`Magic::VIRT`].
    pub MAGIC: Magic at 0x000, read;
    /// Version of the interface.
    pub VERSION: Version at 0x004, read;
    /// Kind of device.
    pub DEVICE_ID: Kind at 0x008, read;
    /// 32 of the features that the device has.
    pub DEVICE_FEATURES: u32 at 0x010, read;
    /// Which 32.
    pub DEVICE_FEATURES_SELECT: u32 at 0x014, write;
    /// 32 of the features that the driver uses.
    pub DRIVER_FEATURES: u32 at 0x020, write;
    /// Which 32.
    pub DRIVER_FEATURES_SELECT: u32 at 0x024, write;
    /// The queue that the following registers are about.
    pub QUEUE_SELECT: u32 at 0x030, write;
    /// The largest size that it can have; 0: it does not exist.
    pub QUEUE_SIZE_MAX: u32 at 0x034, read;
    /// Its size.
    pub QUEUE_SIZE: u32 at 0x038, write;
    /// Whether the queue is set up.
    pub QUEUE_READY: Ready(u32) at 0x044, read write {
        /// It is.
        READY: 0,
    }
    /// Doorbell: takes the number of the queue that has new buffers.
    pub QUEUE_NOTIFY: u32 at 0x050, write;
    /// Causes for which the device has interrupted, and that are not acknowledged.
    pub INTERRUPT_STATUS: Causes(u32) at 0x060, read {
        /// Buffers were used.
        USED: 0,
        /// The configuration changed, or the device needs a reset (§2.1.1).
        CHANGE: 1,
    }
    /// Causes of interrupts to acknowledge.
    pub INTERRUPT_ACKNOWLEDGE: Causes at 0x064, write;
    /// Where the driver is with setting up; 0 resets the device (§2.1).
    pub STATUS: Status(u32) at 0x070, read write {
        /// The driver has seen the device.
        ACKNOWLEDGE: 0,
        /// The driver knows the device.
        DRIVER: 1,
        /// The driver works.
        DRIVER_OK: 2,
        /// The features are settled.
        FEATURES_OK: 3,
        /// The device has met an error that only a reset ends.
        NEEDS_RESET: 6,
    }
    /// Address of the descriptors, low half.
    pub QUEUE_DESCRIPTORS_LOW: u32 at 0x080, write;
    /// High half.
    pub QUEUE_DESCRIPTORS_HIGH: u32 at 0x084, write;
    /// Address of what the driver writes, low half.
    pub QUEUE_DRIVER_LOW: u32 at 0x090, write;
    /// High half.
    pub QUEUE_DRIVER_HIGH: u32 at 0x094, write;
    /// Address of what the device writes, low half.
    pub QUEUE_DEVICE_LOW: u32 at 0x0a0, write;
    /// High half.
    pub QUEUE_DEVICE_HIGH: u32 at 0x0a4, write;
    /// Count of the configuration's changes.
    pub CONFIGURATION_GENERATION: u32 at 0x0fc, read;
}

values! {
    /// The values of [`MAGIC`].
    pub Magic: u32 {
        /// "virt".
        VIRT = 0x7472_6976,
    }
}

values! {
    /// The values of [`VERSION`].
    pub Version: u32 {
        /// The interface from before VIRTIO 1.0.
        LEGACY = 1,
        /// The modern interface.
        MODERN = 2,
    }
}

values! {
    /// Kinds of devices (§5).
    pub Kind: u32 {
        /// There is no device.
        NONE = 0,
        /// A network card (§5.1).
        NETWORK = 1,
        /// A block device (§5.2).
        BLOCK = 2,
        /// A source of random bytes (§5.4).
        ENTROPY = 4,
    }
}

/// Feature: a buffer can be a table of descriptors (§6, `VIRTIO_F_INDIRECT_DESC`).
pub const FEATURE_TABLES: u64 = 1 << 28;
/// Feature: interrupts and doorbells at an index (§6).
pub const FEATURE_EVENT_INDEX: u64 = 1 << 29;
/// Feature: the modern interface (§6).
pub const FEATURE_VERSION_1: u64 = 1 << 32;
/// Feature: the device's accesses are translated or restricted by the platform (§6).
pub const FEATURE_ACCESS_PLATFORM: u64 = 1 << 33;
/// Feature: memory is ordered as for a device, not as for another core (§6).
pub const FEATURE_ORDER_PLATFORM: u64 = 1 << 36;

/// Bit of a descriptor: the chain goes on with another (§2.7.5).
pub const DESCRIPTOR_NEXT: u16 = 1;
/// Bit of a descriptor: the device writes the buffer (§2.7.5).
pub const DESCRIPTOR_WRITE: u16 = 2;
/// Bit of a descriptor: the buffer is a table of descriptors (§2.7.5.3).
pub const DESCRIPTOR_TABLE: u16 = 4;
/// Bit of the flags of what the driver writes: no interrupts, where there is no
/// [`FEATURE_EVENT_INDEX`] (§2.7.7).
pub const AVAILABLE_NO_INTERRUPT: u16 = 1;
/// Bit of the flags of what the device writes: no doorbells, where there is no
/// [`FEATURE_EVENT_INDEX`] (§2.7.10).
pub const USED_NO_NOTIFY: u16 = 1;
