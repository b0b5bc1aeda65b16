//! The account by which a restarted keeper goes on: how many bytes the file had when the queue
//! stood at a position.
//!
//! A keeper that dies after its file was made durable, and before it gave the lines' slots back,
//! finds the same lines in the queue again. The file's size then says how many of their bytes it
//! has already, if it is known how many it had without them.
//!
//! The account is in the keeper's memory for files, which outlives a restart. There are two
//! entries: the one that is not in force is written, and the queue's position, which moves
//! afterwards by one store, puts it in force. The provider of files and the disk can write there
//! too: an entry that is wrong can lose or double what waits in the queue, as they could anyway,
//! and nothing else.

use culm::Region;

/// Bytes of an entry.
const ENTRY: usize = 32;

/// Bytes of the account.
pub const SIZE: usize = 2 * ENTRY;

/// Marks an entry, and tells it from memory that nobody has written.
const SEAL: u64 = u64::from_le_bytes(*b"log kept");

/// The file at a position of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The queue's position: how many bytes were ever taken from it, modulo 2³².
    pub position: u32,
    /// Bytes of the file.
    pub size: u64,
    /// The number of the volume that the file is on.
    pub volume: u32,
}

/// The account.
#[derive(Debug)]
pub struct Account {
    memory: Region,
}

impl Account {
    /// The account in the first [`SIZE`] bytes of memory.
    pub fn new(memory: Region) -> Self {
        Self { memory }
    }

    /// Returns the entry for a position, if there is one.
    pub fn find(&self, position: u32) -> Option<Entry> {
        (0..2).filter_map(|index| self.entry(index)).find(|entry| entry.position == position)
    }

    fn entry(&self, index: usize) -> Option<Entry> {
        let [place, size, volume, seal]: [u64; ENTRY / 8] = self.memory.load(index * ENTRY).ok()?;
        let is_whole = seal == place ^ size ^ volume ^ SEAL;
        let (position, volume) = (u32::try_from(place).ok()?, u32::try_from(volume).ok()?);
        is_whole.then_some(Entry { position, size, volume })
    }

    /// Writes an entry. The one for the position `in_force` is kept, unless the new one is for the
    /// same.
    pub fn note(&self, entry: Entry, in_force: u32) {
        let is_first = |index: usize| self.entry(index).is_some_and(|found| found.position == in_force);
        let index = usize::from(is_first(0) && entry.position != in_force || entry.position == in_force && is_first(1));
        let (place, volume) = (entry.position.into(), entry.volume.into());
        let words: [u64; ENTRY / 8] = [place, entry.size, volume, place ^ entry.size ^ volume ^ SEAL];
        // The memory has room for both, which `Keeper::new` checks.
        let _ = self.memory.store(index * ENTRY, &words);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let _ = self.memory.clear(0, SIZE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account::new(Region::new(culm::testing::memory(4096, 0)))
    }

    fn entry(position: u32, size: u64) -> Entry {
        Entry { position, size, volume: 7 }
    }

    #[test]
    fn the_entry_in_force_is_there_until_the_position_moves() {
        let account = account();
        assert_eq!(account.find(0), None);
        let mut position = u32::MAX - 40;
        account.note(entry(position, 5), position);
        for size in 6..20 {
            let next = position.wrapping_add(10);
            account.note(entry(next, size), position);
            assert_eq!(account.find(position), Some(entry(position, size - 1)));
            assert_eq!(account.find(next), Some(entry(next, size)));
            position = next;
        }
        account.note(entry(position, 1), position);
        assert_eq!(account.find(position), Some(entry(position, 1)));
        account.clear();
        assert_eq!(account.find(position), None);
    }

    #[test]
    fn an_entry_that_is_not_whole_is_none() {
        let account = account();
        account.note(entry(3, 5), 3);
        account.memory.store(8, &6u64).expect("within");
        assert_eq!(account.find(3), None);
    }
}
