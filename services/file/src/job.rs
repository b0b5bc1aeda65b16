//! A job: the operations of the volume that one request needs, one after the other.

mod opening;
mod writing;

use crate::errors::of_volume;
use crate::open::{Kind, Open, OpenId};
use crate::service::Service;
use alloc::string::String;
use culm_fat::{Answer, Entry, FileId, Operation as Fat};
use culm_file::listing::Writer as List;
use culm_file::{Done, Error, Info, Operation, Request, Taken};

/// Space that is taken beyond what is written, at most: so that not each write needs the volume.
const AHEAD: u64 = 1 << 20;

/// The least bytes of an item of a list.
const LEAST_ITEM: u32 = 32;

/// The most items that are listed at once.
const MOST_ITEMS: usize = 256;

/// The purpose of a job.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// To mount the volume.
    Mount,
    /// To make a writing client's folder, so many names deep.
    Root { client: usize, names: usize },
    /// To give some space free of a long file that was removed.
    Free,
    /// To say on the volume that it is whole.
    Rest,
    /// To do what a client asks for.
    Request(Taken),
    /// To find out where a transfer's next bytes lie.
    Locate(usize),
    /// To close what somebody had open who is gone.
    Close(OpenId),
}

/// A job.
#[derive(Debug)]
pub struct Job {
    /// The client for which it is.
    pub client: Option<usize>,
    /// The client's lives before its present one.
    lives: u32,
    pub work: Work,
    /// How many operations have been answered.
    step: u8,
    /// Paths on the volume.
    path: String,
    info: Info,
    /// A file that the volume has opened for this job and no client has yet.
    file: Option<FileId>,
    /// Bytes of that file; of a commit those to publish, of a write those to reserve space for.
    size: u64,
    /// What a client has asked to close.
    closing: Option<OpenId>,
    /// Why a close fails, while the file is still open on the volume.
    close_error: Option<Error>,
    /// Why the job fails, while it still has something to do.
    error: Option<Error>,
    /// The block that it waits for, and whether that was sent for.
    tail: Option<(u64, bool)>,
}

/// The next thing that a job does.
enum Next {
    Operation(Fat),
    /// It waits for the disk.
    Wait,
    /// It has ended.
    Done(Done),
    /// It has ended, and what it began is answered later.
    Begun,
}

impl Job {
    pub fn new(client: Option<usize>, lives: u32, work: Work) -> Self {
        Self {
            client,
            lives,
            work,
            step: 0,
            path: String::new(),
            info: Info::default(),
            file: None,
            size: 0,
            closing: None,
            close_error: None,
            error: None,
            tail: None,
        }
    }

    /// Returns whether it waits for a block that the service itself reads, not for the volume.
    pub fn is_waiting(&self) -> bool {
        self.tail.is_some()
    }
}

impl Service {
    /// Lets a job go on with what an operation has come to.
    ///
    /// A read that has failed is the end of this job alone. A write that has failed leaves no
    /// volume, and so ends everything.
    pub(crate) fn go_on(&mut self, mut job: Job, answer: Result<Answer, culm_fat::Error>) {
        let is_lost = answer == Err(culm_fat::Error::Failed) && !self.volume.is_mounted();
        if answer == Err(culm_fat::Error::Corrupt) {
            self.damaged();
        }
        let next = self.advance(&mut job, answer);
        job.step += 1;
        match next {
            Ok(Next::Operation(operation)) if !is_lost => {
                if self.volume.begin(operation).is_ok() {
                    self.job = Some(job);
                } else {
                    self.end(&job, Some(Err(Error::Failed)));
                }
            }
            Ok(Next::Operation(_)) => self.end(&job, Some(Err(Error::Failed))),
            Ok(Next::Wait) => self.job = Some(job),
            Ok(Next::Done(done)) => self.end(&job, Some(Ok(done))),
            Ok(Next::Begun) => self.end(&job, None),
            Err(error) => match job.file.take() {
                // No client has the file yet, so that nobody else would close it.
                Some(file) if !is_lost && self.volume.begin(Fat::Close { file }).is_ok() => {
                    job.error = Some(error);
                    self.job = Some(job);
                }
                _ => self.end(&job, Some(Err(error))),
            },
        }
        if is_lost && self.state == crate::service::State::Ready {
            self.fail();
        }
    }

    fn end(&mut self, job: &Job, result: Option<Result<Done, Error>>) {
        match (job.work, result) {
            (Work::Request(taken), Some(result)) => {
                if let Some(client) = job.client {
                    self.answer(client, &taken, result);
                }
            }
            (Work::Locate(transfer), _) => {
                self.transfers.place_was_told(transfer);
                self.end_transfer(transfer);
            }
            (Work::Root { client, .. }, Some(Err(error))) if error != Error::Exists => {
                let name = self.clients.get(client).map_or("", |client| client.name);
                culm::warn!("the folder of {name} cannot be made: {error}");
            }
            _ => {}
        }
    }

    /// Says what a job does after this answer.
    fn advance(&mut self, job: &mut Job, answer: Result<Answer, culm_fat::Error>) -> Result<Next, Error> {
        if let Some(error) = job.error {
            // The job had failed before; what has ended now is the close of its file.
            return Err(error);
        }
        match job.work {
            Work::Mount => Ok(self.advance_mount(job.step, answer)),
            Work::Root { client, names } => self.advance_root(job, client, names, answer),
            Work::Free if job.step == 0 => Ok(Next::Operation(Fat::Free)),
            Work::Rest if job.step == 0 => Ok(Next::Operation(Fat::Rest)),
            Work::Free | Work::Rest => Ok(Next::Begun),
            Work::Locate(transfer) => Ok(self.advance_locate(job.step, transfer, answer)),
            Work::Close(open) => self.advance_close(job, open, answer),
            Work::Request(taken) => {
                let number = job.client.ok_or(Error::Invalid)?;
                self.advance_request(job, number, taken, answer)
            }
        }
    }

    fn advance_mount(&mut self, step: u8, answer: Result<Answer, culm_fat::Error>) -> Next {
        match (step, answer) {
            (0, _) => Next::Operation(Fat::Mount),
            (1, Ok(_)) if self.volume.is_marked() && !self.is_read_only() => Next::Operation(Fat::Recover),
            (2, Err(culm_fat::Error::Failed)) if self.volume.is_mounted() => {
                self.not_recovered();
                Next::Begun
            }
            (2, Ok(Answer::Recovered(found))) if !found.is_whole => {
                self.give_recovery_up();
                Next::Begun
            }
            (_, answer) => {
                if let Ok(Answer::Recovered(found)) = &answer {
                    culm::info!("the volume was not at rest: {} clusters were given free", found.freed);
                    self.changed();
                }
                self.mounted(answer.map(|_| ()));
                Next::Begun
            }
        }
    }

    fn advance_root(
        &mut self,
        job: &mut Job,
        client: usize,
        names: usize,
        answer: Result<Answer, culm_fat::Error>,
    ) -> Result<Next, Error> {
        let writer = self.clients.get(client).filter(|client| client.may_write && !client.folder.is_empty());
        let Some(folder) = writer.map(|client| client.folder.as_str()) else { return Ok(Next::Begun) };
        let ends = folder.match_indices('/').map(|(at, _)| at).skip(1).chain([folder.len()]);
        if job.step == 0 {
            let path = folder.get(..ends.clone().nth(names - 1).unwrap_or(folder.len())).unwrap_or_default();
            return Ok(Next::Operation(Fat::MakeFolder { path: path.into() }));
        }
        let is_last = names >= ends.count();
        if !is_last {
            self.own.push_front(Work::Root { client, names: names + 1 });
        }
        match answer {
            Ok(_) => {
                self.changed();
                Ok(Next::Begun)
            }
            Err(error) => Err(of_volume(error)),
        }
    }

    fn advance_locate(&mut self, step: u8, id: usize, answer: Result<Answer, culm_fat::Error>) -> Next {
        let transfer = self.transfers.get_mut(id);
        // One that has failed meanwhile, or was sent since another job has found its place, needs
        // nothing more.
        let transfer = transfer.filter(|transfer| transfer.error.is_none() && transfer.next < transfer.end);
        let Some(transfer) = transfer else { return Next::Begun };
        let open = self.opens.get(transfer.open);
        let (file, next) = (open.and_then(Open::file), transfer.next);
        match (step, file, answer) {
            (0, Some(file), _) => {
                // The bytes behind it are located too: their reads then need no job of their own.
                let last = open.and_then(Open::last).unwrap_or(transfer.end - 1);
                return Next::Operation(Fat::Locate { file, offset: last.min(transfer.end - 1 + AHEAD) });
            }
            // The file lies in so many pieces that the volume has forgotten the first ones.
            (1, Some(file), Ok(_)) if self.volume.place(file, next).is_none() => {
                return Next::Operation(Fat::Locate { file, offset: next });
            }
            (_, Some(_), Ok(_)) => {
                // A write has kept its turn.
                let (number, is_read) = (transfer.client, !transfer.is_write);
                if is_read && let Some(client) = self.clients.get_mut(number) {
                    client.sending.push_front(id);
                }
            }
            (_, _, answer) => {
                transfer.error = Some(answer.err().map_or(Error::Damaged, of_volume));
            }
        }
        Next::Begun
    }

    /// Closes what is open by this number. What was written to a file that is there is committed
    /// before, as far as it is on the disk without a gap: whoever has written it was told so, also
    /// if a later write failed or never ended.
    fn advance_close(
        &mut self,
        job: &mut Job,
        id: OpenId,
        answer: Result<Answer, culm_fat::Error>,
    ) -> Result<Next, Error> {
        if job.step == 0 {
            let Some(open) = self.opens.get_mut(id) else { return Ok(Next::Done(Done::NOTHING)) };
            if let Some(writer) = open.writer()
                && writer.is_there
                && writer.good > writer.committed
            {
                return Ok(Next::Operation(Fat::Publish { file: writer.file, size: writer.good }));
            }
            job.step = 2;
        }
        match (job.step, answer) {
            (1, Ok(_)) => {
                self.changed();
                Ok(Next::Operation(Fat::Sync))
            }
            (1 | 2, answer) => {
                // The file is closed even if its last bytes could not be published.
                job.close_error = answer.err().map(of_volume);
                job.step = 2;
                let client = job.client.and_then(|number| self.clients.get_mut(number));
                let open = self.opens.remove(id);
                if let (Some(client), Some(_)) = (client, &open) {
                    client.opened -= 1;
                }
                match open.and_then(|open| open.file()) {
                    Some(file) => Ok(Next::Operation(Fat::Close { file })),
                    None => Ok(Next::Done(Done::NOTHING)),
                }
            }
            (_, answer) => {
                self.closed();
                let error = job.close_error.or(answer.err().map(of_volume));
                error.map_or(Ok(Next::Done(Done::NOTHING)), Err)
            }
        }
    }

    fn advance_request(
        &mut self,
        job: &mut Job,
        number: usize,
        taken: Taken,
        answer: Result<Answer, culm_fat::Error>,
    ) -> Result<Next, Error> {
        let request = taken.request;
        if job.step == 0 && request.operation.has_path() {
            let client = self.clients.get(number).ok_or(Error::Invalid)?;
            let path = client.port.path(&request)?;
            let is_root = path == "/";
            if is_root && !matches!(request.operation, Operation::Open(_) | Operation::Stat) {
                return Err(Error::Invalid);
            }
            job.path = client.on_volume(&path);
        }
        match request.operation {
            Operation::Open(mode) => self.advance_open(job, number, &request, mode, answer),
            Operation::Close => {
                if job.step == 0 {
                    let client = self.clients.get_mut(number).ok_or(Error::Invalid)?;
                    let open = client.files.get_mut(usize::from(request.file)).and_then(Option::take);
                    job.closing = Some(open.ok_or(Error::Invalid)?);
                }
                let open = job.closing.ok_or(Error::Invalid)?;
                self.advance_close(job, open, answer)
            }
            Operation::Write => self.advance_write(job, number, taken, answer),
            Operation::Commit => self.advance_commit(job, number, &request, answer),
            Operation::Stat => match (job.step, answer.map_err(of_volume)?) {
                (0, _) => Ok(Next::Operation(Fat::Find { path: job.path.clone() })),
                (_, Answer::Found(entry)) => Ok(Next::Done(Done::file(info_of(&entry)))),
                _ => Err(Error::Failed),
            },
            Operation::List => self.advance_list(job, number, &request, answer),
            Operation::MakeFolder | Operation::Remove | Operation::Rename => {
                self.advance_change(job, number, &request, answer)
            }
            // Those need no job.
            Operation::Read => Err(Error::Invalid),
        }
    }

    fn advance_change(
        &mut self,
        job: &mut Job,
        number: usize,
        request: &Request,
        answer: Result<Answer, culm_fat::Error>,
    ) -> Result<Next, Error> {
        answer.map_err(of_volume)?;
        if job.step == 1 {
            self.changed();
            return Ok(Next::Operation(Fat::Sync));
        }
        if job.step > 1 {
            return Ok(Next::Done(Done::NOTHING));
        }
        let path = job.path.clone();
        Ok(Next::Operation(match request.operation {
            Operation::MakeFolder => Fat::MakeFolder { path },
            Operation::Remove => Fat::Remove { path },
            _ => {
                let client = self.clients.get(number).ok_or(Error::Invalid)?;
                let to = client.on_volume(&client.port.second_path(request)?);
                Fat::Rename { from: path, to, replace: false }
            }
        }))
    }

    fn advance_list(
        &mut self,
        job: &mut Job,
        number: usize,
        request: &Request,
        answer: Result<Answer, culm_fat::Error>,
    ) -> Result<Next, Error> {
        let open = self.clients.get(number).ok_or(Error::Invalid)?.open(request.file)?;
        let Kind::Folder(path) = &self.opens.get(open).ok_or(Error::Invalid)?.kind else {
            return Err(Error::WrongKind);
        };
        let list = |most| Fat::List { path: path.clone(), from: request.position, most };
        match (job.step, answer.map_err(of_volume)?) {
            (0, _) => {
                let most = ((request.length / LEAST_ITEM) as usize).clamp(1, MOST_ITEMS);
                Ok(Next::Operation(list(most)))
            }
            (step, Answer::Listed { entries, next }) => {
                let mut found = List::new(request.length);
                let count = entries.iter().take_while(|entry| found.push(&entry.name, &info_of(entry))).count();
                if count < entries.len() {
                    if count == 0 || step > 1 {
                        return Err(Error::Invalid);
                    }
                    return Ok(Next::Operation(list(count)));
                }
                let memory = self.clients.get(number).ok_or(Error::Invalid)?.port.memory();
                memory.write(request.offset(), found.bytes()).map_err(|_| Error::Invalid)?;
                Ok(Next::Done(Done { next, ..Done::bytes(found.bytes().len() as u32) }))
            }
            _ => Err(Error::Failed),
        }
    }
}

/// Returns an entry of the volume as clients are told of it.
fn info_of(entry: &Entry) -> Info {
    Info {
        is_folder: entry.kind == culm_fat::Kind::Folder,
        is_read_only: entry.read_only,
        size: entry.size,
        modified: entry.modified,
        mark: 0,
    }
}
