//! Headers of IPv4 (RFC 791) and IPv6 (RFC 8200), with extension headers, as far as a router reads
//! them.

use crate::Malformed;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use culm_packet::ip::{Extensions, Extent, Flaw, Packet4, Packet6, Part};
use culm_packet::wire::extension;

pub use culm_packet::wire::ipv4::HEADER as V4;
pub use culm_packet::wire::ipv6::HEADER as V6;

/// Most bytes of a packet whose fragments are put together: of IPv4 with its header, of IPv6 with
/// all behind the fixed one.
const LONGEST: usize = 65_535;

/// Where a fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// What the fragments of a packet have in common; IPv4 has 16 bits of it.
    pub identification: u32,
    /// First byte of the original payload that the fragment has, a multiple of 8.
    pub offset: u16,
    /// Bytes of the original payload that it has.
    pub length: u16,
    /// Whether fragments with later bytes follow.
    pub more: bool,
}

/// A header that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Protocol of the payload: what the last extension header says.
    pub protocol: u8,
    /// Routers that the packet may still pass: time to live, or hop limit.
    pub hops: u8,
    /// Whether routers may divide the packet.
    pub may_fragment: bool,
    /// Bytes from the beginning of the header to the payload.
    pub payload: usize,
    /// Bytes of the packet, this header included. What follows is padding of the link.
    pub length: usize,
    /// Where the packet belongs, if it is a fragment.
    pub fragment: Option<Fragment>,
}

/// Reads the header of a packet of either version.
pub fn read(bytes: &[u8], extent: Extent) -> Result<Header, Malformed> {
    match bytes.first().ok_or(Malformed::Truncated)? >> 4 {
        4 => read_v4(bytes, extent),
        6 => read_v6(bytes, extent),
        _ => Err(Malformed::Version),
    }
}

impl From<Flaw> for Malformed {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Version => Self::Version,
            Flaw::Truncated => Self::Truncated,
            Flaw::HeaderLength | Flaw::TotalLength => Self::Length,
            Flaw::Extension => Self::Extension,
        }
    }
}

fn read_v4(bytes: &[u8], extent: Extent) -> Result<Header, Malformed> {
    let packet = Packet4::read(bytes, extent)?;
    // RFC 1812 §5.2.2: a router checks this checksum, and drops what fails silently.
    if !packet.is_intact() {
        return Err(Malformed::Checksum);
    }
    read_options(packet.options())?;
    let (header, payload, length) = (packet.header, packet.whole_header.len(), packet.length);
    Ok(Header {
        source: Ipv4Addr::from(header.source()).into(),
        destination: Ipv4Addr::from(header.destination()).into(),
        protocol: header.protocol(),
        hops: header.time_to_live(),
        may_fragment: header.may_fragment(),
        payload,
        length,
        fragment: fragment(Part::of(header), length - payload, payload)?,
    })
}

/// Checks the options of IPv4. Those by which the sender chooses the way are refused (RFC 7126
/// §4.3, §4.4): they lead packets around the rules of a firewall.
fn read_options(mut options: &[u8]) -> Result<(), Malformed> {
    const LOOSE_ROUTE: u8 = 131;
    const STRICT_ROUTE: u8 = 137;
    loop {
        options = match options {
            // The end of the list.
            [] | [0, ..] => return Ok(()),
            // No operation.
            [1, rest @ ..] => rest,
            [LOOSE_ROUTE | STRICT_ROUTE, ..] => return Err(Malformed::SourceRoute),
            [_, length, ..] if *length >= 2 => options.get(usize::from(*length)..).ok_or(Malformed::Length)?,
            _ => return Err(Malformed::Length),
        };
    }
}

fn read_v6(bytes: &[u8], extent: Extent) -> Result<Header, Malformed> {
    let packet = Packet6::read(bytes, extent)?;
    let (mut walk, mut own_fragment) = (packet.extensions(), None);
    // What is walked over of the packet, or of what is quoted of it.
    let walked = |walk: &Extensions<'_>| packet.payload.len() - walk.rest.len();
    loop {
        let ahead = walked(&walk);
        let Some(header) = walk.advance()? else { break };
        match header.kind {
            // RFC 5095: the header by which a sender chooses the way is obsolete.
            extension::ROUTING if header.content.first() == Some(&0) => return Err(Malformed::SourceRoute),
            extension::FRAGMENT if own_fragment.is_some() => return Err(Malformed::Extension),
            extension::FRAGMENT => {
                let part = header.part().ok_or(Malformed::Truncated)?;
                // The length that the fragment has includes extension headers behind it.
                let length = packet.length - V6 - walked(&walk);
                let place = fragment(part, length, ahead)?;
                own_fragment = Some(place);
                // Behind it lies the middle of a payload, no header.
                if part.offset != 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    Ok(Header {
        source: Ipv6Addr::from(packet.header.source()).into(),
        destination: Ipv6Addr::from(packet.header.destination()).into(),
        protocol: walk.protocol,
        hops: packet.header.hop_limit(),
        may_fragment: false,
        payload: V6 + walked(&walk),
        length: packet.length,
        fragment: own_fragment.flatten(),
    })
}

/// Checks the place of a fragment of `length` bytes, ahead of which the whole packet has so many
/// bytes of headers. A packet that begins and ends with it is no fragment (RFC 6946).
fn fragment(part: Part, length: usize, ahead: usize) -> Result<Option<Fragment>, Malformed> {
    let Part { identification, offset, has_more: more } = part;
    if offset == 0 && !more {
        return Ok(None);
    }
    // RFC 791 §3.2: all but the last are multiples of 8. One that ends beyond the longest packet
    // was made to overflow whoever puts it together.
    if length == 0 || more && !length.is_multiple_of(8) || ahead + usize::from(offset) + length > LONGEST {
        return Err(Malformed::Fragment);
    }
    let length = u16::try_from(length).map_err(|_| Malformed::Fragment)?;
    Ok(Some(Fragment { identification, offset, length, more }))
}
