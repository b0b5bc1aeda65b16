//! Registers of a virtio device on MMIO, version 2 (VIRTIO 1.2 §4.2.2), and the configuration of a
//! network device (§5.1.4).

use culm_mmio::Register;

/// Bytes that the registers and the part of the configuration that is used here take.
pub const SIZE: usize = 0x108;

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
/// The device's address, where it has [`FEATURE_MAC`] (§5.1.4).
pub const CONFIG_MAC: [Register<u8>; 6] = [
    Register::at(0x100),
    Register::at(0x101),
    Register::at(0x102),
    Register::at(0x103),
    Register::at(0x104),
    Register::at(0x105),
];
/// State of the link, where it has [`FEATURE_STATUS`] (§5.1.4).
pub const CONFIG_STATUS: Register<u16> = Register::at(0x106);

/// What [`MAGIC`] holds.
pub const MAGIC_VALUE: u32 = 0x7472_6976;
/// The modern interface.
pub const VERSION_MODERN: u32 = 2;
/// A network device (§5).
pub const DEVICE_NET: u32 = 1;

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

/// Bit of [`CONFIG_STATUS`]: the link is up.
pub const LINK_UP: u16 = 1;

/// Feature: completes checksums of sent packets (§5.1.3).
pub const FEATURE_CHECKSUM: u64 = 1 << 0;
/// Feature: the driver takes received packets with partial or verified checksums (§5.1.3).
pub const FEATURE_GUEST_CHECKSUM: u64 = 1 << 1;
/// Features: passes packets of TCP over IPv4 and over IPv6 on that carry many segments (§5.1.3,
/// `VIRTIO_NET_F_GUEST_TSO4`, `…6`).
pub const FEATURE_GUEST_SEGMENTS: u64 = 1 << 7 | 1 << 8;
/// Feature: lays a received packet in several buffers where one does not hold it (§5.1.3,
/// `VIRTIO_NET_F_MRG_RXBUF`).
pub const FEATURE_MERGE: u64 = 1 << 15;
/// Feature: divides packets of TCP over IPv4 into segments (§5.1.3, `VIRTIO_NET_F_HOST_TSO4`).
pub const FEATURE_SEGMENTS_4: u64 = 1 << 11;
/// Feature: [`CONFIG_MAC`] (§5.1.3).
pub const FEATURE_MAC: u64 = 1 << 5;
/// Feature: [`CONFIG_STATUS`] (§5.1.3).
pub const FEATURE_STATUS: u64 = 1 << 16;
/// Feature: interrupts and doorbells at an index (§6).
pub const FEATURE_EVENT_INDEX: u64 = 1 << 29;
/// Feature: the modern interface (§6).
pub const FEATURE_VERSION_1: u64 = 1 << 32;
/// Feature: the device's accesses are translated or restricted by the platform (§6).
pub const FEATURE_ACCESS_PLATFORM: u64 = 1 << 33;
/// Feature: memory is ordered as for a device, not as for another core (§6).
pub const FEATURE_ORDER_PLATFORM: u64 = 1 << 36;

/// The queue of received packets (§5.1.2).
pub const QUEUE_RECEIVE: u32 = 0;
/// The queue of packets to send (§5.1.2).
pub const QUEUE_TRANSMIT: u32 = 1;

/// Bit of a descriptor: the device writes the buffer (§2.7.5).
pub const DESCRIPTOR_WRITE: u16 = 2;
/// Bit of the flags of what the driver writes: no interrupts, where there is no
/// [`FEATURE_EVENT_INDEX`] (§2.7.7).
pub const AVAILABLE_NO_INTERRUPT: u16 = 1;
/// Bit of the flags of what the device writes: no doorbells, where there is no
/// [`FEATURE_EVENT_INDEX`] (§2.7.10).
pub const USED_NO_NOTIFY: u16 = 1;
