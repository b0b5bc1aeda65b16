//! The block device: what of a virtio device is particular to its class (VIRTIO 1.2 §5.2).

use crate::registers::*;
use crate::trouble::Trouble;
use culm::Region;
use culm_block::{BLOCK, Disk, MAX_BLOCKS, MAX_DISK, MAX_SEGMENTS};
use culm_virtio::registers::{FEATURE_TABLES, Kind};
use culm_virtio::virtqueue::Access;
use culm_virtio::{Interface, Transport, Unusable, Virtqueue, transport};

/// Descriptors in the queue, at most.
pub const QUEUE_LIMIT: u16 = 256;

/// The number of the medium, which is the same for as long as there is a device.
const MEDIUM: u32 = 1;

/// Features that the driver uses if the device has them.
const WANTED: u64 = FEATURE_SEGMENT_SIZE
    | FEATURE_SEGMENTS
    | FEATURE_READ_ONLY
    | FEATURE_BLOCK_SIZE
    | FEATURE_FLUSH
    | FEATURE_DISCARD
    | FEATURE_WRITE_ZEROES
    | FEATURE_TABLES
    | transport::FEATURES;

/// A device.
pub struct Device<I> {
    transport: Transport<I>,
    /// The most segments for which its queue has descriptors, once that is found.
    segments: u8,
    /// Whether it gets tables of descriptors; `None` before that is settled.
    tables: Option<bool>,
}

/// The device's configuration (§5.2.4). What it lacks the feature for is 0.
struct Configuration {
    capacity: u64,
    segment_size: u32,
    segments: u32,
    block_size: u32,
    /// The most blocks of 512 bytes that one request discards.
    discarded: u32,
    /// The same of zeroes.
    zeroed: u32,
}

impl<I: Interface> Device<I> {
    /// Finds the device behind `interface`, in whatever state it is.
    pub fn find(interface: I) -> Result<Self, Unusable> {
        Ok(Self { transport: Transport::find(interface, Kind::BLOCK)?, segments: 0, tables: None })
    }

    /// Finds the queue of a device that was reset, in `memory`: before, some show the size that
    /// somebody else has given it (§4.1.4.3).
    pub fn find_queue(&mut self, memory: &Region) -> Result<Virtqueue, Unusable> {
        let queue = self.transport.find_queue(QUEUE, QUEUE_LIMIT, memory, 0, Access::Read)?;
        // A request is a chain of a header, its segments and a status. Several requests have space
        // at a time.
        self.segments = (usize::from(queue.size()) / 4).min(MAX_SEGMENTS) as u8;
        if self.segments == 0 { Err(Unusable::Queue) } else { Ok(queue) }
    }

    /// Resets the device and negotiates its features. It touches no memory from here on, and has
    /// ended all requests.
    pub fn reset(&mut self) -> Result<(), Unusable> {
        self.transport.reset(|offered| offered & WANTED)?;
        let tables = self.transport.has(FEATURE_TABLES);
        if *self.tables.get_or_insert(tables) && !tables {
            // The requests that it is to get again are in tables.
            return Err(Unusable::Features);
        }
        Ok(())
    }

    /// Returns whether it takes tables of descriptors, as it said first: it knows chains anyway.
    #[inline(always)]
    pub fn takes_tables(&self) -> bool {
        self.tables == Some(true)
    }

    /// Sets a device that was reset to work in its queue, which was renewed.
    pub fn set_to_work(&self, memory: &Region, queue: &Virtqueue) {
        self.transport.set_to_work(memory, &[(QUEUE, queue)]);
    }

    fn configuration(&self) -> Configuration {
        let has = |feature| self.transport.has(feature);
        self.transport.configuration(|own| {
            let optional = |feature, register| if has(feature) { own.read(register) } else { 0 };
            // One range in each request. A device that takes none cannot do it.
            let ranged = |feature, most, ranges| {
                if optional(feature, ranges) == 0 { 0 } else { optional(feature, most) }
            };
            let (low, high) = (own.read(CONFIG_CAPACITY_LOW), own.read(CONFIG_CAPACITY_HIGH));
            Configuration {
                capacity: u64::from(low) | u64::from(high) << 32,
                segment_size: optional(FEATURE_SEGMENT_SIZE, CONFIG_SEGMENT_SIZE),
                segments: optional(FEATURE_SEGMENTS, CONFIG_SEGMENTS),
                block_size: optional(FEATURE_BLOCK_SIZE, CONFIG_BLOCK_SIZE),
                discarded: ranged(FEATURE_DISCARD, CONFIG_MOST_DISCARDED, CONFIG_DISCARD_RANGES),
                zeroed: ranged(FEATURE_WRITE_ZEROES, CONFIG_MOST_ZEROED, CONFIG_ZERO_RANGES),
            }
        })
    }

    /// Returns what disk the device is, as it says now: none if nothing is on it.
    ///
    /// # Errors
    ///
    /// If its configuration cannot be: there is no disk.
    pub fn disk(&self) -> Result<Disk, Trouble> {
        let Configuration { capacity, segment_size, segments, block_size, discarded, zeroed } = self.configuration();
        // The unit of requests is 512 bytes whatever this says, but devices refuse requests for
        // parts of a block of theirs (§5.2.4).
        let granule = granule(block_size).ok_or(Trouble::Blocks(block_size))?;
        let whole = !((1_u64 << granule) - 1);
        // A segment is not divided. A device that does not limit them takes any.
        let longest = if self.transport.has(FEATURE_SEGMENT_SIZE) { segment_size / BLOCK as u32 } else { MAX_BLOCKS };
        let most = longest.min(MAX_BLOCKS) & whole as u32;
        let blocks = capacity.min(MAX_DISK) & whole;
        if most == 0 {
            return Err(Trouble::Segments(segment_size));
        }
        if blocks == 0 {
            return Ok(Disk::ABSENT);
        }
        let cleared = |most: u32| most.checked_ilog2().map(|exponent| exponent as u8).filter(|most| *most >= granule);
        let (discards, zeroes) = (cleared(discarded), cleared(zeroed));
        let most_cleared = [discards, zeroes].into_iter().flatten().fold(Disk::MAX_CLEARED, u8::min);
        Ok(Disk {
            read_only: self.transport.has(FEATURE_READ_ONLY),
            discards: discards.is_some(),
            writes_zeroes: zeroes.is_some(),
            caches: self.flushes(),
            granule,
            // One segment is always possible; a device that says nothing of more gets no more.
            segments: segments.clamp(1, self.segments.into()) as u8,
            most,
            most_cleared,
            ..Disk::new(blocks, MEDIUM)
        })
    }

    /// Returns whether a flush is to be sent: a device without the feature has nothing to be
    /// flushed, as far as a driver can know (§5.2.6.2).
    pub fn flushes(&self) -> bool {
        self.transport.has(FEATURE_FLUSH)
    }

    /// Returns whether a request to write zeroes may allow the device to discard the blocks.
    pub fn zeroes_may_discard(&self) -> bool {
        self.transport.has(FEATURE_WRITE_ZEROES)
            && self.transport.configuration(|own| own.read(CONFIG_ZEROES_MAY_DISCARD) == 1)
    }

    /// Returns whether interrupts and doorbells are asked for by index.
    pub fn has_event_index(&self) -> bool {
        self.transport.has_event_index()
    }

    /// Returns whether the device says that it cannot go on without a reset.
    pub fn needs_reset(&self) -> bool {
        self.transport.needs_reset()
    }

    /// Returns whether its configuration changed, or it met an error, since the last call of this.
    pub fn has_changed(&self) -> bool {
        self.transport.has_changed()
    }

    /// Returns whether an interrupt that was acknowledged told of a change too, and
    /// [`Self::has_changed`] was not asked since.
    #[inline(always)]
    pub fn was_told_of_change(&self) -> bool {
        self.transport.was_told_of_change()
    }

    /// Acknowledges that requests were used.
    #[inline(always)]
    pub fn acknowledge(&self) {
        self.transport.acknowledge();
    }

    /// Rings the doorbell.
    #[inline(always)]
    pub fn ring_doorbell(&self) {
        self.transport.ring_doorbell(QUEUE);
    }
}

/// Returns the binary logarithm of the blocks of 512 bytes in a block of the device's, which has so
/// many bytes; 0 bytes stand for a device that says nothing. `None` if the class has no such
/// blocks.
fn granule(block_size: u32) -> Option<u8> {
    if block_size == 0 {
        return Some(0);
    }
    let is_possible = block_size.is_power_of_two() && block_size as usize >= BLOCK;
    let granule = is_possible.then(|| (block_size / BLOCK as u32).ilog2() as u8)?;
    (granule <= Disk::LARGEST_GRANULE).then_some(granule)
}
