//! Moves files and folders and appends to files, step by step, and says so after each step. Each
//! life works in a new folder, of which the name is the number behind the greatest that is there.
//!
//! It begins when somebody has made the file `/go`: until then the volume can come to rest. One
//! that is there when it starts was made for an earlier life, and is removed.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod steps;

use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, Progress, ROUNDS, run_rounds};
use culm_file::{BLOCK, Client, Completion, Done, Error, File, Mode, NotSent};
use steps::Step;

culm::component!(Mover);

/// The file that lets the first step begin.
const GO: &str = "/go";

/// The pause before it is looked for again.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause after some steps. After a second the file service would flush by itself.
const QUIET_PAUSE: Duration = Duration::from_millis(400);

/// Bytes of a list.
const LIST: u32 = 4096;

/// The request that is under way, or comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Remove,
    OpenRoot,
    List(u64),
    Look,
    /// The step itself, or the opening of its file.
    Step,
    Write,
    Commit,
    Close,
    /// There is none: something has failed.
    End,
}

struct Mover {
    client: Client<()>,
    life: u64,
    /// How many steps were done.
    done: u64,
    job: Job,
    file: Option<File>,
    /// Nothing is asked for before.
    until: Option<Instant>,
}

impl Component for Mover {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let client = Client::connect(&connections.files);
        let mut this = Self { client, life: 1, done: 0, job: Job::Remove, file: None, until: None };
        this.run();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl Mover {
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.round());
        if let Some(until) = self.until {
            culm::wake_at(until);
        }
    }

    fn round(&mut self) -> Progress {
        self.client.begin();
        while let Some(Completion { result, .. }) = self.client.next_completion() {
            match result {
                Ok(done) => self.complete(done),
                Err(Error::NotFound) if self.job == Job::Remove => self.job = Job::OpenRoot,
                Err(Error::NotFound) if self.job == Job::Look => self.until = Some(time::now() + PAUSE),
                Err(error) => self.fail(error),
            }
        }
        let is_there = self.client.volume().is_some_and(|volume| volume.is_present());
        self.until = self.until.filter(|until| *until > time::now());
        if is_there && self.client.under_way() == 0 && self.until.is_none() {
            match self.ask() {
                Ok(()) | Err(NotSent::Full | NotSent::Unknown) => {}
                Err(NotSent::Refused(error)) => self.fail(error),
            }
        }
        self.client.end_round()
    }

    fn fail(&mut self, error: Error) {
        culm::error!("step {} of life {} failed: {:?}: {error}", self.done, self.life, self.job);
        self.job = Job::End;
    }

    /// Asks for the job.
    fn ask(&mut self) -> Result<(), NotSent> {
        let file = self.file.ok_or(NotSent::Refused(Error::Invalid));
        match self.job {
            Job::Remove => self.client.remove(GO, ()),
            Job::OpenRoot => self.open("/", Mode::Read),
            Job::List(from) => self.client.list(file?, from, 0, LIST, ()),
            Job::Look => self.client.stat(GO, ()),
            Job::Step => match steps::step(self.life, self.done) {
                Step::Folder(path) => self.client.make_folder(&path, ()),
                Step::Move(from, to) => self.client.rename(&from, &to, ()),
                Step::Replace(path, _) => self.open(&path, Mode::New),
                Step::Append(path, _) => self.open(&path, Mode::Append),
            },
            Job::Write => self.write(file?),
            Job::Commit => self.client.commit(file?, ()),
            Job::Close => {
                self.close();
                self.job = Job::Step;
                Ok(())
            }
            Job::End => Ok(()),
        }
    }

    fn open(&mut self, path: &str, mode: Mode) -> Result<(), NotSent> {
        self.file = Some(self.client.open(path, mode, ())?);
        Ok(())
    }

    fn close(&mut self) {
        if let Some(file) = self.file.take() {
            self.client.close(file);
        }
    }

    fn write(&mut self, file: File) -> Result<(), NotSent> {
        let (Step::Replace(_, bytes) | Step::Append(_, bytes)) = steps::step(self.life, self.done) else {
            return Err(Error::Invalid.into());
        };
        let offset = self.client.end(file) as usize % BLOCK;
        self.client.memory().write(offset, &bytes).map_err(|_| Error::Invalid)?;
        self.client.write(file, 0, bytes.len() as u32, ())
    }

    /// Takes the answer to the job.
    fn complete(&mut self, done: Done) {
        self.job = match self.job {
            Job::Remove => Job::OpenRoot,
            Job::OpenRoot => Job::List(0),
            Job::List(_) => self.look(done),
            Job::Look => Job::Step,
            Job::Step if self.file.is_some() => Job::Write,
            Job::Write => Job::Commit,
            Job::Step | Job::Commit => {
                self.done += 1;
                culm::info!("{} steps of life {} are done", self.done, self.life);
                if steps::QUIET.contains(&self.done) {
                    self.until = Some(time::now() + QUIET_PAUSE);
                }
                // A file is closed before a step that may move it.
                if self.job == Job::Commit { Job::Close } else { Job::Step }
            }
            other => other,
        };
    }

    /// Looks for the folders of earlier lives in a part of the list.
    fn look(&mut self, done: Done) -> Job {
        for item in self.client.listing(0, done.count) {
            let earlier: Option<u64> = item.name.parse().ok();
            self.life = self.life.max(earlier.map_or(1, |earlier| earlier + 1));
        }
        if let Some(next) = done.next {
            return Job::List(next);
        }
        self.close();
        culm::info!("life {} waits for {GO}", self.life);
        Job::Look
    }
}
