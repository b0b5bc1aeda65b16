//! How many bytes are kept for the application: as many as it reads in two round trips, up to the
//! limit that it gave.
//!
//! A window that is smaller than what the path carries in a round trip is what limits the sender;
//! one that is larger costs memory for nothing. The receiver cannot see the sender's window, but
//! how much its application reads in a round trip; while that is half of the buffer or more, the
//! buffer doubles. A round trip is the time until the peer echoes a timestamp that was sent after
//! its start, or where there are none, until something comes from behind the window that it knew
//! then.

use super::{Connection, Settings, scale_of};
use crate::header::Header;
use crate::sequence::Sequence;
use crate::time::Instant;

/// The buffer's size, and what was read of late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    size: u32,
    /// Bytes that the application has read since this round trip began.
    read: u32,
    /// The timestamp, and the window's end, at that time.
    stamp: u32,
    end: Sequence,
}

impl Buffer {
    pub fn new(settings: &Settings) -> Self {
        Self { size: first_size(settings), read: 0, stamp: 0, end: Sequence(0) }
    }

    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    #[inline]
    pub fn note_read(&mut self, bytes: u32) {
        self.read = self.read.saturating_add(bytes);
    }
}

/// Returns the bytes that are kept at first: no fewer than a window tells apart. Fewer would be
/// told as a window of zero, which nothing opens, since there is nothing to read.
pub(super) fn first_size(settings: &Settings) -> u32 {
    let first = settings.first_capacity.max(1 << scale_of(settings.capacity));
    if settings.first_capacity == 0 { settings.capacity } else { first.min(settings.capacity) }
}

impl Connection<'_> {
    /// Begins to watch how much the application reads: the numbers of the connection are known.
    pub(super) fn begin_buffer(&mut self, now: Instant) {
        (self.buffer.stamp, self.buffer.end, self.buffer.read) = (self.stamp(now), self.announced, 0);
    }

    /// Grows the buffer if a round trip is over, in which half of it was read. To be called for
    /// each segment with data in order.
    #[inline]
    pub(super) fn grow_buffer(&mut self, header: &Header, now: Instant) {
        if self.buffer.size >= self.settings.capacity {
            return;
        }
        let is_over = match header.options.timestamps {
            Some(stamps) if self.has_stamps => stamps.echo.wrapping_sub(self.buffer.stamp) as i32 > 0,
            _ => self.incoming.next.is_after(self.buffer.end),
        };
        if is_over {
            if self.buffer.read >= self.buffer.size / 2 {
                self.buffer.size = self.buffer.size.saturating_mul(2).min(self.settings.capacity);
            }
            self.begin_buffer(now);
        }
    }
}
