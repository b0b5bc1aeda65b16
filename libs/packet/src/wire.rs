//! The headers in a frame: where their fields are, and views that read them by name.
//!
//! A view is made of bytes that are enough for its header, so that its accessors cannot fail. They
//! say what the sender says: a length may contradict the bytes that are there. What is compared or
//! summed in words of several fields uses the offsets. Numbers are returned in the host's byte
//! order.

/// Ethernet (IEEE 802.3 §3.1).
pub mod ethernet {
    /// Offset of the address of the station that the frame is for.
    pub const DESTINATION: usize = 0;
    /// Offset of the address of the station that it comes from.
    pub const SOURCE: usize = 6;
    /// Offset of the type of what it carries; see [`types`](super::types).
    pub const TYPE: usize = 12;
    /// Bytes of the header.
    pub const HEADER: usize = 14;
    /// Bytes of an address.
    pub const ADDRESS: usize = 6;
}

/// Types of what a frame carries (the IEEE 802 registry of EtherTypes).
pub mod types {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// A VLAN tag, behind which the type comes again.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// A provider's VLAN tag.
    pub const PROVIDER_VLAN: u16 = 0x88a8;
}

/// Protocols over IP (IANA's registry of protocol numbers).
pub mod protocols {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// IPv4 (RFC 791 §3.1).
pub mod ipv4 {
    /// Offset of version and header length.
    pub const VERSION: usize = 0;
    /// Offset of the type of service, of which the lower bits are [`ecn`](super::ecn)'s.
    pub const SERVICE: usize = 1;
    /// Offset of the length of header and payload.
    pub const TOTAL_LENGTH: usize = 2;
    /// Offset of the identification.
    pub const IDENTIFICATION: usize = 4;
    /// Offset of fragment flags and offset.
    pub const FRAGMENT: usize = 6;
    /// Offset of the time to live, behind which the protocol is.
    pub const TIME_TO_LIVE: usize = 8;
    /// Offset of the protocol.
    pub const PROTOCOL: usize = 9;
    /// Offset of the header's checksum.
    pub const CHECKSUM: usize = 10;
    /// Offset of the sender's address.
    pub const SOURCE: usize = 12;
    /// Offset of the receiver's address.
    pub const DESTINATION: usize = 16;
    /// Bytes of a header without options.
    pub const HEADER: usize = 20;
    /// Bytes of a header with all the options that it has room for.
    pub const LONGEST_HEADER: usize = 60;
    /// Version 4 and five words of header: the first byte of a header without options.
    pub const VERSION_AND_LENGTH: u8 = 0x45;
    /// The flag "more fragments".
    pub const MORE_FRAGMENTS: u16 = 0x2000;
    /// The flag "do not fragment", beside which the identification means nothing (RFC 6864 §4.1).
    pub const DO_NOT_FRAGMENT: u16 = 0x4000;
    /// The bits of the fragment field that are 0 in a whole packet: the flag "more fragments", and
    /// the offset.
    pub const FRAGMENT_BITS: u16 = 0x3fff;
}

/// IPv6 (RFC 8200 §3).
pub mod ipv6 {
    /// Offset of version, traffic class and flow label.
    pub const VERSION: usize = 0;
    /// Offset of the lower half of the traffic class, of which the lower bits are
    /// [`ecn`](super::ecn)'s, and the upper bits of the flow label.
    pub const CLASS: usize = 1;
    /// Offset of the payload's length.
    pub const PAYLOAD_LENGTH: usize = 4;
    /// Offset of the protocol, or of the type of an extension header.
    pub const NEXT_HEADER: usize = 6;
    /// Offset of the hop limit.
    pub const HOP_LIMIT: usize = 7;
    /// Offset of the sender's address.
    pub const SOURCE: usize = 8;
    /// Offset of the receiver's address.
    pub const DESTINATION: usize = 24;
    /// Bytes of the header.
    pub const HEADER: usize = 40;
    /// Version 6, no traffic class, no flow label.
    pub const VERSION_ALONE: [u8; 4] = [0x60, 0, 0, 0];
}

/// What a packet of either version says of congestion (RFC 3168 §5).
pub mod ecn {
    /// Its sender knows no marks: routers drop it where there is congestion.
    pub const UNMARKABLE: u8 = 0;
    /// It may be marked, ECT(0).
    pub const MARKABLE: u8 = 2;
    /// It was marked: there is congestion on the way (CE).
    pub const MARKED: u8 = 3;
    /// The bits of IPv4's type of service.
    pub const BITS: u8 = 3;
    /// Places by which they are shifted in the second byte of an IPv6 header.
    pub const SHIFT_6: u32 = 4;
}

/// Extension headers of IPv6 (RFC 8200 §4), by the number that stands where a protocol's could.
pub mod extension {
    /// Options for every router on the way.
    pub const HOP_BY_HOP: u8 = 0;
    /// Stations on the way (RFC 8200 §4.4).
    pub const ROUTING: u8 = 43;
    /// The place of a fragment.
    pub const FRAGMENT: u8 = 44;
    /// Options for the destination.
    pub const DESTINATION: u8 = 60;
}

/// TCP (RFC 9293 §3.1).
pub mod tcp {
    /// Offset of the sender's port.
    pub const SOURCE: usize = 0;
    /// Offset of the receiver's port.
    pub const DESTINATION: usize = 2;
    /// Offset of the sequence number.
    pub const SEQUENCE: usize = 4;
    /// Offset of the acknowledgement number.
    pub const ACKNOWLEDGEMENT: usize = 8;
    /// Offset of the header's length.
    pub const DATA_OFFSET: usize = 12;
    /// Offset of the flags.
    pub const FLAGS: usize = 13;
    /// Offset of the window.
    pub const WINDOW: usize = 14;
    /// Offset of the checksum.
    pub const CHECKSUM: usize = 16;
    /// Bytes of a header without options.
    pub const HEADER: usize = 20;
    /// Bytes of a header with all the options that it has room for.
    pub const LONGEST_HEADER: usize = 60;

    /// Flag: the sender sends nothing more.
    pub const FIN: u8 = 1;
    /// Flag: the first segment of a connection.
    pub const SYN: u8 = 1 << 1;
    /// Flag: the connection is refused or broken off.
    pub const RST: u8 = 1 << 2;
    /// Flag: what came so far is to be delivered.
    pub const PSH: u8 = 1 << 3;
    /// Flag: the acknowledgement number means something.
    pub const ACK: u8 = 1 << 4;
    /// Flag: the sender has sent less since it heard of congestion (RFC 3168 §6.1).
    pub const CWR: u8 = 1 << 7;
}

/// UDP (RFC 768).
pub mod udp {
    /// Offset of the sender's port.
    pub const SOURCE: usize = 0;
    /// Offset of the receiver's port.
    pub const DESTINATION: usize = 2;
    /// Offset of the length of header and payload.
    pub const LENGTH: usize = 4;
    /// Offset of the checksum.
    pub const CHECKSUM: usize = 6;
    /// Bytes of the header.
    pub const HEADER: usize = 8;
}

/// ARP for IPv4 over Ethernet (RFC 826).
pub mod arp {
    /// Ethernet, IPv4, lengths of their addresses, request: how a question begins.
    pub const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    /// The same of an answer.
    pub const REPLY: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 2];
    /// Offset of the sender's Ethernet address.
    pub const SENDER_STATION: usize = 8;
    /// Offset of the sender's IPv4 address.
    pub const SENDER: usize = 14;
    /// Offset of the Ethernet address that is asked for, or that the answer is for.
    pub const TARGET_STATION: usize = 18;
    /// Offset of the IPv4 address that is asked for.
    pub const TARGET: usize = 24;
    /// Bytes of a message.
    pub const LENGTH: usize = 28;
}

/// ICMP's echo (RFC 792).
pub mod icmp {
    /// Type and code of a request.
    pub const ECHO_REQUEST: [u8; 2] = [8, 0];
    /// Type and code of its answer.
    pub const ECHO_REPLY: [u8; 2] = [0, 0];
    /// Offset of the checksum.
    pub const CHECKSUM: usize = 2;
    /// Bytes of the header.
    pub const HEADER: usize = 8;
}

/// How many routers an answer may pass (RFC 1700: the recommended default).
pub const HOP_LIMIT: u8 = 64;

/// The ports of services, which no client has (RFC 6335 §6: system ports). 0 means no port.
const SERVICES: core::ops::RangeInclusive<u16> = 0..=1023;

/// Returns whether an echo server on port `ours` may answer to the port `from`: to a client's. A
/// service's port could be that of a server that answers the answer, and so is this server's own
/// number at another address.
#[inline(always)]
pub fn is_client_port(from: u16, ours: u16) -> bool {
    !SERVICES.contains(&from) && from != ours
}

/// Returns `N` bytes from `offset` on, if they are there.
#[inline(always)]
pub fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}

/// Returns the 16-bit number at `offset`, if it is there.
#[inline(always)]
pub fn number(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(|bytes| u16::from_be_bytes(*bytes))
}

/// Writes a field at `offset`.
///
/// # Panics
/// If the header ends before the field does.
#[inline(always)]
pub fn put<const N: usize>(header: &mut [u8], offset: usize, field: [u8; N]) {
    header[offset..offset + N].copy_from_slice(&field);
}

/// A view of a header.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $length:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>(&'a [u8; $length]);

        impl<'a> $name<'a> {
            /// Returns the header that begins at `offset`, if all its bytes are there.
            #[inline(always)]
            pub fn at(bytes: &'a [u8], offset: usize) -> Option<Self> {
                array(bytes, offset).map(Self)
            }

            #[inline(always)]
            fn field<const N: usize>(self, offset: usize) -> [u8; N] {
                core::array::from_fn(|index| self.0[offset + index])
            }

            #[inline(always)]
            fn number(self, offset: usize) -> u16 {
                u16::from_be_bytes(self.field(offset))
            }
        }
    };
}

view!(
    /// An Ethernet header.
    Ethernet,
    ethernet::HEADER
);

impl Ethernet<'_> {
    /// Returns the address of the station that the frame is for.
    #[inline(always)]
    pub fn destination(self) -> [u8; ethernet::ADDRESS] {
        self.field(ethernet::DESTINATION)
    }

    /// Returns the address of the station that it comes from.
    #[inline(always)]
    pub fn source(self) -> [u8; ethernet::ADDRESS] {
        self.field(ethernet::SOURCE)
    }

    /// Returns the type of what it carries; see [`types`].
    #[inline(always)]
    pub fn kind(self) -> u16 {
        self.number(ethernet::TYPE)
    }
}

view!(
    /// An IPv4 header, without its options.
    Ipv4,
    ipv4::HEADER
);

impl<'a> Ipv4<'a> {
    /// Returns the version: 4, if it is IPv4.
    #[inline(always)]
    pub fn version(self) -> u8 {
        self.0[ipv4::VERSION] >> 4
    }

    /// Returns the bytes of the header with its options: a multiple of 4, below 20 in a broken one.
    #[inline(always)]
    pub fn header_length(self) -> usize {
        usize::from(self.0[ipv4::VERSION] & 0xf) * 4
    }

    /// Returns the bytes of header and payload.
    #[inline(always)]
    pub fn total_length(self) -> usize {
        self.number(ipv4::TOTAL_LENGTH).into()
    }

    /// Returns what it says of congestion; see [`ecn`].
    #[inline(always)]
    pub fn ecn(self) -> u8 {
        self.0[ipv4::SERVICE] & ecn::BITS
    }

    /// Returns what the fragments of a packet have in common.
    #[inline(always)]
    pub fn identification(self) -> u16 {
        self.number(ipv4::IDENTIFICATION)
    }

    /// Returns the flags for fragments, and the offset in units of eight bytes.
    #[inline(always)]
    pub fn fragment_field(self) -> u16 {
        self.number(ipv4::FRAGMENT)
    }

    /// Returns whether this is a part of a packet.
    #[inline(always)]
    pub fn is_fragment(self) -> bool {
        self.fragment_field() & ipv4::FRAGMENT_BITS != 0
    }

    /// Returns whether routers may divide the packet.
    #[inline(always)]
    pub fn may_fragment(self) -> bool {
        self.fragment_field() & ipv4::DO_NOT_FRAGMENT == 0
    }

    /// Returns how many more routers it may pass.
    #[inline(always)]
    pub fn time_to_live(self) -> u8 {
        self.0[ipv4::TIME_TO_LIVE]
    }

    /// Returns the protocol; see [`protocols`].
    #[inline(always)]
    pub fn protocol(self) -> u8 {
        self.0[ipv4::PROTOCOL]
    }

    /// Returns the sender's address.
    #[inline(always)]
    pub fn source(self) -> [u8; 4] {
        self.field(ipv4::SOURCE)
    }

    /// Returns the receiver's address.
    #[inline(always)]
    pub fn destination(self) -> [u8; 4] {
        self.field(ipv4::DESTINATION)
    }

    /// Returns both addresses, the sender's first.
    #[inline(always)]
    pub fn addresses(self) -> &'a [u8; 8] {
        let [_, _, _, _, _, _, _, _, _, _, _, _, addresses @ ..] = self.0;
        addresses
    }
}

view!(
    /// An IPv6 header, without extensions.
    Ipv6,
    ipv6::HEADER
);

impl<'a> Ipv6<'a> {
    /// Returns the version: 6, if it is IPv6.
    #[inline(always)]
    pub fn version(self) -> u8 {
        self.0[ipv6::VERSION] >> 4
    }

    /// Returns what it says of congestion; see [`ecn`].
    #[inline(always)]
    pub fn ecn(self) -> u8 {
        self.0[ipv6::CLASS] >> ecn::SHIFT_6 & ecn::BITS
    }

    /// Returns the bytes behind the header.
    #[inline(always)]
    pub fn payload_length(self) -> usize {
        self.number(ipv6::PAYLOAD_LENGTH).into()
    }

    /// Returns the protocol, if there is no extension header; see [`protocols`].
    #[inline(always)]
    pub fn next_header(self) -> u8 {
        self.0[ipv6::NEXT_HEADER]
    }

    /// Returns how many more routers it may pass.
    #[inline(always)]
    pub fn hop_limit(self) -> u8 {
        self.0[ipv6::HOP_LIMIT]
    }

    /// Returns the sender's address.
    #[inline(always)]
    pub fn source(self) -> [u8; 16] {
        self.field(ipv6::SOURCE)
    }

    /// Returns the receiver's address.
    #[inline(always)]
    pub fn destination(self) -> [u8; 16] {
        self.field(ipv6::DESTINATION)
    }

    /// Returns both addresses, the sender's first.
    #[inline(always)]
    pub fn addresses(self) -> &'a [u8; 32] {
        let [_, _, _, _, _, _, _, _, addresses @ ..] = self.0;
        addresses
    }
}

view!(
    /// A TCP header, without its options.
    Tcp,
    tcp::HEADER
);

impl Tcp<'_> {
    /// Returns the sender's port.
    #[inline(always)]
    pub fn source(self) -> u16 {
        self.number(tcp::SOURCE)
    }

    /// Returns the receiver's port.
    #[inline(always)]
    pub fn destination(self) -> u16 {
        self.number(tcp::DESTINATION)
    }

    /// Returns the sequence number.
    #[inline(always)]
    pub fn sequence(self) -> u32 {
        u32::from_be_bytes(self.field(tcp::SEQUENCE))
    }

    /// Returns the acknowledgement number.
    #[inline(always)]
    pub fn acknowledgement(self) -> u32 {
        u32::from_be_bytes(self.field(tcp::ACKNOWLEDGEMENT))
    }

    /// Returns the bytes of the header with its options: a multiple of 4, below 20 in a broken one.
    #[inline(always)]
    pub fn header_length(self) -> usize {
        usize::from(self.0[tcp::DATA_OFFSET] >> 4) * 4
    }

    /// Returns the flags.
    #[inline(always)]
    pub fn flags(self) -> u8 {
        self.0[tcp::FLAGS]
    }
}
