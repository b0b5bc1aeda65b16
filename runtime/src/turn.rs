//! A component's turns: notifications and requests of a turn are collected, and leave by the one
//! system call that ends it.
//!
//! Nothing but the waiting call itself enters the kernel, so a turn that notifies three peers and
//! replies to a fourth costs one system call.

use crate::Component;
use crate::arch::{Arrival, domain_static, syscall};
use crate::channel::{Channel, Channels};
use crate::message::Message;
use crate::time::Instant;
use core::cell::Cell;
use culm_abi::syscall::{Event, NEVER};

/// The notifications and requests that the current turn has collected so far.
pub(crate) struct Turn {
    /// Signals of group 0, where the first 63 channels are.
    signals: Cell<u64>,
    /// Signals of one other group …
    far_signals: Cell<u64>,
    /// … namely this one.
    far_group: Cell<u32>,
    /// The earliest deadline asked for, in ticks.
    deadline: Cell<u64>,
}

impl Turn {
    const fn new() -> Self {
        Self { signals: Cell::new(0), far_signals: Cell::new(0), far_group: Cell::new(0), deadline: Cell::new(NEVER) }
    }

    #[inline(always)]
    fn signal(&self, channel: Channel) {
        let (group, bit) = channel.position();
        if group == 0 {
            self.signals.set(self.signals.get() | 1 << bit);
        } else {
            self.signal_far(group, bit);
        }
    }

    /// Adds a signal of a group other than 0. Components with more than 63 channels are rare (a
    /// supervisor of many), so only one such group is collected; a change of group sends it.
    #[cold]
    fn signal_far(&self, group: u32, bit: u32) {
        let mut signals = self.far_signals.get();
        if signals != 0 && self.far_group.get() != group {
            syscall::signal(self.far_group.get(), signals);
            signals = 0;
        }
        self.far_group.set(group);
        self.far_signals.set(signals | 1 << bit);
    }

    #[inline(always)]
    fn wake_at(&self, ticks: u64) {
        if ticks < self.deadline.get() {
            self.deadline.set(ticks);
        }
    }

    /// Returns everything collected, as the waiting call takes it; the next turn starts with
    /// nothing.
    #[inline(always)]
    fn take(&self) -> Leave {
        if self.far_signals.get() != 0 {
            self.send_far();
        }
        let leave = Leave { signals: self.signals.get(), deadline: self.deadline.get() };
        self.signals.set(0);
        self.deadline.set(NEVER);
        leave
    }

    #[cold]
    fn send_far(&self) {
        syscall::signal(self.far_group.get(), self.far_signals.get());
        self.far_signals.set(0);
    }
}

/// Arguments, besides a reply, of the system call that ends a turn. Signals are those of group 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leave {
    pub(crate) signals: u64,
    pub(crate) deadline: u64,
}

domain_static! {
    TURN: Turn = Turn::new();
}

/// Adds a notification to this turn.
#[inline(always)]
pub(crate) fn signal(channel: Channel) {
    TURN.with(|turn| turn.signal(channel));
}

/// Asks for a turn at `deadline` if nothing else happens before: [`Component::notified`] then gets
/// an empty set. The earliest deadline of a turn counts; it is forgotten when the next turn begins,
/// so a component says at the end of each turn when it wants to be woken. A deadline in the past
/// gives the component its next turn as soon as those of its own priority that are ready had
/// theirs. A passive protection domain, which has no time of its own, must not ask.
#[inline(always)]
pub fn wake_at(deadline: Instant) {
    TURN.with(|turn| turn.wake_at(deadline.ticks()));
}

/// Returns whether a deadline was asked for in this turn so far. It is forgotten when the next turn
/// begins, so a component of several parts gives each of them a part of that turn: then each can
/// ask again.
#[inline(always)]
pub fn is_to_be_woken() -> bool {
    TURN.with(|turn| turn.deadline.get() != NEVER)
}

/// Takes what the current turn has collected.
#[inline(always)]
pub(crate) fn take() -> Leave {
    TURN.with(Turn::take)
}

/// One event of the kernel, decoded.
enum Occasion {
    /// Notifications, or none where the deadline passed.
    Notified(Channels),
    /// A call.
    Called(Channel, Message),
}

impl Occasion {
    /// From what ended a wait.
    #[inline(always)]
    fn new((words, event, set): Arrival) -> Self {
        let event = Event(event);
        if event.is_call() {
            Self::Called(Channel::new(event.source()), Message::new(words))
        } else {
            Self::Notified(Channels::new(event.source(), set))
        }
    }
}

/// Takes turns for ever.
pub(crate) fn run<C: Component>(component: &mut C) -> ! {
    loop {
        let mut occasion = Occasion::new(syscall::wait(take()));
        // One call after the other: what a callee does most.
        let channels = loop {
            match occasion {
                Occasion::Called(channel, message) => {
                    let reply = component.called(channel, message);
                    occasion = Occasion::new(syscall::reply_wait(&reply, take()));
                }
                Occasion::Notified(channels) => break channels,
            }
        };
        component.notified(channels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_turn_collects_signals_and_the_earliest_deadline() {
        Channel::new(3).notify();
        Channel::new(5).notify();
        Channel::new(3).notify();
        wake_at(Instant::from_ticks(900));
        wake_at(Instant::from_ticks(500));
        wake_at(Instant::from_ticks(700));
        assert_eq!(take(), Leave { signals: 1 << 3 | 1 << 5, deadline: 500 });
        assert_eq!(take(), Leave { signals: 0, deadline: NEVER });
    }

    #[test]
    fn a_deadline_is_known_until_the_turn_ends() {
        assert!(!is_to_be_woken());
        wake_at(Instant::from_ticks(500));
        assert!(is_to_be_woken());
        let _ = take();
        assert!(!is_to_be_woken());
    }

    #[test]
    fn far_groups_are_sent_when_the_group_changes_and_at_the_end() {
        for number in [1, 64, 65, 130, 2] {
            Channel::new(number).notify();
        }
        assert_eq!(testing::sent(), [(1, 0b110)]);
        assert_eq!(take().signals, 0b110);
        assert_eq!(testing::sent(), [(2, 1 << 4)]);
    }
}
