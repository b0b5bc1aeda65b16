//! After a cut: what it can leave is found and repaired.
//!
//! All folders are walked and the clusters that they name noted; then the table is read. What a cut
//! leaves, as written here, is one of these, and is repaired so:
//!
//! - clusters that nothing names: they become free;
//! - a file whose chain is longer than its size: the rest becomes free;
//! - two names of one file, of which one was to become the other: the old one goes;
//! - a moved folder whose `..` names where it was: it is corrected;
//! - parts of a long name without a short one: they go;
//! - a second copy of the table that is not like the first: it is copied.
//!
//! If anything else is wrong, somebody else has caused it, and nothing is changed. So it is if
//! there is too little memory for the sets of clusters, which are as large as the medium says, and
//! for all that may be needed beside them: there are sizes at which they alone would take the rest.

use crate::entry::{ENTRY, Raw, VOLUME, checksum};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::operation::{Answer, Recovered};
use crate::order::Stages;
use crate::pages::{Pages, Stop};
use crate::table::{self, END, Link};
use crate::volume::{Mounted, Outcome, Phase};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The most repairs of each kind, but for clusters.
const MOST_REPAIRS: usize = 64;
/// The most folders within each other: no path of 4096 bytes, which is Linux's longest, has more.
const MOST_DEPTH: usize = 2048;
/// The most parts of a long name.
const MOST_PARTS: usize = 20;
/// Units that are changed beside those of the table: the last entry's copy, and the volume's mark.
const BESIDE: usize = 2;
/// Bytes of memory for all that is small: lists of repairs, and what the caller keeps of requests.
const SMALL: usize = 64 * 1024;

/// A set of clusters.
#[derive(Debug, Default)]
struct Clusters(Vec<u64>);

impl Clusters {
    /// Creates an empty set for clusters below `end`, if there is the memory.
    fn new(end: u32) -> Option<Self> {
        let mut words = Vec::new();
        let count = end as usize / 64 + 1;
        #[cfg(test)]
        room::take(count * size_of::<u64>())?;
        words.try_reserve_exact(count).ok()?;
        words.resize(count, 0);
        Some(Self(words))
    }

    fn has(&self, cluster: u32) -> bool {
        self.0.get(cluster as usize / 64).is_some_and(|word| word >> (cluster % 64) & 1 != 0)
    }

    /// Adds a cluster. Returns false if it was there.
    fn add(&mut self, cluster: u32) -> bool {
        let is_new = !self.has(cluster);
        if let Some(word) = self.0.get_mut(cluster as usize / 64) {
            *word |= 1 << (cluster % 64);
        }
        is_new
    }
}

#[cfg(test)]
impl Drop for Clusters {
    fn drop(&mut self) {
        room::give(self.0.len() * size_of::<u64>());
    }
}

/// Returns whether there is the memory to change so many units, and for all that is small.
fn has_memory_for(changed: usize, pages: &Pages) -> bool {
    let (count, bytes) = pages.memory_for(changed);
    #[cfg(test)]
    if !room::has(count * bytes + SMALL) {
        return false;
    }
    // Have all of it at the same time, then give it back.
    let mut held: Vec<Vec<u8>> = Vec::new();
    let is_listed = held.try_reserve_exact(count + 1).is_ok();
    let mut has = |bytes| {
        held.push(Vec::new());
        held.last_mut().is_some_and(|piece| piece.try_reserve_exact(bytes).is_ok())
    };
    is_listed && has(SMALL) && (0..count).all(|_| has(bytes))
}

/// The memory that tests have.
#[cfg(test)]
pub(crate) mod room {
    use core::cell::Cell;

    std::thread_local! {
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX / 2) };
        static TAKEN: Cell<usize> = const { Cell::new(0) };
        /// The least that was left when something was asked for.
        static LEAST: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// From now on this thread has so many bytes.
    pub(crate) fn limit(bytes: usize) {
        LEFT.set(bytes);
        LEAST.set(bytes);
        TAKEN.set(0);
    }

    /// Returns the least that was left of them.
    pub(crate) fn least() -> usize {
        LEAST.get()
    }

    pub(super) fn has(bytes: usize) -> bool {
        LEAST.set(LEAST.get().min(LEFT.get().saturating_sub(bytes)));
        LEFT.get() >= bytes
    }

    pub(super) fn take(bytes: usize) -> Option<()> {
        TAKEN.set(TAKEN.get() + 1);
        assert!(TAKEN.get() < 10_000, "recovery begins again and again");
        LEFT.set(LEFT.get().checked_sub(bytes)?);
        Some(())
    }

    pub(super) fn give(bytes: usize) {
        LEFT.set(LEFT.get() + bytes);
    }
}

/// A chain that is walked.
#[derive(Clone, Copy, Debug)]
struct Chain {
    cluster: u32,
    /// How many clusters the file's size asks for from this one on; `None` for a folder or an empty
    /// file, whose chain may have any length.
    left: Option<u32>,
}

/// How far the walk through a folder has come.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// Its first cluster; 0 if it is the root.
    first: u32,
    /// The folder that it is in.
    parent: u32,
    /// The cluster that is read; 0 in the root of a FAT16.
    cluster: u32,
    /// The offset there.
    offset: u32,
}

/// The part of the volume that is looked at.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Folders,
    /// Names are repaired.
    Repair,
    /// The table, from this entry on.
    Table(u32),
}

/// How far recovery has come.
#[derive(Debug)]
pub(crate) struct Walk {
    stage: Stage,
    used: Clusters,
    /// First clusters of files and folders.
    firsts: Clusters,
    /// Where the walk goes on in the folders around the one that is walked, the innermost last. A
    /// folder is walked as soon as its name is found: so memory bounds the depth of folders alone,
    /// not how many there are.
    around: Vec<Position>,
    place: Option<Position>,
    chain: Option<Chain>,
    /// First clusters of what has two names, of which the one that was found first goes.
    hunted: Vec<u32>,
    /// Whether these were known when the walk began.
    is_hunt: bool,
    /// Parts of a long name that wait for the short one: where they are, and its checksum.
    parts: Vec<(u64, u8)>,
    /// Entries that are removed.
    removed: Vec<u64>,
    /// Entries that are the new names of something, and its first cluster.
    moved: Vec<(u64, u32)>,
    /// First clusters of what has two names.
    twice: Vec<u32>,
    /// Entries `..` that are to name this cluster.
    parents: Vec<(u64, u32)>,
    /// Clusters that become the last ones of their chains.
    ends: Vec<u32>,
    is_sound: bool,
    free: u32,
    found: Recovered,
}

impl Walk {
    /// Begins at the root; `None` if there is not enough memory.
    fn new(pages: &Pages, geometry: &Geometry) -> Option<Self> {
        let (mut used, firsts) = (Clusters::new(geometry.end_cluster)?, Clusters::new(geometry.end_cluster)?);
        let mut around = Vec::new();
        around.try_reserve_exact(MOST_DEPTH).ok()?;
        if !has_memory_for(pages.most_changed() + BESIDE, pages) {
            return None;
        }
        let root = geometry.root_cluster;
        used.add(0);
        Some(Self {
            stage: Stage::Folders,
            used,
            firsts,
            around,
            place: Some(Position { first: 0, parent: 0, cluster: root, offset: 0 }),
            chain: geometry.is_fat32.then_some(Chain { cluster: root, left: None }),
            hunted: Vec::new(),
            is_hunt: false,
            parts: Vec::new(),
            removed: Vec::new(),
            moved: Vec::new(),
            twice: Vec::new(),
            parents: Vec::new(),
            ends: Vec::new(),
            is_sound: true,
            free: 0,
            found: Recovered::default(),
        })
    }

    /// Adds a repair.
    fn repair<T>(list: &mut Vec<T>, one: T, is_sound: &mut bool) {
        if list.len() < MOST_REPAIRS {
            list.push(one);
        } else {
            *is_sound = false;
        }
    }

    /// Walks folders until they have ended, or something that no cut causes is found.
    fn walk(&mut self, pages: &mut Pages, geometry: &Geometry) -> Result<(), Stop> {
        while self.is_sound {
            if let Some(chain) = self.chain {
                self.chain = self.step(chain, pages, geometry)?;
            } else if let Some(place) = self.place {
                self.place = self.look(place, pages, geometry)?;
            } else if let Some(place) = self.around.pop() {
                self.place = Some(place);
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Notes a cluster of a chain, and returns what is left of it.
    fn step(&mut self, chain: Chain, pages: &mut Pages, geometry: &Geometry) -> Result<Option<Chain>, Stop> {
        let link = table::get(pages, geometry, chain.cluster)?;
        if !self.used.add(chain.cluster) {
            self.is_sound = false;
            return Ok(None);
        }
        let left = chain.left.map(|left| left - 1);
        match (link, left) {
            (Link::Next(_), Some(0)) => {
                Self::repair(&mut self.ends, chain.cluster, &mut self.is_sound);
                Ok(None)
            }
            (Link::Next(cluster), left) => Ok(Some(Chain { cluster, left })),
            (Link::End, None | Some(0)) => Ok(None),
            _ => {
                self.is_sound = false;
                Ok(None)
            }
        }
    }

    /// Looks at an entry, and returns where the next one is.
    fn look(&mut self, place: Position, pages: &mut Pages, geometry: &Geometry) -> Result<Option<Position>, Stop> {
        let (root, length) = geometry.root();
        let (at, end) = match place.cluster {
            0 => (root + u64::from(place.offset), length),
            cluster => (geometry.place(cluster) + u64::from(place.offset), geometry.cluster.into()),
        };
        if u64::from(place.offset) >= end {
            let next = match place.cluster {
                0 => None,
                cluster => table::next(pages, geometry, cluster)?,
            };
            if next.is_none() {
                self.drop_parts();
            }
            return Ok(next.map(|cluster| Position { cluster, offset: 0, ..place }));
        }
        let bytes = pages.read(at, ENTRY)?;
        let raw = Raw { at, bytes: bytes.try_into().map_err(|_| Error::Corrupt)? };
        if raw.bytes[0] == 0 {
            self.drop_parts();
            return Ok(None);
        }
        let next = Position { offset: place.offset + ENTRY as u32, ..place };
        let Some(first) = self.take(raw, &place, geometry) else { return Ok(Some(next)) };
        if self.around.len() >= MOST_DEPTH {
            self.is_sound = false;
            return Ok(None);
        }
        self.around.push(next);
        Ok(Some(Position { first, parent: place.first, cluster: first, offset: 0 }))
    }

    /// Takes an entry of a folder. Returns the first cluster of a folder that is to be walked.
    fn take(&mut self, raw: Raw, place: &Position, geometry: &Geometry) -> Option<u32> {
        if raw.bytes[0] == 0xe5 {
            self.drop_parts();
            return None;
        }
        if raw.bytes[11] & 0x3f == 0x0f {
            if raw.bytes[0] & 0x40 != 0 || self.parts.len() >= MOST_PARTS {
                self.drop_parts();
            }
            self.parts.push((raw.at, raw.bytes[13]));
            return None;
        }
        let sum = checksum(&raw.bytes[..11]);
        if self.parts.iter().any(|(_, other)| *other != sum) {
            self.drop_parts();
        }
        let parts = core::mem::take(&mut self.parts);
        if raw.bytes[11] & VOLUME != 0 {
            return None;
        }
        let first = raw.cluster(geometry);
        if raw.bytes[0] == b'.' {
            let is_parent = raw.bytes[1] == b'.';
            let expected = if is_parent { place.parent } else { place.first };
            if first != expected {
                if is_parent {
                    Self::repair(&mut self.parents, (raw.at, expected), &mut self.is_sound);
                } else {
                    self.is_sound = false;
                }
            }
            return None;
        }
        let is_other_moved = self.moved.iter().any(|(_, other)| *other == first);
        if raw.is_moved() {
            Self::repair(&mut self.moved, (raw.at, first), &mut self.is_sound);
        }
        if first == 0 && raw.size() == 0 && !raw.is_folder() {
            return None;
        }
        if !geometry.has(first) {
            self.is_sound = false;
            return None;
        }
        let is_hunted = self.is_hunt && !raw.is_moved() && self.hunted.contains(&first);
        if is_hunted || !self.firsts.add(first) {
            let may_be = is_hunted || raw.is_moved() || is_other_moved;
            if !may_be || self.twice.contains(&first) {
                // A move makes two names, of which one says that it is the new one.
                self.is_sound = false;
                return None;
            }
            Self::repair(&mut self.twice, first, &mut self.is_sound);
            if raw.is_moved() && !self.is_hunt {
                // The other one is the old name: it goes, in a walk that knows that.
                Self::repair(&mut self.hunted, first, &mut self.is_sound);
                return None;
            }
            for (at, _) in parts {
                Self::repair(&mut self.removed, at, &mut self.is_sound);
            }
            Self::repair(&mut self.removed, raw.at, &mut self.is_sound);
            return None;
        }
        let clusters = u64::from(raw.size()).div_ceil(geometry.cluster.into()) as u32;
        self.chain = Some(Chain { cluster: first, left: (!raw.is_folder() && clusters > 0).then_some(clusters) });
        raw.is_folder().then_some(first)
    }

    /// Has parts of a long name removed that have no short one.
    fn drop_parts(&mut self) {
        for (at, _) in core::mem::take(&mut self.parts) {
            Self::repair(&mut self.removed, at, &mut self.is_sound);
        }
    }

    /// Clears the marks of moved names. Call it after the old names are removed: without a mark,
    /// recovery could not tell which of two names is the old one.
    fn clear_moved_marks(&mut self, pages: &mut Pages) -> Result<(), Stop> {
        for (at, _) in &self.moved {
            if self.removed.contains(at) {
                continue;
            }
            let bytes = pages.read(*at, ENTRY)?;
            let mut raw = Raw { at: *at, bytes: bytes.try_into().map_err(|_| Error::Corrupt)? };
            raw.set_moved(false);
            pages.write(*at, &raw.bytes)?;
        }
        Ok(())
    }

    /// Returns whether there is the memory to repair what was found in folders.
    fn can_repair(&self, pages: &Pages, geometry: &Geometry) -> bool {
        let unit = pages.unit() as u64;
        let entries = self.removed.iter().copied().chain(self.parents.iter().map(|(at, _)| *at));
        let ends = self.ends.iter().flat_map(|cluster| {
            let offset = u64::from(*cluster) * geometry.entry_bytes();
            geometry.tables().map(move |table| table + offset)
        });
        let repaired: BTreeSet<u64> = entries.chain(ends).map(|at| at / unit).collect();
        // Marks are cleared in a stage of their own.
        let cleared: BTreeSet<u64> = self.moved.iter().map(|(at, _)| at / unit).collect();
        has_memory_for(repaired.len() + cleared.len() + BESIDE, pages)
    }

    /// Repairs what was found in folders, but for [`Self::clear_moved_marks`].
    fn repair_names(&mut self, pages: &mut Pages, geometry: &Geometry) -> Result<(), Stop> {
        for at in &self.removed {
            pages.write(*at, &[0xe5])?;
        }
        for (at, parent) in &self.parents {
            let bytes = pages.read(*at, ENTRY)?;
            let mut raw = Raw { at: *at, bytes: bytes.try_into().map_err(|_| Error::Corrupt)? };
            raw.set_content(*parent, 0, geometry);
            pages.write(*at, &raw.bytes)?;
        }
        for cluster in &self.ends {
            table::set(pages, geometry, *cluster, END)?;
        }
        Ok(())
    }

    /// Looks at the entries of a unit of the table, from one on. If nothing is to be repaired
    /// there, returns the entry behind them, and how many of them are free.
    fn skim(&self, from: u32, pages: &mut Pages, geometry: &Geometry) -> Result<Option<(u32, u32)>, Stop> {
        let width = geometry.entry_bytes();
        let offset = u64::from(from) * width;
        let at = geometry.first_table() + offset;
        let in_unit = pages.unit() as u64 - at % pages.unit() as u64;
        let count = (in_unit / width).min(u64::from(geometry.end_cluster - from)) as u32;
        let mut free = 0;
        let first: Vec<u8> = pages.read(at, count as usize * width as usize)?.into();
        for (cluster, bytes) in (from..).zip(first.chunks_exact(width as usize)) {
            match table::decode(geometry, bytes) {
                _ if !geometry.has(cluster) => {}
                Link::Free => free += 1,
                Link::Next(_) | Link::End if !self.used.has(cluster) => return Ok(None),
                _ => {}
            }
        }
        if let Some(second) = geometry.second_table() {
            let place = second + offset;
            let is_in_unit = first.len() as u64 <= pages.unit() as u64 - place % pages.unit() as u64;
            if !is_in_unit || pages.read(place, first.len())? != first {
                return Ok(None);
            }
        }
        Ok(Some((from + count, free)))
    }

    /// Compares an entry of the table with its copy, and with what was noted.
    fn check(&mut self, cluster: u32, pages: &mut Pages, geometry: &Geometry) -> Result<(), Stop> {
        let width = geometry.entry_bytes();
        let offset = u64::from(cluster) * width;
        let mut bytes = [0; 4];
        let bytes = &mut bytes[..width as usize];
        bytes.copy_from_slice(pages.read(geometry.first_table() + offset, width as usize)?);
        if let Some(second) = geometry.second_table()
            && pages.read(second + offset, width as usize)? != bytes
        {
            pages.write(second + offset, bytes)?;
            self.found.copied += 1;
        }
        if !geometry.has(cluster) {
            return Ok(());
        }
        match table::decode(geometry, bytes) {
            Link::Free => self.free += 1,
            Link::Next(_) | Link::End if !self.used.has(cluster) => {
                table::set(pages, geometry, cluster, 0)?;
                self.found.freed += 1;
                self.free += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the table from an entry on, and repairs it, as far as is written at once. Returns
    /// where it goes on, if it does.
    fn check_table(&mut self, from: u32, pages: &mut Pages, geometry: &Geometry) -> Result<Option<u32>, Stop> {
        let mut cluster = from;
        while cluster < geometry.end_cluster {
            if pages.has_changed_most() {
                return Ok(Some(cluster));
            }
            let before = (self.found, self.free);
            let looked = match self.skim(cluster, pages, geometry) {
                Ok(Some((next, free))) => {
                    (cluster, self.free) = (next, self.free + free);
                    continue;
                }
                Ok(None) => self.check(cluster, pages, geometry),
                Err(stop) => Err(stop),
            };
            match looked {
                Ok(()) => cluster += 1,
                Err(Stop::Missing) => {
                    (self.found, self.free) = before;
                    if pages.changed() == 0 {
                        self.stage = Stage::Table(cluster);
                        pages.release();
                        return Err(Stop::Missing);
                    }
                    // The repairs so far are written first. The entry was not touched: its second
                    // copy would have to be there for that.
                    pages.forgive();
                    return Ok(Some(cluster));
                }
                Err(stop) => return Err(stop),
            }
        }
        Ok(None)
    }
}

impl Mounted {
    /// Goes on with recovery.
    pub(crate) fn recover(&mut self) -> Result<Outcome, Stop> {
        if self.files.iter().next().is_some() {
            // It would give clusters free that nothing names and somebody reads.
            return Err(Error::NotReady.into());
        }
        let session = self.session.get_mut();
        let geometry = session.geometry;
        if self.recovery.is_none() {
            self.recovery = Walk::new(&session.pages, &geometry);
        }
        let Some(walk) = &mut self.recovery else { return Ok(Outcome::end(Answer::Recovered(Recovered::default()))) };
        let mut stages = Stages::default();
        match walk.stage {
            Stage::Folders => {
                match walk.walk(&mut session.pages, &geometry) {
                    Err(Stop::Fail(_)) => walk.is_sound = false,
                    Err(Stop::Missing) => {
                        session.pages.release();
                        return Err(Stop::Missing);
                    }
                    Ok(()) => {}
                }
                if !walk.is_sound || !walk.can_repair(&session.pages, &geometry) {
                    self.recovery = None;
                    return Ok(Outcome::end(Answer::Recovered(Recovered::default())));
                }
                walk.stage = Stage::Repair;
                if !walk.hunted.is_empty() && !walk.is_hunt {
                    let hunted = core::mem::take(&mut walk.hunted);
                    // The first walk's memory is given back before the second one asks for its own.
                    self.recovery = None;
                    let Some(walk) = Walk::new(&session.pages, &geometry) else {
                        return Ok(Outcome::end(Answer::Recovered(Recovered::default())));
                    };
                    self.recovery = Some(Walk { hunted, is_hunt: true, ..walk });
                }
            }
            Stage::Repair => {
                walk.repair_names(&mut session.pages, &geometry)?;
                stages.any_order(session, true);
                walk.clear_moved_marks(&mut session.pages)?;
                stages.any_order(session, true);
                walk.found.names = (walk.removed.len() + walk.parents.len() + walk.ends.len()) as u32;
                walk.stage = Stage::Table(0);
            }
            Stage::Table(from) => {
                let next = walk.check_table(from, &mut session.pages, &geometry)?;
                stages.any_order(session, true);
                match next {
                    Some(next) => walk.stage = Stage::Table(next),
                    None => {
                        let found = Recovered { is_whole: true, ..walk.found };
                        (self.free, self.is_counted) = (Some(walk.free), true);
                        // The clusters that this part frees are counted already.
                        self.uncounted = !stages.is_empty();
                        self.recovery = None;
                        self.is_doubtful = false;
                        self.known.clear();
                        session.search.restart();
                        return Ok(Outcome { stages, next: Phase::Last, answer: Some(Ok(Answer::Recovered(found))) });
                    }
                }
            }
        }
        session.pages.release();
        Ok(Outcome::then(stages, Phase::First))
    }
}
