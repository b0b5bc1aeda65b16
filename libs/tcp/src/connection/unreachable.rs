//! What others say of the way to the peer: that nothing gets there, or that this side has lost its
//! own address.

use super::{Connection, Ending, State};
use crate::sequence::Sequence;
use crate::time::Instant;

impl Connection<'_> {
    /// Ends the connection, whose address is another host's now or nobody's. The peer is not told:
    /// nothing may be sent from there any more. All tokens go to `release`.
    pub fn lose_address(&mut self, release: impl FnMut(u64)) {
        if self.state != State::Closed {
            self.end(Ending::AddressLost, release);
        }
    }

    /// Takes the message that the segment of this number did not get to the peer. It is believed if
    /// that is on the way (RFC 5927, §4.1); returns whether it is. `is_final` says that trying
    /// again is of no use.
    ///
    /// A connection that is not open yet ends by a final one ([`Ending::Unreachable`]). Any other
    /// goes on, whatever is said (RFC 9293, §3.9.2.2; RFC 5927, §5.2): it may be for a moment, or a
    /// stranger's word. Until the peer is heard again, [`Self::is_unreachable`] holds.
    pub fn unreachable(&mut self, sequence: Sequence, is_final: bool, now: Instant, release: impl FnMut(u64)) -> bool {
        let outstanding = self.nxt.since(self.una).max(0) as u32;
        if self.state == State::Closed || !sequence.is_in(self.una, outstanding) {
            return false;
        }
        self.unreachable_at = Some(now);
        if is_final && self.state == State::SynSent {
            self.end(Ending::Unreachable, release);
        }
        true
    }

    /// Returns whether somebody has said that nothing gets to the peer, since that was heard last.
    pub fn is_unreachable(&self) -> bool {
        self.unreachable_at.is_some_and(|at| at >= self.heard_at)
    }

    /// Ends a connection whose peer does not answer.
    pub(super) fn give_up(&mut self, release: impl FnMut(u64)) {
        let ending = if self.is_unreachable() { Ending::Unreachable } else { Ending::TimedOut };
        self.end(ending, release);
    }
}
