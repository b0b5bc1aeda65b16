//! The table of descriptors for ADMA2 (SD Host Controller 3.00, "Advanced DMA").
//!
//! The controller reads it while a command with data is under way. It is written anew for each.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use culm::Region;
use culm_block::{BLOCK, Segment};

/// Attributes: valid, and an action to transfer data.
const TRANSFER: u32 = 0x21;

/// Attribute: the last one.
const END: u32 = 0x02;

/// The most blocks of a descriptor: less than 64 KiB, whose length would be written as 0, which
/// some controllers take for nothing.
const MOST_BLOCKS: u32 = 65536 / BLOCK as u32 - 1;

/// Bytes that tables use at most.
const MOST_BYTES: usize = 512;

/// The table.
#[derive(Debug)]
pub struct Table {
    words: Vec<&'static AtomicU32>,
    dma: u64,
    /// Words of a descriptor: 2 with addresses of 32 bits, 3 with 64.
    size: usize,
}

/// The reason why a table has no descriptor for any block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable;

impl Table {
    /// Creates a table at the beginning of `memory`. Returns `None` if that is too small, or where
    /// the controller cannot read it.
    pub fn new(memory: &Region, has_long_addresses: bool) -> Option<Self> {
        let size = if has_long_addresses { 3 } else { 2 };
        let count = memory.len().min(MOST_BYTES) / 4;
        let words = (0..count).map(|index| memory.atomic_u32(4 * index)).collect::<Result<Vec<_>, _>>().ok()?;
        let end = memory.dma().checked_add(MOST_BYTES as u64)?;
        let is_reachable = has_long_addresses || end <= 1 << 32;
        (count >= size && is_reachable && memory.dma().is_multiple_of(8)).then_some(Self {
            words,
            dma: memory.dma(),
            size,
        })
    }

    /// Returns where the controller sees it.
    #[inline(always)]
    pub const fn dma(&self) -> u64 {
        self.dma
    }

    /// Writes descriptors for the blocks of `segments` from number `skip` on, `most` at most.
    /// Returns for how many there was space.
    ///
    /// # Errors
    ///
    /// If the controller cannot reach the first of them.
    #[inline]
    pub fn write(&self, segments: &[Segment], skip: u32, most: u32) -> Result<u32, Unreachable> {
        let (mut skip, mut left) = (skip, most);
        let mut descriptors = self.words.chunks_exact(self.size);
        let mut last = None;
        'segments: for segment in segments {
            let Some(blocks) = segment.blocks.checked_sub(skip) else {
                skip -= segment.blocks;
                continue;
            };
            let (mut place, mut blocks) = (segment.place + u64::from(skip), blocks.min(left));
            skip = 0;
            while blocks > 0 {
                let piece = blocks.min(MOST_BLOCKS);
                let address = place * BLOCK as u64;
                let is_reachable = self.size == 3 || address + u64::from(piece) * BLOCK as u64 <= 1 << 32;
                let (true, Some(words)) = (is_reachable, descriptors.next()) else { break 'segments };
                let command = (piece * BLOCK as u32) << 16 | TRANSFER;
                for (word, value) in words.iter().zip([command, address as u32, (address >> 32) as u32]) {
                    word.store(value, Relaxed);
                }
                last = words.first().map(|word| (word, command));
                (place, blocks, left) = (place + u64::from(piece), blocks - piece, left - piece);
            }
        }
        let (word, command) = last.ok_or(Unreachable)?;
        word.store(command | END, Relaxed);
        Ok(most - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_block::testing::segment;
    use std::vec;

    fn table(bytes: usize, dma: u64, is_long: bool) -> (Region, Option<Table>) {
        let region = Region::new(culm::testing::memory(bytes, dma));
        (region, Table::new(&region, is_long))
    }

    fn words(region: &Region, count: usize) -> Vec<u32> {
        (0..count).map(|index| region.load(4 * index).expect("inside")).collect()
    }

    #[test]
    fn segments_are_divided_into_descriptors() {
        let (region, table) = table(512, 0x4000_0000, false);
        let table = table.expect("enough");
        let segments = [segment(0x10, 1), segment(0x1000, 130)];
        assert_eq!(table.write(&segments, 0, 200), Ok(131));
        assert_eq!(words(&region, 6), [0x0200_0021, 0x2000, 0xfe00_0021, 0x20_0000, 0x0600_0023, 0x20_fe00]);
        assert_eq!(table.write(&segments, 2, 3), Ok(3));
        assert_eq!(words(&region, 2), [0x0600_0023, 0x20_0200]);
        assert_eq!(table.write(&segments, 131, 3), Err(Unreachable));
    }

    #[test]
    fn what_has_no_space_waits_for_the_next_transfer() {
        let (_, table) = table(24, 0x4000_0000, false);
        let segments = vec![segment(1, 2); 5];
        assert_eq!(table.expect("three").write(&segments, 0, 10), Ok(6));
    }

    #[test]
    fn only_long_addresses_reach_everything() {
        let far = segment(1 << 23, 1);
        let near = table(512, 0x4000_0000, false).1.expect("enough");
        assert_eq!(near.write(&[far], 0, 1), Err(Unreachable));
        assert_eq!(near.write(&[segment((1 << 23) - 1, 1), far], 0, 2), Ok(1));
        assert!(table(512, 1 << 32, false).1.is_none());
        assert!(table(512, 0x4000_0004, true).1.is_none(), "tables of long addresses begin at multiples of 8");
        let (region, far_table) = table(512, 1 << 32, true);
        assert_eq!(far_table.expect("enough").write(&[far], 0, 1), Ok(1));
        assert_eq!(words(&region, 3), [0x0200_0023, 0, 1]);
    }
}
