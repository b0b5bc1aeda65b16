//! What a connection in TIME-WAIT leaves to one that comes after it, between the same addresses and
//! ports.

use super::{Connection, State};
use crate::header::{Flags, Header};
use crate::sequence::Sequence;

/// How far the first number of the next connection is from the last of this one: further than
/// what may still be on the way.
const DISTANCE: u32 = (1 << 16) + 2;

impl Connection<'_> {
    /// Returns whether `syn` opens a new connection in place of this one, which is in TIME-WAIT: if
    /// it is certainly later than all that was sent in this one, by its timestamp or by its number
    /// (RFC 9293, §3.6.1; RFC 6191, §2). Gives the least initial number of this side then; one by
    /// [`Sequence::initial`] is greater nearly always. Any other SYN is for [`Self::receive`].
    pub fn succeeded_by(&self, syn: &Header) -> Option<Sequence> {
        let unwanted = Flags::ACK.with(Flags::RST).with(Flags::FIN);
        let is_syn = syn.flags.has(Flags::SYN) && syn.flags.without(unwanted) == syn.flags;
        if self.state != State::TimeWait || !is_syn {
            return None;
        }
        let is_later = syn.sequence.is_after(self.incoming.next);
        let is_new = match syn.options.timestamps {
            Some(_) if !self.has_stamps => true,
            Some(stamps) => match stamps.value.wrapping_sub(self.recent_stamp) as i32 {
                0 => is_later,
                passed => passed > 0,
            },
            None => is_later,
        };
        is_new.then_some(self.nxt + DISTANCE)
    }
}
