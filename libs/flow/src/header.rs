//! Headers of IPv4 (RFC 791) and IPv6 (RFC 8200), with extension headers, as far as a router reads
//! them.

use crate::Malformed;
use crate::checksum;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an IPv4 header without options.
pub const V4: usize = 20;

/// Bytes of an IPv6 header without extension headers.
pub const V6: usize = 40;

/// Extension headers that a packet may have. More are of no known use, and a long chain is a way
/// to hide the ports behind it (RFC 9098 §6).
const MOST_EXTENSIONS: usize = 8;

/// Most bytes of a packet whose fragments are put together: of IPv4 with its header, of IPv6 with
/// all behind the fixed one.
const LONGEST: usize = 65_535;

// Numbers of the extension headers that are walked through.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

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

/// Reads the header of a packet of either version. A packet in an ICMP error is not `whole`: its
/// length may go beyond what is quoted of it.
pub fn read(bytes: &[u8], whole: bool) -> Result<Header, Malformed> {
    match bytes.first().ok_or(Malformed::Truncated)? >> 4 {
        4 => read_v4(bytes, whole),
        6 => read_v6(bytes, whole),
        _ => Err(Malformed::Version),
    }
}

fn read_v4(bytes: &[u8], whole: bool) -> Result<Header, Malformed> {
    let fixed: &[u8; V4] = bytes.first_chunk().ok_or(Malformed::Truncated)?;
    let [first, _, total_high, total_low, id_high, id_low, flags, offset_low, hops, protocol, ..] = *fixed;
    let payload = usize::from(first & 0xf) * 4;
    let length = usize::from(u16::from_be_bytes([total_high, total_low]));
    if payload < V4 || length < payload {
        return Err(Malformed::Length);
    }
    let header = bytes.get(..payload).ok_or(Malformed::Truncated)?;
    if whole && bytes.len() < length {
        return Err(Malformed::Truncated);
    }
    // RFC 1812 §5.2.2: a router checks this checksum, and drops what fails silently.
    if !checksum::is_right(header) {
        return Err(Malformed::Checksum);
    }
    read_options(header.get(V4..).unwrap_or_default())?;
    let [.., a, b, c, d, e, f, g, h] = *fixed;
    let identification = u16::from_be_bytes([id_high, id_low]).into();
    let offset = (u16::from_be_bytes([flags, offset_low]) & 0x1fff) << 3;
    Ok(Header {
        source: Ipv4Addr::new(a, b, c, d).into(),
        destination: Ipv4Addr::new(e, f, g, h).into(),
        protocol,
        hops,
        may_fragment: flags & 0x40 == 0,
        payload,
        length,
        fragment: fragment(identification, offset, flags & 0x20 != 0, length - payload, payload)?,
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

fn read_v6(bytes: &[u8], whole: bool) -> Result<Header, Malformed> {
    let fixed: &[u8; V6] = bytes.first_chunk().ok_or(Malformed::Truncated)?;
    let [_, _, _, _, length_high, length_low, mut protocol, hops, addresses @ ..] = *fixed;
    let length = V6 + usize::from(u16::from_be_bytes([length_high, length_low]));
    // What lies behind the packet's end belongs to nobody.
    let within = bytes.get(..length.min(bytes.len())).unwrap_or_default();
    if whole && within.len() < length {
        return Err(Malformed::Truncated);
    }
    let (mut payload, mut extensions, mut own_fragment) = (V6, 0, None);
    loop {
        let at = within.get(payload..).unwrap_or_default();
        let size = match protocol {
            // RFC 8200 §4.1: right behind the fixed header only.
            HOP_BY_HOP if extensions != 0 => return Err(Malformed::Extension),
            FRAGMENT if own_fragment.is_some() => return Err(Malformed::Extension),
            HOP_BY_HOP | ROUTING | DESTINATION => {
                let [_, length, kind, ..] = *at else { return Err(Malformed::Truncated) };
                // RFC 5095: the header by which a sender chooses the way is obsolete.
                if (protocol, kind) == (ROUTING, 0) {
                    return Err(Malformed::SourceRoute);
                }
                (usize::from(length) + 1) * 8
            }
            FRAGMENT => 8,
            _ => break,
        };
        let Some(header @ [next, ..]) = at.get(..size) else { return Err(Malformed::Truncated) };
        extensions += 1;
        if extensions > MOST_EXTENSIONS {
            return Err(Malformed::Extension);
        }
        payload += size;
        if protocol == FRAGMENT {
            let [_, _, offset_high, offset_low, a, b, c, d] = *header else { return Err(Malformed::Truncated) };
            let field = u16::from_be_bytes([offset_high, offset_low]);
            let (identification, ahead) = (u32::from_be_bytes([a, b, c, d]), payload - V6 - size);
            let part = fragment(identification, field & !7, field & 1 != 0, length - payload, ahead)?;
            own_fragment = Some(part);
            // Behind it lies the middle of a payload, no header.
            if part.is_some_and(|part| part.offset != 0) {
                protocol = *next;
                break;
            }
        }
        protocol = *next;
    }
    let (source, destination) = addresses.split_at(16);
    let address =
        |bytes: &[u8]| bytes.first_chunk().map_or(Ipv6Addr::UNSPECIFIED, |octets: &[u8; 16]| (*octets).into());
    // The length that the fragment header has counted includes extension headers behind it.
    Ok(Header {
        source: address(source).into(),
        destination: address(destination).into(),
        protocol,
        hops,
        may_fragment: false,
        payload,
        length,
        fragment: own_fragment.flatten(),
    })
}

/// Checks the place of a fragment of `length` bytes, ahead of which the whole packet has so many
/// bytes of headers. A packet that begins and ends with it is no fragment (RFC 6946).
fn fragment(
    identification: u32,
    offset: u16,
    more: bool,
    length: usize,
    ahead: usize,
) -> Result<Option<Fragment>, Malformed> {
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
