//! The console: queues of bytes to and from whoever shares the real serial port. What the guest
//! said last is told in the log and on the status page when the guest panics or is stopped.

use crate::last_lines::LastLines;
use alloc::string::String;
use alloc::vec::Vec;
use culm::connection::SerialClient;
use culm::queue::{self, Consumer, Producer};
use culm::time::{self, Duration, Instant};
use culm::{Channel, Progress, ROUNDS, run_rounds};
use culm_guest::serial::Serial;

/// Time after a report in which another has no lines, so that a guest that panics again and again
/// does not fill the log.
const BETWEEN_REPORTS: Duration = Duration::from_secs(10);

/// What stands between lines on the status page.
const BETWEEN: &str = " / ";

/// Bytes of a report's fixed words on the status page.
const FIXED_WORDS: usize = "guest  : ; last lines: ".len();

/// Where the guest's bytes go, and come from where the description gives it the input.
pub struct Console {
    channel: Channel,
    output: Producer<u8>,
    input: Option<Consumer<u8>>,
    /// The guest's name.
    guest: &'static str,
    last_lines: LastLines,
    /// Whether the guest may have begun a line and not ended it.
    is_within_line: bool,
    /// The guest's end, in words, if that is to be told.
    outcome: Option<&'static str>,
    /// Whether it was reported, in this life of the guest's, that it panics and does not reset
    /// itself.
    is_told_to_stay: bool,
    /// The time of the last report that had lines.
    reported: Option<Instant>,
}

/// How many bytes went which way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried {
    /// From the guest.
    pub sent: u64,
    /// To the guest.
    pub received: u64,
}

impl Console {
    /// Attaches to the queues, for the guest of this name.
    pub fn new(client: &SerialClient, guest: &'static str) -> Self {
        Self {
            channel: Channel::new(client.channel),
            output: queue::producer(client.tx),
            input: (client.rx.capacity > 0).then(|| queue::consumer(client.rx)),
            guest,
            last_lines: LastLines::default(),
            // Nobody knows where an earlier life of the monitor has left it.
            is_within_line: culm::restarts() > 0,
            outcome: None,
            is_told_to_stay: false,
            reported: None,
        }
    }

    /// Ends the line that the guest has begun, with which nobody goes on: a prompt of a guest that
    /// is no more would be shown again below the lines of others. Call it before the guest's end is
    /// told.
    pub fn end_line(&mut self) {
        if core::mem::take(&mut self.is_within_line) {
            // If there is no room, the line stays as it is.
            self.output.push_slice(b"\r\n");
            if self.output.publish().is_asleep() {
                self.channel.notify();
            }
        }
    }

    /// Notes that the guest begins: what it has said in an earlier life is of no interest any more.
    pub fn guest_begins(&mut self) {
        self.is_told_to_stay = false;
        self.last_lines.forget();
    }

    /// Notes that the guest resets itself: if it has said that it panics, its last lines are told.
    pub fn guest_resets(&mut self) {
        if self.last_lines.panic().is_some() {
            self.outcome = Some("resets itself");
        }
    }

    /// Notes that the guest was stopped: its last lines are told.
    pub fn guest_is_stopped(&mut self) {
        self.outcome = Some("is stopped");
    }

    /// Carries what there is and what there is room for, and asks to be notified of more. What
    /// finds no room stays where it is, and the port seems full to whoever sends.
    pub fn carry(&mut self, serial: &mut Serial) -> Carried {
        let mut carried = Carried::default();
        run_rounds(ROUNDS, || self.round(serial, &mut carried));
        if self.last_lines.is_over() && self.outcome.is_none() {
            // A guest that lives can say so again and again, and must not fill the log by that.
            match core::mem::replace(&mut self.is_told_to_stay, true) {
                false => self.outcome = Some("stays as it is"),
                true => self.last_lines.forget(),
            }
        }
        if let Some(outcome) = self.outcome.take() {
            self.report(outcome);
            self.last_lines.forget();
        }
        carried
    }

    /// Tells how the guest has ended, and its last lines.
    fn report(&mut self, outcome: &str) {
        let guest = self.guest;
        let panic = self.last_lines.panic().map(String::from_utf8_lossy);
        let panic = panic.as_deref().unwrap_or("no panic was told");
        let lines: Vec<_> = self.last_lines.lines().map(String::from_utf8_lossy).collect();
        // The page has room for a few, of which the last tell most.
        let mut room = culm::trouble::LENGTH.saturating_sub(guest.len() + outcome.len() + panic.len() + FIXED_WORDS);
        let mut first = lines.len();
        while first > 0
            && let Some(left) = room.checked_sub(lines[first - 1].len() + BETWEEN.len())
        {
            (first, room) = (first - 1, left);
        }
        culm::trouble::show(format_args!(
            "guest {guest} {outcome}: {panic}; last lines: {}",
            lines[first..].join(BETWEEN)
        ));
        culm::error!("guest {guest} {outcome}: {panic}");
        let now = time::now();
        if self.reported.is_some_and(|before| now.since(before) < BETWEEN_REPORTS) {
            return;
        }
        self.reported = Some(now);
        for line in &lines {
            culm::error!("{guest}| {line}");
        }
    }

    fn round(&mut self, serial: &mut Serial, carried: &mut Carried) -> Progress {
        while self.output.free() > 0 || self.output.refresh() > 0 {
            let Some(byte) = serial.take_sent() else { break };
            // There is room, as just found.
            if self.output.push(byte).is_ok() {
                self.last_lines.follow(byte);
                self.is_within_line = byte != b'\n';
                carried.sent += 1;
            }
        }
        let mut peer = self.output.publish();
        let mut progress = if serial.has_sent() { self.output.sleep() } else { Progress::Asleep };
        if let Some(input) = &mut self.input {
            while serial.has_room() {
                let Some(byte) = input.pop() else { break };
                serial.receive(byte);
                carried.received += 1;
            }
            peer |= input.release();
            if serial.has_room() {
                progress &= input.sleep();
            }
        }
        if peer.is_asleep() {
            self.channel.notify();
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::testing;
    use culm_queue::{Consumer, Producer, Storage};
    use std::boxed::Box;

    /// A panic of a guest that stays as it is.
    const STAYS: &[u8] = b"Kernel panic - not syncing: x\n---[ end Kernel panic - not syncing: x ]---\n";

    /// The data register of the serial port.
    const DATA: u64 = 0;

    struct World {
        console: Console,
        serial: Serial,
        line: Consumer<u8>,
    }

    impl World {
        fn new() -> Self {
            let shared = Box::leak(Box::new(Storage::<u8, 256>::new())).shared();
            let console = Console {
                channel: Channel::new(1),
                output: Producer::attach(shared),
                input: None,
                guest: "linux",
                last_lines: LastLines::default(),
                is_within_line: false,
                outcome: None,
                is_told_to_stay: false,
                reported: None,
            };
            Self { console, serial: Serial::default(), line: Consumer::attach(shared) }
        }

        /// The guest says this; returns what the log has of it.
        fn says(&mut self, text: &[u8]) -> std::string::String {
            for byte in text {
                self.serial.write(DATA, u32::from(*byte));
                self.console.carry(&mut self.serial);
                while self.line.pop().is_some() {}
                let _ = self.line.release();
            }
            testing::take_log()
        }
    }

    #[test]
    fn a_line_that_the_guest_has_begun_ends_with_it_once() {
        let mut world = World::new();
        let mut ended = |said: &[u8]| {
            world.says(said);
            world.console.end_line();
            world.console.end_line();
            let bytes: Vec<u8> = core::iter::from_fn(|| world.line.pop()).collect();
            let _ = world.line.release();
            bytes
        };
        assert_eq!(ended(b"/ # "), b"\r\n");
        assert_eq!(ended(b"reboot: Restarting system\r\n"), b"");
    }

    #[test]
    fn a_panic_is_told_once_in_each_life_however_the_one_before_has_ended() {
        let mut world = World::new();
        assert!(world.says(STAYS).contains("guest linux stays as it is"));
        assert_eq!(world.says(STAYS), "", "the same life");
        world.console.guest_is_stopped();
        assert!(world.says(b".").contains("guest linux is stopped"));
        world.console.guest_begins();
        assert!(world.says(STAYS).contains("guest linux stays as it is"), "another life");
    }

    #[test]
    fn a_guest_that_resets_itself_is_not_said_to_have_panicked_in_an_earlier_life() {
        let mut world = World::new();
        world.says(b"Kernel panic - not syncing: x\n");
        // It switches itself off, and begins anew.
        world.console.guest_begins();
        world.console.guest_resets();
        assert_eq!(world.says(b"hello\n"), "");
        world.says(b"Kernel panic - not syncing: y\n");
        world.console.guest_resets();
        assert!(world.says(b".").contains("guest linux resets itself: Kernel panic - not syncing: y"));
    }
}
