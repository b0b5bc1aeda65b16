//! The gpio class: what an input line was and is, for whoever watches it.
//!
//! The provider shows each client one word: how often its line changed since the machine was
//! started, beginning with a line at rest. So the lowest bit says whether the line is active now.
//! The word outlives both sides: a client that is restarted misses no press. A provider counts one
//! that is over before it runs, by the edges that its chip remembers; but it misses one that begins
//! and ends while it is away, or that it has not told yet when it dies. Where the line is another at
//! its return, that is one change, however many there were.
//!
//! A provider that shows nonsense makes its clients believe in presses that were none, and no more.

#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use culm::connection::{GpioClient, GpioProviderClient};
use culm::{Channel, Region};

/// Where the word is in what is shown.
const CHANGES: usize = 0;

/// A client's view of a line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    changes: &'static AtomicU64,
    channel: Channel,
}

impl Line {
    /// Creates the client's side of `connection`.
    ///
    /// # Panics
    ///
    /// If `connection` gives no memory, which those of a start block do.
    pub fn new(connection: GpioClient) -> Self {
        Self { changes: word(&Region::read_only(connection.shown)), channel: Channel::new(connection.channel) }
    }

    /// Returns the channel over which the provider notifies of a change.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Returns whether the line is active: a button pressed.
    pub fn is_active(&self) -> bool {
        self.changes.load(Ordering::Relaxed) & 1 != 0
    }

    /// Returns how often the line became active since the machine was started.
    pub fn activations(&self) -> u64 {
        self.changes.load(Ordering::Relaxed).div_ceil(2)
    }
}

/// A provider's side: what one client reads.
#[derive(Clone, Copy, Debug)]
pub struct Watcher {
    changes: &'static AtomicU64,
    channel: Channel,
    line: u32,
    active_low: bool,
}

impl Watcher {
    /// Creates the provider's side of one of its clients. What an earlier life showed stays.
    ///
    /// # Panics
    ///
    /// If `client` gives no memory, which those of a start block do.
    pub fn new(client: &GpioProviderClient) -> Self {
        let changes = word(&Region::new(client.shown));
        let channel = Channel::new(client.channel);
        Self { changes, channel, line: client.line, active_low: client.active_low != 0 }
    }

    /// Returns the bit of the line among the chip's levels; 0 if there is no such line.
    pub fn bit(&self) -> u32 {
        1_u32.checked_shl(self.line).unwrap_or(0)
    }

    /// Shows the client its line's state, by the levels of all lines, and notifies it of a change.
    /// Returns whether there was one.
    pub fn tell(&self, levels: u32) -> bool {
        let active = (levels & self.bit() != 0) != self.active_low;
        let changed = (self.changes.load(Ordering::Relaxed) & 1 != 0) != active;
        if changed {
            self.add(1);
        }
        changed
    }

    /// Shows the client that its line changed and changed back while nobody looked, and notifies it.
    pub fn tell_pulse(&self) {
        self.add(2);
    }

    /// Adds changes at once: a provider that dies in between leaves none of them half told.
    fn add(&self, changes: u64) {
        // Only this side writes the word.
        self.changes.store(self.changes.load(Ordering::Relaxed).wrapping_add(changes), Ordering::Relaxed);
        self.channel.notify();
    }
}

fn word(shown: &Region) -> &'static AtomicU64 {
    shown.atomic_u64(CHANGES).expect("a start block gives a page")
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_abi::start::Memory;

    extern crate std;

    fn client(line: u32, active_low: bool) -> (GpioProviderClient, Line) {
        let words = std::boxed::Box::leak(std::boxed::Box::new([const { AtomicU64::new(0) }; 8]));
        let shown = Memory { address: words.as_ptr().addr() as u64, size: 64, dma: 0 };
        let provider = GpioProviderClient { shown, line, channel: 3, active_low: active_low.into() };
        (provider, Line::new(GpioClient { shown, channel: 2 }))
    }

    #[test]
    fn each_change_is_told_once() {
        let (connection, line) = client(3, false);
        let watcher = Watcher::new(&connection);
        assert!(!watcher.tell(0) && !line.is_active());
        assert!(watcher.tell(1 << 3) && line.is_active());
        assert!(!watcher.tell(1 << 3 | 1));
        assert_eq!(line.activations(), 1);
        assert!(watcher.tell(1) && !line.is_active());
        assert_eq!(line.activations(), 1);
    }

    #[test]
    fn a_restart_while_it_is_pressed_is_no_press() {
        let (connection, line) = client(0, true);
        assert!(Watcher::new(&connection).tell(0), "low is pressed");
        assert!(!Watcher::new(&connection).tell(0));
        assert!(Watcher::new(&connection).tell(1), "it was released meanwhile");
        assert_eq!((line.activations(), line.is_active()), (1, false));
    }

    #[test]
    fn a_line_that_the_chip_has_not_is_at_rest() {
        let (connection, line) = client(40, false);
        assert!(!Watcher::new(&connection).tell(u32::MAX));
        assert_eq!(line.activations(), 0);
    }
}
