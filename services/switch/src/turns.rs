//! The order in which frames of several sources are passed on: by turns, which are equal in bytes.
//!
//! A source sends as long as it has credit, and may overdraw it by one frame, which its next turns
//! pay: surplus round robin (Adiseshu, Parulkar and Varghese, SIGCOMM 1996), which needs not know
//! the length of a frame before it is taken. What counts is what is copied: a frame for five
//! receivers counts five times. So long frames bring a source no more of the switch than short
//! ones, and frames for all no more than frames for one.

use alloc::boxed::Box;
use alloc::vec;

/// Bytes of credit that a turn brings. It is small, so that a client with few free buffers gets
/// frames of everybody.
const QUANTUM: i64 = 2048;

/// Bytes that a frame counts besides those that are copied of it.
const FRAME: i64 = 256;

/// Whose turn it is, and what each source may still send.
pub(crate) struct Turns {
    credit: Box<[i64]>,
    /// The source that comes first in the next round: the one after the last whose frame arrived,
    /// so that those share the free buffers of a client which has few.
    first: usize,
}

impl Turns {
    pub(crate) fn new(sources: usize) -> Self {
        Self { credit: vec![0; sources].into_boxed_slice(), first: 0 }
    }

    /// Returns all sources, the one whose turn it is first.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.first, self.credit.len());
        (first..count).chain(0..first)
    }

    /// Begins a turn of a source.
    pub(crate) fn begin(&mut self, source: usize) {
        if let Some(credit) = self.credit.get_mut(source) {
            *credit = (*credit + QUANTUM).min(QUANTUM);
        }
    }

    /// Returns whether a source has credit left for a frame of any length.
    pub(crate) fn may_send(&self, source: usize) -> bool {
        self.credit.get(source).is_some_and(|credit| *credit > 0)
    }

    /// Charges a source for a frame of `length` bytes, of which so many copies arrived.
    pub(crate) fn charge(&mut self, source: usize, length: usize, copies: usize) {
        if let Some(credit) = self.credit.get_mut(source) {
            *credit -= FRAME + (length * copies) as i64;
        }
        if copies > 0 {
            self.first = (source + 1) % self.credit.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_share_by_bytes_whatever_the_length_of_frames() {
        let lengths = [(60, 1), (1514, 1), (65_000, 1), (1514, 7)];
        let mut turns = Turns::new(lengths.len());
        let mut sent = [0_usize; 4];
        for _ in 0..10_000 {
            for source in turns.order() {
                turns.begin(source);
                while turns.may_send(source) {
                    let (length, copies) = lengths[source];
                    turns.charge(source, length, copies);
                    sent[source] += length * copies + FRAME as usize;
                }
            }
        }
        let (least, most) = (sent.iter().min().copied().unwrap_or(0), sent.iter().max().copied().unwrap_or(0));
        assert!(most - least <= 70_000, "{sent:?}");
    }

    #[test]
    fn credit_is_not_saved_up() {
        let mut turns = Turns::new(1);
        for _ in 0..1000 {
            turns.begin(0);
        }
        turns.charge(0, QUANTUM as usize, 1);
        assert!(!turns.may_send(0));
    }
}
