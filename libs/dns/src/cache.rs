//! Answers that are remembered as long as they say, and that something does not exist likewise
//! (RFC 2308).
//!
//! A look compares a number with each place's, so that it takes as long with a full cache whatever
//! is asked. Where there is no free place, what was not used for longest makes way.

use crate::message::{Draft, Message, Section, flags, kind, result};
use crate::{Question, SHORTEST_LIMIT};
use core::time::Duration;
use culm_ip::Instant;

/// Bytes of the longest answer that is remembered.
pub const LONGEST_KEPT: usize = SHORTEST_LIMIT;

/// Seconds that an answer is remembered at most, whatever it says: a day.
const LONGEST_TIME: u32 = 86_400;

/// What is asked, with all that changes the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) question: Question,
    /// Whether signatures are not to be checked by the server.
    pub(crate) checking_disabled: bool,
    /// Whether signatures are wanted, of who speaks the extension.
    pub(crate) extension: Option<bool>,
}

/// A place for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    bytes: [u8; LONGEST_KEPT],
    /// 0 in a free place.
    length: u16,
    hash: u32,
    checking_disabled: bool,
    extension: Option<bool>,
    since: Instant,
    until: Instant,
    used: Instant,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            bytes: [0; LONGEST_KEPT],
            length: 0,
            hash: 0,
            checking_disabled: false,
            extension: None,
            since: Instant(0),
            until: Instant(0),
            used: Instant(0),
        }
    }
}

impl Entry {
    /// Returns the message, if it answers `ask`.
    fn answer(&self, ask: &Ask, hash: u32) -> Option<Message<'_>> {
        let is_alike =
            self.hash == hash && self.checking_disabled == ask.checking_disabled && self.extension == ask.extension;
        if self.length == 0 || !is_alike {
            return None;
        }
        let message = Message::parse(self.bytes.get(..self.length.into())?).ok()?;
        (*message.question() == ask.question).then_some(message)
    }
}

#[derive(Debug)]
pub(crate) struct Cache<'a>(&'a mut [Entry]);

impl<'a> Cache<'a> {
    pub(crate) fn new(entries: &'a mut [Entry]) -> Self {
        Self(entries)
    }

    /// Writes what is remembered, with what is left of its times; returns whether there is any.
    pub(crate) fn look_up(&mut self, ask: &Ask, now: Instant, draft: &mut Draft) -> bool {
        let hash = ask.question.name.hash();
        for entry in self.0.iter_mut().filter(|entry| entry.until > now) {
            let Some(message) = entry.answer(ask, hash) else { continue };
            if !draft.copy(entry.bytes.get(..entry.length.into()).unwrap_or_default()) {
                return false;
            }
            let passed = u32::try_from(now.since(entry.since).as_secs()).unwrap_or(u32::MAX);
            for record in message.records() {
                let left = seconds(record.time_to_live).saturating_sub(passed);
                let place = draft.as_bytes_mut().get_mut(record.time_to_live_at..).and_then(<[u8]>::first_chunk_mut);
                if let Some(place) = place {
                    *place = left.to_be_bytes();
                }
            }
            entry.used = now;
            return true;
        }
        false
    }

    /// Remembers an answer to `ask`, if it says for how long and is short enough.
    pub(crate) fn insert(&mut self, ask: &Ask, message: &Message<'_>, bytes: &[u8], now: Instant) {
        let Some(time) = time_to_live(message).filter(|time| *time > 0) else { return };
        let hash = ask.question.name.hash();
        // The place of what it replaces, one that is over, or the one not used for longest.
        let rank = |entry: &Entry| match () {
            () if entry.answer(ask, hash).is_some() => (0, Instant(0)),
            () if entry.until <= now => (1, entry.until),
            () => (2, entry.used),
        };
        let Some(entry) = self.0.iter_mut().min_by_key(|entry| rank(entry)) else { return };
        let Some(place) = entry.bytes.get_mut(..bytes.len()) else { return };
        place.copy_from_slice(bytes);
        entry.length = bytes.len() as u16;
        entry.hash = hash;
        (entry.checking_disabled, entry.extension) = (ask.checking_disabled, ask.extension);
        (entry.since, entry.used) = (now, now);
        entry.until = now + Duration::from_secs(time.into());
    }
}

/// A time to live in seconds: none where the highest bit is set (RFC 2181 §8).
fn seconds(time_to_live: u32) -> u32 {
    if time_to_live > i32::MAX as u32 { 0 } else { time_to_live }
}

/// Returns for how many seconds an answer holds; `None` if it is not to be remembered.
fn time_to_live(message: &Message<'_>) -> Option<u32> {
    let is_whole = message.flags() & flags::TRUNCATED == 0;
    if !is_whole || !matches!(message.result(), result::FINE | result::NO_SUCH_NAME) {
        return None;
    }
    let asked = message.question().kind;
    let is_answer = |kind| kind == asked || asked == ANY;
    let has_answer = message.records().any(|record| record.section == Section::Answer && is_answer(record.kind));
    let is_negative = message.result() == result::NO_SUCH_NAME || !has_answer;
    let (mut time, mut is_bounded) = (LONGEST_TIME, !is_negative);
    for record in message.records() {
        time = time.min(seconds(record.time_to_live));
        if is_negative && record.section == Section::Authority && record.kind == kind::SOA {
            // Its last number (RFC 2308 §5).
            let minimum = record.data.last_chunk().copied().map_or(0, u32::from_be_bytes);
            (time, is_bounded) = (time.min(seconds(minimum)), true);
        }
    }
    is_bounded.then_some(time)
}

/// The type that asks for records of all types (RFC 1035 §3.2.3).
const ANY: u16 = 255;
