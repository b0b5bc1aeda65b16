//! The console: queues of bytes to and from whoever shares the real serial port. The guest has two
//! ports for it, of which what it sends is put together: a PL011, and a virtio device, to which
//! what is typed goes once the guest has sent something by it. What the guest said last is told in
//! the log and on the status page when the guest panics or is stopped.

use crate::last_lines::LastLines;
use alloc::string::String;
use alloc::vec::Vec;
use culm::connection::SerialClient;
use culm::queue::{self, Consumer, Producer};
use culm::time::{self, Duration, Instant};
use culm::{Channel, Channels, Progress, ROUNDS, run_rounds};
use culm_guest::serial::Serial;
use culm_guest::virtio::Memory;
use culm_guest::virtio::console::Console as Device;

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
    /// Whether there may be something to carry: most turns are for others.
    is_due: bool,
    /// Whether the guest may have done something with its virtio device.
    is_rung: bool,
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
            is_due: true,
            is_rung: false,
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

    /// Takes it that the guest has rung the doorbell of its virtio device, or exited: it may have
    /// done something with either port.
    pub fn ring(&mut self) {
        (self.is_due, self.is_rung) = (true, true);
    }

    /// Takes it that these channels have notified.
    pub fn mark_notified(&mut self, channels: Channels) {
        self.is_due |= channels.contains(self.channel);
    }

    /// Returns whether there may be something to carry.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Carries what there is and what there is room for, and asks to be notified of more. What
    /// finds no room stays where it is, and the port seems full to whoever sends.
    pub fn carry(&mut self, serial: &mut Serial, device: Option<&mut Device>, memory: &impl Memory) -> Carried {
        let mut carried = Carried::default();
        // To look at the device's queues costs a turn that is for others more than all else here.
        let mut device = device.filter(|device| self.is_rung || device.is_used());
        let mut left = Progress::Asleep;
        run_rounds(ROUNDS, || {
            left = self.round(serial, device.as_deref_mut(), memory, &mut carried);
            left
        });
        self.is_due = left.is_more();
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

    fn round(
        &mut self,
        serial: &mut Serial,
        mut device: Option<&mut Device>,
        memory: &impl Memory,
        carried: &mut Carried,
    ) -> Progress {
        self.send(|| serial.take_sent(), carried);
        if let Some(device) = &mut device {
            self.send(|| device.take_sent(memory), carried);
        }
        let mut peer = self.output.publish();
        let mut has_room = true;
        if let Some(input) = &mut self.input {
            let mut listener = device.as_deref_mut().filter(|device| device.is_used());
            loop {
                has_room = listener.as_mut().map_or(serial.has_room(), |device| device.has_room(memory));
                let Some(byte) = has_room.then(|| input.pop()).flatten() else { break };
                match &mut listener {
                    Some(device) => device.receive(memory, byte),
                    None => serial.receive(byte),
                };
                carried.received += 1;
            }
            peer |= input.release();
        }
        let mut has_sent = serial.has_sent();
        if let Some(device) = device {
            device.publish(memory);
            // The guest may have sent more just before it was asked to ring.
            self.is_rung = device.has_sent(memory);
            has_sent |= self.is_rung;
        }
        let mut progress = if has_sent { self.output.sleep() } else { Progress::Asleep };
        if let Some(input) = self.input.as_mut().filter(|_| has_room) {
            progress &= input.sleep();
        }
        if peer.is_asleep() {
            self.channel.notify();
        }
        progress
    }

    /// Sends what a port of the guest's has, as far as there is room.
    fn send(&mut self, mut take: impl FnMut() -> Option<u8>, carried: &mut Carried) {
        while self.output.free() > 0 || self.output.refresh() > 0 {
            let Some(byte) = take() else { break };
            // There is room, as just found.
            if self.output.push(byte).is_ok() {
                self.last_lines.follow(byte);
                self.is_within_line = byte != b'\n';
                carried.sent += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::testing;
    use culm_guest::virtio::testing::{Ram, set_up};
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
                is_due: true,
                is_rung: false,
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
                self.console.carry(&mut self.serial, None, &Ram::new(0));
                while self.line.pop().is_some() {}
                let _ = self.line.release();
            }
            testing::take_log()
        }
    }

    #[test]
    fn a_turn_that_is_for_others_is_not_for_the_console() {
        let mut world = World::new();
        assert!(world.console.is_due(), "nobody knows what is there");
        world.says(b"hello\n");
        assert!(!world.console.is_due());
        world.console.mark_notified(Channels::from(Channel::new(2)));
        assert!(!world.console.is_due());
        world.console.mark_notified(Channels::from(Channel::new(1)));
        assert!(world.console.is_due());
        world.says(b".");
        assert!(!world.console.is_due());
        world.console.ring();
        assert!(world.console.is_due());
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

    /// Places of the device's queues, for what the guest receives and sends, and of a buffer each.
    const PLACES: [[u64; 3]; 2] =
        [[Ram::BASE, Ram::BASE + 1024, Ram::BASE + 2048], [Ram::BASE + 4096, Ram::BASE + 5120, Ram::BASE + 6144]];
    const BUFFERS: [u64; 2] = [Ram::BASE + 8192, Ram::BASE + 9216];

    /// The guest makes a buffer of so many bytes available, its first one in that queue.
    fn offer(ram: &Ram, queue: usize, length: u32) {
        let [descriptors, driver, _] = PLACES[queue];
        let is_written = u128::from(queue == 0) << 1;
        let word = u128::from(BUFFERS[queue]) | u128::from(length) << 64 | is_written << 96;
        ram.write(descriptors, &word.to_le_bytes()).expect("inside");
        ram.store(driver + 2, 1).expect("inside");
    }

    #[test]
    fn what_is_typed_goes_to_the_virtio_console_once_the_guest_speaks_there() {
        let (mut world, ram, mut device) = (World::new(), Ram::new(16384), Device::default());
        let typed = Box::leak(Box::new(Storage::<u8, 16>::new())).shared();
        let mut keyboard = Producer::attach(typed);
        world.console.input = Some(Consumer::attach(typed));
        set_up(&mut device.transport, 0, &PLACES, 4);
        offer(&ram, 0, 8);
        let mut carry = |device: &mut Device, is_rung: bool, key: u8| {
            keyboard.push(key).expect("room");
            let _ = keyboard.publish();
            if is_rung {
                world.console.ring();
            }
            world.console.carry(&mut world.serial, Some(device), &ram);
            let said: Vec<u8> = core::iter::from_fn(|| world.line.pop()).collect();
            let _ = world.line.release();
            (said, world.serial.read(DATA))
        };
        assert_eq!(carry(&mut device, true, b'a'), (Vec::new(), b'a'.into()), "it has a driver and nobody");
        ram.write(BUFFERS[1], b"hvc").expect("inside");
        offer(&ram, 1, 3);
        assert_eq!(carry(&mut device, false, b'b'), (Vec::new(), b'b'.into()), "it has not rung");
        assert_eq!(carry(&mut device, true, b'c'), (b"hvc".to_vec(), 0));
        let mut got = [0; 2];
        ram.read(BUFFERS[0], &mut got).expect("inside");
        assert_eq!((&got, device.transport.is_interrupting()), (b"c\0", true));
        device.transport.reset();
        assert_eq!(carry(&mut device, true, b'd'), (Vec::new(), b'd'.into()));
    }
}
