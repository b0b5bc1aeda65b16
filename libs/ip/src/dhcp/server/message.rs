//! What clients send, and the answers, in the format of RFC 2131 §2.

use super::Settings;
use crate::bytes::{Reader, Writer};
use crate::dhcp::message::{COOKIE, ETHERNET, FIXED, TO_CLIENT, TO_SERVER, option};
use crate::{LinkAddress, Malformed};
use core::net::Ipv4Addr;

/// Bytes of the longest answer, to which each is filled up (RFC 1542 §2.1).
pub const LONGEST_ANSWER: usize = 300;

/// Kinds of answers (RFC 2132 §9.6).
pub(super) const OFFER: u8 = 2;
pub(super) const ACK: u8 = 5;
pub(super) const NAK: u8 = 6;

/// The bit that asks for an answer to everybody.
const BROADCAST: u16 = 0x8000;

/// Bytes of the longest identifier that a client is known by.
const LONGEST_IDENTITY: usize = 32;

/// What a client is known by: its identifier, or its station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    bytes: [u8; LONGEST_IDENTITY],
    /// None in what is nobody's.
    length: u8,
}

impl Identity {
    /// `None` if it is empty or too long.
    fn new(bytes: &[u8]) -> Option<Self> {
        let mut this = Self { bytes: [0; LONGEST_IDENTITY], length: bytes.len() as u8 };
        this.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(this)
    }
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Discover,
    Request,
    Decline,
    Release,
    Inform,
}

/// A client's message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub call: Call,
    transaction: [u8; 4],
    pub wants_broadcast: bool,
    /// The address that it has.
    pub own: Ipv4Addr,
    pub link: LinkAddress,
    pub client: Identity,
    pub wanted: Option<Ipv4Addr>,
    pub server: Option<Ipv4Addr>,
}

impl Question {
    /// Reads the payload of a datagram to the server.
    ///
    /// # Errors
    ///
    /// It is cut off, not from a client on this Ethernet, or an option has another length than its
    /// value.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let [operation, ethernet, length, _hops] = reader.array()?;
        if operation != TO_SERVER || [ethernet, length] != ETHERNET {
            return Err(Malformed::Version);
        }
        let transaction = reader.array()?;
        reader.take(2)?;
        let flags = reader.half()?;
        let own = reader.ipv4()?;
        reader.take(8)?;
        let relay = reader.ipv4()?;
        let link = LinkAddress(reader.array()?);
        reader.take(FIXED - 34)?;
        // A relay would be on another network, of which this server has no addresses.
        if reader.array()? != COOKIE || !relay.is_unspecified() || !link.is_station() {
            return Err(Malformed::Version);
        }
        let (mut call, mut wanted, mut server, mut identity) = (None, None, None, None);
        while let Ok([number]) = reader.array() {
            match number {
                option::PADDING => continue,
                option::END => break,
                _ => {}
            }
            let [length] = reader.array()?;
            let value = reader.take(length.into())?;
            let mut content = Reader(value);
            match (number, length) {
                (option::KIND, 1) => call = value.first().copied(),
                (option::ADDRESS, 4) => wanted = Some(content.ipv4()?),
                (option::SERVER, 4) => server = Some(content.ipv4()?),
                (option::KIND | option::ADDRESS | option::SERVER, _) => return Err(Malformed::Value),
                (option::CLIENT, _) => identity = Identity::new(value),
                _ => {}
            }
        }
        let call = match call {
            Some(1) => Call::Discover,
            Some(3) => Call::Request,
            Some(4) => Call::Decline,
            Some(7) => Call::Release,
            Some(8) => Call::Inform,
            _ => return Err(Malformed::Version),
        };
        let client = match identity {
            Some(identity) => identity,
            None => Identity::new(&link.0).ok_or(Malformed::Value)?,
        };
        let wants_broadcast = flags & BROADCAST != 0;
        Ok(Self { call, transaction, wants_broadcast, own, link, client, wanted, server })
    }

    /// Writes an answer; returns its length, [`LONGEST_ANSWER`], or `None` if `buffer` has less.
    pub fn write_answer(
        &self,
        kind: u8,
        address: Option<Ipv4Addr>,
        settings: &Settings,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let buffer = buffer.get_mut(..LONGEST_ANSWER)?;
        buffer.fill(0);
        let mut writer = Writer::new(buffer);
        let [ethernet, length] = ETHERNET;
        let flags = if self.wants_broadcast || kind == NAK { BROADCAST } else { 0 };
        let own = if kind == ACK { self.own } else { Ipv4Addr::UNSPECIFIED };
        writer.put(&[TO_CLIENT, ethernet, length, 0])?;
        writer.put(&self.transaction)?;
        writer.put(&[0; 2])?;
        writer.put(&flags.to_be_bytes())?;
        writer.put(&own.octets())?;
        writer.put(&address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets())?;
        writer.put(&[0; 8])?;
        writer.put(&self.link.0)?;
        writer.put(&[0; FIXED - 34])?;
        writer.put(&COOKIE)?;
        writer.put(&[option::KIND, 1, kind])?;
        let server = settings.own.address();
        let mut put = |number: u8, value: [u8; 4]| {
            writer.put(&[number, 4])?;
            writer.put(&value)
        };
        put(option::SERVER, server.octets())?;
        if kind != NAK {
            if address.is_some() {
                put(option::LEASE, settings.lease.to_be_bytes())?;
            }
            let mask = u32::MAX.checked_shl(32 - u32::from(settings.own.length())).unwrap_or(0);
            put(option::MASK, mask.to_be_bytes())?;
            for (number, value) in [(option::ROUTERS, settings.router), (option::NAME_SERVERS, settings.name_server)] {
                if let Some(value) = value {
                    put(number, value.octets())?;
                }
            }
        }
        writer.put(&[option::END])?;
        Some(LONGEST_ANSWER)
    }
}
