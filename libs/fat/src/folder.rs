//! Folders, by `lamfat`: the search for a name, lists, and names that come and go.

use crate::entry::{ENTRY, Entry, Raw, VOLUME, checksum};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::medium::{Fs, Medium, Session, stop};
use crate::pages::Stop;
use crate::table::{self, END};
use crate::time::Now;
use crate::{MAX_FOLDER_ENTRIES, path};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use lamfat::LossyOemCpConverter;

/// Characters of a part of a long name, and the most parts.
const PART: usize = 13;
const MOST_PARTS: usize = 20;

/// The first byte of an entry that is removed.
const REMOVED: u8 = 0xe5;

type Dir<'f, 's> = lamfat::Dir<'f, Medium<'s>, Now, LossyOemCpConverter>;
type DirEntry<'f, 's> = lamfat::DirEntry<'f, Medium<'s>, Now, LossyOemCpConverter>;

/// A folder.
pub(crate) struct Folder<'f, 's> {
    session: &'s RefCell<Session>,
    dir: Dir<'f, 's>,
    /// Its first cluster; 0 for the root.
    pub(crate) cluster: u32,
    /// Its clusters; none for the root of a FAT16.
    clusters: Vec<u32>,
}

/// Returns how many clusters a folder can have.
fn most_clusters(geometry: &Geometry) -> usize {
    (MAX_FOLDER_ENTRIES * ENTRY as u32 / geometry.cluster).max(1) as usize
}

/// Returns how many entries a name takes at most: parts of the long one, and the short one.
fn entries_of(name: &str) -> usize {
    name.encode_utf16().count().div_ceil(PART) + 1
}

/// Returns how many clusters a folder may have to grow by for a name.
pub(crate) fn growth(name: &str, geometry: &Geometry) -> u32 {
    (entries_of(name) * ENTRY).div_ceil(geometry.cluster as usize) as u32
}

/// Returns the clusters of a folder: its chain is walked before anybody reads it, so that it
/// neither leaves the volume nor runs in a circle.
fn walk(session: &RefCell<Session>, cluster: u32) -> Result<Vec<u32>, Stop> {
    let session = &mut *session.borrow_mut();
    let geometry = &session.geometry;
    let most = most_clusters(geometry);
    let mut clusters = Vec::new();
    let mut next = match cluster {
        0 if !geometry.is_fat32 => None,
        0 => Some(geometry.root_cluster),
        _ => Some(cluster),
    };
    while let Some(cluster) = next {
        if !geometry.has(cluster) || clusters.len() >= most {
            return Err(Error::Corrupt.into());
        }
        clusters.push(cluster);
        next = table::next(&mut session.pages, geometry, cluster)?;
    }
    Ok(clusters)
}

/// Returns the entry that lies at a place.
pub(crate) fn raw(session: &RefCell<Session>, at: u64) -> Result<Raw, Stop> {
    let mut session = session.borrow_mut();
    let bytes = session.pages.read(at, ENTRY)?;
    Ok(Raw { at, bytes: bytes.try_into().map_err(|_| Error::Corrupt)? })
}

/// Writes an entry where it lies.
pub(crate) fn put(session: &RefCell<Session>, raw: &Raw) -> Result<(), Stop> {
    session.borrow_mut().pages.write(raw.at, &raw.bytes)
}

/// Returns whether a long name, or the bytes of a short one, are this name, upper and lower case
/// being the same.
fn is_name(long: Option<&[u16]>, short: impl Iterator<Item = u8>, name: &str) -> bool {
    is_alike(long, short, name, |c| [path::upper(c)])
}

/// Returns whether `lamfat` takes an entry for one of this name: it makes as many characters of one
/// as Unicode does.
fn is_name_for_lamfat(long: Option<&[u16]>, short: impl Iterator<Item = u8>, name: &str) -> bool {
    is_alike(long, short, name, char::to_uppercase)
}

/// Returns whether a long name, or the bytes of a short one, are this name once `fold` has taken
/// the difference of upper and lower case from all.
fn is_alike<I: IntoIterator<Item = char>>(
    long: Option<&[u16]>,
    short: impl Iterator<Item = u8>,
    name: &str,
    fold: impl Fn(char) -> I,
) -> bool {
    let mut wanted = name.chars().flat_map(&fold);
    let is_long = long.is_some_and(|units| {
        let mut decoded = char::decode_utf16(units.iter().copied());
        let is_like = decoded.all(|one| one.is_ok_and(|c| fold(c).into_iter().all(|c| wanted.next() == Some(c))));
        is_like && wanted.next().is_none()
    });
    let short = short.map(|byte| if byte.is_ascii() { char::from(byte) } else { '\u{fffd}' });
    is_long || short.flat_map(&fold).eq(name.chars().flat_map(&fold))
}

/// A long name that is put together of its parts, the last one first.
struct LongName {
    units: [u16; MOST_PARTS * PART],
    /// The number of the part that was read last; 0 if there is none.
    part: usize,
    length: usize,
    sum: u8,
}

impl LongName {
    /// Takes the next part.
    fn take(&mut self, bytes: &[u8]) {
        const PLACES: [usize; PART] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
        let (number, is_last) = (usize::from(bytes[0] & 0x1f), bytes[0] & 0x40 != 0);
        let follows = number + 1 == self.part && bytes[13] == self.sum;
        if !(1..=MOST_PARTS).contains(&number) || !(is_last || follows) {
            self.part = 0;
            return;
        }
        if is_last {
            (self.length, self.sum) = (number * PART, bytes[13]);
        }
        self.part = number;
        let units = self.units.iter_mut().skip((number - 1) * PART);
        for (unit, at) in units.zip(PLACES) {
            *unit = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        }
    }

    /// Returns the name, if it is whole and that of the short one.
    fn whole(&self, short: &[u8]) -> Option<&[u16]> {
        if self.part != 1 || checksum(short) != self.sum {
            return None;
        }
        let units = self.units.get(..self.length)?;
        let end = units.iter().rposition(|unit| !matches!(unit, 0 | 0xffff))? + 1;
        units.get(..end)
    }
}

/// Finds an entry by its names, from the root on. This is what `lamfat` could do as well; it reads
/// each entry in some twenty pieces, which is six times as much work, and opening a file is what
/// is done most.
pub(crate) fn find<'n>(session: &RefCell<Session>, names: impl Iterator<Item = &'n str>) -> Result<Option<Raw>, Stop> {
    let mut found: Option<Raw> = None;
    for name in names {
        let cluster = match found {
            None => 0,
            Some(raw) if !raw.is_folder() => return Err(Error::NotAFolder.into()),
            Some(raw) => match raw.cluster(&session.borrow().geometry) {
                0 => return Err(Error::Corrupt.into()),
                cluster => cluster,
            },
        };
        let clusters = walk(session, cluster)?;
        let is_it = |long: Option<&[u16]>, raw: &Raw| raw.bytes[0] != b'.' && is_name(long, raw.short_name(), name);
        let raw = scan(&mut session.borrow_mut(), &clusters, is_it)?;
        found = Some(raw.ok_or(Error::NotFound)?);
    }
    Ok(found)
}

/// Searches the clusters of a folder for an entry, of which `is_it` is given the long name and the
/// bytes; without clusters, the root of a FAT16. Entries of the volume's name are passed over.
fn scan(
    session: &mut Session,
    clusters: &[u32],
    mut is_it: impl FnMut(Option<&[u16]>, &Raw) -> bool,
) -> Result<Option<Raw>, Stop> {
    let mut long = LongName { units: [0; MOST_PARTS * PART], part: 0, length: 0, sum: 0 };
    visit_all(session, clusters, |at, bytes| {
        match bytes {
            _ if bytes[0] == REMOVED => long.part = 0,
            _ if bytes[11] & 0xf == 0xf => long.take(bytes),
            _ if bytes[11] & VOLUME != 0 => long.part = 0,
            _ => {
                let raw = Raw { at, bytes: *bytes };
                if is_it(long.whole(&bytes[..11]), &raw) {
                    return Some(raw);
                }
                long.part = 0;
            }
        }
        None
    })
}

/// Visits all that lies in the clusters of a folder before its end, what is removed and parts of
/// long names included, until `visit` returns something; without clusters, the root of a FAT16.
fn visit_all<T>(
    session: &mut Session,
    clusters: &[u32],
    mut visit: impl FnMut(u64, &[u8; ENTRY]) -> Option<T>,
) -> Result<Option<T>, Stop> {
    let Session { pages, geometry, .. } = session;
    let root = geometry.root();
    let places = clusters.iter().map(|cluster| (geometry.place(*cluster), u64::from(geometry.cluster)));
    for (first, length) in places.chain(clusters.is_empty().then_some(root)) {
        let mut at = first;
        while at < first + length {
            let unit = pages.unit() as u64;
            let count = (unit - at % unit).min(first + length - at) as usize;
            let (entries, _) = pages.read(at, count)?.as_chunks();
            for (place, bytes) in (at..).step_by(ENTRY).zip(entries) {
                if bytes[0] == 0 {
                    return Ok(None);
                }
                let visited = visit(place, bytes);
                if visited.is_some() {
                    return Ok(visited);
                }
            }
            at += count as u64;
        }
    }
    Ok(None)
}

impl<'f, 's> Folder<'f, 's> {
    /// Returns the root folder.
    pub(crate) fn root(session: &'s RefCell<Session>, fs: &'f Fs<'s>) -> Result<Self, Stop> {
        let clusters = walk(session, 0)?;
        Ok(Self { session, dir: fs.root_dir(), cluster: 0, clusters })
    }

    /// Follows names from the root.
    pub(crate) fn follow<'n>(
        session: &'s RefCell<Session>,
        fs: &'f Fs<'s>,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, Stop> {
        let mut folder = Self::root(session, fs)?;
        for name in names {
            let (raw, entry) = folder.search(name)?.ok_or(Error::NotFound)?;
            folder = folder.enter(&raw, &entry)?;
        }
        Ok(folder)
    }

    /// Enters a folder within this one.
    pub(crate) fn enter(&self, raw: &Raw, entry: &DirEntry<'f, 's>) -> Result<Self, Stop> {
        if !raw.is_folder() || !entry.is_dir() {
            return Err(Error::NotAFolder.into());
        }
        let cluster = raw.cluster(&self.session.borrow().geometry);
        if cluster == 0 {
            // Only `..` names the root.
            return Err(Error::Corrupt.into());
        }
        Ok(Self { session: self.session, clusters: walk(self.session, cluster)?, dir: entry.to_dir(), cluster })
    }

    /// Visits entries, but `.` and `..`, until `visit` returns something.
    fn visit<T>(&self, mut visit: impl FnMut(Raw, DirEntry<'f, 's>) -> Option<T>) -> Result<Option<T>, Stop> {
        for entry in self.dir.iter() {
            let entry = entry.map_err(stop)?;
            let at = self.session.borrow().read_end.wrapping_sub(ENTRY as u64);
            let raw = raw(self.session, at)?;
            if entry.is_dir() != raw.is_folder() || raw.bytes[11] & VOLUME != 0 || raw.bytes[0] == b'.' {
                continue;
            }
            if let Some(found) = visit(raw, entry) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Searches for a name.
    pub(crate) fn search(&self, name: &str) -> Result<Option<(Raw, DirEntry<'f, 's>)>, Stop> {
        self.visit(|raw, entry| {
            let short = entry.short_file_name_as_bytes().iter().copied();
            is_name(entry.long_file_name_as_ucs2_units(), short, name).then_some((raw, entry))
        })
    }

    /// Returns whether there is no entry.
    pub(crate) fn is_empty(&self) -> Result<bool, Stop> {
        Ok(self.visit(|_, _| Some(()))?.is_none())
    }

    /// Returns the entry `..`, if it is where it must be.
    pub(crate) fn parent_entry(&self) -> Result<Option<Raw>, Stop> {
        let at = self.place(ENTRY as u64).ok_or(Error::Corrupt)?;
        let raw = raw(self.session, at)?;
        Ok((raw.bytes.starts_with(b"..         ") && raw.is_folder()).then_some(raw))
    }

    /// Returns the offset in the folder of an entry that lies at a place.
    fn offset(&self, at: u64) -> u64 {
        let session = self.session.borrow();
        let geometry = &session.geometry;
        match geometry.cluster_at(at) {
            None => at.saturating_sub(geometry.root().0),
            Some(cluster) => {
                let index = self.clusters.iter().position(|other| *other == cluster).unwrap_or(0);
                index as u64 * u64::from(geometry.cluster) + (at - geometry.place(cluster))
            }
        }
    }

    /// Returns the place of the entry at an offset.
    fn place(&self, offset: u64) -> Option<u64> {
        let session = self.session.borrow();
        let geometry = &session.geometry;
        if self.clusters.is_empty() {
            return Some(geometry.root().0 + offset);
        }
        let size = u64::from(geometry.cluster);
        let cluster = self.clusters.get((offset / size) as usize)?;
        Some(geometry.place(*cluster) + offset % size)
    }

    /// Lists `most` entries that lie at `from` or behind it, and returns where the next ones are,
    /// if there may be some. Entries that no path can name are passed over.
    pub(crate) fn list(&self, from: u64, most: usize) -> Result<(Vec<Entry>, Option<u64>), Stop> {
        let mut entries = Vec::new();
        let next = self.visit(|raw, entry| {
            let offset = self.offset(raw.at);
            if offset < from {
                return None;
            }
            if entries.len() >= most.max(1) {
                return Some(offset);
            }
            // Others may have given a name that no path can have: such an entry has its short name
            // here, if that is one.
            let (long, shown) = (entry.long_file_name_as_ucs2_units(), entry.file_name());
            let names = [shown, entry.short_file_name()];
            let mut names = names.into_iter();
            let name = names.find(|name| path::is_name(name) && is_name(long, raw.short_name(), name));
            entries.extend(name.map(|name| raw.seen(name)));
            None
        })?;
        Ok((entries, next))
    }

    /// Makes an empty file's entry; there is none of this name.
    pub(crate) fn create_file(&self, name: &str) -> Result<Raw, Stop> {
        let shown = self.stand_in(name)?;
        self.make_room(&shown)?;
        self.dir.create_file(&shown).map_err(stop)?;
        self.give_name(&shown, name)
    }

    /// Makes a folder; there is nothing of this name. [`Session::show_free`] has shown `lamfat` a
    /// cluster for it.
    pub(crate) fn create_folder(&self, name: &str) -> Result<Raw, Stop> {
        let shown = self.stand_in(name)?;
        self.make_room(&shown)?;
        self.dir.create_dir(&shown).map_err(stop)?;
        self.give_name(&shown, name)
    }

    /// Returns how many clusters the folder is to have for a name, which it may have already.
    fn clusters_with(&self, name: &str) -> Result<usize, Stop> {
        let session = &mut *self.session.borrow_mut();
        let (needed, cluster) = (entries_of(name), session.geometry.cluster as usize);
        let (mut entries, mut removed) = (0, 0);
        let found = visit_all(session, &self.clusters, |_, bytes| {
            entries += 1;
            removed = if bytes[0] == REMOVED { removed + 1 } else { 0 };
            (removed == needed).then_some(())
        })?;
        let behind = ((entries - removed + needed) * ENTRY).div_ceil(cluster);
        Ok(if found.is_some() { self.clusters.len() } else { behind })
    }

    /// Returns whether there is room for a name without a further cluster.
    pub(crate) fn has_room(&self, name: &str) -> Result<bool, Stop> {
        Ok(self.clusters_with(name)? <= self.clusters.len())
    }

    /// Gives the folder the clusters that it needs for a name. `lamfat` would do it too, but by a
    /// search that has all of the table in memory between one free cluster and the next.
    fn make_room(&self, name: &str) -> Result<(), Stop> {
        let Some(mut tail) = self.clusters.last().copied() else {
            // The root of a FAT16 has the length that it has.
            return Ok(());
        };
        let clusters = self.clusters_with(name)?;
        let session = &mut *self.session.borrow_mut();
        let geometry = session.geometry;
        if clusters > most_clusters(&geometry) {
            return Err(Error::FolderFull.into());
        }
        for _ in self.clusters.len()..clusters {
            let cluster = session.next_free()?;
            session.clear(cluster)?;
            table::set(&mut session.pages, &geometry, cluster, END)?;
            table::set(&mut session.pages, &geometry, tail, cluster)?;
            tail = cluster;
        }
        Ok(())
    }

    /// Returns the name under which `lamfat` is to make an entry; [`Self::give_name`] puts the true
    /// first character in its place. It is another name where `lamfat` 0.4.3
    ///
    /// - panics: at names that do not begin with an ASCII character, since it looks for an
    ///   extension behind their first byte;
    /// - finds an entry of another name, and would return that instead of making one.
    ///
    /// The first character is then one that no short name can have: `lamfat` makes a short name
    /// with a number of it. With a letter, the short name of `Äpfel.txt` would be a name that
    /// others have: `APFEL.TXT`.
    fn stand_in(&self, name: &str) -> Result<String, Stop> {
        if name.starts_with(|first: char| first.is_ascii()) && !self.is_used(name)? {
            return Ok(name.into());
        }
        let rest: String = name.chars().skip(1).collect();
        for first in ['+', ',', ';', '=', '[', ']'] {
            let shown = String::from_iter([first]) + &rest;
            if !self.is_used(&shown)? {
                return Ok(shown);
            }
        }
        Err(Error::Exists.into())
    }

    /// Returns whether we or `lamfat` would find an entry of this name, be it one like `..`.
    fn is_used(&self, name: &str) -> Result<bool, Stop> {
        let is_it = |long: Option<&[u16]>, raw: &Raw| {
            is_name(long, raw.short_name(), name) || is_name_for_lamfat(long, raw.short_name(), name)
        };
        Ok(scan(&mut self.session.borrow_mut(), &self.clusters, is_it)?.is_some())
    }

    /// Gives the entry that was made for `shown` its name, and returns it.
    fn give_name(&self, shown: &str, name: &str) -> Result<Raw, Stop> {
        let folder = walk_again(self)?;
        let (raw, _) = folder.search(shown)?.ok_or(Error::Corrupt)?;
        if shown != name {
            let before = folder.offset(raw.at).checked_sub(ENTRY as u64);
            let part = before.and_then(|offset| folder.place(offset)).ok_or(Error::Corrupt)?;
            let first = name.chars().next().map_or(0, |first| first as u32 as u16);
            // The first character is in the last part before the short entry.
            self.session.borrow_mut().pages.write(part + 1, &first.to_le_bytes())?;
        }
        Ok(raw)
    }

    /// Takes an entry away, and the parts of its long name before it; its clusters stay. `lamfat`
    /// would search for the name, and might find another entry.
    pub(crate) fn remove(&self, mut entry: Raw) -> Result<(), Stop> {
        let sum = checksum(&entry.bytes[..11]);
        let mut offset = self.offset(entry.at);
        entry.bytes[0] = REMOVED;
        put(self.session, &entry)?;
        for number in 1..=MOST_PARTS as u8 {
            let Some(before) = offset.checked_sub(ENTRY as u64) else { break };
            offset = before;
            let at = self.place(offset).ok_or(Error::Corrupt)?;
            let mut part = raw(self.session, at)?;
            let (order, flags) = (part.bytes[0], part.bytes[11]);
            if flags & 0xf != 0xf || part.bytes[13] != sum || order & 0x1f != number || order == REMOVED {
                break;
            }
            part.bytes[0] = REMOVED;
            put(self.session, &part)?;
            if order & 0x40 != 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the same folder with the clusters that it has now.
fn walk_again<'f, 's>(folder: &Folder<'f, 's>) -> Result<Folder<'f, 's>, Stop> {
    let clusters = walk(folder.session, folder.cluster)?;
    Ok(Folder { session: folder.session, dir: folder.dir.clone(), cluster: folder.cluster, clusters })
}
