//! The gpio class: what an input line was and is, for whoever watches it.
//!
//! The provider shows each client one word: 0 until it looks at the line for the first time since
//! the machine was started, then 1 if the line is active and 2 if it is at rest, and 1 more with
//! each change. So the lowest bit says whether the line is active now, and a button that is held as
//! the machine starts is active, but no press.
//!
//! The word outlives both sides: a client that is restarted misses no press. A provider counts one
//! that is over before it runs, by the edges that its chip remembers; but it misses one that begins
//! and ends while it is away, or that is over and untold as it dies. A line that is found changed
//! at its return has changed once, however often it did.
//!
//! A provider that shows nonsense makes its clients believe in presses that were none, and no more.

#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use culm::connection::{GpioClient, GpioProviderClient};
use culm::{Channel, Region};

/// Where the word is in what is shown.
const CHANGES: usize = 0;

/// The word after a first look at a line that is at rest.
const AT_REST: u64 = 2;

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

    /// Returns whether the line is active: a button pressed. It is not before the provider has
    /// looked.
    pub fn is_active(&self) -> bool {
        self.changes.load(Ordering::Relaxed) & 1 != 0
    }

    /// Returns how often the line became active since the provider first looked at it. One that was
    /// active then has to come to rest before it counts.
    pub fn activations(&self) -> u64 {
        self.changes.load(Ordering::Relaxed).saturating_sub(1) / 2
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
    /// Returns whether there was one. A line that is none of the `known`, which the chip has, is at
    /// rest, whatever level its client takes for active.
    pub fn tell(&self, levels: u32, known: u32) -> bool {
        if self.bit() & known == 0 {
            return false;
        }
        let active = (levels & self.bit() != 0) != self.active_low;
        let changes = self.changes.load(Ordering::Relaxed);
        let changed = (changes & 1 != 0) != active;
        if changed {
            self.add(1);
        } else if changes == 0 {
            // To the client a line at rest is nothing new.
            self.changes.store(AT_REST, Ordering::Relaxed);
        }
        changed
    }

    /// Shows the client that its line changed and changed back while nobody looked, and notifies
    /// it.
    pub fn tell_pulse(&self) {
        self.add(2);
    }

    /// Notifies the client. A new life of the provider does so even if nothing has changed: the one
    /// before may have died after it showed a change, before the client was notified.
    pub fn notify(&self) {
        self.channel.notify();
    }

    /// Adds changes at once: a provider that dies in between leaves none of them half told.
    fn add(&self, changes: u64) {
        // Only this side writes the word.
        self.changes.store(self.changes.load(Ordering::Relaxed).wrapping_add(changes), Ordering::Relaxed);
        self.notify();
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

    /// The lines of a small chip.
    const LINES: u32 = 0xff;

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
        assert!(!watcher.tell(0, LINES) && !line.is_active());
        assert!(watcher.tell(1 << 3, LINES) && line.is_active());
        assert!(!watcher.tell(1 << 3 | 1, LINES));
        assert_eq!(line.activations(), 1);
        assert!(watcher.tell(1, LINES) && !line.is_active());
        assert_eq!(line.activations(), 1);
    }

    #[test]
    fn a_restart_while_it_is_pressed_is_no_press() {
        let (connection, line) = client(0, true);
        assert!(!Watcher::new(&connection).tell(1, LINES), "high is at rest");
        assert!(Watcher::new(&connection).tell(0, LINES), "low is pressed");
        assert!(!Watcher::new(&connection).tell(0, LINES));
        assert!(Watcher::new(&connection).tell(1, LINES), "it was released meanwhile");
        assert_eq!((line.activations(), line.is_active()), (1, false));
    }

    #[test]
    fn a_line_that_is_active_at_the_first_look_is_no_press() {
        let (connection, line) = client(3, false);
        assert_eq!((line.activations(), line.is_active()), (0, false), "nobody has looked");
        let watcher = Watcher::new(&connection);
        for (levels, activations) in [(8, 0), (8, 0), (0, 0), (8, 1), (0, 1), (8, 2)] {
            watcher.tell(levels, LINES);
            assert_eq!((line.activations(), line.is_active()), (activations, levels != 0));
        }
        watcher.tell_pulse();
        assert_eq!((line.activations(), line.is_active()), (3, true));
    }

    #[test]
    fn a_line_that_the_chip_has_not_is_at_rest() {
        for (number, active_low) in [(9, false), (9, true), (40, false), (40, true)] {
            let (connection, line) = client(number, active_low);
            for levels in [0, u32::MAX, 0] {
                assert!(!Watcher::new(&connection).tell(levels, LINES));
            }
            assert_eq!((line.activations(), line.is_active()), (0, false), "line {number}");
        }
    }
}
