//! The client's side: its two pairs of queues and its buffers, used in place.
//!
//! A round begins by [`Client::begin`], takes packets from the [`Receiver`], sends with the
//! [`Transmitter`], and ends by [`Client::end_round`], which publishes everything at once and
//! announces that the client sleeps.
//!
//! The free queues are the free lists: an empty buffer stays in its queue until it is needed. So
//! the client keeps little about buffers between turns, and can lose none.
//!
//! A client of a device that is used bare ([`Client::bare`]) is the driver's only peer. Its entries
//! are the driver's, with addresses as the device sees them, and all buffers are its own. It lets
//! frames for other stations lie, as a receive virtualiser would.
//!
//! Over a link ([`Client::linked`], or a client whose provider that is) the far end is another
//! client. It takes packets as they are: nobody completes their checksums or divides them.

mod receiver;
#[cfg(test)]
mod tests;
mod transmitter;

use crate::{BufferEntry, Descriptor, DmaDescriptor, Mac};
use culm::Progress;
use culm::connection::{NetBare, NetClient, NetLink};

pub use receiver::{Packet, Receiver};
pub use transmitter::{Room, Transmitter};

/// A client's connection to a network device.
#[derive(Debug)]
pub struct Client<E: BufferEntry = Descriptor> {
    /// The receiving half.
    pub receiver: Receiver<E>,
    /// The transmitting half.
    pub transmitter: Transmitter<E>,
    pub(crate) mac: Mac,
    is_promiscuous: bool,
}

impl Client {
    /// Creates the client's side of `connection`.
    ///
    /// # Panics
    ///
    /// If `connection` contradicts itself, which those of a start block do not.
    pub fn new(connection: NetClient) -> Self {
        let client = Self::begun(Receiver::new(&connection), Transmitter::new(&connection), Mac::new(connection.mac));
        Self { is_promiscuous: connection.promiscuous != 0, ..client }
    }

    /// Creates one end of a link whose other end is a client: to each the other is what a provider
    /// is to a client, so that one looks like the other from inside.
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub fn linked(connection: NetLink) -> Self {
        Self::new(NetClient {
            mac: connection.mac,
            promiscuous: 0,
            owns_rx: 1,
            linked: 1,
            rx_large: connection.rx_large,
            tx_large: connection.tx_large,
            buffer_size: connection.buffer_size,
            rx_buffer_size: connection.buffer_size,
            rx_filled: connection.rx_filled,
            rx_free: connection.rx_free,
            tx_filled: connection.tx_filled,
            tx_free: connection.tx_free,
            rx_data: connection.rx_data,
            tx_data: connection.tx_data,
            rx_channel: connection.rx_channel,
            tx_channel: connection.tx_channel,
        })
    }
}

impl Client<DmaDescriptor> {
    /// Creates the client's side of `connection` to a driver.
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub fn bare(connection: NetBare) -> Self {
        Self::begun(Receiver::bare(&connection), Transmitter::bare(&connection), Mac::new(connection.mac))
    }
}

impl<E: BufferEntry> Client<E> {
    fn begun(receiver: Receiver<E>, transmitter: Transmitter<E>, mac: Mac) -> Self {
        let mut client = Self { receiver, transmitter, mac, is_promiscuous: false };
        // Tell the peers of this life; packets that are there already get their turn.
        client.receiver.publish();
        client.transmitter.publish();
        client
    }

    /// Returns the halves, for who has several clients and sends by one while it reads what another
    /// has received. A round of them begins by [`Receiver::begin`] and [`Transmitter::begin`], and
    /// ends by [`end_round`].
    pub fn into_halves(self) -> (Receiver<E>, Transmitter<E>) {
        (self.receiver, self.transmitter)
    }

    /// Returns the client's address.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Returns whether it receives frames to addresses that are no client's of its device
    /// (`promiscuous` in the system file).
    pub fn is_promiscuous(&self) -> bool {
        self.is_promiscuous
    }

    /// Begins a round: looks at received packets, and whether peers were restarted.
    #[inline]
    pub fn begin(&mut self) {
        self.receiver.begin();
        self.transmitter.begin();
    }

    /// Ends a round: publishes the packets that were sent and the buffers that were returned, and
    /// announces that the client sleeps.
    #[inline]
    pub fn end_round(&mut self) -> Progress {
        end_with(&mut self.receiver, &mut self.transmitter, Receiver::sleep)
    }

    /// Does what [`Self::end_round`] does, but asks to be woken when so many packets, or parts of
    /// packets, have come. Whoever calls this looks at fewer by a deadline of its own.
    #[inline]
    pub fn end_round_until(&mut self, count: u32) -> Progress {
        end_with(&mut self.receiver, &mut self.transmitter, |receiver| receiver.sleep_until(count))
    }
}

/// Does what [`Client::end_round`] does, for the halves of a client.
#[inline]
pub fn end_round<E: BufferEntry>(receiver: &mut Receiver<E>, transmitter: &mut Transmitter<E>) -> Progress {
    end_with(receiver, transmitter, Receiver::sleep)
}

#[inline(always)]
fn end_with<E: BufferEntry>(
    receiver: &mut Receiver<E>,
    transmitter: &mut Transmitter<E>,
    sleep: impl FnOnce(&mut Receiver<E>) -> Progress,
) -> Progress {
    let _ = transmitter.learn(receiver.device());
    receiver.publish();
    transmitter.publish();
    // If a transmit buffer is missing, do not ask to be woken for received packets: they stay
    // queued until one is free.
    let received = if transmitter.is_starved() { Progress::Asleep } else { sleep(receiver) };
    received & transmitter.sleep()
}
