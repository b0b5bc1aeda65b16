//! TCP connections, as an application sees them.

use super::table::Slot;
use core::net::SocketAddr;
use culm_tcp::{Ending, KeepAlive, State};

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new connection. Its slot is the application's until
    /// [`Stack::release`](super::Stack::release), or until the slot is opened again: then the
    /// connection that was in it had to make way.
    Opened {
        /// The connection's slot.
        slot: usize,
        /// The local port.
        port: u16,
    },
    /// There may be bytes to read, room to write, or the connection's end.
    Ready {
        /// The connection's slot.
        slot: usize,
    },
}

/// One TCP connection, borrowed.
#[derive(Debug)]
pub struct Stream<'a> {
    pub(super) slot: &'a mut Slot,
}

impl Stream<'_> {
    /// The first bytes received and not yet consumed, as many as lie side by side.
    pub fn received(&mut self) -> &[u8] {
        self.slot.inbox.first(self.received_count())
    }

    /// Bytes received and not yet consumed.
    #[inline]
    pub fn received_count(&self) -> usize {
        self.slot.connection.readable() as usize
    }

    /// Copies the first received bytes without consuming them; returns how many.
    pub fn copy_received(&mut self, into: &mut [u8]) -> usize {
        self.slot.inbox.copy(self.received_count(), into)
    }

    /// Drops the first `count` received bytes.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.slot.consume(count);
    }

    /// Whether the peer has ended its side, or the connection is over: nothing will be received
    /// beyond what is there.
    pub fn ended(&self) -> bool {
        self.slot.connection.is_peer_done() || self.slot.connection.state() == State::Closed
    }

    /// Bytes that [`Self::send`] takes now: none after [`Self::finish`].
    #[inline]
    pub fn room(&self) -> usize {
        self.slot.outbox.room(&self.slot.connection)
    }

    /// Bytes handed over that the peer has not acknowledged yet. The end of this side counts as
    /// one. An [`Event::Ready`] says that they may have become fewer.
    #[inline]
    pub fn unacknowledged(&self) -> usize {
        let connection = &self.slot.connection;
        let end = matches!(connection.state(), State::FinWait1 | State::Closing | State::LastAck);
        connection.unacknowledged() as usize + usize::from(end)
    }

    /// Hands over bytes to send, which are copied; returns how many were taken, from the front: up
    /// to [`Self::room`].
    pub fn send(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        // Twice where the room goes over the end of the ring.
        for _ in 0..2 {
            let rest = &bytes[sent..];
            sent += self.send_with(rest.len(), |room| {
                let part = &rest[..rest.len().min(room.len())];
                room[..part.len()].copy_from_slice(part);
                part.len()
            });
        }
        sent
    }

    /// Hands over up to `count` bytes that `fill` writes into the send buffer; returns how many. It
    /// is given as much room as lies side by side, `count` bytes at most, and returns how many it
    /// has written, from the front.
    #[inline]
    pub fn send_with(&mut self, count: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.slot.outbox.keep(&mut self.slot.connection, count, fill)
    }

    /// Hands over bytes to send that stay where they are: they are not copied, and take no room of
    /// the send buffer. Returns how many were taken, from the front: all, but no more than 512 MiB
    /// at a time; or none if too many such calls, or 1 GiB, are not acknowledged, or after
    /// [`Self::finish`].
    pub fn send_static(&mut self, bytes: &'static [u8]) -> usize {
        self.slot.outbox.refer(&mut self.slot.connection, bytes)
    }

    /// Ends this side after everything handed over is sent. Receiving goes on.
    pub fn finish(&mut self) {
        self.slot.close();
    }

    /// Gives the connection up at once, with a reset.
    pub fn abort(&mut self) {
        self.slot.abort();
    }

    /// Sets whether and when a silent peer is asked whether it is there (RFC 9293 §3.8.4): of
    /// itself no connection asks. One whose peer has vanished ends as [`Ending::TimedOut`], though
    /// nothing is sent to it. [`KeepAlive::USUAL`] is what most hosts have. Applications that bound
    /// each silence by a time of their own need none.
    ///
    /// It costs a look at the connection a second.
    pub fn keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        self.slot.connection.set_keep_alive(keep_alive);
    }

    /// Sets how often what is not acknowledged is sent again before the connection ends as
    /// [`Ending::TimedOut`] (R2 of RFC 9293 §3.8.3): ten times unless this is called, which takes
    /// more than three minutes.
    pub fn set_attempts(&mut self, attempts: u8) {
        self.slot.connection.set_attempts(attempts);
    }

    /// Says that nothing is under way on the connection: no request that deserves an answer was
    /// received. Where places run out, and all that was sent is acknowledged, such connections make
    /// way for new ones. It holds until the next event.
    #[inline]
    pub fn rest(&mut self) {
        self.slot.rests = true;
    }

    /// Whether the connection is over: nothing can be sent or received any more.
    pub fn is_over(&self) -> bool {
        matches!(self.slot.connection.state(), State::Closed | State::TimeWait) && self.received_count() == 0
    }

    /// Returns how the connection has ended, once it is over: refused, reset, not answered, not to
    /// be reached, without its address, or in order.
    pub fn ending(&self) -> Option<Ending> {
        self.slot.connection.ending()
    }

    /// Returns whether somebody on the way has said that nothing gets to the peer, since that was
    /// heard last. TCP goes on trying: it may be for a moment, or not be true (RFC 9293
    /// §3.9.2.2). An [`Event::Ready`] says that it may have changed.
    pub fn is_unreachable(&self) -> bool {
        self.slot.connection.is_unreachable()
    }

    /// Returns the peer's address and port, while the connection is not over.
    pub fn remote(&self) -> Option<SocketAddr> {
        (self.slot.connection.state() != State::Closed).then(|| self.slot.remote())
    }
}
