//! Keeps crash reports in files: the newest in `crash.txt`, those before it as `crash-1.txt` and so
//! on.
//!
//! A report is written after the log that tells of its fault is durable, by a connection of its
//! own: whatever keeps a report from its file keeps no line from the log. So a keeper that dies
//! between the two leaves the fault in the log alone.
//!
//! Earlier reports move up only when all of the new one is written, which is committed next. So
//! one for which there is no space costs none of them, and no failure costs more than one.

use crate::report::Reports;
use crate::rotation::{Rotation, Series};
use culm::Progress;
use culm::time::{Duration, Instant};
use culm_file::{Client, Completion, Error, File, Mode, NotSent};

/// How often a report is tried to be kept.
const TRIES: u32 = 5;

/// The pause after a failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_secs(1);

/// The request that is under way, or comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Create,
    Write,
    Rotate(Rotation),
    Commit,
}

/// The reports and their files.
#[derive(Debug)]
pub struct Crashes {
    client: Client<()>,
    reports: Reports,
    series: Series,
    file: Option<File>,
    job: Job,
    /// The earlier reports have moved up for the first one. What has the newest name now is that
    /// report itself, if the answer to its commit was lost.
    has_rotated: bool,
    /// The job was asked for.
    is_asked: bool,
    /// How often the first report could not be kept.
    failures: u32,
    /// Nothing is asked for before.
    until: Option<Instant>,
    kept: u64,
}

impl Crashes {
    /// Keeps up to `count` reports in these files.
    pub fn new(client: Client<()>, count: u32) -> Self {
        let series = Series::new("crash", count.saturating_sub(1));
        Self {
            client,
            reports: Reports::default(),
            series,
            file: None,
            job: Job::Create,
            has_rotated: false,
            is_asked: false,
            failures: 0,
            until: None,
            kept: 0,
        }
    }

    /// Looks for reports in the log's next lines.
    pub fn read(&mut self, lines: &[u8]) {
        self.reports.read(lines);
    }

    /// Returns how many reports were kept.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Returns how many faults have no report.
    pub fn missing(&self) -> u64 {
        self.reports.missing()
    }

    /// Returns when there is something to do that nobody notifies of.
    pub fn wake(&self) -> Option<Instant> {
        self.until
    }

    /// Takes answers, and asks for what comes next.
    pub fn round(&mut self, now: Instant) -> Progress {
        self.client.begin();
        while let Some(Completion { result, .. }) = self.client.next_completion() {
            self.is_asked = false;
            if let Err(error) = self.complete(result.err()) {
                self.fail(error, now);
            }
        }
        self.until = self.until.filter(|until| *until > now);
        let is_there = self.client.volume().is_some_and(|volume| volume.is_present());
        while is_there && !self.is_asked && self.until.is_none() && self.client.under_way() == 0 {
            match self.ask() {
                Ok(true) => self.is_asked = true,
                // There is no report; or the provider brings the next turn.
                Ok(false) | Err(NotSent::Full | NotSent::Unknown) => break,
                // After the last try nothing brings a turn: ask for the next report in this one.
                Err(NotSent::Refused(error)) => self.fail(error, now),
            }
        }
        self.client.end_round()
    }

    /// Asks for the job of the first report, if there is one. Returns whether it did.
    fn ask(&mut self) -> Result<bool, NotSent> {
        let Some(report) = self.reports.first() else { return Ok(false) };
        let file = self.file.ok_or(NotSent::Refused(Error::Lost));
        match self.job {
            Job::Create => self.file = Some(self.client.open(&self.series.newest(), Mode::New, ())?),
            Job::Write => {
                self.client.memory().write(0, report).map_err(|_| Error::Invalid)?;
                self.client.write(file?, 0, report.len() as u32, ())?;
            }
            Job::Rotate(rotation) => rotation.ask(&self.series, &mut self.client)?,
            Job::Commit => self.client.commit(file?, ())?,
        }
        Ok(true)
    }

    /// Takes the answer to the job: nothing, or an error.
    fn complete(&mut self, error: Option<Error>) -> Result<(), Error> {
        let result = error.map_or(Ok(()), Err);
        match self.job {
            Job::Create if result.is_err() => {
                self.file = None;
                result?;
            }
            Job::Create => self.job = Job::Write,
            Job::Write => {
                result?;
                self.job = if self.has_rotated { Job::Commit } else { Job::Rotate(Rotation::begin(&self.series)) };
            }
            Job::Rotate(rotation) => {
                let next = rotation.answer(&mut self.series, result)?;
                self.has_rotated = next.is_none();
                self.job = next.map_or(Job::Commit, Job::Rotate);
            }
            Job::Commit => {
                result?;
                self.kept += 1;
                self.next();
            }
        }
        Ok(())
    }

    /// Begins again after a pause, with the next report if this one was tried often enough.
    fn fail(&mut self, error: Error, now: Instant) {
        self.until = (self.failures + 1 < TRIES).then(|| now + PAUSE * (1 << self.failures));
        self.failures += 1;
        // Nothing has moved up on another medium.
        self.has_rotated &= !matches!(error, Error::Absent | Error::Changed);
        self.close();
        if self.failures == TRIES {
            culm::warn!("a crash report cannot be kept: {error}; the log has it");
            self.next();
        }
    }

    fn next(&mut self) {
        self.close();
        (self.failures, self.has_rotated) = (0, false);
        self.reports.remove_first();
    }

    fn close(&mut self) {
        self.job = Job::Create;
        if let Some(file) = self.file.take() {
            self.client.close(file);
        }
    }
}
