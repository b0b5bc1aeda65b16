//! The transport that the server needs.

use core::net::IpAddr;

/// One transport connection, borrowed for the time of a call.
pub trait Stream {
    /// The first bytes that were received and not yet consumed, as many as lie side by side in
    /// memory: one at least if there are any.
    fn received(&mut self) -> &[u8];

    /// All bytes that were received and not yet consumed.
    fn received_count(&self) -> usize;

    /// Copies the first received bytes into `into` without consuming them; returns how many.
    fn copy_received(&mut self, into: &mut [u8]) -> usize;

    /// Drops the first `count` received bytes.
    fn consume(&mut self, count: usize);

    /// Whether the peer has ended its side: nothing will be received beyond what is there.
    fn ended(&self) -> bool;

    /// Bytes that [`Self::send`] takes now: none after [`Self::finish`].
    fn room(&self) -> usize;

    /// Bytes handed over that the peer has not acknowledged yet. The end of this side counts as
    /// one. It is news of the connection when they become fewer.
    fn unacknowledged(&self) -> usize;

    /// Hands over bytes to send; returns how many were taken, from the front.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Hands over bytes to send that stay where they are, so that the transport may refer to them
    /// until the peer has acknowledged them; returns how many were taken, from the front. A
    /// transport that copies them takes what finds room.
    fn send_static(&mut self, bytes: &'static [u8]) -> usize {
        self.send(bytes)
    }

    /// Hands over bytes to send that stay where they are, all or none; returns whether they were
    /// taken. A transport that copies them takes them if they find room.
    fn send_static_whole(&mut self, bytes: &'static [u8]) -> bool {
        self.room() >= bytes.len() && self.send_static(bytes) == bytes.len()
    }

    /// Hands over up to `count` bytes that `fill` writes to where they are sent from. It is given
    /// the room that lies side by side there, `count` bytes at most, and returns how many it has
    /// written, from the front. So content that is not the server's own memory is copied once.
    /// Returns how many were taken.
    fn send_with(&mut self, count: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> usize;

    /// Ends this side after everything handed over is sent. Receiving goes on.
    fn finish(&mut self);

    /// Whether [`Transport::release`] sends all that was handed over and ends this side after it,
    /// and keeps what the peer still sends from undoing that by a reset. Where it does not, the
    /// server finishes and reads on for itself.
    fn finishes_alone(&self) -> bool {
        false
    }

    /// Gives the connection up at once, with a reset.
    fn abort(&mut self);

    /// Says that no request is under way: should places run out, the transport may end the
    /// connection for a new one, once its peer has acknowledged all that was sent. It holds until
    /// there is news of the connection.
    fn rest(&mut self);

    /// The address of the peer's host, so that one that guesses is told from others; `None` if the
    /// connection is over, or the transport has no addresses.
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    /// Whether the connection is over, by whatever cause: nothing can be sent or received any more.
    fn is_over(&self) -> bool;
}

/// All connections of a server, by slot.
pub trait Transport {
    /// One connection.
    type Stream<'transport>: Stream
    where
        Self: 'transport;

    /// The connection in `slot`, or nothing where the slot has none (any more). One that the
    /// transport has ended for a new one is replaced by [`Server::opened`](crate::Server::opened).
    fn stream(&mut self, slot: usize) -> Option<Self::Stream<'_>>;

    /// Whether clients wait for whom there is no place: then who has had many answers is told that
    /// there are no more.
    fn is_crowded(&self) -> bool {
        false
    }

    /// The server has nothing more to do with the connection in `slot`; the slot may be reused.
    /// What becomes of bytes that were handed over says [`Stream::finishes_alone`].
    fn release(&mut self, slot: usize);
}
