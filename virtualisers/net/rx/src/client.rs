//! A client, as the receive virtualiser sees it.

use culm::connection::NetRxClient;
use culm::link::Link;
use culm_net::{Allowance, Descriptor, Mac};

/// A client: a copier, or one that reads the device's buffers itself.
pub(crate) struct Client {
    /// The link: frames go to the client, and the buffers that it returns come back.
    pub(crate) link: Link<Descriptor>,
    pub(crate) mac: Mac,
    /// Buffers that it holds.
    pub(crate) held: u32,
    /// Work without use that it may still cause.
    pub(crate) allowance: Allowance,
}

impl Client {
    /// Creates a client to which some of `buffers` are lent.
    pub(crate) fn new(connection: &NetRxClient, buffers: u32) -> Self {
        Self {
            link: Link::new(connection.filled, connection.free, connection.channel),
            mac: Mac::new(connection.mac),
            held: 0,
            allowance: Allowance::new(buffers),
        }
    }
}
