//! One line of a client: collected until it is whole, and made safe to print.
//!
//! Most clients write a log, whose lines say who wrote them: `[ 12.345678] info http: …`. A client
//! that does not keep to that, whether it is no Rust component or means to speak in another's name,
//! gets its name put in front; control characters, which could move the cursor over what others
//! wrote, become spaces. A console's lines have the console's name in front, whatever they say, and
//! are text alone. Only the console in focus is a conversation with the user: its bytes go out as
//! they are.

use crate::plain::{Sequences, printable};
use core::fmt::{self, Write};
use culm_clock::TimeOfDay;

/// Bytes of a line that are collected; a longer one is broken.
pub const LENGTH: usize = 256;

/// Bytes of a client's name that are printed.
const NAME: usize = 64;

/// Bytes of what the mux itself says, besides a name and a line; of what stands between a name and
/// a line; and of what has the terminal forget a console's control sequences.
const NOTICE: usize = 64;

/// Most bytes that a line takes on the way out: the end of another's line, the time of day or
/// something of the mux's own, a name, the line and its end.
pub const MAX_OUTPUT: usize = 2 + NOTICE + NAME + LENGTH + 2;

/// Has the terminal forget what a console has begun: CAN, which ends any control sequence or string
/// (ECMA-48 §8.3.6), the usual rendition, the usual set of characters.
pub const CANCEL: &[u8] = b"\x18\x1b[m\x1b(B\x0f";

/// Has it forget all else: the main screen again, and a soft reset (DECSTR: the cursor is shown,
/// all of the screen scrolls).
pub const RESET: &[u8] = b"\x18\x1b[?1049l\x1b[!p\x1b(B\x0f";

/// A line being collected.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; LENGTH],
    length: usize,
    ended: bool,
}

impl Line {
    /// The empty line.
    pub const EMPTY: Self = Self { bytes: [0; LENGTH], length: 0, ended: false };

    /// Adds a byte, unless the line is whole.
    pub fn add(&mut self, byte: u8) {
        if byte == b'\n' {
            self.ended = true;
        } else if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
            self.length += 1;
        }
    }

    /// Returns whether the line's end was added.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether the line has ended, or has become too long.
    pub fn is_whole(&self) -> bool {
        self.ended || self.length == LENGTH
    }

    /// Returns whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.length == 0 && !self.ended
    }

    /// Forgets the line.
    pub fn clear(&mut self) {
        (self.length, self.ended) = (0, false);
    }

    /// Adds a byte that was printed at once, and forgets what a line's end, a return to the line's
    /// beginning, a backspace, or too long a line makes old.
    pub fn follow(&mut self, byte: u8) {
        if self.length == LENGTH || self.text().last() == Some(&b'\r') {
            self.clear();
        }
        match byte {
            b'\n' => self.clear(),
            b'\x08' => self.length = self.length.saturating_sub(1),
            _ => self.add(byte),
        }
    }

    /// Returns the collected bytes, without the line's end.
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Bytes on their way out.
#[derive(Debug)]
pub struct Output {
    bytes: [u8; MAX_OUTPUT],
    length: usize,
}

impl Output {
    /// No bytes.
    pub const EMPTY: Self = Self { bytes: [0; MAX_OUTPUT], length: 0 };

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Adds bytes, as many as there is space for.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(slot) = self.bytes.get_mut(self.length) {
                *slot = *byte;
                self.length += 1;
            }
        }
    }

    /// Adds the time of day.
    pub fn add_time(&mut self, time: TimeOfDay) {
        // Adding bytes cannot fail.
        let _ = write!(self, "{time} ");
    }

    /// Adds a line of the log of client `name`.
    pub fn add_log(&mut self, name: &[u8], text: &[u8]) {
        let name = &name[..name.len().min(NAME)];
        if !is_signed(name, text) {
            self.add_name(name);
            self.add(b": ");
        }
        printable(text, |piece| self.add(piece));
        self.add(b"\r\n");
    }

    /// Adds a console's line as text: without control sequences, and without the return that
    /// stands before the end of a terminal's line.
    pub fn add_text(&mut self, text: &[u8]) {
        let mut sequences = Sequences::NONE;
        let mut kept = Line::EMPTY;
        text.iter().filter(|byte| sequences.is_text(**byte)).for_each(|byte| kept.add(*byte));
        let kept = kept.text();
        printable(kept.strip_suffix(b"\r").unwrap_or(kept), |piece| self.add(piece));
    }

    /// Adds the beginning of a console's line as text; what follows goes on where that did.
    pub fn add_beginning(&mut self, text: &[u8]) {
        self.add_text(text);
        self.add(if text.ends_with(b"\r") { b"\r" } else { b"" });
    }

    /// Adds a console's line with the console's name in front, which nothing in the line takes the
    /// place of.
    pub fn add_of_console(&mut self, name: &[u8], text: &[u8]) {
        self.add_name(name);
        self.add(b"| ");
        self.add_text(text);
        self.add(b"\r\n");
    }

    /// Adds a client's name.
    pub fn add_name(&mut self, name: &[u8]) {
        self.add(&name[..name.len().min(NAME)]);
    }
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// Returns whether a line begins as the runtime's log begins those of `name`:
/// `[time] level name: `.
fn is_signed(name: &[u8], text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"[") else { return false };
    let time = rest.iter().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b' ' | b'.')).count();
    let Some(rest) = rest[time..].strip_prefix(b"] ") else { return false };
    let level = [&b"error "[..], b"warn  ", b"info  ", b"debug ", b"trace "];
    let Some(rest) = level.iter().find_map(|level| rest.strip_prefix(*level)) else { return false };
    rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(b": "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::time::Duration;

    fn log(name: &str, text: &[u8]) -> String {
        let mut output = Output::EMPTY;
        output.add_log(name.as_bytes(), text);
        String::from_utf8_lossy(output.bytes()).into_owned()
    }

    #[test]
    fn a_line_of_the_log_goes_out_as_it_is() {
        let line = "[   12.345678] info  http: listening";
        assert_eq!(log("http", line.as_bytes()), format!("{line}\r\n"));
    }

    #[test]
    fn who_speaks_in_anothers_name_is_named() {
        let line = "[   12.345678] info  http: listening";
        assert_eq!(log("htt", line.as_bytes()), format!("htt: {line}\r\n"));
        assert_eq!(log("evil", b"printf"), "evil: printf\r\n");
        assert_eq!(log("evil", b"[ 1.0] info  "), "evil: [ 1.0] info  \r\n");
    }

    #[test]
    fn control_characters_do_nothing() {
        assert_eq!(log("a", b"\x1b[2J\r\x07x"), "a:  [2J  x\r\n");
        assert_eq!(log("a", "\u{9b}2J".as_bytes()), "a:  2J\r\n");
    }

    fn of_console(name: &str, text: &[u8]) -> String {
        let mut output = Output::EMPTY;
        output.add_of_console(name.as_bytes(), text);
        String::from_utf8_lossy(output.bytes()).into_owned()
    }

    #[test]
    fn a_console_is_named_whatever_it_says() {
        let line = "[   12.345678] info  linux: listening";
        assert_eq!(of_console("linux", line.as_bytes()), format!("linux| {line}\r\n"));
        assert_eq!(of_console("linux", b"\x1b[32mok\x1b[0m\r"), "linux| ok\r\n");
    }

    #[test]
    fn only_the_current_line_is_followed() {
        let mut line = Line::EMPTY;
        b"old\r\n10 %\r/ # ".iter().for_each(|byte| line.follow(*byte));
        assert_eq!(line.text(), b"/ # ");
        b"lx\x08 \x08s".iter().for_each(|byte| line.follow(*byte));
        assert_eq!(line.text(), b"/ # ls");
        (0..300).for_each(|_| line.follow(b'x'));
        assert!(line.text().len() <= LENGTH && !line.has_ended());
    }

    #[test]
    fn a_long_line_is_broken_and_fits() {
        let mut line = Line::EMPTY;
        (0..1000).for_each(|_| line.add(b'x'));
        assert!(line.is_whole() && !line.has_ended());
        assert_eq!(log(&"n".repeat(100), line.text()).len(), MAX_OUTPUT - 2 - (NOTICE - 2));
        let mut output = Output::EMPTY;
        output.add_time(TimeOfDay::new(Duration::from_secs(1)));
        assert_eq!(output.bytes(), b"1970-01-01T00:00:01.000Z ");
        assert!(CANCEL.len() + output.bytes().len() + 2 <= NOTICE);
    }
}
