//! The medium: when a volume is mounted, and what happens if it goes.

use super::Service;
use crate::client::Item;
use crate::errors::of_volume;
use crate::job::Work;
use culm::time::{self, Duration};
use culm::trouble;
use culm_block::{BLOCK, Disk};
use culm_fat::{Options, Volume};
use culm_file::Error;

/// Time before a second attempt to mount; before each further one it is doubled, up to
/// [`MOST_DOUBLED`] times.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the pause is doubled.
const MOST_DOUBLED: u32 = 6;

/// How often recovery is tried on a disk that cannot read what it needs.
const MOST_RECOVERIES: u32 = 3;

/// Time after a change after which the volume is said to be whole.
const REST: Duration = Duration::from_secs(1);

/// The state of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The disk is not known, or what was at it for an earlier volume has not ended.
    Unknown,
    /// It is being mounted.
    Mounting,
    /// It can be used.
    Ready,
    /// There is none, or it cannot be used.
    Unusable,
}

impl Service {
    /// Looks at the disk: whether it has come, gone or changed.
    pub(super) fn watch(&mut self) {
        let Some(disk) = self.disk.disk().copied() else { return };
        let seen = (disk, self.disk.changes());
        if self.seen != Some(seen) {
            let earlier = self.seen.replace(seen);
            (self.failures, self.is_unrecovered) = (0, false);
            if let Some((earlier, _)) = earlier {
                // The same medium is another volume: what was open is not.
                self.remounts = self.remounts.wrapping_add(u32::from(earlier.medium == disk.medium));
                self.lose(if disk.is_present() { Error::Changed } else { Error::Absent });
            }
            if !disk.is_present() {
                trouble::show(format_args!("its disk is not there"));
                self.state = State::Unusable;
                self.show(culm_file::Volume::ABSENT);
            }
        }
        if self.retry_at.is_some_and(|at| at <= time::now()) {
            (self.retry_at, self.state) = (None, State::Unknown);
        }
        // Mount only after all requests for the earlier volume have ended: a write that is still at
        // the disk could reach blocks that belong to another file of this one.
        if self.state == State::Unknown && self.disk.under_way() == 0 {
            self.mount(&disk);
        }
    }

    fn mount(&mut self, disk: &Disk) {
        if disk.granule > culm_fat::LARGEST_GRANULE {
            let bytes = BLOCK << disk.granule;
            trouble::tell(format_args!("the disk has blocks of {bytes} bytes: no FAT volume can have them"));
            self.state = State::Unusable;
            return self.show(culm_file::Volume { fault: Some(Error::Unsupported), ..culm_file::Volume::ABSENT });
        }
        self.granule = 1 << disk.granule;
        self.most = disk.most - disk.most % self.granule;
        self.volume = Volume::new(Options {
            blocks: disk.blocks,
            granule: disk.granule,
            cache_blocks: self.cache,
            read_only: disk.read_only || self.is_unrecovered,
        });
        self.state = State::Mounting;
        self.own.push_back(Work::Mount);
    }

    /// Returns whether nothing is written to the volume.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_unrecovered || self.seen.is_some_and(|(disk, _)| disk.read_only)
    }

    /// Takes it that the disk could not read what recovery needs. That may pass; if it does not,
    /// the volume is only read.
    pub(crate) fn not_recovered(&mut self) {
        if self.failures + 1 < MOST_RECOVERIES {
            return self.try_later();
        }
        self.only_read(format_args!(
            "the disk cannot read what must be repaired after a power cut: its volume is only read"
        ));
    }

    /// Leaves the volume as it is, to be read only: recovery has found what it cannot repair, or
    /// more than it has memory for.
    pub(crate) fn give_recovery_up(&mut self) {
        self.only_read(format_args!(
            "the volume was not at rest and has more damage than a power cut leaves, or is too large to look \
             for it here: it is only read; check and repair it on another machine (`fsck.fat`)"
        ));
    }

    /// Mounts the volume again, and writes nothing to it until the medium changes.
    fn only_read(&mut self, reason: core::fmt::Arguments<'_>) {
        trouble::tell(reason);
        self.is_unrecovered = true;
        if let Some((disk, _)) = self.seen {
            self.mount(&disk);
        }
    }

    /// Takes it that the volume is mounted, or cannot be.
    pub(crate) fn mounted(&mut self, result: Result<(), culm_fat::Error>) {
        let Some((disk, _)) = self.seen else { return };
        match result {
            Ok(()) => {
                (self.state, self.failures, self.is_damaged) = (State::Ready, 0, false);
                if !self.is_unrecovered {
                    trouble::clear();
                }
                let spread = self.remounts.wrapping_mul(0x9e37_79b1);
                let number = disk.medium.wrapping_add(spread).max(1);
                let is_read_only = self.is_read_only();
                self.show(culm_file::Volume::new(number, is_read_only));
                if !is_read_only {
                    self.own.extend((0..self.clients.len()).map(|client| Work::Root { client, names: 1 }));
                }
            }
            Err(culm_fat::Error::Failed) => self.try_later(),
            Err(error) => {
                trouble::tell(format_args!("the disk has no volume that can be used: {error}"));
                self.state = State::Unusable;
                self.show(culm_file::Volume { fault: Some(of_volume(error)), ..culm_file::Volume::ABSENT });
            }
        }
    }

    /// Takes it that the disk has failed the volume: all is forgotten, and tried again later.
    pub(crate) fn fail(&mut self) {
        self.lose(Error::Failed);
        self.remounts = self.remounts.wrapping_add(1);
        self.try_later();
    }

    fn try_later(&mut self) {
        let pause = PAUSE * (1 << self.failures.min(MOST_DOUBLED));
        self.failures += 1;
        self.state = State::Unusable;
        self.retry_at = Some(time::now() + pause);
        trouble::tell(format_args!("the disk failed; the volume is mounted again in {} s", pause.as_secs()));
        self.show(culm_file::Volume { fault: Some(Error::Failed), ..culm_file::Volume::ABSENT });
    }

    /// Takes it that the volume contradicts itself: whoever asked is told, and who looks at the
    /// system, until another volume is mounted. What the damage does not reach goes on.
    pub(crate) fn damaged(&mut self) {
        if self.state == State::Ready && !core::mem::replace(&mut self.is_damaged, true) {
            trouble::tell(format_args!("the volume is damaged: check and repair it on another machine (`fsck.fat`)"));
        }
    }

    /// Forgets the volume and all that was asked of it.
    fn lose(&mut self, error: Error) {
        self.epoch = self.epoch.wrapping_add(1);
        self.state = State::Unknown;
        (self.retry_at, self.rest_at) = (None, None);
        self.wire.clear();
        self.own.clear();
        match self.job.take().map(|job| (job.client, job.work)) {
            Some((Some(client), Work::Request(taken))) => self.answer(client, &taken, Err(error)),
            Some((_, Work::Locate(transfer))) => self.transfers.place_was_told(transfer),
            _ => {}
        }
        for number in 0..self.clients.len() {
            self.drop_items(number, error);
            let Some(client) = self.clients.get_mut(number) else { continue };
            client.items.retain(|item| !matches!(item, Item::Close(_)));
            client.files.fill(None);
            client.opened = 0;
        }
        self.opens.clear();
        for transfer in self.transfers.fail(None, error) {
            self.end_transfer(transfer);
        }
        self.show(culm_file::Volume { fault: Some(error), ..culm_file::Volume::ABSENT });
    }

    /// Tells the clients which volume there is.
    fn show(&mut self, volume: culm_file::Volume) {
        for client in &mut self.clients {
            client.port.set_volume(volume);
        }
    }

    /// Takes it that something was closed, which can have given free what nobody else uses. Others
    /// that are closed meanwhile do not put off the rest.
    pub(crate) fn closed(&mut self) {
        if self.rest_at.is_none() && !self.is_read_only() && !self.volume.is_at_rest() {
            self.changed();
        }
    }

    /// Takes it that the volume was changed.
    pub(crate) fn changed(&mut self) {
        self.rest_at = Some(time::now() + REST);
    }
}
