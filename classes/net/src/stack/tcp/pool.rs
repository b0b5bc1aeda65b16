//! Memory that connections share for windows that are larger than their first ones: taken where a
//! path carries more in a round trip, given back when the connection is over.
//!
//! A peer that has as many chunks as are free gets no more, by all its connections together: one
//! alone gets half of the pool, each of two a third, and so on. So nobody takes all, and whoever
//! comes later gets a share. Peers are told apart by a keyed hash, in classes: those of one class
//! share its bound, and nobody can tell whose class somebody is in. Hosts of one network of IPv6
//! (the upper 64 bits of their addresses) count as one peer, since any of them can have all
//! addresses of it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Returns `bytes` bytes of memory for a buffer.
#[cold]
#[inline(never)]
pub(super) fn memory(bytes: usize) -> Box<[u8]> {
    vec![0; bytes].into_boxed_slice()
}

/// Classes of peers.
const CLASSES: usize = 64;

/// A part of a receive buffer.
pub(in crate::stack) type Chunk = Box<[u8]>;

/// The chunks that are free, and how many each class of peers has. All chunks are equally long.
#[derive(Debug)]
pub(in crate::stack) struct Pool {
    free: Vec<Chunk>,
    held: [u32; CLASSES],
}

impl Pool {
    /// As many chunks of `size` bytes as `bytes` hold.
    pub(in crate::stack) fn new(bytes: usize, size: usize) -> Self {
        let count = bytes.checked_div(size).unwrap_or(0);
        let mut free = Vec::with_capacity(count);
        for _ in 0..count {
            free.push(memory(size));
        }
        Self { free, held: [0; CLASSES] }
    }

    #[cfg(test)]
    pub(in crate::stack) fn count(&self) -> usize {
        self.free.len()
    }

    /// Moves up to `count` chunks to `chunks`, in front of the one at `index`, as far as the peer
    /// of this hash may have more. Returns how many.
    pub(super) fn lend(&mut self, hash: u64, count: usize, chunks: &mut Vec<Chunk>, index: usize) -> usize {
        let held = &mut self.held[hash as usize % CLASSES];
        let fair = self.free.len().saturating_sub(*held as usize).div_ceil(2);
        let mut lent = 0;
        while lent < count.min(fair)
            && let Some(chunk) = self.free.pop()
        {
            chunks.insert(index, chunk);
            lent += 1;
        }
        *held += lent as u32;
        lent
    }

    /// Takes back the chunks that the peer of this hash was lent: all of `chunks` but `own`.
    #[cold]
    #[inline(never)]
    pub(super) fn take_back(&mut self, hash: u64, chunks: &mut Vec<Chunk>, own: usize) {
        let held = &mut self.held[hash as usize % CLASSES];
        while chunks.len() > own
            && let Some(chunk) = chunks.pop()
        {
            *held = held.saturating_sub(1);
            self.free.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::buffers::Inbox;
    use super::*;
    use proptest::prelude::*;

    const CHUNKS: usize = 40;
    const SIZE: usize = 16;

    proptest! {
        /// Whatever is lent and given back, no chunk is lost, no peer has more than half, and
        /// whoever has none gets one while two are free.
        #[test]
        fn nobody_takes_all(steps in prop::collection::vec((0..6_usize, 0..20_usize), 1..200)) {
            let mut pool = Pool::new(CHUNKS * SIZE + SIZE - 1, SIZE);
            let mut peers: [Vec<Chunk>; 6] = Default::default();
            for (peer, count) in steps {
                let (free, had) = (pool.free.len(), peers[peer].len());
                if count == 0 {
                    pool.take_back(peer as u64, &mut peers[peer], 0);
                } else {
                    let lent = pool.lend(peer as u64, count, &mut peers[peer], had / 2);
                    prop_assert_eq!(peers[peer].len(), had + lent);
                    prop_assert!(lent <= count && (had > 0 || free == 0 || lent > 0));
                    prop_assert!(lent == 0 || had + lent <= free - lent + 1);
                }
                let all: usize = peers.iter().map(Vec::len).sum();
                prop_assert_eq!(pool.free.len() + all, CHUNKS);
                prop_assert!(peers.iter().all(|peer| peer.len() <= CHUNKS / 2));
                prop_assert!((0..6).all(|peer| pool.held[peer] as usize == peers[peer].len()));
            }
        }

        /// A buffer that grows at any time keeps all that is in it, in order or not.
        #[test]
        fn what_is_kept_stays_while_a_buffer_grows(
            steps in prop::collection::vec((0..4_u8, 0..100_usize, 0..100_usize), 1..200),
        ) {
            let mut pool = Pool::new(CHUNKS * SIZE, SIZE);
            let mut inbox = Inbox::new(SIZE, 8 * SIZE);
            // What was kept at each offset, as far as anything was.
            let mut model: Vec<Option<u8>> = vec![None; SIZE];
            for (number, (step, at, count)) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => {
                        let bytes: Vec<u8> = (0..count).map(|index| (number * 31 + index) as u8).collect();
                        let at = at % model.len();
                        inbox.keep(at, &bytes);
                        for (place, byte) in model[at..].iter_mut().zip(bytes) {
                            *place = Some(byte);
                        }
                    }
                    2 => {
                        let count = count % (model.len() + 1);
                        inbox.drop(count);
                        model.drain(..count);
                        model.resize(inbox.capacity(), None);
                    }
                    _ => {
                        inbox.grow(&mut pool, at as u64);
                        prop_assert!(inbox.capacity() <= 8 * SIZE);
                        model.resize(inbox.capacity(), None);
                        if count > 90 {
                            inbox.give_back(&mut pool);
                            model = vec![None; SIZE];
                        }
                    }
                }
                prop_assert_eq!(inbox.capacity(), model.len());
                let mut found = vec![0; model.len()];
                prop_assert_eq!(inbox.copy(model.len(), &mut found), model.len());
                prop_assert!(model.iter().zip(&found).all(|(kept, found)| kept.is_none_or(|kept| kept == *found)));
                let first = inbox.first(model.len());
                prop_assert!(!first.is_empty() && found.starts_with(first));
            }
            inbox.give_back(&mut pool);
            prop_assert_eq!((pool.free.len(), inbox.capacity()), (CHUNKS, SIZE));
            prop_assert_eq!(pool.held, [0; CLASSES]);
        }
    }
}
