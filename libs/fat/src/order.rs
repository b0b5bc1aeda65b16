//! The order in which changes reach the medium, so that a power cut between any two writes leaves a
//! volume that is whole.
//!
//! Content is written and flushed before a folder or the table names it. Clusters are given free
//! after the change that no longer names them is flushed. A name can take several sectors: the one
//! with its short entry makes it appear and disappear. That one is written last when the name is
//! made, and first when it is removed.

use crate::geometry::Area;
use crate::medium::Session;
use crate::pages::{Run, runs};
use crate::table::{self, Link};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

type Units = BTreeMap<u64, Box<[u8]>>;

/// Writes in any order among themselves.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) runs: Vec<Run>,
    /// Whether everything that was written before is flushed first.
    pub(crate) flush: bool,
}

/// Stages, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    stages: Vec<(Units, bool)>,
}

impl Stages {
    /// Returns whether nothing is written or flushed.
    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Adds units as a stage, if there are any.
    fn add(&mut self, units: Units, flush: bool) {
        if units.is_empty() {
            return;
        }
        // A unit that is written twice in a row with nothing else needs to be written once: what
        // it would look like in between is seen by nobody.
        if let Some((last, _)) = self.stages.last_mut()
            && last.keys().eq(units.keys())
            && last.len() == 1
        {
            *last = units;
            return;
        }
        self.stages.push((units, flush));
    }

    /// Adds a flush.
    pub(crate) fn flush(&mut self) {
        self.stages.push((Units::new(), true));
    }

    /// Puts other stages in front, and a flush between.
    pub(crate) fn prepend(&mut self, mut first: Stages) {
        if let Some((_, flush)) = self.stages.first_mut() {
            *flush = true;
        }
        first.stages.append(&mut self.stages);
        self.stages = first.stages;
    }

    /// Returns the stages with adjacent units put together into runs.
    pub(crate) fn in_runs(self, unit: usize) -> VecDeque<Stage> {
        let stage = |(units, flush): (Units, bool)| Stage { runs: runs(units, unit), flush };
        self.stages.into_iter().map(stage).collect()
    }

    /// Adds what the attempt has changed since the last stage, without an order in it.
    pub(crate) fn any_order(&mut self, session: &mut Session, flush: bool) {
        let units = end_stage(session);
        self.add(units, flush);
    }

    /// Adds what makes something appear whose short entry is at `entry`.
    pub(crate) fn appearing(&mut self, session: &mut Session, entry: u64, flush: bool) {
        let named = entry / session.pages.unit() as u64;
        let (mut fresh, mut chained, mut linked) = (Units::new(), Units::new(), Units::new());
        let (mut folders, mut name) = (Units::new(), Units::new());
        for (number, bytes) in end_stage(session) {
            let at = number * session.pages.unit() as u64;
            let area = session.geometry.area(at);
            let is_fresh = area == Area::Data && was_free(session, at);
            if number == named && is_fresh {
                // The folder has grown for it: the new cluster is joined to it without the name.
                fresh.insert(number, alloc::vec![0; bytes.len()].into());
            }
            let units = match area {
                _ if number == named => &mut name,
                Area::Table if changes_links(session, number, &bytes) => &mut linked,
                Area::Table => &mut chained,
                _ if is_fresh => &mut fresh,
                _ => &mut folders,
            };
            units.insert(number, bytes);
        }
        self.add_in_order([fresh, chained, linked, folders, name], flush);
    }

    /// Adds stages with flushes between.
    fn add_in_order<const N: usize>(&mut self, stages: [Units; N], flush: bool) {
        let mut is_first = true;
        for units in stages {
            let any = !units.is_empty();
            self.add(units, flush || !is_first);
            is_first &= !any;
        }
    }

    /// Adds what makes something disappear whose short entry is at `entry`.
    pub(crate) fn disappearing(&mut self, session: &mut Session, entry: u64, flush: bool) {
        let named = entry / session.pages.unit() as u64;
        let (mut name, mut folders, mut tables) = (Units::new(), Units::new(), Units::new());
        for (number, bytes) in end_stage(session) {
            let at = number * session.pages.unit() as u64;
            let units = match session.geometry.area(at) {
                _ if number == named => &mut name,
                Area::Table => &mut tables,
                _ => &mut folders,
            };
            units.insert(number, bytes);
        }
        self.add_in_order([name, folders, tables], flush);
    }
}

/// Returns whether a unit of a table changes for clusters that were not free: what it begins to
/// name there must be on the medium before.
fn changes_links(session: &Session, number: u64, bytes: &[u8]) -> bool {
    let geometry = &session.geometry;
    let width = geometry.entry_bytes() as usize;
    let Some(before) = session.pages.before(number) else { return true };
    let mut entries = before.chunks_exact(width).zip(bytes.chunks_exact(width));
    entries.any(|(old, new)| old != new && table::decode(geometry, old) != Link::Free)
}

/// Ends a stage of the attempt: returns what it has changed.
fn end_stage(session: &mut Session) -> Units {
    let unit = session.pages.unit() as u64;
    let fresh = session.pages.written().filter(|number| was_free(session, number * unit)).collect();
    session.pages.end_stage(&fresh)
}

/// Returns whether the cluster at `at` was free before the attempt.
fn was_free(session: &Session, at: u64) -> bool {
    let geometry = &session.geometry;
    let Some(cluster) = geometry.cluster_at(at) else { return false };
    let place = geometry.first_table() + u64::from(cluster) * geometry.entry_bytes();
    let unit = session.pages.unit() as u64;
    let bytes = session.pages.before(place / unit).and_then(|page| {
        let offset = (place % unit) as usize;
        page.get(offset..offset + geometry.entry_bytes() as usize)
    });
    bytes.is_some_and(|bytes| table::decode(geometry, bytes) == Link::Free)
}
