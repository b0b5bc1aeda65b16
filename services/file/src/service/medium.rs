//! The medium: when a volume is mounted, and what happens if it goes.

use super::Service;
use crate::client::Item;
use crate::errors::of_volume;
use crate::job::Work;
use culm::time::{self, Duration};
use culm_block::Disk;
use culm_fat::{Options, Volume};
use culm_file::Error;

/// Time before a second attempt to mount; before each further one it is doubled, up to
/// [`MOST_DOUBLED`] times.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the pause is doubled.
const MOST_DOUBLED: u32 = 6;

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
            self.failures = 0;
            if let Some((earlier, _)) = earlier {
                // The same medium is another volume: what was open is not.
                self.remounts = self.remounts.wrapping_add(u32::from(earlier.medium == disk.medium));
                self.lose(if disk.is_present() { Error::Changed } else { Error::Absent });
            }
            if !disk.is_present() {
                self.state = State::Unusable;
                self.show(culm_file::Volume::ABSENT);
            }
        }
        if self.retry_at.is_some_and(|at| at <= time::now()) {
            (self.retry_at, self.state) = (None, State::Unknown);
        }
        // What was at the disk for an earlier volume could reach blocks that are another file's
        // now.
        if self.state == State::Unknown && self.disk.under_way() == 0 {
            self.mount(&disk);
        }
    }

    fn mount(&mut self, disk: &Disk) {
        self.granule = 1 << disk.granule;
        self.most = disk.most - disk.most % self.granule;
        self.volume = Volume::new(Options {
            blocks: disk.blocks,
            granule: disk.granule,
            cache_blocks: self.cache,
            read_only: disk.read_only,
        });
        self.state = State::Mounting;
        self.own.push_back(Work::Mount);
    }

    /// Takes it that the volume is mounted, or cannot be.
    pub(crate) fn mounted(&mut self, result: Result<(), culm_fat::Error>) {
        let Some((disk, _)) = self.seen else { return };
        match result {
            Ok(()) => {
                (self.state, self.failures) = (State::Ready, 0);
                let spread = self.remounts.wrapping_mul(0x9e37_79b1);
                let number = disk.medium.wrapping_add(spread).max(1);
                self.show(culm_file::Volume::new(number, disk.read_only));
                if !disk.read_only {
                    self.own.extend((0..self.clients.len()).map(|client| Work::Root { client, names: 1 }));
                }
            }
            Err(culm_fat::Error::Failed) => self.try_later(),
            Err(error) => {
                culm::error!("the disk has no volume that can be used: {error}");
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
        culm::warn!("the disk failed; the volume is mounted again in {} s", pause.as_secs());
        self.show(culm_file::Volume { fault: Some(Error::Failed), ..culm_file::Volume::ABSENT });
    }

    /// Forgets the volume and all that was asked of it.
    fn lose(&mut self, error: Error) {
        self.epoch = self.epoch.wrapping_add(1);
        self.state = State::Unknown;
        (self.retry_at, self.rest_at) = (None, None);
        self.wire.clear();
        self.own.clear();
        if let Some(job) = self.job.take()
            && let (Some(client), Work::Request(taken)) = (job.client, job.work)
        {
            self.answer(client, &taken, Err(error));
        }
        for number in 0..self.clients.len() {
            self.drop_items(number, error);
            let Some(client) = self.clients.get_mut(number) else { continue };
            client.items.retain(|item| !matches!(item, Item::Close(_)));
            client.files.fill(None);
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

    /// Takes it that the volume was changed.
    pub(crate) fn changed(&mut self) {
        self.rest_at = Some(time::now() + REST);
    }
}
