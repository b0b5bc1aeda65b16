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
    /// The bytes that there is memory for.
    limit: u32,
    /// Whether the size would go beyond that.
    is_short: bool,
    /// Bytes that the application has read since this round trip began.
    read: u32,
    /// The timestamp, and the window's end, at that time.
    stamp: u32,
    end: Sequence,
}

impl Buffer {
    pub fn new(settings: &Settings) -> Self {
        Self {
            size: first_size(settings),
            limit: settings.capacity,
            is_short: false,
            read: 0,
            stamp: 0,
            end: Sequence(0),
        }
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
    /// Keeps `bytes` for the application at most, from now on: there is memory for no more, or
    /// again for more, up to the settings' capacity. The buffer grows to that at once if it
    /// [was short](Self::takes_more); it never shrinks, since what the peer was told stays true
    /// (RFC 9293, §3.8.6).
    pub fn keep_up_to(&mut self, bytes: u32) {
        let bytes = bytes.clamp(self.buffer.size, self.settings.capacity);
        self.buffer.limit = bytes;
        if core::mem::take(&mut self.buffer.is_short) {
            self.buffer.size = bytes;
        }
    }

    /// Returns whether the buffer would grow if there were more memory: a round trip is over, in
    /// which the application has read half of it. To be answered by [`Self::keep_up_to`].
    #[inline]
    pub fn takes_more(&self) -> bool {
        self.buffer.is_short
    }

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
                let wanted = self.buffer.size.saturating_mul(2).min(self.settings.capacity);
                self.buffer.size = wanted.min(self.buffer.limit);
                self.buffer.is_short = wanted > self.buffer.limit;
            }
            self.begin_buffer(now);
        }
    }
}
