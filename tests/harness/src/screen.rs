//! The text that a program writes while a test waits for parts of it.

use crate::PATIENCE;
use std::io::Read;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// A program's output, read by a thread of its own.
#[derive(Debug)]
pub struct Screen {
    output: Receiver<Vec<u8>>,
    /// The text that has come and was not waited for.
    seen: String,
}

impl Screen {
    /// Reads this output to its end.
    pub fn new(mut reader: impl Read + Send + 'static) -> Self {
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { output, seen: String::new() }
    }

    /// Waits for a text and forgets everything up to it.
    ///
    /// # Panics
    /// Where it does not come.
    pub fn expect(&mut self, text: &str) {
        self.expect_all(&[text]);
    }

    /// Waits for a text, forgets everything up to it, and returns what stands before it.
    ///
    /// # Panics
    /// Where it does not come.
    pub fn expect_before(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some((before, _)) = self.seen.split_once(text) {
                let before = before.to_string();
                self.seen.drain(..before.len() + text.len());
                return before;
            }
            match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("no {text:?} ({error}); the screen so far:\n{}", self.seen),
            }
        }
    }

    /// Waits for texts in any order and forgets everything up to the last.
    ///
    /// # Panics
    /// Where one does not come.
    pub fn expect_all(&mut self, texts: &[&str]) {
        let until = Instant::now() + PATIENCE;
        loop {
            let ends = texts.iter().map(|text| self.seen.find(text).map(|at| at + text.len()));
            if let Some(ends) = ends.collect::<Option<Vec<_>>>() {
                self.seen.drain(..ends.into_iter().max().unwrap_or(0));
                return;
            }
            match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("not all of {texts:?} ({error}); the screen so far:\n{}", self.seen),
            }
        }
    }
}
