//! What a router says of itself and of a link, so that hosts give themselves addresses and find the
//! way out (RFC 4861 §6.2, RFC 4862 §5.5), and when it does.
//!
//! [`Advertisement`] is the message, [`Advertiser`] decides when it is sent: from time to time, and
//! soon after a host has asked ([`is_question`]). All hosts get the same one; who asks is not
//! remembered, so that whoever asks without end has one sent every three seconds and no more.

use super::message::{self, kind, link_option, option};
use crate::bytes::Writer;
use crate::ipv6::{HEADER, Ipv6};
use crate::time::part;
use crate::{ALL_NODES, Instant, LinkAddress, Malformed};
use core::net::Ipv6Addr;
use core::time::Duration;
use culm_packet::wire::protocols::ICMPV6 as ICMP;

/// Name servers that an advertisement tells of at most (RFC 8106 §5.3.1: hosts keep three).
const NAME_SERVERS: usize = 3;

/// Bytes of the longest packet that [`Advertisement::write`] makes.
pub const LONGEST_ADVERTISEMENT: usize = HEADER + 16 + 8 + 8 + 32 + 8 + 16 * NAME_SERVERS;

/// The least and the greatest time between two that nobody has asked for (§6.2.1,
/// `MinRtrAdvInterval` and `MaxRtrAdvInterval`).
const INTERVAL: (Duration, Duration) = (Duration::from_secs(200), Duration::from_secs(600));

/// The greatest time between the first ones, and how many those are (§10,
/// `MAX_INITIAL_RTR_ADVERT_INTERVAL` and `MAX_INITIAL_RTR_ADVERTISEMENTS`).
const AT_FIRST: (Duration, u8) = (Duration::from_secs(16), 3);

/// How long an answer waits at most, and the least time between two advertisements (§10,
/// `MAX_RA_DELAY_TIME` and `MIN_DELAY_BETWEEN_RAS`).
const ANSWER: Duration = Duration::from_millis(500);
const APART: Duration = Duration::from_secs(3);

/// How long hosts believe in the router and its name servers without hearing of them (§6.2.1,
/// `AdvDefaultLifetime`; RFC 8106 §5.1: three times the greatest interval).
const LIFETIME: Duration = Duration::from_secs(1800);

/// How long addresses are valid, and preferred for new connections (§6.2.1, `AdvValidLifetime` and
/// `AdvPreferredLifetime`), in seconds.
const VALID: u32 = 2_592_000;
const PREFERRED: u32 = 604_800;

/// Bits of a prefix of which hosts make addresses (RFC 4862 §5.5.3 (d), RFC 2464 §4).
const PREFIX_BITS: u8 = 64;

/// The hop limit that hosts are told to begin with.
const HOPS: u8 = 64;

/// What a router says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement<'a> {
    /// The router's link-local address.
    pub source: Ipv6Addr,
    /// Its station.
    pub link: LinkAddress,
    /// Whether it is a default router: one to everywhere.
    pub is_default: bool,
    /// Bytes of the longest packet that the link carries.
    pub mtu: u16,
    /// An address of the link's prefix, and the prefix's bits. Hosts give themselves addresses of
    /// one with 64 bits.
    pub prefix: (Ipv6Addr, u8),
    /// Name servers, of which the first three are told.
    pub name_servers: &'a [Ipv6Addr],
}

/// When a router's advertisements are due.
#[derive(Clone, Copy, Debug)]
pub struct Advertiser {
    due: Instant,
    last: Option<Instant>,
    /// How many of the first ones were sent.
    sent: u8,
}

/// Reads a packet as a host's question for routers (§6.1.1).
///
/// # Errors
///
/// If it is none ([`Malformed::Version`]), or not as it has to be.
pub fn is_question(packet: &Ipv6<'_>) -> Result<(), Malformed> {
    let (_, mut reader) = message::open(packet, |kind| kind == kind::ROUTER_SOLICITATION)?;
    reader.word()?;
    let link = link_option(reader.0, option::SOURCE_LINK)?;
    // Who has no address cannot say where it is.
    if packet.source.is_unspecified() && link.is_some() { Err(Malformed::Value) } else { Ok(()) }
}

impl Advertisement<'_> {
    /// Writes it as a packet to all nodes; `None` if `buffer` has less than
    /// [`LONGEST_ADVERTISEMENT`] bytes and it does not fit.
    pub fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let servers = self.name_servers.get(..NAME_SERVERS).unwrap_or(self.name_servers);
        let of_servers = if servers.is_empty() { 0 } else { 8 + 16 * servers.len() };
        let length = 16 + 8 + 8 + 32 + of_servers;
        let packet = Ipv6 {
            source: self.source,
            destination: ALL_NODES,
            next_header: ICMP,
            hop_limit: message::HOP_LIMIT,
            payload: &[],
        };
        let mut writer = Writer::new(buffer);
        packet.write_header(&mut writer, length)?;
        let seconds = LIFETIME.as_secs() as u32;
        let lifetime = if self.is_default { seconds as u16 } else { 0 };
        writer.put(&[kind::ROUTER_ADVERTISEMENT, 0, 0, 0, HOPS, 0])?;
        writer.put(&lifetime.to_be_bytes())?;
        // Hosts are told nothing of times for neighbours.
        writer.put(&[0; 8])?;
        writer.put(&[option::SOURCE_LINK, 1])?;
        writer.put(&self.link.0)?;
        writer.put(&[option::MTU, 1, 0, 0])?;
        writer.put(&u32::from(self.mtu).to_be_bytes())?;
        let (address, bits) = self.prefix;
        let bits = bits.min(128);
        let prefix = address.to_bits() & !u128::MAX.checked_shr(bits.into()).unwrap_or(0);
        // On the link; and, where hosts have bits for themselves, for addresses of theirs.
        writer.put(&[option::PREFIX, 4, bits, if bits == PREFIX_BITS { 0xc0 } else { 0x80 }])?;
        for word in [VALID, PREFERRED, 0] {
            writer.put(&word.to_be_bytes())?;
        }
        writer.put(&prefix.to_be_bytes())?;
        if !servers.is_empty() {
            writer.put(&[option::NAME_SERVERS, (1 + 2 * servers.len()) as u8, 0, 0])?;
            writer.put(&seconds.to_be_bytes())?;
            servers.iter().try_for_each(|server| writer.put(&server.octets()))?;
        }
        message::seal(&mut writer, self.source, ALL_NODES)?;
        Some(writer.len())
    }
}

impl Advertiser {
    /// One whose first advertisement is due at once.
    pub fn new(now: Instant) -> Self {
        Self { due: now, last: None, sent: 0 }
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        self.due
    }

    /// Takes note that a host has asked. `random` chooses how long the answer waits (§6.2.6).
    pub fn asked(&mut self, now: Instant, random: u32) {
        let earliest = self.last.map_or(now, |last| last + APART).max(now);
        self.due = self.due.min(earliest + part(ANSWER, random));
    }

    /// Returns whether an advertisement is to be sent by `now`. `random` chooses when the next one
    /// is (§6.2.4).
    pub fn poll(&mut self, now: Instant, random: u32) -> bool {
        if now < self.due {
            return false;
        }
        let (least, most) = INTERVAL;
        let (at_first, count) = AT_FIRST;
        let next = least + part(most - least, random);
        let next = if self.sent < count { next.min(at_first) } else { next };
        (self.last, self.due, self.sent) = (Some(now), now + next, self.sent.saturating_add(1));
        true
    }
}
