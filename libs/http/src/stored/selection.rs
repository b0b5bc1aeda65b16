//! The choice of what is sent of a file: conditions, ranges, and the entity tag that they ask for.

use crate::fields::{self, Comparison, Range};
use crate::files::Entry;
use crate::request::{Method, Request};
use crate::response::{Refusal, Status};

pub(super) const MISMATCH: Refusal =
    Refusal::new(Status::PreconditionFailed, "No entity tag in If-Match is this file's.");
const EXISTS: Refusal = Refusal::new(Status::PreconditionFailed, "The file that If-None-Match excludes is there.");
const CHANGED: Refusal = Refusal::new(Status::PreconditionFailed, "The file was changed after If-Unmodified-Since.");

/// The part of a file that is sent.
#[derive(Clone, Copy)]
pub(super) enum Selected {
    Whole,
    /// From the first number to before the second.
    Part(usize, usize),
    NotModified,
    Unsatisfiable,
    Failed(Refusal),
}

/// Applies conditions and ranges, in the order of RFC 9110 §13.2.2.
pub(super) fn select(request: &Request, head: &[u8], entry: &Entry) -> Selected {
    let tag = &Tag::of(entry);
    if has_conditions(request) {
        if let Some(refusal) = failed_condition(request, head, entry, tag) {
            return if refusal == EXISTS { Selected::NotModified } else { Selected::Failed(refusal) };
        }
        if !request.if_none_match.is_present()
            && entry.is_strong
            && let Some(since) = request.if_modified_since.and_then(|field| fields::date(field.of(head)))
            && modified(entry).is_some_and(|modified| modified <= since)
        {
            return Selected::NotModified;
        }
    }
    let Some(range) = request.range else { return Selected::Whole };
    // RFC 9110 §14.2: ranges are for GET only.
    if request.method != Method::Get || !is_in_range(request, head, entry, tag) {
        return Selected::Whole;
    }
    match fields::range(range.of(head), entry.length as usize) {
        Range::Whole => Selected::Whole,
        Range::Part(start, end) => Selected::Part(start, end),
        Range::Unsatisfiable => Selected::Unsatisfiable,
    }
}

/// Whether a request is for the whole file, whatever its version.
#[inline]
pub(super) fn is_plain(request: &Request) -> bool {
    request.range.is_none() && !has_conditions(request)
}

fn has_conditions(request: &Request) -> bool {
    request.if_match.is_present()
        || request.if_none_match.is_present()
        || request.if_modified_since.is_some()
        || request.if_unmodified_since.is_some()
}

/// RFC 9110 §13.1.5: `If-Range` holds for a strong tag, or a date that is a strong validator.
fn is_in_range(request: &Request, head: &[u8], entry: &Entry, tag: &Tag) -> bool {
    let Some(field) = request.if_range else { return true };
    let value = field.of(head);
    let is_date = entry.modified.is_some_and(|modified| value == modified);
    entry.is_strong && (fields::tag_is(value, tag.strong()) || is_date)
}

/// The reason for which a condition does not hold; [`EXISTS`] where that of `If-None-Match` does
/// not. A version that is not strong is no proof that the content is the same: no tag matches it,
/// and no date.
pub(super) fn failed_condition(request: &Request, head: &[u8], entry: &Entry, tag: &Tag) -> Option<Refusal> {
    if request.if_match.is_present() {
        let is_same = |list: &[u8]| {
            list == b"*" || (entry.is_strong && fields::tags_contain(list, tag.strong(), Comparison::Strong))
        };
        if !request.if_match.any(b"if-match", head, is_same) {
            return Some(MISMATCH);
        }
    } else if let Some(since) = request.if_unmodified_since.and_then(|field| fields::date(field.of(head)))
        && modified(entry).is_none_or(|modified| modified > since || !entry.is_strong)
    {
        return Some(CHANGED);
    }
    let is_same =
        |list: &[u8]| list == b"*" || (entry.is_strong && fields::tags_contain(list, tag.strong(), Comparison::Weak));
    request.if_none_match.any(b"if-none-match", head, is_same).then_some(EXISTS)
}

fn modified(entry: &Entry) -> Option<fields::Moment> {
    fields::date(&entry.modified?)
}

/// A file's entity tag: its version and length in hexadecimal, in quotes, with `W/` in front while
/// it is weak.
pub(super) struct Tag {
    bytes: [u8; 37],
    start: usize,
}

impl Tag {
    const WEAK: &[u8; 2] = b"W/";

    pub(super) fn of(entry: &Entry) -> Self {
        let mut bytes = [b'-'; 37];
        bytes[..2].copy_from_slice(Self::WEAK);
        (bytes[2], bytes[36]) = (b'"', b'"');
        hexadecimal(entry.version, &mut bytes[3..19]);
        hexadecimal(entry.length, &mut bytes[20..36]);
        Self { bytes, start: if entry.is_strong { 2 } else { 0 } }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The tag as it is when it is strong.
    fn strong(&self) -> &[u8] {
        &self.bytes[2..]
    }
}

/// Writes a number with all digits that its type has.
fn hexadecimal(number: u64, into: &mut [u8]) {
    for (byte, shift) in into.iter_mut().zip((0..16).rev()) {
        *byte = b"0123456789abcdef"[(number >> (4 * shift)) as usize & 15];
    }
}
