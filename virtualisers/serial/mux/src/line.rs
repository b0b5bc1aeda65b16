//! One line of a client: collected until it is whole, and made safe to print.
//!
//! Most clients write a log, whose lines say who wrote them: `[ 12.345678] info http: …`. A client
//! that does not keep to that, whether it is no Rust component or means to speak in another's name,
//! gets its name put in front; control characters, which could move the cursor over what others
//! wrote, become spaces. A client that has the input is a conversation with the user instead: its
//! bytes go out as they are.

use core::fmt::{self, Write};
use culm_clock::TimeOfDay;

/// Bytes of a line that are collected; a longer one is broken.
pub const LENGTH: usize = 256;

/// Bytes of a client's name that are printed.
const NAME: usize = 64;

/// Bytes of the time of day, with the space behind it.
const TIME: usize = 25;

/// Most bytes that a line takes on the way out: the end of another's line, the time of day, a name,
/// the line and its end.
pub const MAX_OUTPUT: usize = 2 + TIME + NAME + 2 + LENGTH + 2;

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
            self.add(name);
            self.add(b": ");
        }
        for byte in text {
            self.add(&[if byte.is_ascii_control() { b' ' } else { *byte }]);
        }
        self.add(b"\r\n");
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
    }

    #[test]
    fn a_long_line_is_broken_and_fits() {
        let mut line = Line::EMPTY;
        (0..1000).for_each(|_| line.add(b'x'));
        assert!(line.is_whole() && !line.has_ended());
        assert_eq!(log(&"n".repeat(100), line.text()).len(), MAX_OUTPUT - 2 - TIME);
        let mut output = Output::EMPTY;
        output.add_time(TimeOfDay::new(Duration::from_secs(1)));
        assert_eq!(output.bytes(), b"1970-01-01T00:00:01.000Z ");
        assert_eq!(output.bytes().len(), TIME);
    }
}
