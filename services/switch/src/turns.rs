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
    pub(crate) fn begin(&self, source: usize) -> Turn {
        let credit = self.credit.get(source).map_or(0, |credit| (*credit + QUANTUM).min(QUANTUM));
        Turn { credit, has_arrived: false }
    }

    /// Ends a source's turn.
    pub(crate) fn end(&mut self, source: usize, turn: &Turn) {
        if let Some(credit) = self.credit.get_mut(source) {
            *credit = turn.credit;
        }
        if turn.has_arrived {
            self.first = (source + 1) % self.credit.len();
        }
    }
}

/// A source's turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    credit: i64,
    /// Whether somebody was given a frame.
    has_arrived: bool,
}

impl Turn {
    /// Returns whether the source has credit left for a frame of any length.
    #[inline(always)]
    pub(crate) fn may_send(&self) -> bool {
        self.credit > 0
    }

    /// Charges the source for a frame of `length` bytes, of which so many copies arrived.
    #[inline(always)]
    pub(crate) fn charge(&mut self, length: usize, copies: usize) {
        self.credit -= FRAME + (length * copies) as i64;
        self.has_arrived |= copies > 0;
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
                let mut turn = turns.begin(source);
                while turn.may_send() {
                    let (length, copies) = lengths[source];
                    turn.charge(length, copies);
                    sent[source] += length * copies + FRAME as usize;
                }
                turns.end(source, &turn);
            }
        }
        let (least, most) = (sent.iter().min().copied().unwrap_or(0), sent.iter().max().copied().unwrap_or(0));
        assert!(most - least <= 70_000, "{sent:?}");
    }

    #[test]
    fn credit_is_not_saved_up() {
        let mut turns = Turns::new(1);
        for _ in 0..1000 {
            turns.end(0, &turns.begin(0));
        }
        let mut turn = turns.begin(0);
        turn.charge(QUANTUM as usize, 1);
        assert!(!turn.may_send());
    }
}
