//! The common configuration of a virtio device on a PCI bus (VIRTIO 1.2 §4.1.4.3), from its
//! beginning. Each register is read and written in its own width, those of 64 bits in halves
//! (§4.1.3.1).

use culm_mmio::registers;

registers! {
    /// Which 32 of the features that the device has.
    pub DEVICE_FEATURES_SELECT: u32 at 0x00, read write;
    /// Those.
    pub DEVICE_FEATURES: u32 at 0x04, read;
    /// Which 32 of the features that the driver uses.
    pub DRIVER_FEATURES_SELECT: u32 at 0x08, read write;
    /// Those.
    pub DRIVER_FEATURES: u32 at 0x0c, read write;
    /// Where the driver is with setting up, as on MMIO; 0 resets the device (§2.1).
    pub STATUS: u8 at 0x14, read write;
    /// Count of the configuration's changes.
    pub CONFIGURATION_GENERATION: u8 at 0x15, read;
    /// The queue that the following registers are about.
    pub QUEUE_SELECT: u16 at 0x16, read write;
    /// Its size: after a reset the largest that it can have; 0: it does not exist.
    pub QUEUE_SIZE: u16 at 0x18, read write;
    /// [`ENABLED`] if the queue is set up.
    pub QUEUE_ENABLE: u16 at 0x1c, read write;
    /// The number of its doorbell among the doorbells.
    pub QUEUE_NOTIFY_OFFSET: u16 at 0x1e, read;
    /// Address of the descriptors, low half.
    pub QUEUE_DESCRIPTORS_LOW: u32 at 0x20, read write;
    /// High half.
    pub QUEUE_DESCRIPTORS_HIGH: u32 at 0x24, read write;
    /// Address of what the driver writes, low half.
    pub QUEUE_DRIVER_LOW: u32 at 0x28, read write;
    /// High half.
    pub QUEUE_DRIVER_HIGH: u32 at 0x2c, read write;
    /// Address of what the device writes, low half.
    pub QUEUE_DEVICE_LOW: u32 at 0x30, read write;
    /// High half.
    pub QUEUE_DEVICE_HIGH: u32 at 0x34, read write;
}

/// The value of [`QUEUE_ENABLE`] for a queue that is set up.
pub const ENABLED: u16 = 1;
