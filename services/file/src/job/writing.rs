//! Jobs of a file that is written: space for each write, and commits.

use super::{AHEAD, Job, Next};
use crate::errors::of_volume;
use crate::open::Open;
use crate::service::Service;
use culm_fat::{Answer, Operation as Fat};
use culm_file::{Done, Error, Request, Taken};

impl Service {
    /// Sees to it that there is space for a write, and begins it.
    pub(super) fn advance_write(
        &mut self,
        job: &mut Job,
        number: usize,
        taken: Taken,
        answer: Result<Answer, culm_fat::Error>,
    ) -> Result<Next, Error> {
        let open = self.clients.get(number).ok_or(Error::Invalid)?.open(taken.request.file)?;
        let writer = self.opens.get_mut(open).and_then(Open::writer).ok_or(Error::Invalid)?;
        if let Some(error) = writer.error {
            return Err(error);
        }
        let request = &taken.request;
        if request.position != writer.end {
            return Err(Error::Invalid);
        }
        let (file, end) = (writer.file, request.position + u64::from(request.length));
        match (job.step, answer) {
            (0, _) if end > writer.reserved => {
                job.size = (end + end.min(AHEAD)).min(culm_fat::MAX_FILE).max(end);
                return Ok(Next::Operation(Fat::Reserve { file, size: job.size }));
            }
            (1, Err(culm_fat::Error::Full | culm_fat::Error::Fragmented)) if job.size > end => {
                job.size = end;
                return Ok(Next::Operation(Fat::Reserve { file, size: end }));
            }
            (0, _) => {}
            (_, Ok(_)) => writer.reserved = writer.reserved.max(job.size),
            (_, Err(error)) => {
                let error = of_volume(error);
                writer.error = Some(error);
                return Err(error);
            }
        }
        self.changed();
        self.begin_write(number, taken)?;
        Ok(Next::Begun)
    }

    /// Publishes what was written to a file, and makes it durable.
    pub(super) fn advance_commit(
        &mut self,
        job: &mut Job,
        number: usize,
        request: &Request,
        answer: Result<Answer, culm_fat::Error>,
    ) -> Result<Next, Error> {
        let open = self.clients.get(number).ok_or(Error::Invalid)?.open(request.file)?;
        let writer = self.opens.get_mut(open).and_then(Open::writer).ok_or(Error::Invalid)?;
        if let Some(error) = writer.error {
            return Err(error);
        }
        match (job.step, answer) {
            (0, _) => {
                job.size = writer.end;
                Ok(Next::Operation(Fat::Publish { file: writer.file, size: job.size }))
            }
            (1, Ok(_)) => {
                self.changed();
                Ok(Next::Operation(Fat::Sync))
            }
            (_, Ok(_)) => {
                (writer.committed, writer.is_there) = (job.size, true);
                Ok(Next::Done(Done::NOTHING))
            }
            (_, Err(error)) => {
                let error = of_volume(error);
                writer.error = Some(error);
                // Of one that the volume has given up, nothing can be committed when it is closed.
                writer.is_there &= self.volume.can_publish(writer.file);
                Err(error)
            }
        }
    }
}
