//! Connections that are over, for as long as late segments of theirs may come (TIME-WAIT, RFC 9293
//! §3.6.1), or the end of a peer to whom nobody listens (FIN-WAIT-2).
//!
//! A place with its buffers is free once both sides have closed, or this side has, the peer knows,
//! and nobody reads on (FIN-WAIT-2): what is left is a record of some bytes here. So a peer that
//! does not close its side keeps no place from others.
//!
//! Records lie in sets, one of which the hash of the connection's key chooses, and a new record
//! takes the place of the one in its set that ends first. So where connections end faster than
//! there is room for, the oldest wait shorter. Nothing has to be done when a record ends: it is
//! passed over from then on.

use super::tcp::Times;
use alloc::boxed::Box;
use alloc::vec;
use culm::time::{Duration, Instant};
use culm_tcp::{Header, TimeWait};

/// How long a connection that is over waits: as long as Linux's do, half a minute being a long life
/// for a segment (RFC 9293 §3.4.2 has two).
const TIME_WAIT: Duration = Duration::from_secs(60);

/// Records in a set; there is a set for each place of a connection.
const SET: usize = 4;

/// A connection that is over.
#[derive(Clone, Copy, Default)]
struct Record {
    /// Stands for its addresses and ports: a keyed hash of 64 bits, for which nobody without the
    /// key finds others.
    hash: u64,
    /// When it ends; long ago where there is none.
    until: Instant,
    rest: TimeWait,
}

const _: () = assert!(size_of::<Record>() == 56, "documents say so");

/// What there is to say to a segment.
pub(super) enum Answer {
    /// It is of no connection that is over, of which this knows.
    Unknown,
    /// It is of one that is over, and gets no answer.
    Silence,
    /// It is of one that is over, and gets this one.
    Segment(Header),
}

/// The connections that are over.
pub(super) struct TimeWaits {
    /// The sets: their number is a power of two, or zero.
    records: Box<[[Record; SET]]>,
}

impl TimeWaits {
    /// Makes room for records of a stack with so many places for connections; there are none yet.
    pub(super) fn new(places: usize) -> Self {
        let sets = if places == 0 { 0 } else { places.next_power_of_two() };
        Self { records: vec![[Record::default(); SET]; sets].into_boxed_slice() }
    }

    /// Returns the set of a hash.
    #[inline]
    fn set(&mut self, hash: u64) -> &mut [Record] {
        let index = (hash >> 32) as usize & self.records.len().wrapping_sub(1);
        self.records.get_mut(index).map_or(&mut [], |set| set)
    }

    /// Returns the connection that is over and waits, whose key has this hash.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, now: Instant) -> Option<&TimeWait> {
        Some(&self.record(hash, now)?.rest)
    }

    #[inline]
    fn record(&mut self, hash: u64, now: Instant) -> Option<&mut Record> {
        self.set(hash).iter_mut().find(|record| record.hash == hash && now < record.until)
    }

    /// Keeps what is left of a connection, whose key has this hash.
    pub(super) fn keep(&mut self, hash: u64, rest: TimeWait, now: Instant) {
        if let Some(first) = self.set(hash).iter_mut().min_by_key(|record| record.until) {
            *first = Record { hash, until: now + TIME_WAIT, rest };
        }
    }

    /// Returns the answer to a segment with `length` bytes of payload, of the connection whose key
    /// has this hash. The peer's end has it wait anew.
    pub(super) fn answer(&mut self, hash: u64, segment: &Header, length: u32, times: Times) -> Answer {
        let Some(record) = self.record(hash, times.now) else { return Answer::Unknown };
        let answer = record.rest.answer(segment, length, times.tcp);
        if record.rest.is_end(segment, length) {
            record.until = times.now + TIME_WAIT;
        }
        answer.map_or(Answer::Silence, Answer::Segment)
    }

    /// Forgets the connection whose key has this hash: another one has begun.
    pub(super) fn forget(&mut self, hash: u64) {
        for record in self.set(hash).iter_mut().filter(|record| record.hash == hash) {
            record.until = Instant::default();
        }
    }

    /// Returns how many wait at `now`.
    #[cfg(test)]
    pub(super) fn count(&self, now: Instant) -> usize {
        self.records.as_flattened().iter().filter(|record| now < record.until).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::default() + Duration::from_secs(100 + seconds)
    }

    #[test]
    fn a_connection_waits_for_its_time() {
        let mut time_waits = TimeWaits::new(3);
        time_waits.keep(7, TimeWait::default(), at(0));
        assert!(time_waits.find(7, at(59)).is_some() && time_waits.find(8, at(59)).is_none());
        assert!(time_waits.find(7, at(60)).is_none());
        time_waits.keep(7, TimeWait::default(), at(70));
        time_waits.forget(7);
        assert!(time_waits.find(7, at(70)).is_none());
        assert!(TimeWaits::new(0).find(7, at(0)).is_none());
    }

    #[test]
    fn the_oldest_of_a_set_makes_way() {
        let mut time_waits = TimeWaits::new(1);
        (0..6).for_each(|number| time_waits.keep(number << 40, TimeWait::default(), at(number)));
        let left: std::vec::Vec<_> = (0..6).filter(|number| time_waits.find(number << 40, at(6)).is_some()).collect();
        assert_eq!(left, [2, 3, 4, 5]);
    }
}
