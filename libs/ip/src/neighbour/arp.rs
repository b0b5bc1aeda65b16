//! ARP (RFC 826), as the detection of conflicts has it (RFC 5227).

use super::{Advertised, Cache};
use crate::bytes::Reader;
use crate::{Instant, LinkAddress, Malformed};
use core::net::Ipv4Addr;

/// Bytes of a message about IPv4 on Ethernet.
pub const LENGTH: usize = 28;

/// What every message about IPv4 on Ethernet begins with: both protocols, and the lengths of
/// their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It asks who has the target's address.
    Request,
    /// It says which station has the sender's.
    Reply,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// What it is for.
    pub operation: Operation,
    /// The station that sends it.
    pub sender_link: LinkAddress,
    /// That station's address; unspecified while it only asks whether anybody has the target's.
    pub sender: Ipv4Addr,
    /// The station that it is for; means nothing in a request.
    pub target_link: LinkAddress,
    /// The address that is asked for.
    pub target: Ipv4Addr,
}

impl Arp {
    /// Reads a message, the payload of a frame. What follows behind it is padding.
    ///
    /// # Errors
    ///
    /// It is cut off, about other protocols, or neither request nor reply; or its sender is no
    /// single station, or has an address that is nobody's: a group's, the broadcast address, or
    /// one of a host's own (127.0.0.0/8).
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        if reader.array()? != KIND {
            return Err(Malformed::Version);
        }
        let operation = match reader.half()? {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(Malformed::Version),
        };
        let (sender_link, sender) = (LinkAddress(reader.array()?), reader.ipv4()?);
        let (target_link, target) = (LinkAddress(reader.array()?), reader.ipv4()?);
        let is_nobody = sender.is_multicast() || sender.is_broadcast() || sender.is_loopback();
        if !sender_link.is_station() || is_nobody {
            return Err(Malformed::Value);
        }
        Ok(Self { operation, sender_link, sender, target_link, target })
    }

    /// A request for `target` from a station that has `sender`.
    pub fn request(sender_link: LinkAddress, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self { operation: Operation::Request, sender_link, sender, target_link: LinkAddress([0; 6]), target }
    }

    /// The question whether anybody has `address`, which tells nobody of its sender (RFC 5227
    /// §2.1.1).
    pub fn probe(sender_link: LinkAddress, address: Ipv4Addr) -> Self {
        Self::request(sender_link, Ipv4Addr::UNSPECIFIED, address)
    }

    /// The message by which all learn that the sender has `address` (RFC 5227 §2.3).
    pub fn announcement(sender_link: LinkAddress, address: Ipv4Addr) -> Self {
        Self::request(sender_link, address, address)
    }

    /// Returns the answer of the station `link`, which has the address that this asks for.
    pub fn reply(&self, link: LinkAddress) -> Self {
        Self {
            operation: Operation::Reply,
            sender_link: link,
            sender: self.target,
            target_link: self.sender_link,
            target: self.sender,
        }
    }

    /// Returns the message as it is sent.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let operation = match self.operation {
            Operation::Request => [0, 1],
            Operation::Reply => [0, 2],
        };
        let parts: [&[u8]; 6] =
            [&KIND, &operation, &self.sender_link.0, &self.sender.octets(), &self.target_link.0, &self.target.octets()];
        let all = parts.into_iter().flatten();
        bytes.iter_mut().zip(all).for_each(|(place, byte)| *place = *byte);
        bytes
    }

    /// Returns whether another station than `link` says that it has `address`, or, while
    /// `is_tentative`, wants it too (RFC 5227 §2.1.1 and §2.4).
    pub fn conflicts(&self, link: LinkAddress, address: Ipv4Addr, is_tentative: bool) -> bool {
        let wants =
            self.operation == Operation::Request && self.sender == Ipv4Addr::UNSPECIFIED && self.target == address;
        self.sender_link != link && (self.sender == address || is_tentative && wants)
    }

    /// Takes a message that was received by the station `link`, which has the address `own`, if it
    /// has one: learns from it, and returns the answer, if there is one.
    ///
    /// What it says against `own` is for [`Arp::conflicts`] to find.
    pub fn receive<P, const WAITING: usize>(
        &self,
        cache: &mut Cache<'_, P, WAITING>,
        link: LinkAddress,
        own: Option<Ipv4Addr>,
        now: Instant,
    ) -> Option<Self> {
        if self.sender_link == link {
            return None;
        }
        let is_for_us = own == Some(self.target);
        if self.sender != Ipv4Addr::UNSPECIFIED && own != Some(self.sender) {
            match self.operation {
                Operation::Request if self.sender != self.target => {
                    cache.heard(self.sender.into(), self.sender_link, is_for_us, now);
                }
                Operation::Request | Operation::Reply => {
                    let said = Advertised {
                        address: self.sender.into(),
                        link: Some(self.sender_link),
                        is_solicited: self.operation == Operation::Reply && is_for_us && self.target_link == link,
                        overrides: true,
                        is_router: None,
                    };
                    cache.advertised(said, now);
                }
            }
        }
        (is_for_us && self.operation == Operation::Request).then(|| self.reply(link))
    }
}
