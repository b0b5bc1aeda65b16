//! The pause of a guest: by the operator, who gives a command on its console.
//!
//! While it lasts, no virtual CPU is in the guest. What its devices have under way ends, and what
//! comes for it is kept as for any guest that is busy. Its clock and its timer go on, as those of a
//! machine do whose firmware keeps it for a while: the time of day stays right, and a timer that
//! has gone off interrupts it once when it goes on.

use crate::counters;
use culm::connection::SerialClient;
use culm::queue::{self, Consumer};
use culm::{Channel, Channels, ROUNDS, time};

/// The letter that begins the pause, and ends it.
const PAUSE_KEY: u8 = b'z';

/// The operator's commands, and what has come of them.
pub struct Pause {
    channel: Channel,
    commands: Option<Consumer<u8>>,
    /// More commands may be there than were followed.
    has_more: bool,
    is_on: bool,
}

impl Pause {
    /// Attaches to the commands that come with the guest's console, if the description gives any.
    pub fn new(console: &SerialClient) -> Self {
        // A restart keeps counters, and ends the pause: the guest begins anew.
        counters::PAUSED.set(0);
        let commands = (console.commands.capacity > 0).then(|| queue::consumer(console.commands));
        Self { channel: Channel::new(console.channel), has_more: commands.is_some(), commands, is_on: false }
    }

    /// Returns whether the guest is to stand still.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Follows the commands that have come, if there can be any in this turn, and asks to be
    /// notified of more.
    #[inline]
    pub fn follow(&mut self, notified: Channels) {
        if self.has_more || notified.contains(self.channel) {
            self.follow_all();
        }
    }

    /// Follows the commands that have come.
    #[inline(never)]
    fn follow_all(&mut self) {
        self.has_more = false;
        let Some(commands) = &mut self.commands else { return };
        for _ in 0..ROUNDS {
            while let Some(letter) = commands.pop() {
                obey(letter, &mut self.is_on);
            }
            if commands.release().is_asleep() {
                self.channel.notify();
            }
            if commands.sleep().is_asleep() {
                return;
            }
        }
        self.has_more = true;
        culm::wake_at(time::now());
    }
}

/// Follows one command, and says what has come of it.
fn obey(letter: u8, is_on: &mut bool) {
    if letter != PAUSE_KEY {
        culm::info!("Ctrl-] and z pauses the guest, or ends the pause: it has no other command");
        return;
    }
    *is_on = !*is_on;
    counters::PAUSED.set((*is_on).into());
    match is_on {
        true => culm::info!("the guest is paused; Ctrl-] and z ends the pause"),
        false => culm::info!("the guest goes on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_queue::{Producer, Storage};
    use std::boxed::Box;

    #[test]
    fn a_letter_begins_the_pause_and_ends_it() {
        let shared = Box::leak(Box::new(Storage::<u8, 16>::new())).shared();
        let (mut operator, commands) = (Producer::attach(shared), Consumer::attach(shared));
        let channel = Channel::new(1);
        let mut pause = Pause { channel, commands: Some(commands), has_more: true, is_on: false };
        let mut after = |letters: &[u8]| {
            operator.push_slice(letters);
            let is_told = operator.publish().is_asleep();
            pause.follow(if is_told { Channels::from(channel) } else { Channels::NONE });
            pause.is_on()
        };
        let expected = [(b"".as_slice(), false), (b"z", true), (b"ax", true), (b"zz", true), (b"z", false)];
        for (letters, is_on) in expected {
            assert_eq!(after(letters), is_on, "{letters:?}");
        }
    }
}
