//! A client, as the receive virtualiser sees it.

use culm::connection::NetRxClient;
use culm::link::Link;
use culm_net::{Descriptor, Mac};

/// A client: a copier, or one that reads the device's buffers itself.
pub(crate) struct Client {
    /// Frames go to it, and the buffers that it returns come back.
    pub(crate) link: Link<Descriptor>,
    pub(crate) mac: Mac,
    /// Buffers that it holds.
    pub(crate) held: u32,
}

impl Client {
    pub(crate) fn new(connection: &NetRxClient) -> Self {
        Self {
            link: Link::new(connection.filled, connection.free, connection.channel),
            mac: Mac::new(connection.mac),
            held: 0,
        }
    }
}
