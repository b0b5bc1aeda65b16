//! The account that one life of a virtualiser leaves, so that its next life can go on from there.
//!
//! It lies in memory that outlives the virtualiser and that nobody else maps. So what stands there
//! of a buffer's holder is as trustworthy as the virtualiser itself, whatever clients write into
//! their queues meanwhile.
//!
//! There is a word for each buffer, which says who holds it. Each step of a buffer's way is one
//! store to that word; entries of queues follow from it. For each link, three words say at which
//! entries its queues are:
//!
//! * Every entry that is pushed lends the peer a buffer, or shows it what is in one; every entry
//!   that is taken ends that. So the number of entries that were pushed, less those that were
//!   taken, is the number of buffers that the peer holds. The account has what is constant in that
//!   equation ([`LinkAccount::keep`]), so that the position in the input follows from the position
//!   in the output and from the words of buffers ([`LinkAccount::taken`]).
//! * A virtualiser that cannot undo what it wrote to a queue has the account say how much it wrote
//!   ([`LinkAccount::set_progress`]).
//!
//! A link that starts over has no account in between ([`LinkAccount::forget`]).

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::compiler_fence;
use culm::Region;
use culm::link::{Generations, Positions};
use culm_abi::lending::{ACCOUNT_HEADER, ACCOUNT_LINK, account_size};
use culm_abi::start::Memory;

/// Upper half of the first word of an account of this layout.
const SIGNATURE: u64 = 0x6c65_6e31 << 32;

/// Bit of a link's first word: the link has an account. The lower half is the balance.
const KNOWN: u64 = 1 << 32;

/// Bit of the second word: a run of entries is under way. The lower half is where it begins.
const UNDER_WAY: u64 = 1 << 32;

/// An account in memory of the virtualiser's own.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    words: &'static [AtomicU64],
    links: usize,
}

impl Account {
    /// Returns the account in `memory`, of so many links and buffers.
    ///
    /// # Panics
    ///
    /// If the memory is too small, which the build tool does not let happen.
    pub fn new(memory: Memory, links: u32, buffers: u32) -> Self {
        let count = account_size(links, buffers) / 8;
        let Ok(words) = Region::new(memory).atomics_u64(0, count as usize) else {
            panic!("an account of {links} links and {buffers} buffers does not fit into {} bytes", memory.size)
        };
        Self { words, links: links as usize }
    }

    /// Returns whether a previous life has left this account.
    pub fn is_valid(&self) -> bool {
        self.words[0].load(Relaxed) == self.signature()
    }

    /// Clears the account: nobody holds a buffer, and no link has an account.
    pub fn clear(&self) {
        store(&self.words[0], 0);
        for word in &self.words[1..] {
            store(word, 0);
        }
        store(&self.words[0], self.signature());
    }

    fn signature(&self) -> u64 {
        SIGNATURE | self.words.len() as u64
    }

    /// Returns the account of a link.
    ///
    /// # Panics
    ///
    /// If there is no link of this number.
    pub fn link(&self, number: usize) -> LinkAccount {
        assert!(number < self.links, "an account of {} links has none of number {number}", self.links);
        let (links, _) = self.words[ACCOUNT_HEADER as usize..].as_chunks();
        LinkAccount(&links[number])
    }

    /// Returns the words of `count` buffers from `first` on.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn buffers(&self, first: u32, count: u32) -> &'static [AtomicU64] {
        let start = (ACCOUNT_HEADER + self.links as u32 * ACCOUNT_LINK + first) as usize;
        &self.words[start..start + count as usize]
    }

    /// Returns the index of the first entry of the run that is under way, if one is. A run is
    /// dealt with as one, but in several stores: a frame in several buffers, for example.
    pub fn run_under_way(&self) -> Option<u32> {
        let word = self.words[1].load(Relaxed);
        (word & UNDER_WAY != 0).then_some(word as u32)
    }

    /// Records that a run of entries begins with the one of index `first`.
    pub fn begin_run(&self, first: u32) {
        store(&self.words[1], UNDER_WAY | u64::from(first));
    }

    /// Records that no run of entries is under way any more.
    pub fn end_run(&self) {
        store(&self.words[1], 0);
    }
}

/// The account of one link.
#[derive(Clone, Copy, Debug)]
pub struct LinkAccount(&'static [AtomicU64; ACCOUNT_LINK as usize]);

impl LinkAccount {
    /// Returns the generations of the link, if it was live and has an account.
    pub fn generations(&self) -> Option<Generations> {
        let both = self.0[1].load(Relaxed);
        let generations = Generations { own: both as u32, peer: (both >> 32) as u32 };
        (self.0[0].load(Relaxed) & KNOWN != 0).then_some(generations)
    }

    /// Records the account of a link that has become live just now: the peer holds nothing.
    pub fn keep(&self, generations: Generations, Positions { output, input }: Positions) {
        let Generations { own, peer } = generations;
        store(&self.0[1], u64::from(own) | u64::from(peer) << 32);
        self.set_progress(output, 0);
        store(&self.0[0], KNOWN | u64::from(input.wrapping_sub(output)));
    }

    /// Removes the account, before the link starts over.
    pub fn forget(&self) {
        store(&self.0[0], 0);
        // Nothing of the link may change before.
        compiler_fence(SeqCst);
    }

    /// Returns how many entries were taken if `pushed` ever were pushed (both modulo 2³²) and the
    /// peer holds `held` buffers.
    pub fn taken(&self, pushed: u32, held: u32) -> u32 {
        (self.0[0].load(Relaxed) as u32).wrapping_add(pushed).wrapping_sub(held)
    }

    /// Records that an entry was taken that ended no loan.
    #[cold]
    pub fn skip(&self) {
        let word = self.0[0].load(Relaxed);
        store(&self.0[0], word & KNOWN | u64::from((word as u32).wrapping_add(1)));
    }

    /// Returns what [`Self::set_progress`] recorded last.
    pub fn progress(&self) -> (u32, u32) {
        let word = self.0[2].load(Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    /// Records that all entries of the output before `pushed` are written, for entries of another
    /// link's input before `through`.
    #[inline(always)]
    pub fn set_progress(&self, pushed: u32, through: u32) {
        store(&self.0[2], u64::from(pushed) | u64::from(through) << 32);
    }
}

/// Stores a word of an account, after everything that this life has stored so far. The next life
/// runs on the same core, and sees stores in program order.
#[inline(always)]
pub fn store(word: &AtomicU64, value: u64) {
    culm_queue::crash_point();
    compiler_fence(Release);
    word.store(value, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::testing::memory;

    #[test]
    fn a_position_follows_from_what_is_held() {
        let account = Account::new(memory(account_size(2, 4) as usize, 0), 2, 4);
        assert!(!account.is_valid());
        account.clear();
        assert!(account.is_valid());
        let link = account.link(1);
        assert_eq!(link.generations(), None);
        let generations = Generations { own: 5, peer: u32::MAX };
        link.keep(generations, Positions { output: u32::MAX - 1, input: 7 });
        assert_eq!((link.generations(), link.progress().0), (Some(generations), u32::MAX - 1));
        // Five were lent since, two of these are still with the peer, and one entry was none.
        assert_eq!(link.taken(3, 2), 10);
        link.skip();
        assert_eq!((link.taken(3, 2), link.generations()), (11, Some(generations)));
        link.forget();
        assert_eq!(link.generations(), None);
    }

    #[test]
    fn parts_of_an_account_lie_apart() {
        let account = Account::new(memory(account_size(2, 4) as usize, 0), 2, 4);
        account.clear();
        for word in account.buffers(1, 3) {
            store(word, u64::MAX);
        }
        assert_eq!(account.buffers(0, 1)[0].load(Relaxed), 0);
        assert_eq!((account.link(0).generations(), account.link(1).generations()), (None, None));
        assert_eq!(account.run_under_way(), None);
        account.begin_run(u32::MAX);
        assert_eq!(account.run_under_way(), Some(u32::MAX));
        account.end_run();
        assert!(account.run_under_way().is_none() && account.is_valid());
        account.clear();
        assert!(account.buffers(0, 4).iter().all(|word| word.load(Relaxed) == 0));
    }
}
