//! The log: one line per event, with time, level and the component's name, to the system's serial
//! virtualiser.
//!
//! ```text
//! [   12.345678] info  http: listening on port 80
//! ```
//!
//! Logging never blocks: a line that finds no space in the queue is dropped and counted, and the
//! count is logged when there is space again. A line is cut after 240 bytes. Control characters
//! become spaces, so that what a peer sent cannot forge a line or move the terminal's cursor.

use crate::arch::{self, domain_static};
use crate::channel::Channel;
use crate::queue::{self, Producer};
use crate::{start, time};
use core::cell::{Cell, RefCell};
use core::fmt::{self, Write};
use culm_abi::connection::SerialClient;

/// Longest line in bytes, its end included.
const LINE: usize = 240;

/// The importance of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Something is broken.
    Error = 1,
    /// Something is odd, and handled.
    Warn = 2,
    /// Ordinary events, a few lines a minute.
    Info = 3,
    /// Details, for the debugging of this component.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn ",
            Self::Info => "info ",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The destination of lines.
struct Sink {
    /// The name of this instance.
    name: &'static str,
    /// The queue to the virtualiser; `None` if the system description says `log = "off"`.
    queue: Option<(Producer<u8>, Channel)>,
    /// Lines dropped since the last one that was queued.
    dropped: u32,
}

domain_static! {
    /// The greatest level that is logged.
    LEVEL: Cell<u32> = Cell::new(arch::FIRST_LOG_LEVEL);
    SINK: RefCell<Sink> = RefCell::new(Sink { name: "", queue: None, dropped: 0 });
}

/// Connects the log. Lines are dropped before.
pub(crate) fn open(level: u32, name: &'static str, client: Option<SerialClient>) {
    LEVEL.with(|cell| cell.set(level));
    SINK.with(|sink| {
        let mut sink = sink.borrow_mut();
        sink.name = name;
        sink.queue = client.map(|client| (queue::producer(client.tx), Channel::new(client.channel)));
    });
}

/// Returns whether lines of `level` are logged. Ask before work that is only done for the log.
#[inline(always)]
pub fn enabled(level: Level) -> bool {
    level as u32 <= LEVEL.with(Cell::get)
}

/// Logs a line, whatever the level. The macros ([`info!`](crate::info) and its like) call this if
/// the level is enabled.
#[cold]
pub fn write(level: Level, arguments: fmt::Arguments<'_>) {
    // A second borrow can only come from a `Display` that logs. Its line is dropped; a panic would
    // end the component.
    SINK.with(|sink| {
        if let Ok(mut sink) = sink.try_borrow_mut() {
            sink.write(level, arguments);
        }
    });
}

/// Notifies the virtualiser of this turn's lines at once, not at the end of the turn, which a
/// component that panics does not reach.
pub fn flush() {
    SINK.with(|sink| {
        if let Ok(sink) = sink.try_borrow()
            && let Some((_, channel)) = &sink.queue
        {
            channel.notify_now();
        }
    });
}

impl Sink {
    fn write(&mut self, level: Level, arguments: fmt::Arguments<'_>) {
        if self.dropped > 0 {
            let dropped = self.dropped;
            let line =
                Line::new(self.name, Level::Warn, format_args!("{dropped} lines were dropped here: the log is slow"));
            if self.push(line.bytes()) {
                self.dropped = 0;
            }
        }
        let line = Line::new(self.name, level, arguments);
        if self.dropped > 0 || !self.push(line.bytes()) {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Queues a whole line, or nothing. Returns whether it did.
    fn push(&mut self, line: &[u8]) -> bool {
        arch::log_line(line);
        let Some((producer, channel)) = &mut self.queue else { return true };
        if (producer.free() as usize) < line.len() && (producer.refresh() as usize) < line.len() {
            return false;
        }
        producer.push_slice(line);
        if producer.publish().is_asleep() {
            channel.notify();
        }
        true
    }
}

/// A line being written.
struct Line {
    bytes: [u8; LINE],
    length: usize,
}

impl Line {
    fn new(name: &str, level: Level, arguments: fmt::Arguments<'_>) -> Self {
        let mut line = Self { bytes: [0; LINE], length: 0 };
        // Formatting into a line cannot fail; an error of the component's own `Display` is ignored.
        let _ = write!(line, "[{}] {} {name}: {arguments}", time::now(), level.name());
        line.bytes[line.length] = b'\n';
        line.length += 1;
        line
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is kept for the line's end.
        let space = LINE - 1 - self.length;
        let length = text.floor_char_boundary(space);
        for byte in &text.as_bytes()[..length] {
            self.bytes[self.length] = if byte.is_ascii_control() { b' ' } else { *byte };
            self.length += 1;
        }
        Ok(())
    }
}

/// Returns the name of this instance, for code that logs on others' behalf.
pub fn name() -> &'static str {
    start::name()
}

/// Logs if `level` is enabled. Arguments are those of `format!`.
#[macro_export]
macro_rules! log {
    ($level:expr, $($arguments:tt)*) => {
        if $crate::log::enabled($level) {
            $crate::log::write($level, ::core::format_args!($($arguments)*));
        }
    };
}

/// Logs that something is broken. Arguments are those of `format!`.
#[macro_export]
macro_rules! error {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Error, $($arguments)*) };
}

/// Logs that something is odd, and handled. Arguments are those of `format!`.
#[macro_export]
macro_rules! warn {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Warn, $($arguments)*) };
}

/// Logs an ordinary event. Arguments are those of `format!`.
#[macro_export]
macro_rules! info {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Info, $($arguments)*) };
}

/// Logs a detail, for debugging. Arguments are those of `format!`.
#[macro_export]
macro_rules! debug {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Debug, $($arguments)*) };
}

/// Logs the smallest step. Arguments are those of `format!`.
#[macro_export]
macro_rules! trace {
    ($($arguments:tt)*) => { $crate::log!($crate::log::Level::Trace, $($arguments)*) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use culm_queue::{Consumer, Storage};

    fn open_ring() -> Consumer<u8> {
        let storage: &'static Storage<u8, 256> = Box::leak(Box::new(Storage::new()));
        SINK.with(|sink| {
            let mut sink = sink.borrow_mut();
            sink.name = "http";
            sink.queue = Some((Producer::attach(storage.shared()), Channel::new(2)));
        });
        Consumer::attach(storage.shared())
    }

    fn text(consumer: &mut Consumer<u8>) -> String {
        let bytes = consumer.drain(256).collect();
        let _ = consumer.release();
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn a_line_has_time_level_name_and_message() {
        let mut consumer = open_ring();
        testing::set_time(time::Instant::default() + time::Duration::new(12, 345_678_000));
        crate::info!("listening on port {}", 80);
        assert_eq!(text(&mut consumer), "[   12.345678] info  http: listening on port 80\n");
        assert_eq!(testing::signalled(), [2]);
    }

    #[test]
    fn levels_above_the_chosen_one_are_not_written() {
        let mut consumer = open_ring();
        LEVEL.with(|level| level.set(Level::Warn as u32));
        crate::info!("unseen");
        crate::warn!("seen");
        assert_eq!(text(&mut consumer), "[    0.000000] warn  http: seen\n");
    }

    #[test]
    fn lines_without_space_are_dropped_whole_and_counted() {
        let mut consumer = open_ring();
        for _ in 0..10 {
            crate::info!("a line of some length that fills the queue quickly");
        }
        let first = text(&mut consumer);
        assert!(first.ends_with("quickly\n"));
        assert_eq!(first.lines().count(), 3);
        crate::info!("again");
        let second = text(&mut consumer);
        assert!(second.contains("warn  http: 7 lines were dropped here"), "{second}");
        assert!(second.ends_with("again\n"));
    }

    #[test]
    fn a_line_is_cut_at_a_character_and_cannot_be_forged() {
        let line = Line::new("x", Level::Info, format_args!("{}\u{1b}[2J\n{}", "é".repeat(3), "é".repeat(200)));
        let text = core::str::from_utf8(line.bytes()).expect("cut between characters");
        assert!(text.contains("ééé [2J é"));
        assert!(text.ends_with("é\n") && text.len() <= LINE);
        assert_eq!(text.matches(|character: char| character.is_control()).count(), 1);
    }
}
