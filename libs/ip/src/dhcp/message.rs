//! The format of messages (RFC 2131 §2) and of the options in them (RFC 2132).

use crate::address::is_host;
use crate::bytes::{Reader, Writer};
use crate::{Cidr, LinkAddress, Malformed};
use core::net::Ipv4Addr;
use core::time::Duration;

/// Bytes of the longest message that a client sends: as many as servers of BOOTP expect at least,
/// to which a message is filled up (RFC 1542 §2.1), and which all options of a request fit into.
pub const LONGEST: usize = 300;

/// Bytes of the fields before the options.
pub(super) const FIXED: usize = 236;

/// Bytes of the fields for a server's and a file's name, the first of which stands at this offset.
const SERVER_NAME: (usize, usize) = (44, 64);
const FILE_NAME: (usize, usize) = (108, 128);

/// What options begin with (RFC 2131 §3).
pub(super) const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// Operations: to a server, and from one.
pub(super) const TO_SERVER: u8 = 1;
pub(super) const TO_CLIENT: u8 = 2;

/// Kind of link and length of its addresses: Ethernet.
pub(super) const ETHERNET: [u8; 2] = [1, 6];

/// Name servers that are taken.
pub const NAME_SERVERS: usize = 3;

/// The shortest lease that is taken. A client that took shorter ones could be had to send without
/// end.
const SHORTEST_LEASE: u32 = 10;

/// The least that a server may set a link's MTU to: what every host can receive.
const LEAST_MTU: u16 = crate::ipv4::MINIMUM_MTU;

/// Numbers of options.
pub(super) mod option {
    pub const PADDING: u8 = 0;
    pub const MASK: u8 = 1;
    pub const ROUTERS: u8 = 3;
    pub const NAME_SERVERS: u8 = 6;
    pub const MTU: u8 = 26;
    pub const ADDRESS: u8 = 50;
    pub const LEASE: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const KIND: u8 = 53;
    pub const SERVER: u8 = 54;
    pub const WISHES: u8 = 55;
    pub const LONGEST: u8 = 57;
    pub const RENEWAL: u8 = 58;
    pub const REBINDING: u8 = 59;
    pub const CLIENT: u8 = 61;
    pub const END: u8 = 255;
}

/// What a message is for (RFC 2132 §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client looks for servers.
    Discover,
    /// A server offers an address.
    Offer,
    /// A client wants an address: one that was offered, or the one that it has for longer.
    Request,
    /// A client has found that somebody else has the address.
    Decline,
    /// A server grants what was asked for.
    Ack,
    /// A server refuses it.
    Nak,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Discover => 1,
            Self::Offer => 2,
            Self::Request => 3,
            Self::Decline => 4,
            Self::Ack => 5,
            Self::Nak => 6,
        }
    }
}

/// An address, and what a server says with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address and its network.
    pub address: Cidr<Ipv4Addr>,
    /// The first router that packets for other networks can go to.
    pub router: Option<Ipv4Addr>,
    /// Servers that know names, in the order in which they are to be asked.
    pub name_servers: [Option<Ipv4Addr>; NAME_SERVERS],
    /// How many bytes a packet on this link may have, if the server says that: 576 at least.
    pub mtu: Option<u16>,
    /// The server that has granted it.
    pub server: Ipv4Addr,
    /// How long it holds; [`Duration::MAX`] for ever.
    pub duration: Duration,
    /// After which time that server is to be asked to prolong it.
    pub renewal: Duration,
    /// After which time any server is, if that one has not answered.
    pub rebinding: Duration,
}

/// A client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it is for.
    pub kind: Kind,
    /// The number by which its answers are known.
    pub transaction: u32,
    /// How many seconds the client has been trying.
    pub seconds: u16,
    /// The client's station.
    pub link: LinkAddress,
    /// The address that it has and answers at; unspecified if there is none.
    pub own: Ipv4Addr,
    /// The address that it asks for, or declines.
    pub wanted: Option<Ipv4Addr>,
    /// The server whose offer it takes up.
    pub server: Option<Ipv4Addr>,
}

/// A server's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it is for: an offer, a grant, or a refusal.
    pub kind: Kind,
    /// The number of the request.
    pub transaction: u32,
    /// The station that has asked.
    pub link: LinkAddress,
    /// The server.
    pub server: Ipv4Addr,
    /// The address that is offered or granted.
    pub address: Ipv4Addr,
    /// What is offered or granted; `None` if that is nothing that a host could use.
    pub lease: Option<Lease>,
}

impl Request {
    /// Writes the payload of the datagram; returns its length, [`LONGEST`], or `None` if `buffer`
    /// has less.
    pub fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let buffer = buffer.get_mut(..LONGEST)?;
        buffer.fill(0);
        let mut writer = Writer::new(buffer);
        let [ethernet, length] = ETHERNET;
        writer.put(&[TO_SERVER, ethernet, length, 0])?;
        writer.put(&self.transaction.to_be_bytes())?;
        writer.put(&self.seconds.to_be_bytes())?;
        // No flags: answers may come to the station alone, which takes them before it has an
        // address (RFC 2131 §4.1).
        writer.put(&[0; 2])?;
        writer.put(&self.own.octets())?;
        writer.put(&[0; 12])?;
        writer.put(&self.link.0)?;
        writer.put(&[0; FIXED - 34])?;
        writer.put(&COOKIE)?;
        writer.put(&[option::KIND, 1, self.kind.number()])?;
        writer.put(&[option::CLIENT, 7, ethernet])?;
        writer.put(&self.link.0)?;
        for (number, address) in [(option::ADDRESS, self.wanted), (option::SERVER, self.server)] {
            if let Some(address) = address {
                writer.put(&[number, 4])?;
                writer.put(&address.octets())?;
            }
        }
        if self.kind != Kind::Decline {
            let [high, low] = 1500_u16.to_be_bytes();
            writer.put(&[option::LONGEST, 2, high, low])?;
            let wishes = [
                option::MASK,
                option::ROUTERS,
                option::NAME_SERVERS,
                option::MTU,
                option::LEASE,
                option::RENEWAL,
                option::REBINDING,
            ];
            writer.put(&[option::WISHES, wishes.len() as u8])?;
            writer.put(&wishes)?;
        }
        writer.put(&[option::END])?;
        Some(LONGEST)
    }
}

/// What the options of a message say, as far as a client wants to know it.
#[derive(Default)]
struct Options {
    kind: Option<u8>,
    mask: Option<u32>,
    router: Option<Ipv4Addr>,
    name_servers: [Option<Ipv4Addr>; NAME_SERVERS],
    mtu: Option<u16>,
    server: Option<Ipv4Addr>,
    lease: Option<u32>,
    renewal: Option<u32>,
    rebinding: Option<u32>,
    /// Which fields for names have options too.
    overload: u8,
}

impl Options {
    /// Takes what stands in `bytes`, up to the option that ends it or the end of the field. An
    /// option that comes again replaces what was said; name servers are added (RFC 3396).
    ///
    /// # Errors
    ///
    /// An option is cut off, or has another length than its value.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader(bytes);
        while let Ok([number]) = reader.array() {
            match number {
                option::PADDING => continue,
                option::END => return Ok(()),
                _ => {}
            }
            let [length] = reader.array()?;
            let value = reader.take(length.into())?;
            let (mut content, half, word) = (Reader(value), value.len() == 2, value.len() == 4);
            match number {
                option::KIND if value.len() == 1 => self.kind = value.first().copied(),
                option::OVERLOAD if value.len() == 1 => self.overload = value.first().copied().unwrap_or(0),
                option::MASK if word => self.mask = Some(content.word()?),
                option::SERVER if word => self.server = Some(content.ipv4()?),
                option::LEASE if word => self.lease = Some(content.word()?),
                option::RENEWAL if word => self.renewal = Some(content.word()?),
                option::REBINDING if word => self.rebinding = Some(content.word()?),
                option::MTU if half => self.mtu = Some(content.half()?).filter(|mtu| *mtu >= LEAST_MTU),
                option::ROUTERS => self.router = content.ipv4().ok().filter(|router| is_host(*router)).or(self.router),
                option::NAME_SERVERS => self.add_name_servers(content),
                option::KIND
                | option::OVERLOAD
                | option::MASK
                | option::SERVER
                | option::LEASE
                | option::RENEWAL
                | option::REBINDING
                | option::MTU => return Err(Malformed::Value),
                _ => {}
            }
        }
        Ok(())
    }

    fn add_name_servers(&mut self, mut content: Reader<'_>) {
        for place in self.name_servers.iter_mut().filter(|place| place.is_none()) {
            let Some(server) = next_host(&mut content) else { return };
            *place = Some(server);
        }
    }

    /// Returns the lease of `address` that these options describe; `None` if they describe none.
    fn lease(&self, address: Ipv4Addr, server: Ipv4Addr) -> Option<Lease> {
        let mask = self.mask.unwrap_or_else(|| class_mask(address));
        let length = mask.leading_ones();
        // Ones, then zeros (RFC 950 §2.1), and more than one host.
        let is_mask = mask.checked_shl(length).unwrap_or(0) == 0 && length > 0;
        let seconds = self.lease.filter(|seconds| *seconds >= SHORTEST_LEASE)?;
        let address = Cidr::new(address, length as u8).filter(|cidr| is_mask && is_host(cidr.address()))?;
        let after = |seconds: u32| {
            if seconds == u32::MAX { Duration::MAX } else { Duration::from_secs(seconds.into()) }
        };
        let duration = after(seconds);
        // Half of the time, and seven eighths (RFC 2131 §4.4.5), where the server says no times, or
        // ones that are in no order.
        let (half, most) = (fraction(duration, 4), fraction(duration, 7));
        let (renewal, rebinding) = (self.renewal.map_or(half, after), self.rebinding.map_or(most, after));
        let is_ordered = !renewal.is_zero() && renewal <= rebinding && rebinding <= duration;
        let (renewal, rebinding) = if is_ordered { (renewal, rebinding) } else { (half, most) };
        let router = self.router.filter(|router| *router != address.address());
        let (name_servers, mtu) = (self.name_servers, self.mtu);
        Some(Lease { address, router, name_servers, mtu, server, duration, renewal, rebinding })
    }
}

/// Returns so many eighths of a time, of which [`Duration::MAX`] is for ever.
fn fraction(whole: Duration, eighths: u32) -> Duration {
    if whole == Duration::MAX { whole } else { whole * eighths / 8 }
}

/// Returns the next address of a host in a list.
fn next_host(list: &mut Reader<'_>) -> Option<Ipv4Addr> {
    loop {
        let address = list.ipv4().ok()?;
        if is_host(address) {
            return Some(address);
        }
    }
}

/// Returns the mask of an address for which none is said (RFC 791 §3.2).
fn class_mask(address: Ipv4Addr) -> u32 {
    match address.octets()[0] {
        0..128 => 0xff00_0000,
        128..192 => 0xffff_0000,
        192.. => 0xffff_ff00,
    }
}

impl Answer {
    /// Reads the payload of a datagram from a server.
    ///
    /// # Errors
    ///
    /// It is cut off, not from a server to a client on Ethernet, an option is not as it has to be,
    /// or it is neither offer nor grant nor refusal.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let [operation, ethernet, length, _hops] = reader.array()?;
        if operation != TO_CLIENT || [ethernet, length] != ETHERNET {
            return Err(Malformed::Version);
        }
        let transaction = reader.word()?;
        reader.take(8)?;
        let address = reader.ipv4()?;
        reader.take(8)?;
        let link = LinkAddress(reader.array()?);
        reader.take(FIXED - 34)?;
        if reader.array()? != COOKIE {
            return Err(Malformed::Version);
        }
        let mut options = Options::default();
        options.take(reader.0)?;
        // The file's name comes before the server's (RFC 2131 §4.1).
        let overload = options.overload;
        for (bit, (start, length)) in [(1, FILE_NAME), (2, SERVER_NAME)] {
            if overload & bit != 0 {
                options.take(bytes.get(start..start + length).ok_or(Malformed::Short)?)?;
            }
        }
        let kind = match options.kind {
            Some(2) => Kind::Offer,
            Some(5) => Kind::Ack,
            Some(6) => Kind::Nak,
            _ => return Err(Malformed::Version),
        };
        let server = options.server.filter(|server| is_host(*server)).ok_or(Malformed::Value)?;
        let lease = if kind == Kind::Nak { None } else { options.lease(address, server) };
        Ok(Self { kind, transaction, link, server, address, lease })
    }
}
