//! The sectors that are in memory: a bounded cache of what is on the medium, and over it what the
//! operation under way has changed.

use crate::BLOCK;
use crate::error::Error;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The most units that are read at once.
const MOST_READ: u32 = 64;
/// The bytes of the table that one part of an operation changes at most: as many on a medium with
/// large units as on one with small ones, so that they take no more memory there.
const MOST_CHANGED: usize = 64 * BLOCK;
/// Bytes in memory that are noted of a unit at most, besides its own.
const NOTED: usize = 128;
/// How often a changed unit is in memory at most while it is written: as an earlier stage of the
/// attempt; in a run, which may have grown to twice its length; and in the caller's hands.
const COPIES: usize = 4;
/// The units that are read when the first one of an operation is missing.
const FIRST_READ: u32 = 8;

/// The reason why an attempt ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A unit is not in memory ([`Pages::missing`] says which): read it, and try again.
    Missing,
    /// The operation fails.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

/// A unit in the cache: as it is on the medium, once all writes are done that were made of it.
#[derive(Debug)]
struct Page {
    number: u64,
    bytes: Box<[u8]>,
    /// The operation that needed it last.
    epoch: u64,
}

/// Units in memory. A unit is what the device reads and writes at once: 512 bytes or more.
#[derive(Debug)]
pub(crate) struct Pages {
    unit: usize,
    capacity: usize,
    pages: Vec<Page>,
    index: BTreeMap<u64, usize>,
    /// The page that was used last.
    last: usize,
    epoch: u64,
    /// The units that the attempt has written since its last stage ended.
    overlay: BTreeMap<u64, Box<[u8]>>,
    /// The units that its earlier stages have written.
    staged: BTreeMap<u64, Box<[u8]>>,
    /// The unit that the attempt lacked.
    missing: Option<u64>,
    /// How many units are read next.
    ahead: u32,
}

impl Pages {
    /// Creates an empty cache of `capacity` units of `unit` bytes.
    pub(crate) fn new(unit: usize, capacity: usize) -> Self {
        Self {
            unit,
            capacity: capacity.max(2 * MOST_READ as usize),
            pages: Vec::new(),
            index: BTreeMap::new(),
            last: 0,
            epoch: 0,
            overlay: BTreeMap::new(),
            staged: BTreeMap::new(),
            missing: None,
            ahead: FIRST_READ,
        }
    }

    /// Returns the bytes of a unit.
    pub(crate) fn unit(&self) -> usize {
        self.unit
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        self.index.clear();
        self.abandon();
    }

    /// Begins an operation, or a part of one that is written by itself: what earlier ones needed
    /// may leave the cache.
    pub(crate) fn begin(&mut self) {
        self.epoch += 1;
        self.ahead = FIRST_READ;
        self.abandon();
    }

    /// Lets what was needed so far leave the cache.
    pub(crate) fn release(&mut self) {
        self.epoch += 1;
    }

    /// Throws away what the attempt has written.
    pub(crate) fn abandon(&mut self) {
        self.overlay.clear();
        self.staged.clear();
        self.missing = None;
    }

    /// Throws it away, but not which unit it lacked.
    pub(crate) fn abandon_attempt(&mut self) {
        self.overlay.clear();
        self.staged.clear();
    }

    /// Returns the memory in which the cache fills while so many units are changed, or none, and a
    /// read is under way: what was changed is thrown away before anything is read. It is needed in
    /// pieces, none longer than a run: returns how many, and the bytes of each.
    pub(crate) fn memory_for(&self, changed: usize) -> (usize, usize) {
        let run = MOST_READ as usize;
        let cache = self.capacity.saturating_sub(self.pages.len()).div_ceil(run);
        (cache + (COPIES * changed).div_ceil(run).max(1), run * (self.unit + NOTED))
    }

    /// Returns how many units of the table one part of an operation changes at most, but for
    /// copies of the last entry that it changes.
    pub(crate) fn most_changed(&self) -> usize {
        MOST_CHANGED / self.unit
    }

    /// Returns whether as much is changed as one part of an operation changes of the table.
    pub(crate) fn has_changed_most(&self) -> bool {
        self.overlay.len() >= self.most_changed()
    }

    /// Returns how many units the present stage has written.
    pub(crate) fn changed(&self) -> usize {
        self.overlay.len()
    }

    /// Returns units that the attempt's stages have changed: as they were, and as they are.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (u64, Option<&[u8]>, &[u8])> {
        self.staged.iter().map(|(number, bytes)| (*number, self.before(*number), &**bytes))
    }

    /// Returns whether the attempt lacked a unit.
    pub(crate) fn lacks(&self) -> bool {
        self.missing.is_some()
    }

    /// Takes it that the attempt does not lack the unit after all.
    pub(crate) fn forgive(&mut self) {
        self.missing = None;
    }

    /// Returns the place of a unit in the cache.
    fn find(&mut self, number: u64) -> Option<usize> {
        if self.pages.get(self.last).is_none_or(|page| page.number != number) {
            self.last = *self.index.get(&number)?;
        }
        let page = self.pages.get_mut(self.last)?;
        page.epoch = self.epoch;
        Some(self.last)
    }

    /// Returns a unit as the attempt sees it.
    fn see(&mut self, number: u64) -> Result<&[u8], Stop> {
        if self.missing.is_some() {
            return Err(Stop::Missing);
        }
        if !self.overlay.is_empty() || !self.staged.is_empty() {
            if self.overlay.contains_key(&number) {
                return Ok(self.overlay.get(&number).map_or(&[], |bytes| bytes));
            }
            if self.staged.contains_key(&number) {
                return Ok(self.staged.get(&number).map_or(&[], |bytes| bytes));
            }
        }
        match self.find(number) {
            Some(place) => Ok(self.pages.get(place).map_or(&[], |page| &page.bytes)),
            None => {
                self.missing = Some(number);
                Err(Stop::Missing)
            }
        }
    }

    /// Returns the bytes from `at` on within one unit.
    pub(crate) fn read(&mut self, at: u64, length: usize) -> Result<&[u8], Stop> {
        let (number, offset) = (at / self.unit as u64, (at % self.unit as u64) as usize);
        self.see(number)?.get(offset..offset + length).ok_or(Stop::Fail(Error::Corrupt))
    }

    /// Writes bytes from `at` on within one unit.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Stop> {
        let (number, offset) = (at / self.unit as u64, (at % self.unit as u64) as usize);
        if self.missing.is_some() {
            return Err(Stop::Missing);
        }
        if !self.overlay.contains_key(&number) {
            if self.overlay.len() + self.staged.len() >= self.capacity {
                return Err(Error::FolderTooLong.into());
            }
            let whole = bytes.len() == self.unit;
            let copy: Box<[u8]> = if whole { bytes.into() } else { self.see(number)?.into() };
            self.overlay.insert(number, copy);
        }
        let place = self.overlay.get_mut(&number).and_then(|page| page.get_mut(offset..offset + bytes.len()));
        place.ok_or(Stop::Fail(Error::Corrupt))?.copy_from_slice(bytes);
        Ok(())
    }

    /// Returns a unit as it was before the attempt, if it is in the cache.
    pub(crate) fn before(&self, number: u64) -> Option<&[u8]> {
        let place = *self.index.get(&number)?;
        self.pages.get(place).map(|page| &*page.bytes)
    }

    /// Returns the numbers of the units that the present stage has written.
    pub(crate) fn written(&self) -> impl Iterator<Item = u64> {
        self.overlay.keys().copied()
    }

    /// Ends a stage of the attempt: returns what it has changed, by the numbers of the units. Units
    /// that are `fresh` count as changed if the cache says that they are not: they may have held a
    /// file's data since, which goes by the cache.
    pub(crate) fn end_stage(&mut self, fresh: &BTreeSet<u64>) -> BTreeMap<u64, Box<[u8]>> {
        let mut changed = core::mem::take(&mut self.overlay);
        changed.retain(|number, bytes| {
            let cached = || self.before(*number).filter(|_| !fresh.contains(number));
            let earlier = self.staged.get(number).map(|page| &**page).or_else(cached);
            earlier != Some(&**bytes)
        });
        for (number, bytes) in &changed {
            self.staged.insert(*number, bytes.clone());
        }
        changed
    }

    /// Takes what all stages of the attempt have made of units as what is on the medium.
    pub(crate) fn commit(&mut self) {
        for (number, bytes) in core::mem::take(&mut self.staged) {
            // If there is no room, it is read again when it is needed.
            let _ = self.put(number, bytes);
        }
        self.overlay.clear();
    }

    /// Returns what to read so that the attempt gets further: the first unit, and how many, all
    /// within `end_of_area` of the missing one.
    pub(crate) fn wanted(&mut self, end_of_area: impl Fn(u64) -> u64) -> Option<(u64, u32)> {
        let first = self.missing?;
        let unit = self.unit as u64;
        let end = end_of_area(first * unit).div_ceil(unit).max(first + 1);
        let most = u64::from(self.ahead).min(end - first);
        let count = (1..most).take_while(|further| !self.index.contains_key(&(first + further))).count() as u32 + 1;
        self.ahead = (self.ahead * 2).min(MOST_READ);
        Some((first, count))
    }

    /// Takes units that were read.
    pub(crate) fn give(&mut self, first: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut lacking = self.missing.take();
        for (number, unit) in (first..).zip(bytes.chunks_exact(self.unit)) {
            let fits = self.put(number, unit.into());
            if lacking == Some(number) {
                fits?;
                lacking = None;
            }
        }
        if lacking.is_some() { Err(Error::Failed) } else { Ok(()) }
    }

    /// Puts a unit into the cache, in place of one that the present operation does not need.
    fn put(&mut self, number: u64, bytes: Box<[u8]>) -> Result<(), Error> {
        let page = Page { number, bytes, epoch: self.epoch };
        if let Some(place) = self.index.get(&number).and_then(|place| self.pages.get_mut(*place)) {
            *place = page;
            return Ok(());
        }
        if self.pages.len() < self.capacity {
            self.index.insert(number, self.pages.len());
            self.pages.push(page);
            return Ok(());
        }
        let oldest = (0..).zip(&self.pages).min_by_key(|(_, page)| page.epoch);
        let Some((place, old)) = oldest.filter(|(_, page)| page.epoch < self.epoch) else {
            return Err(Error::FolderTooLong);
        };
        self.index.remove(&old.number);
        self.index.insert(number, place);
        if let Some(slot) = self.pages.get_mut(place) {
            *slot = page;
        }
        Ok(())
    }
}

/// Bytes that are written to the medium in one piece.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) block: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Makes runs of units.
pub(crate) fn runs(units: impl IntoIterator<Item = (u64, Box<[u8]>)>, unit: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let blocks = (unit / BLOCK) as u64;
    for (number, bytes) in units {
        let most = MOST_READ as usize * unit;
        match runs.last_mut() {
            Some(run) if run.block + (run.bytes.len() / BLOCK) as u64 == number * blocks && run.bytes.len() < most => {
                run.bytes.extend_from_slice(&bytes);
            }
            _ => runs.push(Run { block: number * blocks, bytes: bytes.into_vec() }),
        }
    }
    runs
}
