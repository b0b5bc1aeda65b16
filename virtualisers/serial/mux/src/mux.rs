//! The choice of the client that prints next, and of the one that gets the input.

use crate::line::{Line, MAX_OUTPUT, Output};
use crate::listener::Listener;
use alloc::vec::Vec;
use culm::Channel;
use culm::queue::{Consumer, Peer, Producer};
use culm::time::{Duration, Instant};
use culm_clock::Clock;

/// Lines that one client may print before the next one's turn.
const LINES_PER_ROUND: u32 = 4;

/// Lines printed in one turn, so that clients who never stop do not keep input waiting.
const LINES_PER_TURN: u64 = 64;

/// Bytes of input handed on in one turn.
const INPUT_PER_TURN: u32 = 256;

/// Time that the beginning of a line, such as a prompt, waits for its end before it is printed as
/// it is.
const PATIENCE: Duration = Duration::from_millis(50);

/// The key that gives the input to the next client that can take it: Ctrl-O.
const NEXT_CLIENT: u8 = 0x0f;

/// One client.
#[derive(Debug)]
pub struct Client {
    name: &'static [u8],
    channel: Channel,
    /// Whether the client is notified of space and of input. A client that only logs is not: it
    /// waits for nothing.
    may_notify: bool,
    tx: Consumer<u8>,
    rx: Option<Producer<u8>>,
    line: Line,
    /// The time at which the line is printed although it is not whole.
    overdue: Option<Instant>,
    /// Whether there may be something in `tx`.
    active: bool,
}

impl Client {
    /// Creates the client at the other end of `channel`, with `rx` if it can take input.
    pub fn new(
        name: &'static [u8],
        channel: Channel,
        may_notify: bool,
        tx: Consumer<u8>,
        rx: Option<Producer<u8>>,
    ) -> Self {
        Self { name, channel, may_notify, tx, rx, line: Line::EMPTY, overdue: None, active: true }
    }

    /// Collects bytes until the line is whole. They stay in the client's queue (popped, not
    /// released) until their line is printed, so that a restart of the virtualiser loses none.
    fn collect(&mut self, now: Instant) {
        let began = !self.line.is_empty();
        while !self.line.is_whole() {
            let Some(byte) = self.tx.pop() else { break };
            self.line.add(byte);
        }
        if !self.line.is_empty() && !began {
            self.overdue = Some(now + PATIENCE);
        }
    }

    /// Returns whether the line can be printed.
    fn is_ready(&self, now: Instant) -> bool {
        // A queue shorter than the line cannot bring its end.
        let stuck = !self.line.is_empty() && self.line.text().len() >= self.tx.capacity() as usize;
        self.line.is_whole() || stuck || self.is_overdue(now)
    }

    /// Returns whether the beginning of a line has waited for its end long enough.
    fn is_overdue(&self, now: Instant) -> bool {
        self.overdue.is_some_and(|time| time <= now)
    }

    /// Releases the bytes of the line that was printed.
    fn printed(&mut self) {
        self.line.clear();
        self.overdue = None;
        let peer = self.tx.release();
        self.notify(peer);
    }

    /// Tells the client of this life of the virtualiser.
    fn greet(&mut self) {
        let mut peer = self.tx.release();
        if let Some(rx) = &mut self.rx {
            peer |= rx.publish();
        }
        self.notify(peer);
    }

    fn notify(&self, peer: Peer) {
        if peer.is_asleep() && self.may_notify {
            self.channel.notify();
        }
    }
}

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
    /// The client that has the input.
    focus: Option<usize>,
    /// The client whose line was printed without its end, and which alone may continue it.
    open: Option<usize>,
    /// The time of day, which stands before each line of a log.
    clock: Option<Clock>,
}

impl Mux {
    /// Creates a mux of the driver at the other end of `driver`.
    pub fn new(driver: Channel, tx: Producer<u8>, rx: Consumer<u8>, mut clients: Vec<Client>) -> Self {
        let focus = clients.iter().position(|client| client.rx.is_some());
        clients.iter_mut().for_each(Client::greet);
        Self { driver, tx, rx, clients, listeners: Vec::new(), turn: 0, focus, open: None, clock: None }
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
        if let Some(client) = self.clients.iter_mut().find(|client| client.channel == channel) {
            client.active = true;
        }
    }

    /// Prints lines and hands input on; asks for another turn if more is left.
    pub fn serve(&mut self, now: Instant) -> Done {
        let mut done = Done::default();
        let more_input = self.hand_on_input(&mut done);
        let blocked = self.print(now, &mut done);
        if self.tx.publish().is_asleep() {
            self.driver.notify();
        }
        self.listeners.iter_mut().for_each(Listener::publish);
        // If blocked, the driver's notification brings the next turn, unless it has made space just
        // now.
        let blocked = blocked && self.tx.sleep_until(MAX_OUTPUT as u32).is_asleep();
        if more_input || !blocked && self.clients.iter().any(|client| client.active) {
            culm::wake_at(now);
        } else if !blocked && let Some(overdue) = self.clients.iter().filter_map(|client| client.overdue).min() {
            culm::wake_at(overdue);
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
        let clients = self.clients.iter().map(|client| {
            u64::from(client.tx.violations()) + u64::from(client.rx.as_ref().map_or(0, Producer::violations))
        });
        let listeners = self.listeners.iter().map(|listener| u64::from(listener.violations()));
        clients.chain(listeners).sum::<u64>() + u64::from(self.tx.violations()) + u64::from(self.rx.violations())
    }

    /// Prints lines of all clients in turns. Returns true if a line found no space in the driver's
    /// queue.
    fn print(&mut self, now: Instant, done: &mut Done) -> bool {
        let mut idle = 0;
        while idle < self.clients.len() && done.lines < LINES_PER_TURN {
            let before = done.lines;
            if self.print_client(now, done) {
                // The same client continues when there is space.
                return true;
            }
            idle = if done.lines > before { 0 } else { idle + 1 };
            self.turn = if self.turn + 1 < self.clients.len() { self.turn + 1 } else { 0 };
        }
        false
    }

    /// Prints some lines of the client whose turn it is. Returns true if a line found no space.
    fn print_client(&mut self, now: Instant, done: &mut Done) -> bool {
        let index = self.turn;
        for _ in 0..LINES_PER_ROUND {
            let client = &mut self.clients[index];
            if !client.active && !client.is_overdue(now) {
                return false;
            }
            client.collect(now);
            if !client.is_ready(now) {
                // The client notifies when there is more; bytes that came just now are looked at in
                // another turn.
                client.active = client.tx.sleep().is_more();
                return false;
            }
            if !self.put_out(index, done) {
                return true;
            }
            self.clients[index].printed();
        }
        false
    }

    /// Puts a client's line into the driver's queue. Returns false if there is no space.
    fn put_out(&mut self, index: usize, done: &mut Done) -> bool {
        let client = &self.clients[index];
        let converses = client.rx.is_some();
        let mut output = Output::EMPTY;
        if self.open.is_some_and(|open| open != index || !converses) {
            output.add(b"\r\n");
        }
        let mut open = None;
        let begin = output.bytes().len();
        if !converses {
            if let Some(time) = self.clock.and_then(|clock| clock.now()) {
                output.add_time(time);
            }
            output.add_log(client.name, client.line.text());
        } else {
            output.add(client.line.text());
            if client.line.has_ended() {
                output.add(b"\r\n");
            } else {
                open = Some(index);
            }
        }
        if !self.push(output.bytes()) {
            return false;
        }
        self.open = open;
        if !converses {
            let line = output.bytes()[begin..].trim_ascii_end();
            for listener in &mut self.listeners {
                done.missing += u64::from(!listener.tell(line));
            }
        }
        done.lines += 1;
        done.bytes += output.bytes().len() as u64;
        true
    }

    /// Puts bytes into the driver's queue, all or none; bytes beyond the queue's capacity are cut
    /// off. Returns whether it did.
    fn push(&mut self, bytes: &[u8]) -> bool {
        let bytes = &bytes[..bytes.len().min(self.tx.capacity() as usize)];
        if (self.tx.free() as usize) < bytes.len() && (self.tx.refresh() as usize) < bytes.len() {
            return false;
        }
        self.tx.push_slice(bytes);
        true
    }

    /// Hands input on to the client that has the input. Returns true if there is more.
    fn hand_on_input(&mut self, done: &mut Done) -> bool {
        let mut moved = false;
        for _ in 0..INPUT_PER_TURN {
            let Some(byte) = self.rx.pop() else { break };
            if byte == NEXT_CLIENT && self.move_focus() {
                moved = true;
                continue;
            }
            let client = self.focus.and_then(|index| self.clients[index].rx.as_mut());
            match client.map(|rx| rx.push(byte)) {
                Some(Ok(())) => done.input += 1,
                _ => done.input_dropped += 1,
            }
        }
        if self.rx.release().is_asleep() {
            self.driver.notify();
        }
        for client in &mut self.clients {
            if let Some(peer) = client.rx.as_mut().map(Producer::publish) {
                client.notify(peer);
            }
        }
        if moved {
            self.tell_focus();
        }
        self.rx.sleep().is_more()
    }

    /// Gives the input to the next client that can take it, if there are several.
    fn move_focus(&mut self) -> bool {
        let Some(focus) = self.focus else { return false };
        let (before, after) = self.clients.split_at(focus);
        let next = after.iter().skip(1).position(|client| client.rx.is_some()).map(|position| focus + 1 + position);
        let next = next.or_else(|| before.iter().position(|client| client.rx.is_some()));
        self.focus = next.or(self.focus);
        next.is_some()
    }

    /// Tells the user which client has the input, if there is space for the message.
    fn tell_focus(&mut self) {
        let Some(focus) = self.focus else { return };
        let mut output = Output::EMPTY;
        if self.open.is_some() {
            output.add(b"\r\n");
        }
        output.add(b"[input: ");
        output.add(self.clients[focus].name);
        output.add(b"]\r\n");
        if self.push(output.bytes()) {
            self.open = None;
        }
    }
}
