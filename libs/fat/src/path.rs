//! Paths: which are valid, and the entries that were found for the last ones.

use crate::entry::Raw;
use crate::error::Error;
use crate::{MAX_DEPTH, MAX_NAME, MAX_PATH};
use alloc::collections::BTreeMap;
use alloc::string::String;

/// The most paths whose entries are remembered.
const MOST_KNOWN: usize = 128;

/// Returns whether a name can be on a volume: [`MAX_NAME`] bytes at most, no control characters,
/// none of `"*/:<>?\|`, none outside of the basic plane, no space or dot at its end.
pub(crate) fn is_name(name: &str) -> bool {
    let is_fine = |c: char| !c.is_control() && c <= '\u{ffff}' && !"\"*/:<>?\\|".contains(c);
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_fine) && !name.ends_with(['.', ' '])
}

/// Returns the names of a path, after a check of each. The path begins at the root, with or
/// without `/`; the root itself has no names.
pub(crate) fn names(path: &str) -> Result<impl DoubleEndedIterator<Item = &str> + Clone, Error> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let names = inner.split('/').filter(move |_| !inner.is_empty());
    let is_path = path.len() <= MAX_PATH && names.clone().count() <= MAX_DEPTH && names.clone().all(is_name);
    if is_path { Ok(names) } else { Err(Error::BadPath) }
}

/// Returns whether two paths are the same, upper and lower case being the same.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|path| path.strip_prefix('/').unwrap_or(path));
    one.chars().map(upper).eq(other.chars().map(upper))
}

/// Returns the upper case of a character as FAT has it: one for one. `ß` is not `SS`, and what is
/// no ASCII (`ı`, `ſ`) does not become ASCII.
pub fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) if one.is_ascii() == c.is_ascii() => one,
        _ => c,
    }
}

/// Entries that were found, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<String, Raw>);

impl Known {
    pub(crate) fn get(&self, path: &str) -> Option<Raw> {
        self.0.get(path).copied()
    }

    pub(crate) fn add(&mut self, path: &str, raw: Raw) {
        if self.0.len() >= MOST_KNOWN {
            self.0.clear();
        }
        self.0.insert(path.into(), raw);
    }

    /// Forgets everything: entries have changed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
