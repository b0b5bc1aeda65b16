//! Shared by the targets of classes: the pieces of their input, memory that is used again for each
//! input, and a peer that writes anything anywhere in the queues that it shares.

#[path = "input.rs"]
mod input;

use culm::Region;
use culm::connection::Ring;
use culm::queue::Entry;
use culm_abi::start::Memory;
use culm_net::Descriptor;
pub use input::Input;

impl Input<'_> {
    /// The next number of four bytes, or what there is of it.
    pub fn number(&mut self) -> u32 {
        let bytes = self.bytes(4);
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    /// An entry that a peer may put into a queue: more often than not one that is nearly right,
    /// with buffers of 2 KiB and behind the first `small` of them large ones.
    pub fn entry(&mut self, small: u32) -> Descriptor {
        let number = u32::from(self.byte());
        let offset = match number & 0x60 {
            0 | 0x20 => (number & 0x1f) * 2048,
            0x40 => small * 2048 + (number & 3) * 65_536,
            _ => self.number(),
        };
        let length = match number & 0x80 {
            0 => 26 + u16::from(self.byte()),
            _ => self.number() as u16,
        };
        let flags = if self.byte() & 0xf0 == 0 { self.number() as u16 } else { 0 };
        Descriptor { offset, length, flags }
    }
}

/// Empties a queue that an earlier input has used.
pub fn clear<T: Entry>(ring: Ring) -> Region {
    let region = whole::<T>(ring);
    region.clear(0, region.len()).expect("all of it");
    region
}

/// All memory of a queue.
fn whole<T: Entry>(ring: Ring) -> Region {
    let size = culm_queue::layout(ring.capacity, size_of::<T>()).expect("a queue") as u64;
    Region::new(Memory { address: ring.address, size, dma: 0 })
}

/// A peer writes something somewhere in the queues that it shares, the heads of queues more often
/// than entries. Returns the number of the region.
pub fn scribble(regions: &[Region], input: &mut Input<'_>) -> usize {
    let which = usize::from(input.byte());
    let region = regions[which % regions.len()];
    let place = usize::from(input.byte()) | usize::from(input.byte()) << 8;
    let end = if which & 0x80 == 0 { culm_queue::HEADER_SIZE.min(region.len()) } else { region.len() };
    let count = 1 + usize::from(input.byte() % 8);
    let bytes = input.bytes(count);
    let place = place % (end - bytes.len());
    region.write(place, bytes).expect("inside");
    which % regions.len()
}
