//! Registers of a virtio device on MMIO, version 2 (VIRTIO 1.2 §4.2.2), and what is the same for
//! devices of every kind.

use culm_mmio::Register;

/// Offset of the first register of the device's configuration, which depends on its kind.
pub const CONFIGURATION: usize = 0x100;

/// [`MAGIC_VALUE`], "virt" (all of these: §4.2.2).
pub const MAGIC: Register<u32> = Register::at(0x000);
/// Version of the interface.
pub const VERSION: Register<u32> = Register::at(0x004);
/// Kind of device.
pub const DEVICE_ID: Register<u32> = Register::at(0x008);
/// 32 of the features that the device has.
pub const DEVICE_FEATURES: Register<u32> = Register::at(0x010);
/// Which 32.
pub const DEVICE_FEATURES_SELECT: Register<u32> = Register::at(0x014);
/// 32 of the features that the driver uses.
pub const DRIVER_FEATURES: Register<u32> = Register::at(0x020);
/// Which 32.
pub const DRIVER_FEATURES_SELECT: Register<u32> = Register::at(0x024);
/// The queue that the following registers are about.
pub const QUEUE_SELECT: Register<u32> = Register::at(0x030);
/// The largest size that it can have; 0: it does not exist.
pub const QUEUE_SIZE_MAX: Register<u32> = Register::at(0x034);
/// Its size.
pub const QUEUE_SIZE: Register<u32> = Register::at(0x038);
/// 1 when it is set up.
pub const QUEUE_READY: Register<u32> = Register::at(0x044);
/// Doorbell: takes the number of the queue that has new buffers.
pub const QUEUE_NOTIFY: Register<u32> = Register::at(0x050);
/// What the device has interrupted for and was not acknowledged.
pub const INTERRUPT_STATUS: Register<u32> = Register::at(0x060);
/// What to write to it to acknowledge interrupts.
pub const INTERRUPT_ACKNOWLEDGE: Register<u32> = Register::at(0x064);
/// Where the driver is with setting up; 0 resets the device.
pub const STATUS: Register<u32> = Register::at(0x070);
/// Address of the descriptors: low half, high half.
pub const QUEUE_DESCRIPTORS: [Register<u32>; 2] = [Register::at(0x080), Register::at(0x084)];
/// Address of what the driver writes.
pub const QUEUE_DRIVER: [Register<u32>; 2] = [Register::at(0x090), Register::at(0x094)];
/// Address of what the device writes.
pub const QUEUE_DEVICE: [Register<u32>; 2] = [Register::at(0x0a0), Register::at(0x0a4)];
/// Count of the configuration's changes.
pub const CONFIGURATION_GENERATION: Register<u32> = Register::at(0x0fc);

/// What [`MAGIC`] holds.
pub const MAGIC_VALUE: u32 = 0x7472_6976;
/// The modern interface.
pub const VERSION_MODERN: u32 = 2;

/// Cause of interrupts: buffers were used (§4.2.2).
pub const INTERRUPT_USED: u32 = 0b01;
/// Cause of interrupts: the configuration changed, or the device needs a reset (§4.2.2, §2.1.1).
pub const INTERRUPT_CHANGE: u32 = 0b10;

/// Bits of [`STATUS`] (§2.1).
pub const STATUS_ACKNOWLEDGE: u32 = 1;
/// The driver knows the device.
pub const STATUS_DRIVER: u32 = 2;
/// The driver works.
pub const STATUS_DRIVER_OK: u32 = 4;
/// The features are settled.
pub const STATUS_FEATURES_OK: u32 = 8;
/// The device has met an error that only a reset ends.
pub const STATUS_NEEDS_RESET: u32 = 64;

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
/// Bit of the flags of what the driver writes: no interrupts, where there is no
/// [`FEATURE_EVENT_INDEX`] (§2.7.7).
pub const AVAILABLE_NO_INTERRUPT: u16 = 1;
/// Bit of the flags of what the device writes: no doorbells, where there is no
/// [`FEATURE_EVENT_INDEX`] (§2.7.10).
pub const USED_NO_NOTIFY: u16 = 1;
