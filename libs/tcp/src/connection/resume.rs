//! Connections that begin with their last handshake segment: nothing was kept of the SYN but what
//! came back in the number that acknowledges this side's (SYN cookies, RFC 4987, §3.6).
//!
//! The peer's timestamp need not be kept: a peer that has agreed on timestamps sends one in each
//! segment (RFC 7323, §3.2), this one included. It echoes that of the answer to its SYN, whose last
//! bit tells whether explicit congestion notification was agreed on (RFC 3168): peers without
//! timestamps have none on such connections.

use super::buffer::first_size;
use super::ecn::Ecn;
use super::{Connection, Ending, Settings, State, Storage, scale_of};
use crate::header::{Flags, Header};
use crate::options::{Options, Timestamps};
use crate::sequence::Sequence;
use crate::time::{Instant, Span};

/// The longest round trip that a timestamp is believed to tell, in milliseconds. The segment that
/// brings the proof may be a request that came to the peer's mind after a while: a trip that long
/// would have a lost answer waited for that much longer. With this one the first timeout is a
/// second, as where nothing is known (RFC 6298, §2).
const LONGEST_TRIP: u32 = 333;

/// Returns the SYN with ACK that answers `syn` for a connection with these settings, of which
/// nothing is kept: [`Connection::resume`] goes on from the peer's answer to it.
pub fn answer_to(settings: &Settings, syn: &Header, now: Instant) -> Header {
    let has_ecn = settings.ecn && syn.options.timestamps.is_some() && Ecn::is_offered(syn.flags);
    let flags = if has_ecn { Flags::SYN.with(Flags::ECE) } else { Flags::SYN };
    // No later than now: later segments have no earlier timestamps (RFC 7323, §5.3).
    let now = now.milliseconds().wrapping_add(settings.stamp_offset);
    let value = now.wrapping_sub(u32::from(settings.ecn && has_ecn != tells_ecn(now)));
    Header {
        source: settings.source,
        destination: settings.destination,
        sequence: settings.initial,
        acknowledgement: syn.sequence + 1,
        flags: flags.with(Flags::ACK),
        window: first_window(settings) as u16,
        options: Options {
            mss: Some(settings.segment),
            window_scale: syn.options.window_scale.map(|_| scale_of(settings.capacity)),
            sack_permitted: syn.options.sack_permitted,
            timestamps: syn.options.timestamps.map(|theirs| Timestamps { value, echo: theirs.value }),
            ..Options::default()
        },
    }
}

/// Returns what the timestamp of an answer to a SYN tells of explicit congestion notification.
fn tells_ecn(stamp: u32) -> bool {
    stamp & 1 == 1
}

/// Returns the window of a SYN, which is never scaled (RFC 7323, §2.2).
fn first_window(settings: &Settings) -> u32 {
    first_size(settings).min(u16::MAX.into())
}

impl<'s> Connection<'s> {
    /// A connection that is over, which keeps `storage` for the next one. `None` if there are too
    /// few records.
    pub fn closed(settings: Settings, storage: Storage<'s>) -> Option<Self> {
        let mut connection = Self::new(settings, storage, Instant(0))?;
        (connection.state, connection.ending, connection.due) = (State::Closed, Some(Ending::Closed), None);
        Some(connection)
    }

    /// Takes the storage away, for the next connection in this place.
    pub(super) fn take_storage(&mut self) -> Storage<'s> {
        Storage {
            pieces: self.outgoing.take_slots(),
            records: self.board.take_slots(),
            islands: self.incoming.take_slots(),
        }
    }

    /// Begins a connection in place of this one, which is over, with the segment `last` that
    /// completes its handshake: the peer's SYN had the options `offer`, timestamps aside, and was
    /// answered by [`answer_to`] with the same settings. Whoever calls this has found proof in
    /// `last.acknowledgement`, and that `last` has ACK without SYN and RST; and then gives it to
    /// [`Self::receive`], for what else it brings.
    pub fn resume(&mut self, settings: Settings, offer: &Options, last: &Header, now: Instant) {
        let storage = self.take_storage();
        *self = Self::fresh(settings, storage, now);
        let syn = Header {
            sequence: last.sequence - 1,
            acknowledgement: Sequence(0),
            flags: Flags::SYN,
            window: 0,
            options: Options { timestamps: last.options.timestamps, ..*offer },
            ..*last
        };
        self.take_opening(&syn, now);
        self.due = None;
        // The window that was told by the answer, whose time nobody knows any more.
        self.announced = self.incoming.next + first_window(&settings);
        self.is_syn_repeated = true;
        if let Some(stamps) = last.options.timestamps {
            self.ecn.agree(settings.ecn && tells_ecn(stamps.echo));
            let milliseconds = self.stamp(now).wrapping_sub(stamps.echo);
            if milliseconds < LONGEST_TRIP {
                let trip = Span::from_milliseconds(milliseconds).max(Span(1000));
                self.round_trip.measure(trip, now, 1);
            }
        }
        self.establish(last, now);
        self.update_window(last, now);
    }

    /// Opens a connection in place of this one, which is over, as [`Self::connect`] does.
    pub fn reopen(&mut self, settings: Settings, now: Instant) {
        let storage = self.take_storage();
        *self = Self::fresh(settings, storage, now);
        (self.has_sack, self.has_stamps) = (true, true);
    }
}
