//! A packet as a router sees it: addresses, ports, and what tracking a connection needs.
//!
//! [`Packet::read`] checks a packet once, reads each field once, and says what else has to be
//! known of it. Bytes must not change under it: whoever takes packets from memory that others can
//! write copies the headers first.

use crate::header::{self, Fragment, Header};
use crate::transport::{self, Transport};
use crate::tuple::Tuple;
use core::fmt;
use core::net::IpAddr;
use culm_packet::ip::Extent;

/// A packet that may be forwarded, as far as its headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Number of the transport protocol: of IPv6 what the last extension header says.
    pub protocol: u8,
    /// Routers that the packet may still pass, this one included: time to live, or hop limit.
    pub hops: u8,
    /// Whether a router may divide the packet: of IPv4, whose sender allows it.
    pub may_fragment: bool,
    /// Bytes of the packet. What follows is padding of the link.
    pub length: usize,
    /// Bytes from the packet's beginning to the transport protocol's header.
    pub payload: usize,
    /// Where the packet belongs, if it is a fragment.
    pub fragment: Option<Fragment>,
    /// What the transport protocol's header says.
    pub transport: Transport,
}

/// Why a packet is dropped before any rule sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is of no version of IP that there is.
    Version,
    /// It ends before its headers do.
    Truncated,
    /// A header's length contradicts another's.
    Length,
    /// The checksum of an IPv4 header, or of an ICMP error, is wrong.
    Checksum,
    /// Extension headers of IPv6 are too many, or stand where they must not.
    Extension,
    /// Its sender wants to choose the way that it takes.
    SourceRoute,
    /// It is a fragment that no sender makes: empty, not a multiple of 8, beyond the longest
    /// packet, without its transport header, or of an ICMP error.
    Fragment,
    /// Its TCP flags contradict each other.
    Flags,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Version => "it is neither IPv4 nor IPv6",
            Self::Truncated => "it ends before its headers do",
            Self::Length => "a header's length contradicts another's",
            Self::Checksum => "a checksum is wrong",
            Self::Extension => "it has too many extension headers, or one at a wrong place",
            Self::SourceRoute => "it has a source route",
            Self::Fragment => "no sender makes such a fragment",
            Self::Flags => "its TCP flags contradict each other",
        })
    }
}

impl Packet {
    /// Reads the packet at the beginning of `bytes`, which is a frame's payload.
    ///
    /// # Errors
    ///
    /// What is wrong with it: such a packet is dropped without an answer.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let header = header::read(bytes, Extent::Whole)?;
        let Header { source, destination, protocol, hops, may_fragment, payload, length, fragment } = header;
        let message = bytes.get(payload..length).ok_or(Malformed::Truncated)?;
        let transport = transport::read(&header, message)?;
        Ok(Self { source, destination, protocol, hops, may_fragment, length, payload, fragment, transport })
    }

    /// Returns what names the packet's flow; `None` of a packet that starts none and continues
    /// none: an ICMP message that is neither an echo nor its reply, or a later fragment.
    pub fn tuple(&self) -> Option<Tuple> {
        let (source_port, destination_port) = self.transport.ports()?;
        let Self { source, destination, protocol, .. } = *self;
        Some(Tuple { protocol, source, destination, source_port, destination_port })
    }
}
