//! The headers of IPv4 (RFC 791 §3.1) and IPv6 (RFC 8200 §3 and §4), checked once: lengths that fit
//! each other and the bytes that are there, extension headers that are as many and stand as they
//! may.

use crate::checksum::Sum;
use crate::wire::{Ipv4, Ipv6, array, ecn, extension, ipv4, ipv6};

/// Extension headers that a packet may have. More are of no known use, each costs time, and a long
/// chain is a way to hide the ports behind it (RFC 9098 §6).
pub const MOST_EXTENSIONS: usize = 8;

/// First byte of a packet of IPv4 whose header has no options.
pub const V4_PLAIN: u8 = 0x45;

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// They are of another version.
    Version,
    /// They end before the packet does, or before its headers do.
    Truncated,
    /// The length of IPv4's header is none that a header has.
    HeaderLength,
    /// The packet says that it is shorter than its header.
    TotalLength,
    /// Extension headers stand where they must not (RFC 8200 §4.1), or are more than
    /// [`MOST_EXTENSIONS`].
    Extension,
}

/// How much of a packet must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it. What follows is padding of the link.
    Whole,
    /// Its header, and as much behind it as an ICMP error quotes.
    Quoted,
}

/// A packet of IPv4, or a fragment of one, whose lengths were checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet4<'a> {
    /// The header without its options.
    pub header: Ipv4<'a>,
    /// The header with its options.
    pub whole_header: &'a [u8],
    /// What follows the header and is there, no further than the packet goes.
    pub payload: &'a [u8],
    /// Bytes of header and payload, as the header says.
    pub length: usize,
}

impl<'a> Packet4<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    ///
    /// What is wrong with its version or its lengths.
    #[inline]
    pub fn read(bytes: &'a [u8], extent: Extent) -> Result<Self, Flaw> {
        let first = bytes.first().ok_or(Flaw::Truncated)?;
        if first >> 4 != 4 {
            return Err(Flaw::Version);
        }
        let header = Ipv4::at(bytes, 0).ok_or(Flaw::Truncated)?;
        let (header_length, length) = (header.header_length(), header.total_length());
        if header_length < ipv4::HEADER {
            return Err(Flaw::HeaderLength);
        }
        if length < header_length {
            return Err(Flaw::TotalLength);
        }
        if extent == Extent::Whole && bytes.len() < length {
            return Err(Flaw::Truncated);
        }
        let there = bytes.get(..length.min(bytes.len())).ok_or(Flaw::Truncated)?;
        let (whole_header, payload) = there.split_at_checked(header_length).ok_or(Flaw::Truncated)?;
        Ok(Self { header, whole_header, payload, length })
    }

    /// Returns whether the header's checksum is right.
    #[inline]
    pub fn is_intact(&self) -> bool {
        Sum::ZERO.add_bytes(self.whole_header).is_intact()
    }

    /// Returns the options, without the header in front of them.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        self.whole_header.get(ipv4::HEADER..).unwrap_or_default()
    }
}

/// A packet of IPv6 whose length was checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet6<'a> {
    /// The fixed header.
    pub header: Ipv6<'a>,
    /// What follows it and is there, no further than the packet goes.
    pub payload: &'a [u8],
    /// Bytes of header and payload, as the header says.
    pub length: usize,
}

impl<'a> Packet6<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    ///
    /// It is of another version, or too little of it is there.
    #[inline]
    pub fn read(bytes: &'a [u8], extent: Extent) -> Result<Self, Flaw> {
        let first = bytes.first().ok_or(Flaw::Truncated)?;
        if first >> 4 != 6 {
            return Err(Flaw::Version);
        }
        let header = Ipv6::at(bytes, 0).ok_or(Flaw::Truncated)?;
        let length = ipv6::HEADER + header.payload_length();
        if extent == Extent::Whole && bytes.len() < length {
            return Err(Flaw::Truncated);
        }
        let payload = bytes.get(ipv6::HEADER..length.min(bytes.len())).ok_or(Flaw::Truncated)?;
        Ok(Self { header, payload, length })
    }

    /// Returns the walk along the extension headers.
    #[inline]
    pub fn extensions(&self) -> Extensions<'a> {
        Extensions::new(self.header.next_header(), self.payload)
    }
}

/// Returns what a packet of either version says of congestion; see [`ecn`](mod@ecn).
pub fn ecn(packet: &[u8]) -> u8 {
    match packet.first().map(|first| first >> 4) {
        Some(4) => Ipv4::at(packet, 0).map_or(ecn::UNMARKABLE, Ipv4::ecn),
        Some(6) => Ipv6::at(packet, 0).map_or(ecn::UNMARKABLE, Ipv6::ecn),
        _ => ecn::UNMARKABLE,
    }
}

/// An extension header: hop-by-hop options, a route, a fragment's place, or options for the
/// destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Which one it is, of those in [`extension`].
    pub kind: u8,
    /// What follows its first two bytes, the type of the next header and the length: 6 bytes at
    /// least.
    pub content: &'a [u8],
}

impl Extension<'_> {
    /// Returns the place of the fragment, if this is a fragment header.
    #[inline]
    pub fn part(&self) -> Option<Part> {
        let content: &[u8; 6] = self.content.first_chunk().filter(|_| self.kind == extension::FRAGMENT)?;
        let [high, low, a, b, c, d] = *content;
        let field = u16::from_be_bytes([high, low]);
        Some(Part { identification: u32::from_be_bytes([a, b, c, d]), offset: field & !7, has_more: field & 1 != 0 })
    }
}

/// The place of a fragment (RFC 791 §3.1, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which packet this is a fragment of. IPv4 has 16 bits of it.
    pub identification: u32,
    /// Where the fragment lies, in bytes, a multiple of 8.
    pub offset: u16,
    /// Whether other fragments follow.
    pub has_more: bool,
}

impl Part {
    /// Returns the place that a header of IPv4 tells.
    #[inline]
    pub fn of(header: Ipv4<'_>) -> Self {
        let field = header.fragment_field();
        Self {
            identification: header.identification().into(),
            // Thirteen bits of it, three places to the left: no more than sixteen.
            offset: field << 3,
            has_more: field & ipv4::MORE_FRAGMENTS != 0,
        }
    }
}

/// A walk along the extension headers of IPv6 up to the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Extensions<'a> {
    /// What comes next: another extension header, or after the last one the protocol.
    pub protocol: u8,
    /// What was not walked over yet.
    pub rest: &'a [u8],
    count: usize,
}

impl<'a> Extensions<'a> {
    /// Begins at the header `protocol`, which lies in front of `rest`.
    #[inline]
    pub fn new(protocol: u8, rest: &'a [u8]) -> Self {
        Self { protocol, rest, count: 0 }
    }

    /// Passes over the next extension header, and returns it; `None` behind the last one.
    ///
    /// # Errors
    ///
    /// It is cut off, is one more than [`MOST_EXTENSIONS`], or is for every router on the way and
    /// not the first.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<Extension<'a>>, Flaw> {
        let kind = self.protocol;
        let length = match kind {
            extension::HOP_BY_HOP if self.count != 0 => return Err(Flaw::Extension),
            extension::HOP_BY_HOP | extension::ROUTING | extension::DESTINATION => {
                let [_, units] = *array(self.rest, 0).ok_or(Flaw::Truncated)?;
                (usize::from(units) + 1) * 8
            }
            extension::FRAGMENT => 8,
            _ => return Ok(None),
        };
        if self.count == MOST_EXTENSIONS {
            return Err(Flaw::Extension);
        }
        let (header, rest) = self.rest.split_at_checked(length).ok_or(Flaw::Truncated)?;
        let [next, _, content @ ..] = header else { return Err(Flaw::Truncated) };
        *self = Self { protocol: *next, rest, count: self.count + 1 };
        Ok(Some(Extension { kind, content }))
    }
}

#[cfg(test)]
mod tests;
