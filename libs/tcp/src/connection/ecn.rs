//! Explicit congestion notification (RFC 3168): routers mark packets in place of dropping them, the
//! receiver echoes that, and the sender reduces its window as for a loss, once each round trip.

use super::Connection;
use crate::header::{Flags, Header};
use crate::sequence::Sequence;

/// What the flags of a SYN say that offers it (RFC 3168, §6.1.1).
const OFFER: Flags = Flags::ECE.with(Flags::CWR);

/// How many SYNs offer it: one that gets no answer may have met a host that drops such SYNs (RFC
/// 3168, §6.1.1.1).
const OFFERS: u8 = 1;

/// Both directions' state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ecn {
    is_used: bool,
    /// Whether a mark has come, and the peer has not said that it reduced its window.
    is_echoing: bool,
    /// Whether the peer is to be told that this side's window was reduced.
    is_reduced: bool,
    /// The next number when it was: marks of what was sent before do not count again.
    reduced_at: Option<Sequence>,
}

impl Ecn {
    /// Returns whether a SYN has this offer.
    pub fn is_offered(flags: Flags) -> bool {
        flags.has(OFFER)
    }

    pub fn agree(&mut self, is_used: bool) {
        self.is_used = is_used;
    }

    /// Returns the flags of a SYN, of which `timeouts` had no answer: of one with ACK if
    /// `is_answer`.
    pub fn syn_flags(&self, is_wanted: bool, is_answer: bool, timeouts: u8) -> Flags {
        match is_answer {
            true if self.is_used => Flags::ECE,
            false if is_wanted && timeouts < OFFERS => OFFER,
            _ => Flags::default(),
        }
    }

    /// Takes the answer to a SYN, of which `timeouts` had none (RFC 3168, §6.1.1): one that has
    /// both flags comes from a host that reflects what it does not know, and whoever has sent a
    /// SYN without the offer does not use it.
    pub fn take_answer(&mut self, is_wanted: bool, timeouts: u8, flags: Flags) {
        self.is_used = is_wanted && timeouts < OFFERS && flags.has(Flags::ECE) && !flags.has(Flags::CWR);
    }

    /// Takes a SYN that came again: a peer that does not repeat its offer has given it up
    /// (§6.1.1).
    pub fn note_syn(&mut self, flags: Flags) {
        self.is_used &= Self::is_offered(flags);
    }

    /// Notes that data came in a packet with a mark of congestion. Only a segment that is checked
    /// counts: a stranger could slow the peer down otherwise.
    pub fn note_mark(&mut self) {
        self.is_echoing = self.is_used;
    }

    /// Returns the flag of each acknowledgement.
    #[inline]
    pub fn echo(&self) -> Flags {
        if self.is_echoing { Flags::ECE } else { Flags::default() }
    }

    /// Returns whether a segment with new data may be marked.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Returns whether the next segment with new data has to have CWR.
    #[inline]
    pub fn is_reduced(&self) -> bool {
        self.is_reduced
    }

    pub fn note_told(&mut self) {
        self.is_reduced = false;
    }
}

impl Connection<'_> {
    /// Takes the flags of a segment that is acceptable and acknowledges something that was sent.
    pub(super) fn take_ecn(&mut self, header: &Header) {
        if !self.ecn.is_used {
            return;
        }
        if header.flags.has(Flags::CWR) {
            self.ecn.is_echoing = false;
        }
        if header.flags.has(Flags::ECE) {
            // What it acknowledges does not grow the window (§6.1.2).
            self.is_limited = false;
        }
        // One of long ago lies anywhere, since numbers wrap.
        let outstanding = self.nxt.since(self.una).max(0) as u32;
        let is_late = |at: Sequence| at.is_in(self.una, outstanding + 1) && !header.acknowledgement.is_after(at);
        if !header.flags.has(Flags::ECE) || self.ecn.reduced_at.is_some_and(is_late) || self.board.is_empty() {
            return;
        }
        (self.ecn.is_reduced, self.ecn.reduced_at) = (true, Some(self.nxt));
        // A recovery has reduced the window already.
        if self.recovery.is_open() {
            self.congestion.lost(outstanding);
            self.congestion.set_window(self.congestion.threshold());
        }
    }
}
