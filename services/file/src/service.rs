//! The rounds: what is taken from the disk and from clients, and what is due.

mod data;
mod medium;

use crate::client::{Client, Item};
use crate::counters;
use crate::job::{Job, Work};
use crate::open::{Kind, OpenId, Opens};
use crate::slots::{self, Slots};
use crate::transfer::Transfers;
use crate::wire::Wire;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use culm::connection::{BlockClient, FileProviderClient};
use culm::time::{self, Instant};
use culm::{Progress, Region};
use culm_block::{BLOCK, Completion, Request, Segment};
use culm_clock::Clock;
use culm_fat::{Options, Step, Volume};
use culm_file::{Done, Error, Operation, Taken};
pub use medium::State;

/// The most operations of the volume's that a round begins: what they need can all be at hand, and
/// others of the same priority have their turns between rounds.
const MOST_JOBS: usize = 8;

/// The purpose of a request to the disk.
#[derive(Clone, Copy, Debug)]
pub enum Tag {
    /// A piece of a run of the volume's, from its block `from` on.
    Run { epoch: u32, number: u32, slot: u16, from: u32, blocks: u32 },
    /// The volume's flush.
    Flush { epoch: u32 },
    /// The last granule of a file that a job opens.
    Tail { epoch: u32, slot: u16 },
    /// Whole granules of a transfer, straight to or from its client's memory.
    Data { transfer: usize, blocks: u32 },
    /// A granule of which a transfer has these bytes, which belong at `to` in the memory.
    Edge { transfer: usize, slot: u16, blocks: u32, from: u32, bytes: u32, to: usize },
}

/// The file service. One value of it is the component's state.
#[derive(Debug)]
pub struct Service {
    pub(crate) disk: culm_block::Client<Tag>,
    /// All of the memory that the disk reaches: the service's own, then the clients'.
    pub(crate) memory: Region,
    pub(crate) slots: Slots,
    pub(crate) wire: Wire,
    pub(crate) volume: Volume,
    pub(crate) state: State,
    /// Tells what is at the disk for this mounting from what was for an earlier one.
    pub(crate) epoch: u32,
    /// The disk as it was seen last, and how often its medium had changed.
    pub(crate) seen: Option<(culm_block::Disk, u32)>,
    /// How often the volume was mounted again although its medium is the same.
    pub(crate) remounts: u32,
    /// When to try again to mount.
    pub(crate) retry_at: Option<Instant>,
    /// How often that has failed in a row.
    pub(crate) failures: u32,
    /// Whether the volume was not at rest and recovery could not make it whole: nothing is written
    /// to it, because names that a power cut left could share clusters.
    pub(crate) is_unrecovered: bool,
    /// Damage of the volume was told of.
    pub(crate) is_damaged: bool,
    /// When to say on the volume that it is whole.
    pub(crate) rest_at: Option<Instant>,
    pub(crate) job: Option<Job>,
    /// The service's own work for the volume, which goes before all others'.
    pub(crate) own: VecDeque<Work>,
    pub(crate) clients: Vec<Client>,
    pub(crate) opens: Opens,
    pub(crate) transfers: Transfers,
    /// The client whose turn it is at the volume; behind the last one, it is the turn of space that
    /// is given free.
    turn: usize,
    /// The client whose turn it is to send data.
    sender: usize,
    pub(crate) clock: Option<Clock>,
    pub(crate) cache: usize,
    /// Blocks of a granule of the disk.
    pub(crate) granule: u32,
    /// The most blocks of a request, whole granules.
    pub(crate) most: u32,
}

impl Service {
    /// Takes up the queues to the disk and to all clients. The cache has so many blocks.
    ///
    /// # Panics
    ///
    /// If the disk's memory has no room for the service's own blocks.
    pub fn new(disk: &BlockClient, clients: &[FileProviderClient], clock: Option<Clock>, cache: usize) -> Self {
        let memory = Region::new(disk.data);
        let clients: Vec<Client> = clients.iter().map(Client::new).collect();
        let own = clients.iter().map(|client| client.place).min().unwrap_or(memory.len());
        Self {
            disk: culm_block::Client::connect(disk),
            memory,
            slots: Slots::new(own),
            wire: Wire::default(),
            volume: Volume::new(Options { blocks: 0, granule: 0, cache_blocks: cache, read_only: true }),
            state: State::Unknown,
            epoch: 0,
            seen: None,
            remounts: 0,
            retry_at: None,
            failures: 0,
            is_unrecovered: false,
            is_damaged: false,
            rest_at: None,
            job: None,
            own: VecDeque::new(),
            clients,
            opens: Opens::default(),
            transfers: Transfers::default(),
            turn: 0,
            sender: 0,
            clock,
            cache,
            granule: 1,
            most: 1,
        }
    }

    /// Takes a round: moves what there is.
    pub fn round(&mut self) -> Progress {
        self.disk.begin();
        while let Some(completion) = self.disk.next_completion() {
            self.complete(completion);
        }
        self.watch();
        for number in 0..self.clients.len() {
            self.look(number);
        }
        let mut left = MOST_JOBS;
        loop {
            self.work(&mut left);
            // Transfers may ask where their bytes lie.
            if !self.send() || left == 0 {
                break;
            }
        }
        // If the last job waits for the disk, the next round begins when that answers.
        let progress = self.disk.end_round() & Progress::more_if(left == 0 && self.job.is_none());
        self.clients.iter_mut().fold(progress, |progress, client| progress & client.port.end_round(true))
    }

    /// Asks for a turn when something is due by time.
    pub fn ask_for_time(&self) {
        // Rest waits for the job that is under way; its end begins a round, which asks again.
        let rest_at = self.rest_at.filter(|_| self.job.is_none());
        for at in [self.retry_at, rest_at].into_iter().flatten() {
            culm::wake_at(at);
        }
    }

    /// Takes what the disk has done.
    fn complete(&mut self, Completion { tag, result }: Completion<Tag>) {
        if result.is_err() {
            counters::FAILED.add(1);
        }
        match tag {
            Tag::Run { epoch, number, slot, from, blocks } => {
                if epoch == self.epoch
                    && let Some(run) = self.wire.run(number)
                {
                    run.outstanding -= 1;
                    run.has_failed |= result.is_err();
                    let begin = from as usize * BLOCK;
                    if !run.is_write
                        && let Some(bytes) = run.bytes.get_mut(begin..begin + blocks as usize * BLOCK)
                    {
                        run.has_failed |= self.memory.read(slots::offset(slot), bytes).is_err();
                    }
                }
                self.slots.give(slot);
            }
            Tag::Flush { epoch } if epoch == self.epoch => {
                self.wire.flush = None;
                self.volume.flushed(result.is_ok());
            }
            Tag::Flush { .. } => {}
            Tag::Tail { epoch, slot } => {
                if epoch == self.epoch {
                    self.take_tail(slot, result);
                }
                self.slots.give(slot);
            }
            Tag::Data { transfer, blocks } => self.moved(transfer, blocks, result),
            Tag::Edge { transfer, slot, blocks, from, bytes, to } => {
                let is_read = self.transfers.get_mut(transfer).is_some_and(|one| !one.is_write && one.error.is_none());
                if is_read && result.is_ok() {
                    // Both are inside: the request was checked.
                    let from = slots::offset(slot) + from as usize;
                    let _ = self.memory.copy(from, &self.memory, to, bytes as usize);
                }
                self.slots.give(slot);
                self.moved(transfer, blocks, result);
            }
        }
    }

    /// Looks at a client: whether it was restarted, and what it asks for.
    fn look(&mut self, number: usize) {
        let Some(client) = self.clients.get_mut(number) else { return };
        client.port.begin();
        if client.port.lives() != client.lives {
            self.retire(number);
        }
        while let Some(taken) = self.clients.get_mut(number).and_then(|client| client.port.next_request()) {
            counters::REQUESTS.add(1);
            if let Err(error) = self.take(number, taken) {
                self.answer(number, &taken, Err(error));
            }
        }
    }

    /// Begins what a client asks for, or has it wait for the volume.
    #[inline]
    fn take(&mut self, number: usize, taken: Taken) -> Result<(), Error> {
        match taken.request.operation {
            Operation::Read => self.begin_read(number, taken),
            Operation::Write if self.is_first(number) && self.may_write_now(number, &taken)? => {
                self.begin_write(number, taken)
            }
            _ => {
                if let Some(client) = self.clients.get_mut(number) {
                    client.items.push_back(Item::Request(taken));
                }
                Ok(())
            }
        }
    }

    /// Returns whether nothing of a client's waits for the volume.
    fn is_first(&self, number: usize) -> bool {
        let has_job = self.job.as_ref().is_some_and(|job| job.client == Some(number));
        !has_job && self.clients.get(number).is_some_and(|client| client.items.is_empty())
    }

    /// Answers a request.
    pub(crate) fn answer(&mut self, number: usize, taken: &Taken, result: Result<Done, Error>) {
        if result.is_err() {
            counters::REQUESTS_REFUSED.add(1);
        }
        if let Some(client) = self.clients.get_mut(number) {
            client.port.answer(taken, result);
        }
    }

    /// Ends a client's life: what waits is dropped, what is under way fails, what is open is
    /// closed.
    #[cold]
    fn retire(&mut self, number: usize) {
        self.drop_items(number, Error::Changed);
        for transfer in self.transfers.fail(Some(number), Error::Changed) {
            self.end_transfer(transfer);
        }
        let Some(client) = self.clients.get_mut(number) else { return };
        client.lives = client.port.lives();
        let open = client.files.iter_mut().filter_map(Option::take);
        client.items.extend(open.map(Item::Close));
    }

    /// Ends the requests of a client that wait for the volume.
    pub(crate) fn drop_items(&mut self, number: usize, error: Error) {
        let Some(client) = self.clients.get_mut(number) else { return };
        for item in core::mem::take(&mut client.items) {
            match item {
                Item::Request(taken) => client.port.answer(&taken, Err(error)),
                Item::Locate(transfer) => self.transfers.place_was_told(transfer),
                Item::Close(open) => client.items.push_back(Item::Close(open)),
            }
        }
    }

    /// Lets the volume work until it waits for the disk or `left` more jobs have begun, and takes
    /// those off.
    fn work(&mut self, left: &mut usize) {
        loop {
            if self.job.is_none() {
                if *left == 0 || !self.begin_job() {
                    break;
                }
                *left -= 1;
            }
            if !self.drive() {
                break;
            }
        }
        self.pump();
    }

    /// Begins the next job, if there is one.
    fn begin_job(&mut self) -> bool {
        if let Some(work) = self.own.pop_front() {
            return self.start(None, work);
        }
        if self.state != State::Ready {
            return false;
        }
        if self.rest_at.is_some_and(|at| at <= time::now()) && !self.volume.is_freeing() {
            self.rest_at = None;
            return self.start(None, Work::Rest);
        }
        let count = self.clients.len() + 1;
        for number in (self.turn..count).chain(0..self.turn) {
            if number == self.clients.len() && self.volume.is_freeing() {
                self.turn = 0;
                return self.start(None, Work::Free);
            }
            if !self.may_start(number) {
                continue;
            }
            let item = self.clients.get_mut(number).and_then(|client| client.items.pop_front());
            let Some(item) = item else { continue };
            self.turn = (number + 1) % count;
            let work = match item {
                Item::Request(taken) => Work::Request(taken),
                Item::Locate(transfer) => Work::Locate(transfer),
                Item::Close(open) => Work::Close(open),
            };
            return self.start(Some(number), work);
        }
        false
    }

    /// Makes a job of some work, and has it begin.
    fn start(&mut self, client: Option<usize>, work: Work) -> bool {
        counters::OPERATIONS.add(1);
        let lives = client.and_then(|client| self.clients.get(client)).map_or(0, |client| client.lives);
        let job = Job::new(client, lives, work);
        self.volume.set_time(self.now());
        self.go_on(job, Ok(culm_fat::Answer::Done));
        true
    }

    /// The time of day, in seconds since 1970; 0 if it is not known.
    pub(crate) fn now(&self) -> u64 {
        let now = self.clock.as_ref().and_then(Clock::now);
        now.map_or(0, |now| now.since_1970().as_secs())
    }

    /// Returns whether the first item of a client's can begin: what it needs has ended.
    fn may_start(&self, number: usize) -> bool {
        let Some(client) = self.clients.get(number) else { return false };
        let has_ended = |open: OpenId| self.opens.get(open).is_none_or(|open| open.transfers == 0);
        match client.items.front() {
            None => false,
            Some(Item::Request(taken)) => {
                let Ok(open) = client.open(taken.request.file) else { return true };
                match taken.request.operation {
                    Operation::Commit | Operation::Close => has_ended(open),
                    Operation::Write => match self.opens.get(open).map(|open| &open.kind) {
                        Some(Kind::Writer(writer)) => writer.edges == 0 || self.is_granular(taken.request.position),
                        _ => true,
                    },
                    _ => true,
                }
            }
            Some(Item::Locate(_)) => true,
            Some(Item::Close(open)) => has_ended(*open),
        }
    }

    /// Lets the job go on until it waits for the disk. Returns whether it has ended.
    fn drive(&mut self) -> bool {
        loop {
            let Some(job) = &self.job else { return true };
            if job.is_waiting() {
                return false;
            }
            match self.volume.step() {
                Step::Read { block, blocks } => self.wire.read(block, blocks),
                Step::Write { block, bytes } => self.wire.write(block, bytes),
                Step::Flush => self.wire.flush = Some(false),
                Step::Wait => {
                    if !self.pump() {
                        return false;
                    }
                }
                Step::Done(result) => {
                    if let Some(job) = self.job.take() {
                        self.go_on(job, result);
                    }
                }
            }
        }
    }

    /// Sends for what the volume and the job wait for, and takes what has come. Returns whether
    /// something has.
    fn pump(&mut self) -> bool {
        self.send_for_tail();
        for run in &mut self.wire.runs {
            while run.sent < run.blocks() && !run.has_failed && self.disk.space() > 0 {
                let Some(slot) = self.slots.take_any() else { break };
                let most = slots::BLOCKS.min(self.most);
                let (from, blocks) = (run.sent, (run.blocks() - run.sent).min(most));
                let begin = from as usize * BLOCK;
                let (block, place) = (run.block + u64::from(from), slots::offset(slot));
                let segment = [Segment { place: (place / BLOCK) as u64, blocks }];
                let request = if run.is_write {
                    let bytes = run.bytes.get(begin..begin + blocks as usize * BLOCK).unwrap_or_default();
                    let _ = self.memory.write(place, bytes);
                    Request::write(block, &segment)
                } else {
                    // If the device only says that it has read, there is nothing: no other folder.
                    let _ = self.memory.clear(place, blocks as usize * BLOCK);
                    Request::read(block, &segment)
                };
                let tag = Tag::Run { epoch: self.epoch, number: run.number, slot, from, blocks };
                if request.is_some_and(|request| self.disk.send(&request, tag).is_ok()) {
                    (run.sent, run.outstanding) = (run.sent + blocks, run.outstanding + 1);
                } else {
                    run.has_failed = true;
                    self.slots.give(slot);
                }
            }
        }
        if self.wire.flush == Some(false) && self.disk.space() > 0 {
            if self.disk.send(&Request::flush(), Tag::Flush { epoch: self.epoch }).is_ok() {
                self.wire.flush = Some(true);
            } else {
                self.wire.flush = None;
                self.volume.flushed(false);
                return true;
            }
        }
        let mut has_come = false;
        while let Some(run) = self.wire.take_ended() {
            has_come = true;
            if run.is_write {
                self.volume.wrote(!run.has_failed);
            } else {
                self.volume.give(run.block, (!run.has_failed).then_some(&run.bytes));
            }
        }
        has_come
    }
}
