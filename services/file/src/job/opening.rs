//! Jobs that open a file or a folder.

use super::{AHEAD, Job, Next, Work, info_of};
use crate::client::Item;
use crate::errors::{of_disk, of_volume};
use crate::open::{Kind, Open, Writer, may_open};
use crate::service::{Service, Tag};
use crate::slots;
use alloc::vec;
use alloc::vec::Vec;
use culm_block::{BLOCK, Segment};
use culm_fat::{Answer, Operation as Fat};
use culm_file::{Done, Error, Info, Mode, Request};

impl Service {
    /// Opens a file or folder; of one that is appended to, its last granule is read first, and a
    /// new one gets the space that was asked for.
    pub(super) fn advance_open(
        &mut self,
        job: &mut Job,
        number: usize,
        request: &Request,
        mode: Mode,
        answer: Result<Answer, culm_fat::Error>,
    ) -> Result<Next, Error> {
        let answer = answer.map_err(of_volume)?;
        let path = job.path.clone();
        let kind = match (mode, job.step, answer) {
            (_, 0, _) => {
                let is_used = self.clients.get(number).is_none_or(|client| client.open(request.file).is_ok());
                if is_used {
                    return Err(Error::Invalid);
                }
                if !may_open(self.clients.iter().map(|client| client.opened), number) {
                    return Err(Error::TooMany);
                }
                if mode == Mode::Append && self.opens.is_appended(&path.to_lowercase()) {
                    return Err(Error::Busy);
                }
                return Ok(Next::Operation(match mode {
                    Mode::Read => Fat::Find { path },
                    Mode::New => Fat::Create { path },
                    Mode::Append => Fat::Append { path },
                }));
            }
            (Mode::Read, 1, Answer::Found(entry)) => {
                job.info = info_of(&entry);
                if !job.info.is_folder {
                    return Ok(Next::Operation(Fat::Open { path }));
                }
                Kind::Folder(path)
            }
            (Mode::Read, 2, Answer::Opened { file, size }) => {
                (job.file, job.size, job.info.size) = (Some(file), size, size);
                if size > 0 {
                    return Ok(Next::Operation(Fat::Locate { file, offset: (size - 1).min(AHEAD) }));
                }
                Kind::Reader { file, size }
            }
            (Mode::Read, step @ (3 | 4), Answer::Located(Some(_))) => {
                let file = job.file.ok_or(Error::Failed)?;
                match self.volume.place(file, 0) {
                    Some(place) => job.info.mark = place.block,
                    None if step == 3 => return Ok(Next::Operation(Fat::Locate { file, offset: 0 })),
                    None => return Err(Error::Damaged),
                }
                Kind::Reader { file, size: job.size }
            }
            (Mode::New | Mode::Append, 1, Answer::Opened { file, size }) => {
                (job.file, job.size) = (Some(file), size);
                job.info = Info { size, modified: self.now(), ..Info::default() };
                if !self.is_whole(size) {
                    return Ok(Next::Operation(Fat::Locate { file, offset: size - 1 }));
                }
                if request.position > 0 {
                    return Ok(Next::Operation(Fat::Reserve { file, size: request.position }));
                }
                Kind::Writer(self.writer(job, mode, Vec::new())?)
            }
            (Mode::New, 2, Answer::Done) => {
                Kind::Writer(Writer { reserved: request.position, ..self.writer(job, mode, Vec::new())? })
            }
            (Mode::Append, 2, Answer::Located(Some(place))) => {
                job.tail = Some((place.block - place.block % u64::from(self.granule), false));
                return Ok(Next::Wait);
            }
            (Mode::Append, 3, Answer::Located(_)) => return Err(Error::Failed),
            (Mode::Append, 3, _) => return Err(job.error.unwrap_or(Error::Failed)),
            _ => return Err(Error::Damaged),
        };
        Ok(Next::Done(self.install(job, number, request.file, kind)))
    }

    /// Returns whether so many bytes fill their last granule.
    fn is_whole(&self, size: u64) -> bool {
        size.is_multiple_of(u64::from(self.granule) * BLOCK as u64)
    }

    /// Makes a file that is written of the one that a job has opened.
    fn writer(&self, job: &Job, mode: Mode, mut tail: Vec<u8>) -> Result<Writer, Error> {
        tail.resize(self.granule as usize * BLOCK, 0);
        Ok(Writer {
            file: job.file.ok_or(Error::Failed)?,
            path: job.path.to_lowercase(),
            is_there: mode == Mode::Append,
            end: job.size,
            good: job.size,
            ahead: Vec::new(),
            committed: job.size,
            reserved: job.size,
            tail,
            edges: 0,
            error: None,
        })
    }

    /// Gives a client what a job has opened; what a life has asked for that is gone is closed.
    fn install(&mut self, job: &mut Job, number: usize, file: u8, kind: Kind) -> Done {
        job.file = None;
        let open = self.opens.add(Open::new(kind));
        if let Some(client) = self.clients.get_mut(number) {
            client.opened += 1;
            match client.files.get_mut(usize::from(file)) {
                Some(place) if client.lives == job.lives => *place = Some(open),
                _ => client.items.push_back(Item::Close(open)),
            }
        }
        Done::file(job.info)
    }

    /// Sends for the last granule of a file that a job opens.
    pub(crate) fn send_for_tail(&mut self) {
        let Some(Job { tail: Some((block, is_sent @ false)), .. }) = &mut self.job else { return };
        if self.disk.space() == 0 {
            return;
        }
        let Some(slot) = self.slots.take_any() else { return };
        let place = slots::offset(slot);
        // If the device only says that it has read, nobody else's bytes become this file's.
        let _ = self.memory.clear(place, self.granule as usize * BLOCK);
        let segment = [Segment { place: (place / BLOCK) as u64, blocks: self.granule }];
        let tag = Tag::Tail { epoch: self.epoch, slot };
        let request = culm_block::Request::read(*block, &segment);
        *is_sent = true;
        if request.is_none_or(|request| self.disk.send(&request, tag).is_err()) {
            self.slots.give(slot);
            self.take_tail(slot, Err(culm_block::Error::Failed));
        }
    }

    /// Ends a job that has waited for the last granule of its file, which is in a slot.
    pub(crate) fn take_tail(&mut self, slot: u16, result: Result<(), culm_block::Error>) {
        let Some(mut job) = self.job.take() else { return };
        let (Some(number), Work::Request(taken)) = (job.client, job.work) else { return };
        job.tail = None;
        let mut tail = vec![0; self.granule as usize * BLOCK];
        let read = result.map_err(of_disk).and_then(|()| {
            let bytes = self.memory.read(slots::offset(slot), &mut tail);
            bytes.map_err(|_| Error::Failed)
        });
        match read.and_then(|()| self.writer(&job, Mode::Append, tail)) {
            Ok(writer) => {
                let done = self.install(&mut job, number, taken.request.file, Kind::Writer(writer));
                self.end(&job, Some(Ok(done)));
            }
            Err(error) => {
                let file = job.file.take();
                job.error = Some(error);
                match file {
                    Some(file) if self.volume.begin(Fat::Close { file }).is_ok() => self.job = Some(job),
                    _ => self.end(&job, Some(Err(error))),
                }
            }
        }
    }
}
