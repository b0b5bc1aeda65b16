//! Data that the driver moves itself, block by block: registers of the card at all times, and
//! requests' data where the controller is not to touch memory.

use crate::registers::DATA;
use alloc::vec::Vec;
use culm::Region;
use culm_block::{BLOCK, MAX_SEGMENTS, Segment};
use culm_mmio::Registers;
use culm_sd::{Direction, LONGEST_REGISTER};

/// Words of a block.
const WORDS: usize = BLOCK / 4;

/// Where data comes from and goes.
#[derive(Debug)]
pub struct DataPort {
    /// The memory of requests, as far as the driver has it mapped.
    memory: Vec<Region>,
    segments: [Segment; MAX_SEGMENTS],
    /// The segment in which the next block is, and its number there.
    next: usize,
    within: u32,
    /// The register that a card has sent.
    pub register: [u8; LONGEST_REGISTER],
}

impl DataPort {
    /// Creates it for requests whose data is in `memory`.
    pub fn new(memory: Vec<Region>) -> Self {
        let segments = [Segment::default(); MAX_SEGMENTS];
        Self { memory, segments, next: 0, within: 0, register: [0; LONGEST_REGISTER] }
    }

    /// Begins with block `skip` of the segments. Returns false if they are not all mapped.
    pub fn begin(&mut self, segments: &[Segment], skip: u32) -> bool {
        self.segments = [Segment::default(); MAX_SEGMENTS];
        for (space, segment) in self.segments.iter_mut().zip(segments) {
            *space = *segment;
        }
        (self.next, self.within) = (0, skip);
        segments.iter().all(|segment| find(&self.memory, *segment).is_some())
    }

    /// Returns the place of the next block.
    fn next(&mut self) -> Option<(Region, usize)> {
        loop {
            let segment = self.segments.get(self.next)?;
            if self.within < segment.blocks {
                let place = segment.place + u64::from(self.within);
                self.within += 1;
                return find(&self.memory, Segment { place, blocks: 1 });
            }
            self.within -= segment.blocks;
            self.next += 1;
        }
    }

    /// Moves one block of `size` bytes between controller and memory. Of another size than a
    /// disk's, it is a register. Returns false if it has no place.
    pub fn move_block(&mut self, registers: &impl Registers, direction: Direction, size: usize) -> bool {
        if size != BLOCK {
            let Some(register) = self.register.get_mut(..size) else { return false };
            let words = register.as_chunks_mut::<4>().0;
            words.iter_mut().for_each(|word| *word = registers.read(DATA).to_le_bytes());
            return true;
        }
        let Some((region, offset)) = self.next() else { return false };
        // Whole words: bytes would each be an access of their own.
        match direction {
            Direction::Read => {
                let words: [u32; WORDS] = core::array::from_fn(|_| registers.read(DATA).to_le());
                region.store(offset, &words).is_ok()
            }
            Direction::Write => {
                let words: Option<[u32; WORDS]> = region.load(offset).ok();
                words.into_iter().flatten().for_each(|word| registers.write(DATA, u32::from_le(word)));
                words.is_some()
            }
        }
    }
}

/// Returns the memory in which a segment lies, and where.
fn find(memory: &[Region], segment: Segment) -> Option<(Region, usize)> {
    let (address, length) = (segment.place * BLOCK as u64, segment.blocks as usize * BLOCK);
    memory.iter().find_map(|region| {
        let offset = usize::try_from(address.checked_sub(region.dma())?).ok()?;
        region.contains(offset, length).then_some((*region, offset))
    })
}
