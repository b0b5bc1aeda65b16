//! A disk while it is made: pages in memory before a file that is written where it is not zero.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;

/// Bytes of a page.
const PAGE: u64 = 64 * 1024;

/// Pages in memory before they are written to the file.
const MAX_PAGES: usize = 256;

/// A disk of zeroes that is written. What stays zero takes no room, neither in memory nor in the
/// file.
#[derive(Debug)]
pub struct Medium {
    /// The file; without one, everything stays in memory.
    file: Option<File>,
    size: u64,
    pages: BTreeMap<u64, Page>,
    /// Pages that the file has; all others of it are holes.
    stored: BTreeSet<u64>,
}

#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    is_changed: bool,
}

impl Medium {
    /// A disk of so many bytes in memory.
    pub fn in_memory(size: u64) -> Self {
        Self { file: None, size, pages: BTreeMap::new(), stored: BTreeSet::new() }
    }

    /// A disk of so many bytes in a new file.
    ///
    /// # Errors
    ///
    /// The file cannot have that size.
    pub fn in_file(file: File, size: u64) -> Result<Self> {
        file.set_len(size)?;
        Ok(Self { file: Some(file), ..Self::in_memory(size) })
    }

    /// Returns the bytes from `first` on as a disk of their own.
    pub fn part(&mut self, first: u64, size: u64) -> Section<'_> {
        Section { medium: self, first, size, at: 0 }
    }

    /// Reads what is at `at`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the medium ends before.
    pub fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.check(at, bytes.len())?;
        let mut done = 0;
        while done < bytes.len() {
            let (index, within, count) = place(at + done as u64, bytes.len() - done);
            let into = &mut bytes[done..done + count];
            match self.page(index)? {
                Some(page) => into.copy_from_slice(&page.bytes[within..within + count]),
                None => into.fill(0),
            }
            done += count;
        }
        Ok(())
    }

    /// Writes at `at`.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or the medium ends before.
    pub fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.check(at, bytes.len())?;
        let mut done = 0;
        while done < bytes.len() {
            let (index, within, count) = place(at + done as u64, bytes.len() - done);
            let from = &bytes[done..done + count];
            done += count;
            if self.page(index)?.is_none() {
                if is_blank(from) {
                    continue;
                }
                self.keep(index, vec![0; PAGE as usize])?;
            }
            let Some(page) = self.pages.get_mut(&index) else { continue };
            page.bytes[within..within + count].copy_from_slice(from);
            page.is_changed = true;
        }
        Ok(())
    }

    /// Writes everything to the file, and has the host make it durable.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.store()?;
        self.file.map_or(Ok(()), |file| file.sync_all())
    }

    fn check(&self, at: u64, count: usize) -> Result<()> {
        let end = at.checked_add(count as u64);
        if end.is_some_and(|end| end <= self.size) { Ok(()) } else { Err(Error::from(ErrorKind::UnexpectedEof)) }
    }

    /// Returns a page in memory; `None` if it is all zeroes because nobody has written it.
    fn page(&mut self, index: u64) -> Result<Option<&mut Page>> {
        if !self.pages.contains_key(&index) && self.stored.contains(&index) {
            let mut bytes = vec![0; PAGE as usize];
            if let Some(file) = &self.file {
                file.read_exact_at(&mut bytes[..self.length(index)], index * PAGE)?;
            }
            self.keep(index, bytes)?;
        }
        Ok(self.pages.get_mut(&index))
    }

    /// Keeps a page in memory, and writes out the others if there are many.
    fn keep(&mut self, index: u64, bytes: Vec<u8>) -> Result<()> {
        if self.file.is_some() && self.pages.len() >= MAX_PAGES {
            self.store()?;
            self.pages.clear();
        }
        self.pages.insert(index, Page { bytes, is_changed: false });
        Ok(())
    }

    /// Writes to the file what has changed.
    fn store(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        for (index, page) in &mut self.pages {
            let is_hole = !self.stored.contains(index) && is_blank(&page.bytes);
            if page.is_changed && !is_hole {
                let length = (self.size - index * PAGE).min(PAGE) as usize;
                file.write_all_at(&page.bytes[..length], index * PAGE)?;
                self.stored.insert(*index);
            }
            page.is_changed = false;
        }
        Ok(())
    }

    /// Returns the bytes of a page that the medium has: the last one may be shorter.
    fn length(&self, index: u64) -> usize {
        (self.size - index * PAGE).min(PAGE) as usize
    }
}

/// Returns the page of a byte, the place in it, and how much of `count` bytes lies in it.
fn place(at: u64, count: usize) -> (u64, usize, usize) {
    let within = (at % PAGE) as usize;
    (at / PAGE, within, count.min(PAGE as usize - within))
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// A part of a disk, as a file.
#[derive(Debug)]
pub struct Section<'m> {
    medium: &'m mut Medium,
    first: u64,
    size: u64,
    at: u64,
}

impl Section<'_> {
    /// Returns its bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns how much of `count` bytes lies before the end.
    fn room(&self, count: usize) -> usize {
        self.size.saturating_sub(self.at).min(count as u64) as usize
    }
}

impl Read for Section<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let count = self.room(bytes.len());
        self.medium.read_at(self.first + self.at, &mut bytes[..count])?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Write for Section<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = self.room(bytes.len());
        self.medium.write_at(self.first + self.at, &bytes[..count])?;
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Seek for Section<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let place = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = place.ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::MetadataExt as _;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_medium_keeps_what_was_written(
            writes in prop::collection::vec((0..5 * PAGE, 0..3 * PAGE, prop::option::of(1..255_u8)), 1..20),
        ) {
            let size = 5 * PAGE + 512;
            let file = tempfile::tempfile().expect("there is a place for temporary files");
            let copy = file.try_clone().expect("a file has several handles");
            let mut medium = Medium::in_file(file, size).expect("it can have the size");
            let mut model = vec![0; size as usize];
            for (at, count, value) in writes {
                let bytes = vec![value.unwrap_or(0); count as usize];
                let is_within = at + count <= size;
                prop_assert_eq!(medium.write_at(at, &bytes).is_ok(), is_within);
                if is_within {
                    model[at as usize..(at + count) as usize].copy_from_slice(&bytes);
                }
                // As if many other pages had been used.
                medium.store().expect("it can be written");
                medium.pages.clear();
            }
            let mut found = vec![1; size as usize];
            medium.read_at(0, &mut found).expect("it can be read");
            prop_assert!(found == model);
            medium.finish().expect("it can be written");
            copy.read_exact_at(&mut found, 0).expect("it has the size");
            prop_assert!(found == model);
        }
    }

    #[test]
    fn what_is_zero_takes_no_room() {
        let file = tempfile::NamedTempFile::new().expect("there is a place for temporary files");
        let mut medium = Medium::in_file(file.reopen().expect("it is there"), 1 << 30).expect("it can have the size");
        for at in 0..64 {
            medium.write_at(at << 20, &[0; 1 << 20]).expect("it can be written");
        }
        medium.write_at(1 << 20, b"text").expect("it can be written");
        medium.write_at(1 << 20, &[0; 4]).expect("it can be written");
        assert_eq!(medium.pages.len(), 1);
        medium.write_at(512 << 20, b"text").expect("it can be written");
        medium.finish().expect("it can be written");
        let metadata = file.path().metadata().expect("it is there");
        assert_eq!(metadata.len(), 1 << 30);
        assert!(metadata.blocks() * 512 <= 4 * PAGE, "{} times 512 bytes", metadata.blocks());
    }

    #[test]
    fn many_pages_go_to_the_file() {
        let file = tempfile::tempfile().expect("there is a place for temporary files");
        let pages = 3 * MAX_PAGES as u64;
        let mut medium = Medium::in_file(file, pages * PAGE).expect("it can have the size");
        for page in 0..pages {
            medium.write_at(page * PAGE + 7, &page.to_le_bytes()).expect("it can be written");
            assert!(medium.pages.len() <= MAX_PAGES);
        }
        for page in 0..pages {
            let mut bytes = [0; 8];
            medium.read_at(page * PAGE + 7, &mut bytes).expect("it can be read");
            assert_eq!(u64::from_le_bytes(bytes), page);
        }
    }
}
