//! The client's side: its two pairs of queues and its buffers, used in place.
//!
//! A round begins by [`Client::begin`], takes packets from the [`Receiver`], sends with the [`Transmitter`], and ends by
//! [`Client::settle`], which publishes everything at once and announces that the client sleeps.
//!
//! The free queues are the free lists: an empty buffer stays in its queue until it is needed. So little is kept about buffers
//! between turns, and nothing can get lost.

mod receiver;
mod transmitter;

use crate::Mac;
use culm::connection::NetClient;

pub use receiver::{Packet, Receiver};
pub use transmitter::Transmitter;

/// A client's connection to a network device.
#[derive(Debug)]
pub struct Client {
    /// The receiving half.
    pub receiver: Receiver,
    /// The transmitting half.
    pub transmitter: Transmitter,
    pub(crate) mac: Mac,
}

impl Client {
    /// The client's side of `connection`.
    ///
    /// # Panics
    ///
    /// Where `connection` contradicts itself, which those of a start block do not.
    pub fn new(connection: NetClient) -> Self {
        let mut client = Self {
            receiver: Receiver::new(&connection),
            transmitter: Transmitter::new(&connection),
            mac: Mac::new(connection.mac),
        };
        // The peers are told; whatever is there already gets its turn.
        client.receiver.publish();
        client.transmitter.publish();
        client
    }

    /// The client's address.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// At the beginning of a round: looks what was received, and after peers that were restarted.
    #[inline]
    pub fn begin(&mut self) {
        self.receiver.begin();
        self.transmitter.begin();
    }

    /// At the end of a round: publishes what was received, returned and sent, and announces that the client sleeps. False: there
    /// is more to do already, begin another round at once.
    #[inline]
    #[must_use = "there may be more to do"]
    pub fn settle(&mut self) -> bool {
        let _ = self.transmitter.learn(self.receiver.device());
        self.receiver.publish();
        self.transmitter.publish();
        // Who waits for a buffer to send leaves what is received where it is.
        let starved = self.transmitter.is_starved();
        (starved || self.receiver.sleep()) & self.transmitter.sleep()
    }
}
