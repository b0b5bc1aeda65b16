//! TCP connections, as an application sees them.

use smoltcp::socket::tcp::{Socket, State};
use smoltcp::wire::IpEndpoint;

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
    pub(super) socket: &'a mut Socket<'static>,
    pub(super) rests: &'a mut bool,
    pub(super) writes: &'a mut bool,
}

impl Stream<'_> {
    /// The first bytes received and not yet consumed, as many as lie side by side.
    pub fn received(&mut self) -> &[u8] {
        self.socket.peek(usize::MAX).unwrap_or_default()
    }

    /// Bytes received and not yet consumed.
    pub fn received_count(&self) -> usize {
        self.socket.recv_queue()
    }

    /// Copies the first received bytes without consuming them; returns how many.
    pub fn copy_received(&mut self, into: &mut [u8]) -> usize {
        self.socket.peek_slice(into).unwrap_or(0)
    }

    /// Drops the first `count` received bytes.
    pub fn consume(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let dropped = self.socket.recv(|bytes| {
                let part = bytes.len().min(left);
                (part, part)
            });
            match dropped {
                Ok(part) if part > 0 => left -= part,
                _ => return,
            }
        }
    }

    /// Whether the peer has ended its side, or the connection is over: nothing will be received
    /// beyond what is there.
    pub fn ended(&self) -> bool {
        !matches!(self.socket.state(), State::Established | State::FinWait1 | State::FinWait2 | State::SynReceived)
    }

    /// Bytes that [`Self::send`] takes now: none after [`Self::finish`].
    pub fn room(&self) -> usize {
        if self.socket.may_send() { self.socket.send_capacity() - self.socket.send_queue() } else { 0 }
    }

    /// Bytes handed over that the peer has not acknowledged yet. The end of this side counts as
    /// one. An [`Event::Ready`] says that they may have become fewer.
    #[inline]
    pub fn unacknowledged(&self) -> usize {
        let end = matches!(self.socket.state(), State::FinWait1 | State::Closing | State::LastAck);
        self.socket.send_queue() + usize::from(end)
    }

    /// Hands over bytes to send; returns how many were taken, from the front.
    pub fn send(&mut self, bytes: &[u8]) -> usize {
        *self.writes = true;
        self.socket.send_slice(bytes).unwrap_or(0)
    }

    /// Hands over up to `count` bytes that `fill` writes into the send buffer; returns how many. It
    /// is given as much room as lies side by side, `count` bytes at most, and returns how many it
    /// has written, from the front.
    pub fn send_with(&mut self, count: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        *self.writes = true;
        let sent = self.socket.send(|room| {
            let length = room.len().min(count);
            let written = fill(&mut room[..length]).min(length);
            (written, written)
        });
        sent.unwrap_or(0)
    }

    /// Ends this side after everything handed over is sent. Receiving goes on.
    pub fn finish(&mut self) {
        *self.writes = true;
        self.socket.close();
    }

    /// Gives the connection up at once, with a reset.
    pub fn abort(&mut self) {
        *self.writes = true;
        self.socket.abort();
    }

    /// Says that nothing is under way on the connection: no request that deserves an answer was
    /// received. Where places run out, and all that was sent is acknowledged, such connections make
    /// way for new ones. It holds until the next event.
    #[inline]
    pub fn rest(&mut self) {
        *self.rests = true;
    }

    /// Whether the connection is over: nothing can be sent or received any more.
    pub fn is_over(&self) -> bool {
        let over = matches!(self.socket.state(), State::Closed | State::TimeWait | State::Listen);
        over && self.socket.recv_queue() == 0
    }

    /// Returns the peer's address and port, while the connection is not over.
    pub fn remote(&self) -> Option<IpEndpoint> {
        self.socket.remote_endpoint()
    }
}
