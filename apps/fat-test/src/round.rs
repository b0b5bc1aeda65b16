//! One round, step by step.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use culm_file::{BLOCK, Client, Done, Error, File, Mode, NotSent};

/// Bytes of one request, whole blocks.
const PIECE: u32 = 32 * 1024;

/// Bytes of a list.
const LIST: u32 = 4096;

/// The name of the file.
const NAME: &str = "pattern.bin";

/// A step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes the folder, and changes into it.
    Folder,
    /// Creates the file.
    Create,
    /// Writes a pattern.
    Write,
    /// Makes it durable.
    Commit,
    /// Asks for the size.
    Stat,
    /// Opens the file.
    Open,
    /// Reads it and compares.
    Read,
    /// Opens the folder.
    OpenFolder,
    /// Lists what is in it.
    List,
}

/// The state of a round after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is more to do.
    GoesOn,
    /// All of it was as it should be.
    Done,
    /// Something was not; the log says what.
    Failed,
}

/// A round.
#[derive(Debug)]
pub struct Round {
    /// Its number, from 1 on.
    pub number: u32,
    /// The folder that relative paths begin in.
    current: String,
    size: u32,
    step: Step,
    /// The step has been asked for.
    is_asked: bool,
    file: Option<File>,
    /// Bytes that were written or read, or the place in the list.
    position: u64,
    /// The file is in the list.
    is_listed: bool,
}

/// Returns a byte of the pattern of a round.
fn byte(number: u32, position: u64) -> u8 {
    ((position / 8 + u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (position % 8 * 8)) as u8
}

impl Round {
    /// A round that writes so many bytes.
    pub fn new(number: u32, size: u32) -> Self {
        let (step, is_asked, file, position, is_listed) = (Step::Folder, false, None, 0, false);
        Self { number, current: String::new(), size, step, is_asked, file, position, is_listed }
    }

    /// Returns the present step.
    #[cfg(test)]
    pub fn step(&self) -> Step {
        self.step
    }

    /// Returns the path of a name in the current folder.
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.current)
    }

    fn folder(&self) -> String {
        format!("round{}", self.number)
    }

    /// Asks for the present step, unless it is under way.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn ask(&mut self, client: &mut Client<Step>) -> Result<(), NotSent> {
        if self.is_asked {
            return Ok(());
        }
        let step = self.step;
        let length = (u64::from(self.size) - self.position.min(self.size.into())).min(PIECE.into()) as u32;
        match (step, self.file) {
            (Step::Folder, _) => client.make_folder(&self.path(&self.folder()), step)?,
            (Step::Create, _) => self.file = Some(client.open(&self.path(NAME), Mode::New, step)?),
            (Step::Write, Some(file)) => {
                let bytes: vec::Vec<u8> =
                    (0..length).map(|at| byte(self.number, self.position + u64::from(at))).collect();
                client.memory().write(0, &bytes).map_err(|_| Error::Invalid)?;
                client.write(file, 0, length, step)?;
            }
            (Step::Commit, Some(file)) => client.commit(file, step)?,
            (Step::Stat, _) => client.stat(&self.path(NAME), step)?,
            (Step::Open, _) => self.file = Some(client.open(&self.path(NAME), Mode::Read, step)?),
            (Step::Read, Some(file)) => {
                client.memory().write(0, &vec![0; length as usize]).map_err(|_| Error::Invalid)?;
                client.read(file, self.position, 0, length, step)?;
            }
            (Step::OpenFolder, _) => self.file = Some(client.open(&self.current, Mode::Read, step)?),
            (Step::List, Some(folder)) => client.list(folder, self.position, 0, LIST, step)?,
            (Step::Write | Step::Commit | Step::Read | Step::List, None) => return Err(Error::Lost.into()),
        }
        self.is_asked = true;
        Ok(())
    }

    /// Takes the answer to a step.
    pub fn complete(&mut self, client: &mut Client<Step>, step: Step, result: Result<Done, Error>) -> Outcome {
        if step != self.step {
            // The answer belongs to a step of the round before it was begun again: ignore it.
            return Outcome::GoesOn;
        }
        self.is_asked = false;
        match result {
            Ok(done) => self.succeeded(client, done),
            // An earlier run has left the folder.
            Err(Error::Exists) if step == Step::Folder => self.succeeded(client, Done::default()),
            Err(error) => self.failed(client, error),
        }
    }

    /// Takes the reason why the present step cannot be done.
    pub fn failed(&mut self, client: &mut Client<Step>, error: Error) -> Outcome {
        self.close(client);
        if error == Error::Lost {
            culm::info!("round {}: the file is lost: begins again", self.number);
            *self = Self::new(self.number, self.size);
            return Outcome::GoesOn;
        }
        culm::error!("round {}: {:?}: {error}", self.number, self.step);
        Outcome::Failed
    }

    fn succeeded(&mut self, client: &mut Client<Step>, done: Done) -> Outcome {
        let (number, size) = (self.number, u64::from(self.size));
        match self.step {
            Step::Folder => {
                self.current = self.path(&self.folder());
                culm::info!("round {number}: made {0}, changed into {0}", self.current);
                self.enter(Step::Create)
            }
            Step::Create => self.enter(Step::Write),
            Step::Write => {
                self.position += u64::from(done.count);
                if self.position < size && done.count > 0 {
                    return Outcome::GoesOn;
                }
                culm::info!("round {number}: wrote {} bytes to {NAME}", self.position);
                self.enter(Step::Commit)
            }
            Step::Commit => {
                culm::info!("round {number}: {NAME} is durable");
                self.close(client);
                self.enter(Step::Stat)
            }
            Step::Stat if done.info.is_some_and(|info| info.size == size && !info.is_folder) => {
                culm::info!("round {number}: {NAME} has {size} bytes");
                self.enter(Step::Open)
            }
            Step::Stat => self.wrong(client, "the file has another size"),
            Step::Open => self.enter(Step::Read),
            Step::Read => self.compare(client, done.count),
            Step::OpenFolder => self.enter(Step::List),
            Step::List => self.look(client, &done),
        }
    }

    /// Compares what was read with the pattern.
    fn compare(&mut self, client: &mut Client<Step>, count: u32) -> Outcome {
        let mut bytes = vec![0; count.min(PIECE) as usize];
        // Pieces begin at whole blocks of the file, so the bytes lie at the start of the memory.
        let is_read = self.position.is_multiple_of(BLOCK as u64) && client.memory().read(0, &mut bytes).is_ok();
        let expected = (self.position..).map(|position| byte(self.number, position));
        if !is_read || count == 0 || !bytes.iter().copied().eq(expected.take(bytes.len())) {
            return self.wrong(client, "what was read is not what was written");
        }
        self.position += u64::from(count);
        if self.position < self.size.into() {
            return Outcome::GoesOn;
        }
        culm::info!("round {}: read {} bytes and compared them", self.number, self.position);
        self.close(client);
        self.enter(Step::OpenFolder)
    }

    /// Looks through a part of the list.
    fn look(&mut self, client: &mut Client<Step>, done: &Done) -> Outcome {
        for item in client.listing(0, done.count) {
            culm::info!("round {}: {} lists {}, {} bytes", self.number, self.current, item.name, item.info.size);
            self.is_listed |= item.name == NAME && item.info.size == u64::from(self.size);
        }
        match (done.next, self.is_listed) {
            (Some(next), _) => {
                self.position = next;
                Outcome::GoesOn
            }
            (None, true) => {
                self.close(client);
                Outcome::Done
            }
            (None, false) => self.wrong(client, "the folder does not list the file"),
        }
    }

    fn wrong(&mut self, client: &mut Client<Step>, why: &str) -> Outcome {
        culm::error!("round {}: {:?}: {why}", self.number, self.step);
        self.close(client);
        Outcome::Failed
    }

    fn enter(&mut self, step: Step) -> Outcome {
        (self.step, self.position) = (step, 0);
        Outcome::GoesOn
    }

    fn close(&mut self, client: &mut Client<Step>) {
        if let Some(file) = self.file.take() {
            client.close(file);
        }
    }
}
