//! The particulars of a block device (VIRTIO 1.2 §5.2): its configuration, features, queue and
//! requests. The transport is in `culm-virtio`.

use culm_mmio::registers;
use culm_virtio::registers::CONFIGURATION;

/// Bytes that the registers on MMIO and the part of the configuration that is used here take.
pub const SIZE: usize = 0x140;

registers! {
    /// Count of the device's blocks of 512 bytes, low half (§5.2.4).
    pub CONFIG_CAPACITY_LOW: u32 at 0, read;
    /// High half.
    pub CONFIG_CAPACITY_HIGH: u32 at 4, read;
    /// The most bytes of a segment, if the device has [`FEATURE_SEGMENT_SIZE`].
    pub CONFIG_SEGMENT_SIZE: u32 at 8, read;
    /// The most segments of a request, if the device has [`FEATURE_SEGMENTS`].
    pub CONFIG_SEGMENTS: u32 at 12, read;
    /// Bytes of a block of the device's own, if it has [`FEATURE_BLOCK_SIZE`].
    pub CONFIG_BLOCK_SIZE: u32 at 20, read;
    /// The most blocks of 512 bytes that one range discards, if the device has [`FEATURE_DISCARD`].
    pub CONFIG_MOST_DISCARDED: u32 at 36, read;
    /// The most ranges of one request to discard.
    pub CONFIG_DISCARD_RANGES: u32 at 40, read;
    /// The most blocks of 512 bytes that one range zeroes, if the device has
    /// [`FEATURE_WRITE_ZEROES`].
    pub CONFIG_MOST_ZEROED: u32 at 48, read;
    /// The most ranges of one request to write zeroes.
    pub CONFIG_ZERO_RANGES: u32 at 52, read;
    /// Whether a request to write zeroes may allow the device to discard the blocks.
    pub CONFIG_ZEROES_MAY_DISCARD: u8 at 56, read;
}

const _: () = assert!(SIZE >= CONFIGURATION + 57);

/// Feature: [`CONFIG_SEGMENT_SIZE`] (§5.2.3, `VIRTIO_BLK_F_SIZE_MAX`).
pub const FEATURE_SEGMENT_SIZE: u64 = 1 << 1;
/// Feature: [`CONFIG_SEGMENTS`] (§5.2.3, `VIRTIO_BLK_F_SEG_MAX`).
pub const FEATURE_SEGMENTS: u64 = 1 << 2;
/// Feature: the device cannot be written (§5.2.3, `VIRTIO_BLK_F_RO`).
pub const FEATURE_READ_ONLY: u64 = 1 << 5;
/// Feature: [`CONFIG_BLOCK_SIZE`] (§5.2.3, `VIRTIO_BLK_F_BLK_SIZE`).
pub const FEATURE_BLOCK_SIZE: u64 = 1 << 6;
/// Feature: [`TYPE_FLUSH`] (§5.2.3).
pub const FEATURE_FLUSH: u64 = 1 << 9;
/// Feature: [`TYPE_DISCARD`] (§5.2.3).
pub const FEATURE_DISCARD: u64 = 1 << 13;
/// Feature: [`TYPE_WRITE_ZEROES`] (§5.2.3).
pub const FEATURE_WRITE_ZEROES: u64 = 1 << 14;

/// The queue of requests; the only one without `VIRTIO_BLK_F_MQ` (§5.2.2).
pub const QUEUE: u32 = 0;

/// Type of a request: read (§5.2.6).
pub const TYPE_READ: u32 = 0;
/// Type of a request: write (§5.2.6).
pub const TYPE_WRITE: u32 = 1;
/// Type of a request: flush (§5.2.6).
pub const TYPE_FLUSH: u32 = 4;
/// Type of a request: discard (§5.2.6).
pub const TYPE_DISCARD: u32 = 11;
/// Type of a request: write zeroes (§5.2.6).
pub const TYPE_WRITE_ZEROES: u32 = 13;

/// Flag of a range to zero: the device may discard the blocks (§5.2.6).
pub const RANGE_MAY_DISCARD: u32 = 1;

/// Status of a request: done (§5.2.6).
pub const STATUS_OK: u8 = 0;
/// Status of a request: the device or the driver failed (§5.2.6).
pub const STATUS_FAILED: u8 = 1;
/// Status of a request: the device does not know its type (§5.2.6).
pub const STATUS_UNSUPPORTED: u8 = 2;
