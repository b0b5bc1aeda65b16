//! The guest's last words: the last lines that it has sent to its console, for who wants to know
//! why it has ended.
//!
//! A guest says when it panics: Linux does by a line with `Kernel panic - not syncing: `, by more
//! lines, and by one with `---[ end Kernel panic` if it is not told to reset itself. A guest can
//! say that at any time, so it costs a report of bounded size in each of its lives.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Lines that are kept.
pub const LINES: usize = 16;

/// Bytes that are kept of each: of a longer one the beginning.
pub const LINE: usize = 128;

/// How Linux begins to say that it panics.
const PANIC: &[u8] = b"Kernel panic - not syncing: ";

/// How it says that this was all.
const END: &[u8] = b"---[ end Kernel panic";

/// The lines.
#[derive(Debug)]
pub struct LastLines {
    lines: VecDeque<Vec<u8>>,
    /// The line that has not ended.
    current: Vec<u8>,
    /// What the guest says of its panic, with the bytes that say so in front.
    panic: Option<Vec<u8>>,
    /// It has said all of its panic.
    is_over: bool,
}

impl Default for LastLines {
    fn default() -> Self {
        Self { lines: VecDeque::with_capacity(LINES), current: Vec::with_capacity(LINE), panic: None, is_over: false }
    }
}

impl LastLines {
    /// Takes a byte that the guest has sent.
    pub fn follow(&mut self, byte: u8) {
        match byte {
            b'\n' => self.end_line(),
            _ if self.current.len() < LINE => self.current.push(byte),
            _ => {}
        }
    }

    fn end_line(&mut self) {
        let line = &self.current;
        if self.panic.is_none() {
            self.panic = find(line, PANIC).map(|at| trimmed(&line[at..]).to_vec());
        } else if find(line, END).is_some() {
            self.is_over = true;
        }
        if trimmed(line).is_empty() {
            return self.current.clear();
        }
        // The oldest line's memory is the next one's: a guest that talks costs none.
        let mut next = if self.lines.len() < LINES { None } else { self.lines.pop_front() }
            .unwrap_or_else(|| Vec::with_capacity(LINE));
        next.clear();
        self.lines.push_back(core::mem::replace(&mut self.current, next));
    }

    /// Returns what the guest says of its panic, if it has said that it panics.
    pub fn panic(&self) -> Option<&[u8]> {
        self.panic.as_deref()
    }

    /// Returns whether the guest has said all of its panic, and stays as it is.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the lines, the oldest first, and last what has come of the one that has not ended.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let lines = self.lines.iter().chain([&self.current]);
        lines.map(|line| trimmed(line)).filter(|line| !line.is_empty())
    }

    /// Forgets everything: another life of the guest's begins, or its end was told.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Returns a line without the spaces, and the return, behind it.
fn trimmed(line: &[u8]) -> &[u8] {
    line.trim_ascii_end()
}

fn find(line: &[u8], words: &[u8]) -> Option<usize> {
    line.windows(words.len()).position(|window| window == words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec;

    fn after(text: &str) -> LastLines {
        let mut lines = LastLines::default();
        text.bytes().for_each(|byte| lines.follow(byte));
        lines
    }

    fn lines(lines: &LastLines) -> Vec<String> {
        lines.lines().map(|line| String::from_utf8_lossy(line).to_string()).collect()
    }

    #[test]
    fn the_last_lines_are_kept_and_no_more() {
        let text: String = (0..100).map(|number| std::format!("line {number}\r\n\r\n")).collect();
        let kept = lines(&after(&(text + "unfinished")));
        assert_eq!(kept.len(), LINES + 1);
        assert_eq!((kept[0].as_str(), kept[LINES].as_str()), ("line 84", "unfinished"));
        assert_eq!(lines(&after(&"x".repeat(1000))), vec!["x".repeat(LINE)]);
    }

    #[test]
    fn a_panic_is_known_by_its_words() {
        let text = "[    9.1] Kernel panic - not syncing: sysrq triggered crash\r\n[    9.2] CPU: 0\r\n";
        let mut told = after(text);
        assert_eq!(told.panic(), Some(&b"Kernel panic - not syncing: sysrq triggered crash"[..]));
        assert!(!told.is_over());
        b"[    9.3] ---[ end Kernel panic - not syncing: x ]---\r\n".iter().for_each(|byte| told.follow(*byte));
        assert!(told.is_over());
        told.forget();
        assert!(told.panic().is_none() && !told.is_over() && lines(&told).is_empty());
        assert!(after("Kernel panic\r\n---[ end Kernel panic\r\n").panic().is_none());
    }
}
