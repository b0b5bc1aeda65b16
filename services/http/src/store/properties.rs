//! A file's properties in the class and in HTTP.

use alloc::string::String;
use culm_clock::TimeOfDay;
use culm_file::{Error, Info};
use culm_http::files::{Entry, Trouble};

/// Seconds after a change in which another one could get the same time, as a FAT tells it.
const UNSETTLED: u64 = 4;

/// The first time that is one: writers without a clock, and disk images that give their files no
/// other date, say the beginning of 1980.
const FIRST_TIME: u64 = 315_619_200;

/// Whether two paths may name one file. A FAT has the same names whatever their case, by their
/// upper case; and a file with a long name has a short one too, of which no more can be told than
/// that there is a `~` in it.
pub(super) fn is_same_name(one: &str, other: &str) -> bool {
    let upper = |name: &str| name.chars().flat_map(char::to_uppercase).collect::<String>();
    let is_alike = |one: &str, other: &str| one.contains('~') || other.contains('~') || upper(one) == upper(other);
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some(one), Some(other)) if is_alike(one, other) => {}
            (end, other_end) => return end.is_none() && other_end.is_none(),
        }
    }
}

/// The properties of a file as HTTP tells them. `has_changed` is whether files were changed since
/// the server began: one without a time may be one of them, and have the place of an earlier one.
pub(super) fn entry(info: &Info, today: Option<u64>, has_changed: bool) -> Entry {
    Entry {
        length: info.size,
        version: version(info),
        is_strong: is_strong(info, today, has_changed),
        modified: modified(info),
    }
}

/// Seconds of 36 bits last until the year 4147; a medium has fewer than 2²⁸ places.
pub(super) fn version(info: &Info) -> u64 {
    info.mark << 36 ^ info.modified
}

/// Returns whether the file's version is sure to be another one after its next change.
pub(super) fn is_strong(info: &Info, today: Option<u64>, has_changed: bool) -> bool {
    let age = today.and_then(|today| today.checked_sub(info.modified));
    let is_old = age.is_some_and(|age| age >= UNSETTLED);
    if info.modified >= FIRST_TIME { is_old } else { !has_changed }
}

/// When the file was changed, as HTTP writes it, if that is known.
pub(super) fn modified(info: &Info) -> Option<[u8; 29]> {
    if info.modified >= FIRST_TIME { written(info.modified) } else { None }
}

/// A time as HTTP writes it.
fn written(since_1970: u64) -> Option<[u8; 29]> {
    struct Text {
        bytes: [u8; 29],
        length: usize,
    }
    impl core::fmt::Write for Text {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            let end = self.length + text.len();
            self.bytes.get_mut(self.length..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
            self.length = end;
            Ok(())
        }
    }
    let mut text = Text { bytes: [0; 29], length: 0 };
    let time = TimeOfDay::new(core::time::Duration::from_secs(since_1970));
    core::fmt::write(&mut text, format_args!("{}", time.http())).ok()?;
    (text.length == 29).then_some(text.bytes)
}

/// The trouble that an error of the class is to a client.
pub(super) fn trouble(error: Error) -> Trouble {
    match error {
        Error::Name => Trouble::BadName,
        Error::NotFound | Error::WrongKind => Trouble::NoFolder,
        Error::ReadOnly => Trouble::ReadOnly,
        Error::Busy | Error::TooMany | Error::Lost => Trouble::Busy,
        Error::Full => Trouble::Full,
        Error::Invalid
        | Error::Exists
        | Error::NotEmpty
        | Error::Unsupported
        | Error::Absent
        | Error::Changed
        | Error::Damaged
        | Error::Failed => Trouble::Failed,
    }
}
