//! The volume as `lamfat` sees it: bytes to read, write and seek in, out of pages.
//!
//! It is shown nothing that could lead it astray. Of the boot sector and the information sector it
//! sees ones that are made of checked fields; of the table only links within the volume; and it is
//! given no folder whose chain has not been walked before ([`crate::folder`]).

use crate::BLOCK;
use crate::error::Error;
use crate::file::Taken;
use crate::geometry::{Area, Geometry};
use crate::pages::{Pages, Stop};
use crate::table::{self, END, Link, Search};
use crate::time::{Now, Stamp};
use alloc::vec::Vec;
use core::cell::RefCell;
use lamfat::{FileSystem, FsOptions, IoBase, IoError, LossyOemCpConverter, Read, Seek, SeekFrom, Write};

/// The most reads and writes of `lamfat` in one attempt: more than it needs for a folder of
/// [`crate::MAX_FOLDER_ENTRIES`].
const MOST_ACCESSES: u32 = 8 << 20;

/// The things that operations work on.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) pages: Pages,
    pub(crate) geometry: Geometry,
    /// Free clusters that are promised to files.
    pub(crate) taken: Taken,
    pub(crate) search: Search,
    /// Free clusters that the operation has found one by one, and how many of them the attempt was
    /// given. Those that parts of it have used are not free any more.
    spare: Vec<u32>,
    given: usize,
    /// Free clusters that are promised to the file which the attempt names, for its folder to grow
    /// by, and that it has not used: the last ones first.
    pub(crate) lent: Vec<u32>,
    pub(crate) now: Stamp,
    /// Where the last read has ended.
    pub(crate) read_end: u64,
    /// Reads and writes of this attempt.
    accesses: u32,
    /// The sectors that are shown in place of the reserved ones.
    shown: ([u8; BLOCK], [u8; BLOCK]),
}

impl Session {
    pub(crate) fn new(pages: Pages, geometry: Geometry, hint: u32) -> Self {
        Self {
            pages,
            geometry,
            taken: Taken::default(),
            search: Search::new(hint),
            spare: Vec::new(),
            given: 0,
            lent: Vec::new(),
            now: Stamp::from_unix(0),
            read_end: 0,
            accesses: 0,
            shown: geometry.shown(hint),
        }
    }

    /// Begins an operation at this time.
    pub(crate) fn begin(&mut self, now: Stamp) {
        self.now = now;
        self.pages.begin();
        self.spare.clear();
    }

    /// Begins an attempt: it is given the free clusters again that an earlier one was given.
    pub(crate) fn begin_attempt(&mut self) {
        self.given = 0;
        self.lent.clear();
    }

    /// Returns a free cluster, another one each time in one attempt.
    pub(crate) fn next_free(&mut self) -> Result<u32, Stop> {
        if let Some(cluster) = self.lent.pop() {
            return Ok(cluster);
        }
        let Self { pages, geometry, taken, search, spare, .. } = self;
        while let Some(cluster) = spare.get(self.given).copied() {
            if !taken.has(cluster) && table::get(pages, geometry, cluster)? == Link::Free {
                self.given += 1;
                return Ok(cluster);
            }
            spare.remove(self.given);
        }
        let (free, _) = search.run(pages, geometry, 1, |cluster| taken.has(cluster) || spare.contains(&cluster))?;
        spare.push(free);
        self.given += 1;
        Ok(free)
    }

    /// Finds a free cluster, which the next allocation of `lamfat` will find first.
    pub(crate) fn show_free(&mut self) -> Result<(), Stop> {
        let free = self.next_free()?;
        self.shown = self.geometry.shown(free);
        Ok(())
    }

    /// Fills a cluster with zeroes.
    pub(crate) fn clear(&mut self, cluster: u32) -> Result<(), Stop> {
        let zeroes = alloc::vec![0; self.pages.unit()];
        let first = self.geometry.place(cluster);
        let places = (first..first + u64::from(self.geometry.cluster)).step_by(self.pages.unit());
        places.into_iter().try_for_each(|at| self.pages.write(at, &zeroes))
    }

    /// Writes whether the volume is being written.
    pub(crate) fn mark(&mut self, is_written: bool) -> Result<(), Stop> {
        let at = self.geometry.mark_at();
        let old = self.pages.read(at, 1)?.first().copied().unwrap_or(0);
        self.pages.write(at, &[old & !1 | u8::from(is_written)])
    }

    /// Writes the information sector: the count of free clusters, if it is known, and where to
    /// search. What is no such sector is left alone.
    pub(crate) fn put_information(&mut self, free: Option<u32>) -> Result<(), Stop> {
        let Some(at) = self.geometry.information else { return Ok(()) };
        if *self.pages.read(at, 4)? == *b"RRaA" && *self.pages.read(at + 484, 4)? == *b"rrAa" {
            self.pages.write(at + 488, &free.unwrap_or(u32::MAX).to_le_bytes())?;
            self.pages.write(at + 492, &self.search.cursor().to_le_bytes())?;
        }
        Ok(())
    }

    /// Returns how many more clusters are free after the attempt than before it.
    pub(crate) fn freed(&self) -> i32 {
        let (unit, width) = (self.pages.unit() as u64, self.geometry.entry_bytes());
        let first = self.geometry.first_table() + 2 * width;
        let end = self.geometry.first_table() + u64::from(self.geometry.end_cluster) * width;
        let mut freed = 0;
        for (number, old, new) in self.pages.changes() {
            let Some(old) = old else { continue };
            let (from, to) = (first.max(number * unit), end.min((number + 1) * unit));
            let mut at = from;
            while at < to {
                let within = (at % unit) as usize..(at % unit + width) as usize;
                let is_free = |bytes: &[u8]| {
                    bytes.get(within.clone()).is_some_and(|bytes| table::decode(&self.geometry, bytes) == Link::Free)
                };
                freed += i32::from(is_free(new)) - i32::from(is_free(old));
                at += width;
            }
        }
        freed
    }

    /// Counts an access.
    fn count(&mut self) -> Result<(), Stop> {
        self.accesses += 1;
        if self.accesses > MOST_ACCESSES { Err(Error::Corrupt.into()) } else { Ok(()) }
    }

    /// Reads bytes into `buffer`, from within one page; returns how many.
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize, Stop> {
        self.count()?;
        let within = self.pages.unit() - (at % self.pages.unit() as u64) as usize;
        let length = buffer.len().min(within);
        let Some(buffer) = buffer.get_mut(..length) else { return Ok(0) };
        match self.geometry.area(at) {
            Area::Reserved => self.read_shown(at, buffer),
            Area::Table => self.read_table(at, buffer)?,
            Area::Root | Area::Data if at + length as u64 <= self.geometry.end() => {
                buffer.copy_from_slice(self.pages.read(at, length)?);
            }
            Area::Root | Area::Data => return Err(Error::Corrupt.into()),
        }
        self.read_end = at + length as u64;
        Ok(length)
    }

    /// Reads the boot sector and the information sector that are shown.
    fn read_shown(&self, at: u64, buffer: &mut [u8]) {
        let sector = u64::from(self.geometry.sector);
        for (place, byte) in (at..).zip(buffer) {
            let (shown, from) = if place < sector { (&self.shown.0, 0) } else { (&self.shown.1, sector) };
            *byte = shown.get((place - from) as usize).copied().unwrap_or(0);
        }
    }

    /// Reads an entry of the table. A cluster that is promised to a file looks like the last one of
    /// a chain.
    fn read_table(&mut self, at: u64, buffer: &mut [u8]) -> Result<(), Stop> {
        let width = self.geometry.entry_bytes();
        let bytes = self.pages.read(at, buffer.len())?;
        buffer.copy_from_slice(bytes);
        let offset = at - self.geometry.first_table();
        if offset.is_multiple_of(width) && buffer.len() as u64 == width {
            match table::decode(&self.geometry, buffer) {
                Link::Bad => return Err(Error::Corrupt.into()),
                Link::Free if self.taken.has((offset / width) as u32) => {
                    buffer.copy_from_slice(END.to_le_bytes().get(..width as usize).unwrap_or_default());
                    if !self.geometry.is_fat32 {
                        buffer.fill(0xff);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes bytes within one page; returns how many.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<usize, Stop> {
        self.count()?;
        let within = self.pages.unit() - (at % self.pages.unit() as u64) as usize;
        let bytes = bytes.get(..bytes.len().min(within)).unwrap_or_default();
        match self.geometry.area(at) {
            // The mark and the information sector are kept by the volume.
            Area::Reserved => {}
            _ if at + bytes.len() as u64 <= self.geometry.end() => self.pages.write(at, bytes)?,
            _ => return Err(Error::Corrupt.into()),
        }
        Ok(bytes.len())
    }
}

impl IoError for Stop {
    fn is_interrupted(&self) -> bool {
        false
    }

    fn new_unexpected_eof_error() -> Self {
        Self::Fail(Error::Corrupt)
    }

    fn new_write_zero_error() -> Self {
        Self::Fail(Error::FolderFull)
    }
}

/// The position of one reader and writer in a session.
#[derive(Debug)]
pub(crate) struct Medium<'a> {
    session: &'a RefCell<Session>,
    position: u64,
}

impl IoBase for Medium<'_> {
    type Error = Stop;
}

impl Read for Medium<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Stop> {
        let length = self.session.borrow_mut().read(self.position, buffer)?;
        self.position += length as u64;
        Ok(length)
    }
}

impl Write for Medium<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Stop> {
        let length = self.session.borrow_mut().write(self.position, bytes)?;
        self.position += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

impl Seek for Medium<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Stop> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.session.borrow().geometry.end().checked_add_signed(by),
        };
        self.position = position.ok_or(Stop::Fail(Error::Corrupt))?;
        Ok(self.position)
    }
}

pub(crate) type Fs<'a> = FileSystem<Medium<'a>, Now, LossyOemCpConverter>;

/// Opens the volume anew, so that nothing is left of an earlier attempt.
pub(crate) fn open(session: &RefCell<Session>) -> Result<Fs<'_>, Stop> {
    let now = {
        let mut session = session.borrow_mut();
        session.accesses = 0;
        session.now
    };
    let options = FsOptions::new().time_provider(Now(now)).strict(false);
    FileSystem::new(Medium { session, position: 0 }, options).map_err(stop)
}

/// Returns what an error of `lamfat` means for the operation.
pub(crate) fn stop(error: lamfat::Error<Stop>) -> Stop {
    Stop::Fail(match error {
        lamfat::Error::Io(stop) => return stop,
        lamfat::Error::WriteZero => Error::FolderFull,
        lamfat::Error::NotFound => Error::NotFound,
        lamfat::Error::AlreadyExists => Error::Exists,
        lamfat::Error::DirectoryIsNotEmpty => Error::NotEmpty,
        lamfat::Error::NotEnoughSpace => Error::Full,
        lamfat::Error::InvalidFileNameLength | lamfat::Error::UnsupportedFileNameCharacter => Error::BadPath,
        _ => Error::Corrupt,
    })
}
