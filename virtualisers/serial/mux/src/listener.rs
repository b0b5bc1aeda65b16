//! Clients that are given the log: each line of it as it was printed, over a queue of their own.
//!
//! Nobody waits for a listener. A line that finds no space in its queue is missing there; how many
//! are is counted, and a line says so as soon as there is space again.

use core::fmt::Write;
use culm::Channel;
use culm::queue::Producer;

/// Bytes of the line that tells of missing ones.
const NOTICE: usize = 64;

/// A client that is given the log.
#[derive(Debug)]
pub struct Listener {
    channel: Channel,
    lines: Producer<u8>,
    /// Lines that are missing since the last one that had space.
    missing: u32,
}

impl Listener {
    /// Creates the listener at the other end of `channel`.
    pub fn new(channel: Channel, lines: Producer<u8>) -> Self {
        Self { channel, lines, missing: 0 }
    }

    /// Queues a line, which is given without its end, and returns whether it had space.
    pub fn tell(&mut self, line: &[u8]) -> bool {
        let mut notice = Notice { bytes: [0; NOTICE], length: 0 };
        if self.missing > 0 {
            let word = if self.missing == 1 { "line is" } else { "lines are" };
            // Writing to a notice cannot fail.
            let _ = writeln!(notice, "{} {word} missing here: nobody took the log", self.missing);
        }
        let notice = &notice.bytes[..notice.length];
        let space = notice.len() + line.len() + 1;
        if (self.lines.free() as usize) < space && (self.lines.refresh() as usize) < space {
            self.missing = self.missing.saturating_add(1);
            return false;
        }
        for bytes in [notice, line, b"\n"] {
            self.lines.push_slice(bytes);
        }
        self.missing = 0;
        true
    }

    /// Hands over what was queued.
    pub fn publish(&mut self) {
        if self.lines.publish().is_asleep() {
            self.channel.notify();
        }
    }

    /// Returns how often the listener broke the rules of its queue.
    pub fn violations(&self) -> u32 {
        self.lines.violations()
    }
}

/// The line that tells of missing ones.
struct Notice {
    bytes: [u8; NOTICE],
    length: usize,
}

impl Write for Notice {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.as_bytes() {
            if let Some(slot) = self.bytes.get_mut(self.length) {
                *slot = *byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}
