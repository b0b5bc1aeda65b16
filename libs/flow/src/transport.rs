//! Headers of TCP (RFC 9293), UDP (RFC 768), SCTP (RFC 9260) and ICMP (RFC 792, RFC 4443), as far
//! as a router that tracks connections reads them.

use crate::Malformed;
use crate::header::{self, Header};
use crate::tuple::{ICMP, ICMP6, SCTP, TCP, Tuple, UDP};
use culm_packet::checksum::Sum;
use culm_packet::ip::Extent;

/// Bits of a TCP segment's flags (RFC 9293 §3.1).
pub mod flags {
    pub use culm_packet::wire::tcp::{ACK, FIN, RST, SYN};
}

/// Bytes of a TCP header without options, and of a UDP or ICMP header.
const TCP_HEADER: usize = 20;
const SHORT_HEADER: usize = 8;

/// Bytes of the header that all chunks of an SCTP packet share.
const SCTP_HEADER: usize = 12;

/// What the transport protocol's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram.
    Udp {
        /// Port of the sender.
        source: u16,
        /// Port of the receiver.
        destination: u16,
    },
    /// An SCTP packet. Its associations are not followed.
    Sctp {
        /// Port of the sender.
        source: u16,
        /// Port of the receiver.
        destination: u16,
    },
    /// An ICMP echo request or reply.
    Echo {
        /// Whether it is the request.
        is_request: bool,
        /// What requests of one sender and their replies have in common.
        identifier: u16,
    },
    /// An ICMP error about another packet.
    Error(Quoted),
    /// Any other ICMP message.
    Control {
        /// Type of the message.
        kind: u8,
        /// Code of the message.
        code: u8,
    },
    /// Another protocol.
    Other,
    /// A fragment other than the first: its header was in that.
    Rest,
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// Sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// Acknowledgement number; means something with [`flags::ACK`].
    pub acknowledgement: u32,
    /// Flags, those of [`flags`] and others.
    pub flags: u8,
    /// Window as it stands in the header, not scaled.
    pub window: u16,
    /// Bytes of data.
    pub data: u16,
    /// The shift by which later windows of the sender are scaled (RFC 7323 §2), 14 at most; of a
    /// SYN that offers one.
    pub scale: Option<u8>,
    /// Bytes from the TCP header to the value of the option that tells the maximum segment size;
    /// of a SYN that has one.
    pub mss_at: Option<u8>,
}

impl Segment {
    /// Returns whether all `flags` are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Returns how far the segment advances the sender's sequence numbers: bytes, SYN and FIN.
    pub fn advance(&self) -> u32 {
        u32::from(self.data) + u32::from(self.has(flags::SYN)) + u32::from(self.has(flags::FIN))
    }
}

/// The packet that an ICMP error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// What names the packet's flow.
    pub tuple: Tuple,
    /// Bytes from the beginning of the ICMP message to the transport header of the quoted packet,
    /// whose own header is at byte 8.
    pub transport: u16,
    /// Sequence number, of TCP.
    pub sequence: Option<u32>,
}

impl Transport {
    /// Returns the source and destination ports of the packet's tuple.
    pub fn ports(&self) -> Option<(u16, u16)> {
        match *self {
            Self::Tcp(Segment { source, destination, .. })
            | Self::Udp { source, destination }
            | Self::Sctp { source, destination } => Some((source, destination)),
            Self::Echo { is_request: true, identifier } => Some((identifier, 0)),
            Self::Echo { is_request: false, identifier } => Some((0, identifier)),
            Self::Other => Some((0, 0)),
            Self::Error(_) | Self::Control { .. } | Self::Rest => None,
        }
    }
}

/// Reads the transport header at the beginning of `message`, the payload of a packet with `header`.
pub fn read(header: &Header, message: &[u8]) -> Result<Transport, Malformed> {
    if let Some(fragment) = header.fragment {
        if fragment.offset != 0 {
            // RFC 3128 §3: a TCP fragment at byte 8 overwrites the flags of the first one.
            return if header.protocol == TCP && usize::from(fragment.offset) < TCP_HEADER {
                Err(Malformed::Fragment)
            } else {
                Ok(Transport::Rest)
            };
        }
        // RFC 1858 §3, RFC 7112 §4: the first one has the whole transport header.
        return read_first(header, message).map_err(|problem| match problem {
            Malformed::Truncated => Malformed::Fragment,
            problem => problem,
        });
    }
    read_first(header, message)
}

fn read_first(header: &Header, message: &[u8]) -> Result<Transport, Malformed> {
    match (header.protocol, header.source.is_ipv4()) {
        (TCP, _) => read_segment(message).map(Transport::Tcp),
        (UDP, _) => read_udp(message, header.fragment.is_some()),
        (SCTP, _) => read_sctp(message),
        (ICMP, true) | (ICMP6, false) => read_icmp(header, message),
        _ => Ok(Transport::Other),
    }
}

fn read_segment(message: &[u8]) -> Result<Segment, Malformed> {
    let fixed: &[u8; TCP_HEADER] = message.first_chunk().ok_or(Malformed::Truncated)?;
    let [a, b, c, d, s0, s1, s2, s3, a0, a1, a2, a3, offset, flags, w0, w1, ..] = *fixed;
    let size = usize::from(offset >> 4) * 4;
    if size < TCP_HEADER {
        return Err(Malformed::Length);
    }
    let data = message.len().checked_sub(size).ok_or(Malformed::Truncated)?;
    let (syn, others) = (flags & flags::SYN != 0, flags & (flags::ACK | flags::RST));
    // Nobody sends these but who wants to learn what answers, or to pass a rule about SYNs.
    if syn && flags & (flags::FIN | flags::RST) != 0 || !syn && others == 0 {
        return Err(Malformed::Flags);
    }
    let (scale, mss_at) = if syn { read_tcp_options(message.get(..size).unwrap_or_default()) } else { (None, None) };
    Ok(Segment {
        source: u16::from_be_bytes([a, b]),
        destination: u16::from_be_bytes([c, d]),
        sequence: u32::from_be_bytes([s0, s1, s2, s3]),
        acknowledgement: u32::from_be_bytes([a0, a1, a2, a3]),
        flags,
        window: u16::from_be_bytes([w0, w1]),
        data: u16::try_from(data).map_err(|_| Malformed::Length)?,
        scale,
        mss_at,
    })
}

/// Returns the window scale, and where the value of the maximum segment size stands. Options
/// behind one that is cut short are not read: the receiver does not read them either.
fn read_tcp_options(header: &[u8]) -> (Option<u8>, Option<u8>) {
    /// Largest shift (RFC 7323 §2.3): a larger one is taken for this.
    const LARGEST_SCALE: u8 = 14;
    let (mut at, mut scale, mut mss_at) = (TCP_HEADER, None, None);
    while let Some(option @ [kind, ..]) = header.get(at..) {
        at += match (kind, option) {
            (0, _) => break,
            (1, _) => 1,
            (_, [_, length, ..]) if *length >= 2 && usize::from(*length) <= option.len() => {
                match option {
                    [2, 4, ..] => mss_at = u8::try_from(at + 2).ok(),
                    [3, 3, shift, ..] => scale = Some((*shift).min(LARGEST_SCALE)),
                    _ => {}
                }
                usize::from(*length)
            }
            _ => break,
        };
    }
    (scale, mss_at)
}

fn read_udp(message: &[u8], is_fragment: bool) -> Result<Transport, Malformed> {
    let [a, b, c, d, length_high, length_low, _, _]: [u8; SHORT_HEADER] =
        *message.first_chunk().ok_or(Malformed::Truncated)?;
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    if length < SHORT_HEADER || !is_fragment && length > message.len() {
        return Err(Malformed::Length);
    }
    Ok(Transport::Udp { source: u16::from_be_bytes([a, b]), destination: u16::from_be_bytes([c, d]) })
}

fn read_sctp(message: &[u8]) -> Result<Transport, Malformed> {
    let [a, b, c, d, ..]: [u8; SCTP_HEADER] = *message.first_chunk().ok_or(Malformed::Truncated)?;
    Ok(Transport::Sctp { source: u16::from_be_bytes([a, b]), destination: u16::from_be_bytes([c, d]) })
}

fn read_icmp(header: &Header, message: &[u8]) -> Result<Transport, Malformed> {
    let [kind, code, _, _, a, b, _, _]: [u8; SHORT_HEADER] = *message.first_chunk().ok_or(Malformed::Truncated)?;
    let is_v4 = header.source.is_ipv4();
    let identifier = u16::from_be_bytes([a, b]);
    let (request, reply) = if is_v4 { (8, 0) } else { (128, 129) };
    if kind == request || kind == reply {
        return Ok(Transport::Echo { is_request: kind == request, identifier });
    }
    // Of IPv4 source quench and redirects are not among them: the first is obsolete (RFC 6633),
    // the second is for one link and is not forwarded (RFC 1812 §5.2.7.2).
    if !matches!((is_v4, kind), (true, 3 | 11 | 12) | (false, 1..=4)) {
        return Ok(Transport::Control { kind, code });
    }
    if header.fragment.is_some() {
        return Err(Malformed::Fragment);
    }
    // RFC 5508 REQ-3: an error with a wrong checksum is dropped.
    let pseudo = match is_v4 {
        true => Sum::ZERO,
        false => Sum::pseudo_header(header.source, header.destination, ICMP6, message.len()),
    };
    if !pseudo.add_bytes(message).is_intact() {
        return Err(Malformed::Checksum);
    }
    read_quoted(message, is_v4).map(Transport::Error)
}

/// Reads what an ICMP error quotes: the header and at least eight bytes behind it (RFC 792,
/// RFC 4443 §3).
fn read_quoted(message: &[u8], is_v4: bool) -> Result<Quoted, Malformed> {
    let packet = message.get(SHORT_HEADER..).unwrap_or_default();
    let header = header::read(packet, Extent::Quoted)?;
    if header.source.is_ipv4() != is_v4 {
        return Err(Malformed::Version);
    }
    // Errors are sent about first fragments only (RFC 1122 §3.2.2).
    if header.fragment.is_some_and(|fragment| fragment.offset != 0) {
        return Err(Malformed::Fragment);
    }
    let bytes: [u8; 8] = *packet.get(header.payload..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Truncated)?;
    let [a, b, c, d, e, f, g, h] = bytes;
    let (mut ports, mut sequence) = ((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])), None);
    match (header.protocol, is_v4) {
        (TCP, _) => sequence = Some(u32::from_be_bytes([e, f, g, h])),
        (UDP | SCTP, _) => {}
        (ICMP, true) | (ICMP6, false) => {
            let identifier = u16::from_be_bytes([e, f]);
            ports = match (is_v4, a) {
                (true, 8) | (false, 128) => (identifier, 0),
                (true, 0) | (false, 129) => (0, identifier),
                // An error about an error, or about what is not tracked, has no flow.
                _ => return Err(Malformed::Length),
            };
        }
        _ => ports = (0, 0),
    }
    let tuple = Tuple {
        protocol: header.protocol,
        source: header.source,
        destination: header.destination,
        source_port: ports.0,
        destination_port: ports.1,
    };
    let transport = u16::try_from(SHORT_HEADER + header.payload).map_err(|_| Malformed::Length)?;
    Ok(Quoted { tuple, transport, sequence })
}

/// Returns whether the transport checksum of a whole packet is right; `None` of protocols that
/// have none, of fragments, and of UDP over IPv4 without one. A router does not ask this, tests do.
pub fn checksum_is_right(packet: &crate::Packet, bytes: &[u8]) -> Option<bool> {
    let message = bytes.get(packet.payload..packet.length)?;
    if packet.fragment.is_some() {
        return None;
    }
    match (packet.protocol, packet.source.is_ipv4()) {
        (ICMP, true) => return Some(Sum::ZERO.add_bytes(message).is_intact()),
        (UDP, true) if message.get(6..8)? == [0, 0] => return None,
        (TCP | UDP, _) | (ICMP6, false) => {}
        _ => return None,
    }
    let pseudo = Sum::pseudo_header(packet.source, packet.destination, packet.protocol, message.len());
    Some(pseudo.add_bytes(message).is_intact())
}
