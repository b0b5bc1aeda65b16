//! A chain of descriptors: the parts of the guest's memory that make one buffer (VIRTIO 1.2
//! §2.7.5). Those that the device reads come first (§2.7.4.2).

use super::Memory;

/// The most parts of a chain: what Linux puts into one packet (a header, its beginning, and 17
/// pages), or a block request of [`SEGMENTS`](super::block::SEGMENTS), with some to spare.
pub const MAX_PARTS: usize = 24;

/// A part of the guest's memory. It need not lie in any: that is found when it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Guest-physical address of its first byte.
    pub address: u64,
    /// Bytes.
    pub length: u32,
}

/// A chain that was taken from a queue, as it was then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Its first descriptor, by which it goes back.
    pub(super) head: u16,
    parts: [Part; MAX_PARTS],
    /// Parts that the device reads.
    readable: usize,
    /// Parts that the device writes, behind those.
    writable: usize,
}

impl Chain {
    /// Begins with the chain of this first descriptor, which has no parts yet. What was in it is
    /// left there: to clear it costs more than to follow most chains.
    pub(super) fn begin(&mut self, head: u16) {
        (self.head, self.readable, self.writable) = (head, 0, 0);
    }

    /// Is the chain of this first descriptor, which is all of it, and leaves what else was there.
    #[inline(always)]
    pub(super) fn begin_single(&mut self, head: u16, part: Part, is_written: bool) {
        self.head = head;
        self.parts[0] = part;
        (self.readable, self.writable) = if is_written { (0, 1) } else { (1, 0) };
    }

    /// Adds a part. Returns false if there are too many, or one that is read comes behind one that
    /// is written.
    pub(super) fn add(&mut self, part: Part, is_written: bool) -> bool {
        let count = self.readable + self.writable;
        let fits = count < MAX_PARTS && (is_written || self.writable == 0);
        if fits {
            self.parts[count] = part;
            let kind = if is_written { &mut self.writable } else { &mut self.readable };
            *kind += 1;
        }
        fits
    }

    fn readable(&self) -> &[Part] {
        &self.parts[..self.readable]
    }

    /// Returns the parts that the device can write.
    pub(super) fn writable(&self) -> &[Part] {
        &self.parts[self.readable..self.readable + self.writable]
    }

    /// Returns how many bytes the device can read.
    pub fn readable_bytes(&self) -> u64 {
        bytes(self.readable())
    }

    /// Returns how many bytes the device can write.
    pub fn writable_bytes(&self) -> u64 {
        bytes(self.writable())
    }

    /// Returns how many parts it has: the descriptors that it takes of its queue.
    pub fn count(&self) -> usize {
        self.readable + self.writable
    }

    /// Returns whether all the bytes that the device can read are in the guest's memory: then
    /// [`Self::read`] has any of them.
    pub fn is_readable(&self, memory: &impl Memory) -> bool {
        self.readable().iter().all(|part| memory.contains(part.address, part.length))
    }

    /// Copies out the bytes from `offset` on of those that the device can read. Returns nothing
    /// unless all are there, in the guest's memory.
    #[inline(always)]
    pub fn read(&self, memory: &impl Memory, offset: u64, bytes: &mut [u8]) -> Option<()> {
        // Short frames have one part.
        let [first, ..] = &self.parts;
        let end = offset.checked_add(bytes.len() as u64);
        if self.readable > 0 && end.is_some_and(|end| end <= first.length.into()) {
            // An address that wraps is none that a guest's memory has.
            return memory.read(first.address.wrapping_add(offset), bytes);
        }
        self.read_any(memory, offset, bytes)
    }

    /// Does what [`Self::read`] does, wherever the bytes are.
    #[inline(never)]
    fn read_any(&self, memory: &impl Memory, offset: u64, bytes: &mut [u8]) -> Option<()> {
        if let Some(address) = place_within(self.readable(), offset, bytes.len() as u64) {
            return memory.read(address, bytes);
        }
        let mut rest = bytes;
        for part in pieces(self.readable(), offset, rest.len() as u64) {
            let (piece, behind) = rest.split_at_mut_checked(part.length as usize)?;
            memory.read(part.address, piece)?;
            rest = behind;
        }
        rest.is_empty().then_some(())
    }

    /// Copies bytes to `offset` of those that the device can write. Returns nothing unless there is
    /// room for all, in the guest's memory.
    pub fn write(&self, memory: &impl Memory, offset: u64, bytes: &[u8]) -> Option<()> {
        if let Some(address) = place_within(self.writable(), offset, bytes.len() as u64) {
            return memory.write(address, bytes);
        }
        let mut rest = bytes;
        for part in pieces(self.writable(), offset, rest.len() as u64) {
            let (piece, behind) = rest.split_at_checked(part.length as usize)?;
            memory.write(part.address, piece)?;
            rest = behind;
        }
        rest.is_empty().then_some(())
    }

    /// Returns the parts that the device can read, from `offset` on and `length` bytes at most.
    pub fn readable_from(&self, offset: u64, length: u64) -> impl Iterator<Item = Part> + '_ {
        pieces(self.readable(), offset, length)
    }

    /// Returns the parts that the device can write, likewise.
    pub fn writable_from(&self, offset: u64, length: u64) -> impl Iterator<Item = Part> + '_ {
        pieces(self.writable(), offset, length)
    }
}

fn bytes(parts: &[Part]) -> u64 {
    parts.iter().map(|part| u64::from(part.length)).sum()
}

/// Returns the address of the bytes from `offset` on, if all `length` of them lie in one part, as
/// headers, answers and short frames do.
#[inline]
fn place_within(parts: &[Part], offset: u64, length: u64) -> Option<u64> {
    let mut skip = offset;
    for part in parts {
        let size = u64::from(part.length);
        if skip < size {
            // An address that wraps is none that a guest's memory has.
            return (length <= size - skip).then(|| part.address.wrapping_add(skip));
        }
        skip -= size;
    }
    None
}

/// Returns what lies from `offset` on in the parts, one after the other, `length` bytes at most.
fn pieces(parts: &[Part], offset: u64, length: u64) -> impl Iterator<Item = Part> + '_ {
    let (mut skip, mut left) = (offset, length);
    parts.iter().filter_map(move |part| {
        let skipped = skip.min(part.length.into());
        skip -= skipped;
        let length = (u64::from(part.length) - skipped).min(left);
        left -= length;
        // An address that wraps is none that a guest's memory has.
        (length > 0).then_some(Part { address: part.address.wrapping_add(skipped), length: length as u32 })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Ram;
    use super::*;

    fn chain() -> Chain {
        let mut chain = Chain::default();
        let part = |address, length| Part { address, length };
        assert!(chain.add(part(Ram::BASE, 3), false) && chain.add(part(Ram::BASE + 16, 5), false));
        assert!(chain.add(part(Ram::BASE + 32, 2), true) && chain.add(part(Ram::BASE + 40, 6), true));
        assert!(!chain.add(part(Ram::BASE, 1), false), "read behind written");
        chain
    }

    #[test]
    fn its_parts_are_read_and_written_as_if_they_were_one() {
        let (ram, chain) = (Ram::new(64), chain());
        ram.write(Ram::BASE, b"abc").expect("inside");
        ram.write(Ram::BASE + 16, b"defgh").expect("inside");
        assert_eq!((chain.readable_bytes(), chain.writable_bytes()), (8, 8));
        assert!(chain.count() == 4 && chain.is_readable(&ram));
        let mut bytes = [0; 5];
        chain.read(&ram, 1, &mut bytes).expect("all there");
        assert_eq!(&bytes, b"bcdef");
        assert_eq!(chain.read(&ram, 4, &mut bytes), None, "one byte short");
        chain.write(&ram, 1, b"12345").expect("room");
        ram.read(Ram::BASE + 40, &mut bytes).expect("inside");
        assert_eq!(&bytes, b"2345\0");
        assert_eq!(chain.write(&ram, 4, b"12345"), None);
        assert_eq!(chain.write(&ram, u64::MAX, b"1"), None);
        let parts: std::vec::Vec<Part> = chain.writable_from(1, 3).collect();
        assert_eq!(parts, [(33, 1), (40, 2)].map(|(at, length)| Part { address: Ram::BASE + at, length }));
    }

    #[test]
    fn it_is_taken_anew_without_what_it_was() {
        let mut chain = chain();
        chain.begin(3);
        assert_eq!((chain.head, chain.readable_bytes(), chain.writable_bytes()), (3, 0, 0));
        assert!(chain.add(Part { address: Ram::BASE, length: 7 }, false));
        assert_eq!((chain.readable_bytes(), chain.writable_bytes()), (7, 0));
    }

    #[test]
    fn parts_outside_of_the_memory_are_refused() {
        let ram = Ram::new(64);
        for address in [0, Ram::BASE + 62, u64::MAX - 1] {
            let mut chain = Chain::default();
            chain.add(Part { address, length: 4 }, false);
            assert_eq!(chain.read(&ram, 0, &mut [0; 4]), None, "{address:#x}");
            assert!(!chain.is_readable(&ram), "{address:#x}");
        }
        let mut chain = Chain::default();
        assert!((0..MAX_PARTS).all(|_| chain.add(Part::default(), true)) && !chain.add(Part::default(), true));
    }
}
