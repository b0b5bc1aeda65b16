//! The choice of the client that prints next, and of the console that is in focus.
//!
//! One console at most is in focus: it is given what is typed, and its bytes go out at once and as
//! they are. Those of the others go out line by line, as text with their names in front. Only keys
//! move the focus: nothing that a client sends is looked at for that.

use crate::client::{Client, PORTION};
use crate::keys::{Key, Keys};
use crate::line::{MAX_OUTPUT, Output};
use crate::listener::Listener;
use crate::screen::Screen;
use alloc::vec::Vec;
use core::fmt::Write;
use culm::Channel;
use culm::queue::{Consumer, Producer};
use culm::time::Instant;
use culm_clock::Clock;

/// Lines, or portions of the console in focus, that one client may print before the next one's
/// turn.
const LINES_PER_ROUND: u32 = 4;

/// Those that are printed in one turn, so that clients who never stop do not keep input waiting.
const LINES_PER_TURN: u32 = 64;

/// Bytes of input handed on in one turn.
const INPUT_PER_TURN: u32 = 256;

/// The work of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Lines printed.
    pub lines: u64,
    /// Bytes printed.
    pub bytes: u64,
    /// Bytes of input handed on.
    pub input: u64,
    /// Bytes of input that no client could take, or for which there was no space.
    pub input_dropped: u64,
    /// Lines of the log that a listener had no space for.
    pub missing: u64,
}

/// What came of an attempt to print something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There was nothing.
    Nothing,
    /// It was printed.
    Printed,
    /// The driver's queue has no space for it.
    Blocked,
}

/// What the mux itself has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// Which console is in focus now, and what its line is.
    Focus,
    /// The consoles, of which the ones before this number were told.
    List(usize),
    /// The keys.
    Help,
}

/// Shares a driver among clients.
#[derive(Debug)]
pub struct Mux {
    driver: Channel,
    tx: Producer<u8>,
    rx: Consumer<u8>,
    clients: Vec<Client>,
    /// Who is given the log.
    listeners: Vec<Listener>,
    /// The client whose turn it is to print.
    turn: usize,
    keys: Keys,
    /// The clients that are consoles.
    consoles: Vec<usize>,
    /// The console in focus, by its place among them.
    focus: Option<usize>,
    /// What is to be said before anybody prints again.
    notice: Option<Notice>,
    screen: Screen,
    /// The time of day, which stands before each line of a log.
    clock: Option<Clock>,
}

impl Mux {
    /// Creates a mux of the driver at the other end of `driver`. Client `focus` begins in focus,
    /// or the first console.
    pub fn new(
        driver: Channel,
        tx: Producer<u8>,
        rx: Consumer<u8>,
        mut clients: Vec<Client>,
        focus: Option<usize>,
    ) -> Self {
        clients.iter_mut().for_each(Client::greet);
        let consoles: Vec<usize> = (0..clients.len()).filter(|index| clients[*index].is_console()).collect();
        let focus = focus.and_then(|focus| consoles.iter().position(|index| *index == focus));
        Self {
            driver,
            tx,
            rx,
            clients,
            listeners: Vec::new(),
            turn: 0,
            keys: Keys::default(),
            focus: focus.or((!consoles.is_empty()).then_some(0)),
            // An operator who types must know to whom, after a restart too.
            notice: (consoles.len() > 1).then_some(Notice::Focus),
            consoles,
            screen: Screen::default(),
            clock: None,
        }
    }

    /// Puts the time of day before each line of a log, as soon as this clock knows it.
    pub fn with_clock(self, clock: Option<Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Gives the log to these.
    pub fn with_listeners(self, listeners: Vec<Listener>) -> Self {
        Self { listeners, ..self }
    }

    /// Marks the client at the other end of `channel`: it may have something to print.
    pub fn notified(&mut self, channel: Channel) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.is_at(channel)) {
            client.mark();
        }
    }

    /// Prints lines and hands input on; asks for another turn if more is left.
    pub fn serve(&mut self, now: Instant) -> Done {
        let mut done = Done::default();
        let more_input = self.hand_on_input(&mut done);
        let blocked = !self.say(now, &mut done) || self.print(now, &mut done);
        if self.tx.publish().is_asleep() {
            self.driver.notify();
        }
        self.listeners.iter_mut().for_each(Listener::publish);
        // If blocked, the driver's notification brings the next turn, unless it has made space just
        // now.
        let is_waiting = blocked && self.tx.sleep_until(MAX_OUTPUT as u32).is_asleep();
        if more_input || blocked && !is_waiting {
            culm::wake_at(now);
        } else if !blocked && let Some(due) = self.due(now) {
            culm::wake_at(due);
        }
        done
    }

    /// Drops the input that waits, after a restart. It may have caused the fault of the previous
    /// life, and would end each life that follows; the user types it again.
    pub fn discard_input(&mut self) {
        self.rx.drain(u32::MAX).for_each(drop);
        if self.rx.release().is_asleep() {
            self.driver.notify();
        }
    }

    /// Returns how often a peer broke the rules of a queue.
    pub fn violations(&self) -> u64 {
        let clients = self.clients.iter().map(Client::violations);
        let listeners = self.listeners.iter().map(|listener| u64::from(listener.violations()));
        clients.chain(listeners).sum::<u64>() + u64::from(self.tx.violations()) + u64::from(self.rx.violations())
    }

    /// Returns the client in focus.
    fn in_focus(&self) -> Option<usize> {
        self.focus.map(|place| self.consoles[place])
    }

    /// Returns until when the console in focus alone prints, if it does.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        self.screen.held_until().filter(|until| *until > now)
    }

    /// Returns when a client is to be looked at again.
    fn due(&self, now: Instant) -> Option<Instant> {
        let (held, focus) = (self.held_until(now), self.in_focus());
        let due = |(index, client): (usize, &Client)| {
            let due = client.due(now)?;
            Some(held.filter(|_| focus != Some(index)).map_or(due, |until| due.max(until)))
        };
        self.clients.iter().enumerate().filter_map(due).min()
    }

    /// Prints what all clients have, in turns. Returns true if something found no space in the
    /// driver's queue.
    fn print(&mut self, now: Instant, done: &mut Done) -> bool {
        let alone = self.held_until(now).and(self.in_focus());
        let (mut idle, mut left) = (0, LINES_PER_TURN);
        while idle < self.clients.len() && left > 0 {
            let index = alone.unwrap_or(self.turn);
            let mut printed = false;
            for _ in 0..LINES_PER_ROUND {
                match self.print_client(index, now, done) {
                    // The same client continues when there is space.
                    Step::Blocked => return true,
                    Step::Nothing => break,
                    Step::Printed => (printed, left) = (true, left.saturating_sub(1)),
                }
            }
            idle = if printed { 0 } else { idle + 1 };
            match alone {
                // Whose turn it is stays: else one who comes behind the console would never print.
                Some(_) if !printed => return false,
                Some(_) => {}
                None => self.turn = if self.turn + 1 < self.clients.len() { self.turn + 1 } else { 0 },
            }
        }
        // A prompt is to be seen while nobody says anything.
        left > 0 && !self.mend(None, done)
    }

    /// Shows again what the console in focus has printed of a line that others' lines have torn.
    /// `more` is the time, if the console has more of it. Returns false if there is no space.
    fn mend(&mut self, more: Option<Instant>, done: &mut Done) -> bool {
        let Some(index) = self.in_focus().filter(|_| self.screen.is_torn()) else { return true };
        let mut output = Output::EMPTY;
        output.add_beginning(self.clients[index].line().text());
        let has_space = push(&mut self.tx, output.bytes());
        if has_space {
            self.screen.mended(more);
            done.bytes += output.bytes().len() as u64;
        }
        has_space
    }

    /// Prints a line of a client, or a portion of the console in focus.
    fn print_client(&mut self, index: usize, now: Instant, done: &mut Done) -> Step {
        if self.in_focus() == Some(index) {
            return self.pass(index, now, done);
        }
        if !self.clients[index].collect(now) {
            return Step::Nothing;
        }
        if !self.put_out(index, done) {
            return Step::Blocked;
        }
        self.clients[index].printed();
        Step::Printed
    }

    /// Passes bytes of the console in focus on, as they are.
    fn pass(&mut self, index: usize, now: Instant, done: &mut Done) -> Step {
        if self.clients[index].has_more() && !self.mend(Some(now), done) {
            return Step::Blocked;
        }
        let client = &mut self.clients[index];
        let mut bytes = [0; PORTION];
        let space = self.tx.free().max(self.tx.refresh()).min(PORTION as u32);
        if space == 0 && client.has_more() {
            return Step::Blocked;
        }
        let count = client.take(&mut bytes[..space as usize]);
        if count == 0 {
            return Step::Nothing;
        }
        let bytes = &bytes[..count];
        self.tx.push_slice(bytes);
        client.shown();
        self.screen.show(bytes, now);
        done.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        done.bytes += count as u64;
        Step::Printed
    }

    /// Puts a client's line into the driver's queue. Returns false if there is no space.
    fn put_out(&mut self, index: usize, done: &mut Done) -> bool {
        let client = &self.clients[index];
        let mut output = Output::EMPTY;
        self.screen.part(&mut output);
        let begin = output.bytes().len();
        if client.is_console() {
            output.add_of_console(client.name(), client.line().text());
        } else {
            if let Some(time) = self.clock.and_then(|clock| clock.now()) {
                output.add_time(time);
            }
            output.add_log(client.name(), client.line().text());
        }
        if !push(&mut self.tx, output.bytes()) {
            return false;
        }
        self.screen.parted();
        if !client.is_console() {
            let line = output.bytes()[begin..].trim_ascii_end();
            for listener in &mut self.listeners {
                done.missing += u64::from(!listener.tell(line));
            }
        }
        done.lines += 1;
        done.bytes += output.bytes().len() as u64;
        true
    }

    /// Hands input on to the console in focus, and follows keys. Returns true if there is more.
    fn hand_on_input(&mut self, done: &mut Done) -> bool {
        for _ in 0..INPUT_PER_TURN {
            let Some(byte) = self.rx.pop() else { break };
            match self.keys.feed(byte) {
                None => {}
                Some(Key::Input(byte)) => {
                    let focus = self.in_focus();
                    match focus.is_some_and(|index| self.clients[index].give(byte)) {
                        true => done.input += 1,
                        false => done.input_dropped += 1,
                    }
                }
                Some(Key::Command(letter)) => {
                    let focus = self.in_focus();
                    if !focus.is_some_and(|index| self.clients[index].command(letter)) {
                        self.follow(Key::Help);
                    }
                }
                Some(key) => self.follow(key),
            }
        }
        if self.rx.release().is_asleep() {
            self.driver.notify();
        }
        self.clients.iter_mut().for_each(Client::hand_over);
        self.rx.sleep().is_more()
    }

    /// Does what a key asks for.
    fn follow(&mut self, key: Key) {
        let count = self.consoles.len();
        let place = match key {
            Key::Next => self.focus.map_or(0, |place| place + 1) % count.max(1),
            Key::Previous => self.focus.unwrap_or(0).checked_sub(1).unwrap_or(count.saturating_sub(1)),
            Key::Console(number) => usize::from(number) - 1,
            Key::Log => {
                (self.focus, self.notice) = (None, Some(Notice::Focus));
                return;
            }
            Key::List => count,
            Key::Help | Key::Input(_) | Key::Command(_) => {
                self.notice = Some(Notice::Help);
                return;
            }
        };
        // A number that is no console's asks which there are.
        if place < count {
            (self.focus, self.notice) = (Some(place), Some(Notice::Focus));
        } else {
            self.notice = Some(Notice::List(0));
        }
    }

    /// Says what the mux itself has to say. Returns false if it found no space.
    fn say(&mut self, now: Instant, done: &mut Done) -> bool {
        while let Some(notice) = self.notice {
            let mut output = Output::EMPTY;
            let mut shown: &[u8] = b"";
            let mut next = None;
            match notice {
                Notice::Focus => {
                    self.screen.reset(&mut output);
                    self.introduce(self.focus.map_or(0, |place| place + 1), &mut output);
                    let begin = output.bytes().len();
                    if let Some(index) = self.in_focus() {
                        let line = self.clients[index].line();
                        if line.has_ended() {
                            output.add_text(line.text());
                            output.add(b"\r\n");
                        } else {
                            output.add_beginning(line.text());
                        }
                    }
                    shown = &output.bytes()[begin..];
                }
                Notice::List(number) => {
                    self.screen.part(&mut output);
                    self.introduce(number, &mut output);
                    next = (number < self.consoles.len()).then_some(Notice::List(number + 1));
                }
                Notice::Help => {
                    self.screen.part(&mut output);
                    output.add(b"[Ctrl-] and n or p: next or previous console; 1 to 9: that one; 0: the log alone; ");
                    output.add(b"l: which there are; Ctrl-]: itself; other letters: commands to the console, z to a ");
                    output.add(b"guest: pause, or its end]\r\n");
                }
            }
            if !push(&mut self.tx, output.bytes()) {
                return false;
            }
            done.bytes += output.bytes().len() as u64;
            self.notice = next;
            if notice == Notice::Focus {
                self.screen.was_reset();
                self.screen.show(shown, now);
                if let Some(index) = self.in_focus() {
                    let client = &mut self.clients[index];
                    if client.line().has_ended() { client.printed() } else { client.shown() }
                }
            } else {
                self.screen.parted();
            }
        }
        true
    }

    /// Adds a line that tells of the console of a number, from 1 on, or with 0 of none.
    fn introduce(&self, number: usize, output: &mut Output) {
        let mark = if self.focus.map_or(0, |place| place + 1) == number { "*" } else { "" };
        // Writing to an output cannot fail.
        let _ = write!(output, "[console {number}{mark}: ");
        match number.checked_sub(1).and_then(|place| self.consoles.get(place)) {
            Some(index) => output.add_name(self.clients[*index].name()),
            None => output.add(b"the log alone; what is typed goes nowhere"),
        }
        output.add(b"]\r\n");
    }
}

/// Puts bytes into the driver's queue, all or none; bytes beyond the queue's capacity are cut off.
/// Returns whether it did.
fn push(tx: &mut Producer<u8>, bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(tx.capacity() as usize)];
    if (tx.free() as usize) < bytes.len() && (tx.refresh() as usize) < bytes.len() {
        return false;
    }
    tx.push_slice(bytes);
    true
}
