//! The terminal, as the console in focus has left it, and what must stand before others' lines so
//! that they can be read there.

use crate::line::{CANCEL, Output, RESET};
use crate::plain::is_suspect;
use culm::time::{Duration, Instant};

/// Time that others wait for the console in focus to end a line that it has begun, so that what a
/// program writes at once (a prompt, a screenful, a control sequence) is not torn. No more than
/// that: a console that never ends its lines would keep others from printing.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// The terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// The time since which the console in focus has not paused at the end of a line.
    open: Option<Instant>,
    /// It has sent what may begin a control sequence since the last [`CANCEL`].
    suspect: bool,
    /// The same since the last [`RESET`].
    changed: bool,
    /// Since when the line was open that others' lines have torn, if it was not shown again.
    torn: Option<Instant>,
}

impl Screen {
    /// Notes what the console in focus has put out.
    pub fn show(&mut self, bytes: &[u8], now: Instant) {
        let suspect = bytes.iter().any(|byte| is_suspect(*byte));
        self.suspect |= suspect;
        self.changed |= suspect;
        self.open = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) if end + 1 == bytes.len() => None,
            None if bytes.is_empty() => self.open,
            // The patience does not begin anew at a line's end within what is put out: a console
            // that never pauses between lines would keep the others from printing for ever.
            _ => self.open.or(Some(now)),
        };
    }

    /// Returns until when others wait, if there is a line that was not ended.
    pub fn held_until(&self) -> Option<Instant> {
        self.open.map(|since| since + PATIENCE)
    }

    /// Adds what must stand before a line of anybody's but the console's in focus.
    pub fn part(&self, output: &mut Output) {
        if self.suspect {
            output.add(CANCEL);
        }
        if self.open.is_some() {
            output.add(b"\r\n");
        }
    }

    /// Notes that such a line was put out.
    pub fn parted(&mut self) {
        self.torn = self.open.take().or(self.torn);
        self.suspect = false;
    }

    /// Returns whether there is a line to be shown again: it was not ended when others' lines came.
    pub fn is_torn(&self) -> bool {
        self.torn.is_some()
    }

    /// Notes that it was shown again; if the console has more of it, others wait from `now` on.
    /// They do not wait once more for what it had printed before: a console that waits at its
    /// prompt would slow down the log.
    pub fn mended(&mut self, now: Option<Instant>) {
        self.open = now.or(self.torn);
        self.torn = None;
    }

    /// Adds what must stand before another console's output.
    pub fn reset(&self, output: &mut Output) {
        if self.changed {
            output.add(RESET);
        }
        if self.open.is_some() {
            output.add(b"\r\n");
        }
    }

    /// Notes that this was put out.
    pub fn was_reset(&mut self) {
        *self = Self::default();
    }
}
