//! A client, as the mux sees it: what it sends, and what it is given if it is a console.

use crate::line::{LENGTH, Line};
use crate::screen::PATIENCE;
use culm::Channel;
use culm::queue::{Consumer, Peer, Producer};
use culm::time::Instant;

/// Bytes of a console's that go out at once.
pub const PORTION: usize = LENGTH;

/// One client.
#[derive(Debug)]
pub struct Client {
    name: &'static [u8],
    channel: Channel,
    /// Whether the client is notified of space and of input. A client that only logs is not: it
    /// waits for nothing.
    may_notify: bool,
    tx: Consumer<u8>,
    /// What is typed goes here; a client without it is no console.
    rx: Option<Producer<u8>>,
    /// The operator's commands go here, if the client takes any.
    commands: Option<Producer<u8>>,
    /// The line being collected. Of a console in focus: what it has printed of its current line.
    line: Line,
    /// Bytes of the line that were popped and not released, its end included.
    held: u32,
    /// The time at which the line is printed although it is not whole.
    overdue: Option<Instant>,
    /// Whether there may be something in `tx`.
    active: bool,
}

impl Client {
    /// Creates the client at the other end of `channel`, with `rx` if it is a console.
    pub fn new(
        name: &'static [u8],
        channel: Channel,
        may_notify: bool,
        tx: Consumer<u8>,
        rx: Option<Producer<u8>>,
    ) -> Self {
        let (commands, line) = (None, Line::EMPTY);
        Self { name, channel, may_notify, tx, rx, commands, line, held: 0, overdue: None, active: true }
    }

    /// Gives it the operator's commands too.
    pub fn with_commands(self, commands: Option<Producer<u8>>) -> Self {
        Self { commands, ..self }
    }

    /// Returns its name.
    pub fn name(&self) -> &'static [u8] {
        self.name
    }

    /// Returns the line being collected, or what is on the screen of it.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// Returns whether it is a console.
    pub fn is_console(&self) -> bool {
        self.rx.is_some()
    }

    /// Returns whether this is who is at the other end of `channel`.
    pub fn is_at(&self, channel: Channel) -> bool {
        self.channel == channel
    }

    /// Notes that there may be something to print.
    pub fn mark(&mut self) {
        self.active = true;
    }

    /// Returns the time at which it is to be looked at again, `now` if there is more already.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        if self.active { Some(now) } else { self.overdue }
    }

    /// Collects bytes until the line is whole; returns whether it is to be printed. They stay in
    /// the client's queue (popped, not released) until it is, so that a restart of the virtualiser
    /// loses none.
    ///
    /// The beginning of a line of the log is printed if nothing comes for a while. That of a
    /// console's waits until its end comes, or the focus.
    pub fn collect(&mut self, now: Instant) -> bool {
        if !self.active && !self.is_overdue(now) {
            return false;
        }
        let held = self.held;
        while !self.line.is_whole() {
            let Some(byte) = self.tx.pop() else { break };
            self.line.add(byte);
            self.held += 1;
        }
        // From the latest byte on: a guest on a busy machine takes its time for each.
        if self.held > held && !self.is_console() {
            self.overdue = Some(now + PATIENCE);
        }
        // A queue whose bytes are all held cannot bring the line's end.
        let is_ready = self.line.is_whole() || self.held >= self.tx.capacity() || self.is_overdue(now);
        if !is_ready {
            self.sleep();
        }
        is_ready
    }

    /// Returns whether the beginning of a line has waited for its end long enough.
    fn is_overdue(&self, now: Instant) -> bool {
        self.overdue.is_some_and(|time| time <= now)
    }

    /// Releases the bytes of the line that was printed, and begins another.
    pub fn printed(&mut self) {
        self.line.clear();
        self.shown();
    }

    /// Releases the bytes of the line that was shown as far as it has come.
    pub fn shown(&mut self) {
        (self.held, self.overdue) = (0, None);
        let peer = self.tx.release();
        self.notify(peer);
    }

    /// Takes bytes of the console in focus, as many as there are and fit, which are put out at
    /// once. Release them by [`Self::shown`] after that.
    pub fn take(&mut self, bytes: &mut [u8]) -> usize {
        let count = self.tx.pop_slice(bytes);
        bytes[..count].iter().for_each(|byte| self.line.follow(*byte));
        if count == 0 {
            self.sleep();
        }
        count
    }

    /// Returns whether there are bytes to take.
    pub fn has_more(&mut self) -> bool {
        self.tx.refresh() > 0
    }

    /// Asks to be told of more. Bytes that came just now are looked at in another turn.
    fn sleep(&mut self) {
        self.active = self.tx.sleep().is_more();
    }

    /// Gives a console a byte that was typed; returns whether there was space.
    pub fn give(&mut self, byte: u8) -> bool {
        self.rx.as_mut().is_some_and(|rx| rx.push(byte).is_ok())
    }

    /// Gives it a command of the operator's; returns whether it takes any, and there was space.
    pub fn command(&mut self, letter: u8) -> bool {
        self.commands.as_mut().is_some_and(|commands| commands.push(letter).is_ok())
    }

    /// Hands over what was typed.
    pub fn hand_over(&mut self) {
        for queue in [&mut self.rx, &mut self.commands].into_iter().flatten() {
            let peer = queue.publish();
            if peer.is_asleep() && self.may_notify {
                self.channel.notify();
            }
        }
    }

    /// Tells the client of this life of the virtualiser.
    pub fn greet(&mut self) {
        let mut peer = self.tx.release();
        for queue in [&mut self.rx, &mut self.commands].into_iter().flatten() {
            peer |= queue.publish();
        }
        self.notify(peer);
    }

    fn notify(&self, peer: Peer) {
        if peer.is_asleep() && self.may_notify {
            self.channel.notify();
        }
    }

    /// Returns how often the client broke the rules of its queues.
    pub fn violations(&self) -> u64 {
        let given = [&self.rx, &self.commands].into_iter().flatten();
        u64::from(self.tx.violations()) + given.map(|queue| u64::from(queue.violations())).sum::<u64>()
    }
}
