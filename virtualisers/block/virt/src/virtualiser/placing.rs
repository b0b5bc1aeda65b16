//! Where each client's part of the disk is: found out when the medium is another one, or its
//! properties are, and said to the client.

use super::{Owner, Tag, Virtualiser};
use crate::client::Sharer;
use crate::medium::{Found, Medium};
use crate::part::{Missing, Placement};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use culm::time::{self, Duration};
use culm::trouble;
use culm_block::driver::Driver;
use culm_block::{Disk, Shift};

/// Time after which a table that could not be read is read again.
const RESCAN: Duration = Duration::from_secs(1);

/// How often that time doubles while the table cannot be read: up to about a minute.
const MAX_FAILURES: u32 = 6;

/// How often in a row the table is read in vain before a client is told that it has no disk, if it
/// was told nothing in this life: that would end what it has asked an earlier one for.
const ATTEMPTS: u32 = 3;

/// The faults of a medium.
#[derive(Debug, Default)]
pub(super) struct Problems(String);

impl Problems {
    /// Adds a problem, which it logs.
    fn add(&mut self, words: fmt::Arguments<'_>) {
        culm::error!("{words}");
        let separator = if self.0.is_empty() { "" } else { "; " };
        // Text takes everything.
        let _ = write!(self.0, "{separator}{words}");
    }
}

impl<D: Driver<Tag>> Virtualiser<D> {
    /// Looks whether the driver has another medium, and goes on reading its table, in each round
    /// until the clients know where their parts are.
    #[cold]
    pub(super) fn watch(&mut self) {
        let Some(disk) = self.driver.disk().map(|disk| Disk { failures: 0, ..*disk }) else { return };
        let changes = self.driver.changes();
        if changes != self.changes || self.medium.disk() != Some(&disk) {
            if changes != self.changes {
                // Whatever is there now, it is not what clients mean by their requests.
                self.set_placements(core::iter::repeat(Some(Placement::ABSENT)));
                (self.changes, self.next_placements) = (changes, None);
            }
            self.scan(disk);
        } else if self.rescan_at.is_some() {
            self.rescan(disk);
        }
        while !self.is_reading {
            if let Some(found) = self.medium.finished() {
                self.place(&disk, Some(found));
            }
            let Some(request) = self.medium.request(self.table.1) else { break };
            match self.driver.forward(&request, Shift::NONE, Tag(Owner::Table { scans: self.scans })) {
                Ok(()) => self.is_reading = true,
                // A round in which an answer comes has space.
                Err(_) => break,
            }
        }
        self.apply_placements();
        let is_known = matches!(self.medium, Medium::Known { .. });
        self.are_placed = is_known && self.rescan_at.is_none() && self.next_placements.is_none();
    }

    /// Begins to read the table of `disk`, if there is one and somebody needs it.
    fn scan(&mut self, disk: Disk) {
        self.rescan_at = None;
        if disk.is_present() && self.clients.iter().any(|client| client.part.partition.is_some()) {
            self.medium = Medium::scanning(disk);
            self.scans = self.scans.wrapping_add(1);
        } else {
            self.medium = Medium::Known { disk };
            self.place(&disk, None);
        }
    }

    /// Reads the table again if it is time, or asks to be woken then.
    #[cold]
    fn rescan(&mut self, disk: Disk) {
        match self.rescan_at {
            Some(at) if time::now() < at => culm::wake_at(at),
            _ => self.scan(disk),
        }
    }

    /// Finds out where the clients' parts are. A client that has its part keeps it if the table
    /// cannot be read now: it is the same medium. One that has been told nothing waits a while.
    fn place(&mut self, disk: &Disk, found: Option<Found>) {
        let has_failed = found.as_ref().is_some_and(|found| found.has_failed);
        let mut problems = Problems::default();
        let table = match &found {
            Some(Found { table: Err(reason), .. }) => {
                problems.add(format_args!("the disk's partitions cannot be found: {reason}"));
                None
            }
            Some(Found { table: Ok(table), .. }) => {
                if let Some(flaw) = table.flaw {
                    problems.add(format_args!("the disk's partition table: {flaw}"));
                }
                Some(table)
            }
            None => None,
        };
        let mut placements: Vec<Option<Placement>> = Vec::with_capacity(self.clients.len());
        let mut is_missing = false;
        let is_patient = has_failed && self.failures + 1 < ATTEMPTS;
        for client in &self.clients {
            let kept = client.placement().filter(|placement| has_failed && placement.disk.is_present());
            let kept = kept.and_then(|kept| client.part.at(disk, kept.first, kept.disk.blocks));
            let placement = kept.map_or_else(|| client.part.place(disk, table), Ok);
            let waits = is_patient && client.placement().is_none() && matches!(placement, Err(Missing::Partition(_)));
            if let (Err(reason), true) = (&placement, disk.is_present()) {
                problems.add(format_args!("{} has no disk: {reason}", client.name));
                is_missing = true;
            }
            placements.push((!waits).then(|| placement.unwrap_or(Placement::ABSENT)));
        }
        if has_failed && is_missing {
            let at = time::now() + RESCAN * (1 << self.failures);
            culm::wake_at(at);
            (self.rescan_at, self.failures) = (Some(at), (self.failures + 1).min(MAX_FAILURES));
        } else {
            self.failures = 0;
        }
        self.keep_apart(&mut placements, &mut problems);
        if !disk.is_present() {
            problems = Problems("there is no medium".into());
        }
        self.problems = problems;
        self.show_problems();
        self.next_placements = Some(placements);
    }

    /// Has whoever looks at the system see what is wrong: with the driver's device, if that has to
    /// be said here, or else with the medium.
    #[cold]
    pub(super) fn show_problems(&self) {
        match self.driver.trouble() {
            Some(trouble) => trouble::show(format_args!("{trouble}")),
            None if self.problems.0.is_empty() => trouble::clear(),
            None => trouble::show(format_args!("{}", self.problems.0)),
        }
    }

    /// Takes away the part of a client that has blocks of an earlier one's, unless the system file
    /// says that they share some: whoever can write the table must not choose who does.
    fn keep_apart(&self, placements: &mut [Option<Placement>], problems: &mut Problems) {
        for (index, client) in self.clients.iter().enumerate() {
            let (before, rest) = placements.split_at_mut(index);
            let Some(Some(placement)) = rest.first_mut() else { continue };
            let collides =
                |other: &Sharer, at: &Placement| at.collides(placement) && !other.part.may_overlap(&client.part);
            let mut earlier = self.clients.iter().zip(before);
            let colliding = earlier.find(|(other, at)| at.is_some_and(|at| collides(other, &at)));
            if let Some((other, _)) = colliding {
                problems.add(format_args!("{} has no disk: its part overlaps that of {}", client.name, other.name));
                *placement = Placement::ABSENT;
            }
        }
    }

    /// Says to the clients where their parts are. If a part is not where it was, what is under way
    /// to anywhere ends first: another client may have its blocks next.
    fn apply_placements(&mut self) {
        let Some(placements) = self.next_placements.take() else { return };
        let mut next = self.clients.iter().zip(&placements);
        let moved = next.any(|(client, placement)| {
            client.placement().zip(placement.as_ref()).is_some_and(|(before, placement)| placement.is_elsewhere(before))
        });
        if moved && self.busy > 0 {
            self.next_placements = Some(placements);
        } else {
            self.set_placements(placements);
        }
    }

    /// Sets the clients' placements, of those that have one.
    fn set_placements(&mut self, placements: impl IntoIterator<Item = Option<Placement>>) {
        for (number, (client, placement)) in self.clients.iter_mut().zip(placements).enumerate() {
            let Some(placement) = placement else { continue };
            client.set_placement(placement);
            self.due.insert(number);
        }
    }
}
