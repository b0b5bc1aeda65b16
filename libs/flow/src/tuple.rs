//! What tells one flow from another.

use core::net::IpAddr;

pub use culm_packet::wire::protocols::{ICMP, ICMPV6 as ICMP6, SCTP, TCP, UDP};

/// The five values that name a flow's packets of one direction. Both addresses are of one family.
///
/// An echo request's source port is its identifier and its destination port is 0; those of the
/// reply are the other way round. Protocols that have no ports, or whose ports are unknown here,
/// have 0 for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Number of the transport protocol.
    pub protocol: u8,
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
}

impl Tuple {
    /// Returns the tuple of packets that answer those of this one.
    pub fn reversed(&self) -> Self {
        Self {
            protocol: self.protocol,
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    /// Returns whether both addresses are of IPv4.
    pub fn is_v4(&self) -> bool {
        self.source.is_ipv4() && self.destination.is_ipv4()
    }
}
