//! The net class's TCP connections as the server's transport.

use core::net::IpAddr;
use culm_http::Transport;
use culm_net::stack::{self, Stack};

/// All connections of a stack.
pub struct Network<'a>(pub &'a mut Stack);

/// One connection.
pub struct Stream<'a>(stack::Stream<'a>);

impl Transport for Network<'_> {
    type Stream<'transport>
        = Stream<'transport>
    where
        Self: 'transport;

    #[inline]
    fn stream(&mut self, slot: usize) -> Option<Stream<'_>> {
        self.0.stream(slot).map(Stream)
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.0.is_crowded()
    }

    fn release(&mut self, slot: usize) {
        self.0.release(slot);
    }
}

impl culm_http::Stream for Stream<'_> {
    #[inline]
    fn received(&mut self) -> &[u8] {
        self.0.received()
    }

    #[inline]
    fn received_count(&self) -> usize {
        self.0.received_count()
    }

    fn copy_received(&mut self, into: &mut [u8]) -> usize {
        self.0.copy_received(into)
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }

    #[inline]
    fn ended(&self) -> bool {
        self.0.ended()
    }

    #[inline]
    fn room(&self) -> usize {
        self.0.room()
    }

    #[inline]
    fn unacknowledged(&self) -> usize {
        self.0.unacknowledged()
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> usize {
        self.0.send(bytes)
    }

    #[inline]
    fn send_static(&mut self, bytes: &'static [u8]) -> usize {
        self.0.send_static(bytes)
    }

    #[inline]
    fn send_static_whole(&mut self, bytes: &'static [u8]) -> bool {
        // None of what is referred to takes room, and a file's bytes are taken all or not at all.
        self.0.send_static(bytes) == bytes.len()
    }

    #[inline]
    fn send_with(&mut self, count: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.0.send_with(count, fill)
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    #[inline(always)]
    fn finishes_alone(&self) -> bool {
        true
    }

    fn abort(&mut self) {
        self.0.abort();
    }

    #[inline]
    fn rest(&mut self) {
        self.0.rest();
    }

    fn peer(&self) -> Option<IpAddr> {
        self.0.remote().map(|remote| remote.ip())
    }

    /// After a reset there may be bytes left to read, but nobody to answer.
    #[inline]
    fn is_over(&self) -> bool {
        self.0.is_over() || self.0.ending().is_some()
    }
}
