//! A client, as the receive virtualiser sees it.

use culm::queue::{Consumer, Producer};
use culm::{Channel, connection::NetRxClient, queue};
use culm_net::{Descriptor, Mac, Session, put_off};

/// A client: a copier, or one that reads the device's buffers itself.
pub(crate) struct Client {
    /// Frames for it.
    pub(crate) filled: Producer<Descriptor>,
    /// Buffers that it returns.
    pub(crate) free: Consumer<Descriptor>,
    pub(crate) session: Session,
    pub(crate) channel: Channel,
    pub(crate) mac: Mac,
    /// Buffers that it holds.
    pub(crate) held: u32,
}

impl Client {
    pub(crate) fn new(connection: &NetRxClient) -> Self {
        let mut filled = queue::producer(connection.filled);
        let session = Session::begin(&mut filled);
        Self {
            filled,
            free: queue::consumer(connection.free),
            session,
            channel: Channel::new(connection.channel),
            mac: Mac::new(connection.mac),
            held: 0,
        }
    }

    /// Makes what it was given visible to it, then the space of what it returned.
    #[inline(always)]
    pub(crate) fn publish(&mut self) {
        let given = self.filled.publish();
        // In this order: what is read again after a restart must not have been answered in vain.
        let taken = self.session.may_release() && self.free.release_many(put_off(self.free.capacity()));
        if given | taken {
            self.channel.notify();
        }
    }
}
