//! Reads by the file service: one request for the whole file.

use crate::Count;
use culm::Progress;
use culm::connection::FileClient;
use culm_bench_guest::file::{PATH, SIZE};
use culm_file::{Client, Completion, File, Mode};

/// A client of the file service.
pub struct Reader {
    client: Client<()>,
    file: Option<File>,
    count: Count,
    /// Whether a request is under way.
    is_waiting: bool,
    is_done: bool,
}

impl Reader {
    /// Begins with opening the file.
    pub fn new(connection: &FileClient) -> Self {
        let client = Client::connect(connection);
        Self { client, file: None, count: Count::default(), is_waiting: false, is_done: false }
    }

    /// Takes the answer, and asks again.
    pub fn round(&mut self) -> Progress {
        self.client.begin();
        while let Some(Completion { result, .. }) = self.client.next_completion() {
            self.is_waiting = false;
            match result {
                // The answer to opening it.
                Ok(done) if done.info.is_some() => {}
                Ok(done) => {
                    assert!(done.count == SIZE, "{} bytes of {SIZE} were read, so nothing is measured", done.count);
                    self.is_done = !self.count.add();
                }
                Err(error) => panic!("{PATH} cannot be read, so nothing is measured: {error}"),
            }
        }
        if !self.is_waiting && !self.is_done && self.client.volume().is_some_and(|volume| volume.is_present()) {
            self.ask();
        }
        self.client.end_round()
    }

    fn ask(&mut self) {
        let asked = match self.file {
            None => self.client.open(PATH, Mode::Read, ()).map(|file| self.file = Some(file)),
            Some(file) => self.client.read(file, 0, 0, SIZE, ()),
        };
        match asked {
            Ok(()) => self.is_waiting = true,
            Err(error) => panic!("{PATH} cannot be asked for, so nothing is measured: {error}"),
        }
    }
}
