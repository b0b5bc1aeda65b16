//! Paths.
//!
//! A path is UTF-8 text that begins with `/`, the client's root, and has names behind it, with `/`
//! in between: `/`, `/index.html`, `/pictures/cat.png`. It does not end with `/`. A name is not
//! empty, not `.` and not `..`, and has no control character and no `\`, which could be taken for a
//! separator elsewhere. Which further names there can be is the file system's to say
//! ([`Error::Name`](crate::Error::Name)); of a FAT they are the same whatever their case.

use crate::{BLOCK, PATH_BLOCKS, info};

/// The most bytes of a path.
pub const MAX_PATH: usize = SPACE / 2;

/// The most bytes of a name.
pub const MAX_NAME: usize = 255;

/// The most names in a path.
pub const MAX_DEPTH: usize = 16;

/// Bytes for a request's path, or its two, in its memory.
pub const SPACE: usize = PATH_BLOCKS as usize * BLOCK - info::SIZE;

/// Returns whether text is a path.
pub fn is_valid(path: &str) -> bool {
    if path == "/" {
        return true;
    }
    let Some(names) = path.strip_prefix('/') else { return false };
    path.len() <= MAX_PATH && names.split('/').count() <= MAX_DEPTH && names.split('/').all(is_name)
}

/// Returns whether text is a name.
pub fn is_name(name: &str) -> bool {
    let is_ordinary = !matches!(name, "" | "." | "..") && name.len() <= MAX_NAME;
    is_ordinary && !name.chars().any(|letter| letter.is_control() || matches!(letter, '/' | '\\'))
}
