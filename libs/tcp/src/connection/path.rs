//! What the path carries: by routers' word (RFC 1191, RFC 8201), and where there is none, by what
//! gets through (RFC 4821, §7.7; RFC 8899, §4.3).

use super::{Connection, STAMPS_LENGTH, State};
use crate::sequence::Sequence;
use crate::time::Instant;

/// The least that a router is believed to carry, in bytes of payload and options: that of a packet
/// of 552 bytes. A stranger who guesses a number could otherwise have this side send in crumbs.
const LEAST_BELIEVED: u16 = 512;

/// What is tried in turn on a path that swallows what is too big without a word: what any IPv6 link
/// carries, and any IPv4 host.
const TRIED: [u32; 2] = [1220, 536];

/// Bytes of options that a segment has at most (RFC 9293, §3.1).
const MOST_OPTIONS: u32 = 40;

/// How many timeouts in a row show that a path swallows segments.
const TIMEOUTS: u8 = 2;

impl Connection<'_> {
    /// Takes a router's word that a packet was too big: `sequence` is in the quoted header, and
    /// `segment` how many bytes of payload and options fit. Returns whether it is believed: only
    /// if that number is on the way (RFC 5927, §4.1), and less is to be sent than before. What is
    /// on the way is sent again then; the congestion window stays (RFC 1191, §6.4).
    ///
    /// Less than 512 bytes are taken for 512: whoever makes packets must let routers divide those.
    pub fn too_big(&mut self, sequence: Sequence, segment: u16, now: Instant) -> bool {
        let outstanding = self.nxt.since(self.una).max(0) as u32;
        let segment = u32::from(segment.max(LEAST_BELIEVED));
        let is_opening = matches!(self.state, State::SynSent | State::SynReceived);
        if is_opening || !sequence.is_in(self.una, outstanding) || segment >= self.segment {
            return false;
        }
        self.set_segment(segment);
        self.lose_without_blame();
        self.arm(now);
        true
    }

    /// A timeout has passed: tries shorter segments if it was one of several, and the first one on
    /// the way is longer.
    pub(super) fn narrow(&mut self) {
        let first = self.board.get(0).map_or(0, |first| first.range.length());
        // How many blocks it told of is not remembered.
        let longest = self.segment.min(first + MOST_OPTIONS);
        if self.timeouts >= TIMEOUTS
            && let Some(shorter) = TRIED.into_iter().find(|tried| *tried < longest)
        {
            self.set_segment(shorter);
        }
    }

    fn set_segment(&mut self, segment: u32) {
        self.segment = segment;
        self.congestion.set_segment(segment - self.fixed_options());
    }

    /// Returns how many bytes of payload go in a segment without options of its own.
    pub(super) fn payload(&self) -> u32 {
        self.segment.saturating_sub(self.fixed_options()).max(1)
    }

    /// Returns how many bytes of options each segment has.
    pub(super) fn fixed_options(&self) -> u32 {
        if self.has_stamps { STAMPS_LENGTH } else { 0 }
    }
}
