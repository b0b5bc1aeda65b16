//! Paths.
//!
//! A path is UTF-8 text that begins with `/`, the client's root, and has names behind it, with `/`
//! in between: `/`, `/index.html`, `/pictures/cat.png`. It does not end with `/`. A name is not
//! empty, not `.` and not `..`, and has no control character and no `\`, which could be taken for a
//! separator elsewhere. Which further names there can be is the file system's to say
//! ([`Error::Name`](crate::Error::Name)); of a FAT they are the same whatever their case.

use crate::{BLOCK, PATH_BLOCKS, info};
pub use culm_abi::connection::file::{MAX_DEPTH, MAX_NAME, MAX_PATH, is_name, is_path as is_valid};

/// Bytes for a request's path, or its two, in its memory.
pub const SPACE: usize = PATH_BLOCKS as usize * BLOCK - info::SIZE;

const _: () = assert!(2 * MAX_PATH <= SPACE);
