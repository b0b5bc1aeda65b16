//! Registers that are particular to a network device (VIRTIO 1.2 §5.1): its configuration, features
//! and queues. The transport's registers are in `culm-virtio`.

use culm_mmio::{ReadOnly, Register, registers};
use culm_virtio::registers::CONFIGURATION;

/// Bytes that the registers and the part of the configuration that is used here take.
pub const SIZE: usize = 0x108;

const _: () = assert!(SIZE == CONFIGURATION + 8, "an address and the state of the link");

/// The device's address, if it has [`FEATURE_MAC`] (§5.1.4).
pub const CONFIG_MAC: [Register<u8, ReadOnly>; 6] =
    [Register::at(0), Register::at(1), Register::at(2), Register::at(3), Register::at(4), Register::at(5)];

registers! {
    /// State of the link, if the device has [`FEATURE_STATUS`] (§5.1.4).
    pub CONFIG_STATUS: LinkStatus(u16) at 6, read {
        /// The link is up.
        UP: 0,
    }
}

/// Feature: completes checksums of sent packets (§5.1.3).
pub const FEATURE_CHECKSUM: u64 = 1 << 0;
/// Feature: the driver takes received packets with partial or verified checksums (§5.1.3).
pub const FEATURE_GUEST_CHECKSUM: u64 = 1 << 1;
/// Features: passes packets of TCP over IPv4 and over IPv6 on that carry many segments (§5.1.3,
/// `VIRTIO_NET_F_GUEST_TSO4`, `…6`).
pub const FEATURE_GUEST_TSO: u64 = 1 << 7 | 1 << 8;
/// Feature: lays a received packet in several buffers where one does not hold it (§5.1.3,
/// `VIRTIO_NET_F_MRG_RXBUF`).
pub const FEATURE_MERGE: u64 = 1 << 15;
/// Feature: divides packets of TCP over IPv4 into segments (§5.1.3, `VIRTIO_NET_F_HOST_TSO4`).
pub const FEATURE_HOST_TSO4: u64 = 1 << 11;
/// Feature: divides packets of TCP over IPv6 into segments (§5.1.3, `VIRTIO_NET_F_HOST_TSO6`).
pub const FEATURE_HOST_TSO6: u64 = 1 << 12;
/// Feature: [`CONFIG_MAC`] (§5.1.3).
pub const FEATURE_MAC: u64 = 1 << 5;
/// Feature: [`CONFIG_STATUS`] (§5.1.3).
pub const FEATURE_STATUS: u64 = 1 << 16;

/// The queue of received packets (§5.1.2).
pub const QUEUE_RECEIVE: u32 = 0;
/// The queue of packets to send (§5.1.2).
pub const QUEUE_TRANSMIT: u32 = 1;
