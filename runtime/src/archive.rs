//! Folders of a system description, packed into the image by the build tool.
//!
//! All numbers are little-endian `u32`s: the count of files, then per file the offsets and lengths
//! of its path, of its content, and of that as gzip (a length of 0 where it was not packed so),
//! counted from the start of the archive; then the bytes. Paths are sorted bytewise, use `/`, and
//! begin with none.

use core::fmt;

/// Bytes of one file's record.
const RECORD: usize = 24;

/// A packed folder.
#[derive(Clone, Copy)]
pub struct Archive<'a> {
    bytes: &'a [u8],
    count: usize,
}

/// One file of an [`Archive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'a> {
    /// Path within the folder, for example `images/logo.svg`.
    pub path: &'a str,
    /// Content.
    pub content: &'a [u8],
    /// The content as gzip (RFC 1952), if the component's manifest asks for it and it is smaller.
    pub gzip: Option<&'a [u8]>,
}

/// The bytes are no archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidArchive;

impl fmt::Display for InvalidArchive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a packed folder: a record points outside, a path is no UTF-8, or paths are not sorted")
    }
}

impl core::error::Error for InvalidArchive {}

impl<'a> Archive<'a> {
    /// An archive without files.
    pub const EMPTY: Self = Self { bytes: &[0; 4], count: 0 };

    /// Checks `bytes` once; afterwards no access can fail.
    pub fn new(bytes: &'a [u8]) -> Result<Self, InvalidArchive> {
        let count = word(bytes, 0).ok_or(InvalidArchive)? as usize;
        let archive = Self { bytes, count };
        let mut previous = None;
        for index in 0..count {
            let file = archive.read(index).ok_or(InvalidArchive)?;
            if previous.is_some_and(|previous| previous >= file.path) {
                return Err(InvalidArchive);
            }
            previous = Some(file.path);
        }
        Ok(archive)
    }

    /// Returns the count of files.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no file.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns file `index` in the order of paths.
    pub fn file(&self, index: usize) -> Option<File<'a>> {
        if index < self.count { self.read(index) } else { None }
    }

    /// Returns all files, sorted by path.
    pub fn files(&self) -> impl ExactSizeIterator<Item = File<'a>> + Clone + use<'a> {
        let archive = *self;
        // `new` has read every record, so the default is never used.
        (0..self.count).map(move |index| archive.read(index).unwrap_or(File { path: "", content: &[], gzip: None }))
    }

    /// Returns the position of the file at `path`, for [`Archive::file`]. It is a binary search.
    pub fn find(&self, path: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.read(middle)?.path.as_bytes().cmp(path) {
                core::cmp::Ordering::Less => low = middle + 1,
                core::cmp::Ordering::Greater => high = middle,
                core::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Returns the content of the file at `path`.
    pub fn get(&self, path: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        Some(self.read(self.find(path.as_ref())?)?.content)
    }

    fn read(&self, index: usize) -> Option<File<'a>> {
        let record = index.checked_mul(RECORD)?.checked_add(4)?;
        let field = |number: usize| Some(word(self.bytes, record.checked_add(number * 4)?)? as usize);
        let slice = |offset: usize, length: usize| self.bytes.get(offset..offset.checked_add(length)?);
        let gzip = slice(field(4)?, field(5)?)?;
        Some(File {
            path: core::str::from_utf8(slice(field(0)?, field(1)?)?).ok()?,
            content: slice(field(2)?, field(3)?)?,
            gzip: (!gzip.is_empty()).then_some(gzip),
        })
    }
}

impl fmt::Debug for Archive<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.files().map(|file| file.path)).finish()
    }
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs as the build tool does.
    fn pack(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut head = (files.len() as u32).to_le_bytes().to_vec();
        let mut body: Vec<u8> = Vec::new();
        let base = 4 + files.len() * RECORD;
        for (path, content) in files {
            for part in [path.as_bytes(), *content, b""] {
                head.extend(((base + body.len()) as u32).to_le_bytes());
                head.extend((part.len() as u32).to_le_bytes());
                body.extend(part);
            }
        }
        head.extend(body);
        head
    }

    #[test]
    fn finds_files_by_path() {
        let bytes = pack(&[("a", b"1"), ("b/c", b"22"), ("b/d", b""), ("z", b"4444")]);
        let archive = Archive::new(&bytes).expect("valid");
        assert_eq!(archive.get("b/c"), Some(&b"22"[..]));
        assert_eq!(archive.get("b/d"), Some(&b""[..]));
        assert_eq!(archive.get("b"), None);
        assert_eq!(archive.files().map(|file| file.path).collect::<Vec<_>>(), ["a", "b/c", "b/d", "z"]);
        assert_eq!(archive.file(4), None);
    }

    #[test]
    fn refuses_what_is_no_archive() {
        assert!(Archive::new(&[]).is_err());
        assert!(Archive::new(&[1, 0, 0, 0]).is_err());
        assert!(Archive::new(&[0xff; 64]).is_err());
        assert!(Archive::new(&pack(&[("b", b""), ("a", b"")])).is_err());
        assert!(Archive::new(&pack(&[("a", b""), ("a", b"")])).is_err());
        let mut outside = pack(&[("a", b"xyz")]);
        outside.pop();
        assert!(Archive::new(&outside).is_err());
    }

    #[test]
    fn an_empty_folder_is_an_archive() {
        assert!(Archive::new(&pack(&[])).expect("valid").is_empty());
        assert_eq!(Archive::EMPTY.get("a"), None);
    }
}
