//! DHCP's server (RFC 2131 §4.3): leases addresses of one network, of which it is the only server.
//!
//! [`Server::receive`] takes the payload of a datagram for [`SERVER_PORT`](super::SERVER_PORT) and
//! writes that of the answer, with whom it is for. A client is known by its identifier, or by its
//! station where it sends none (RFC 2131 §2). Each address of the range has a place in memory that
//! is given; so there is never a second lease of one. A client gets the address again that it had,
//! as long as nobody else needed it; else the one that was unused for longest. An address that is
//! offered is held for [`OFFER`], one that a client has found in use is not leased for
//! [`DECLINED`].
//!
//! As the only server it refuses what nobody may have, of clients that it does not know too, and
//! grants a client that it does not know the address that the client says to have, if that is free:
//! so a server that was started anew, and has lost its leases, leaves clients their addresses.
//!
//! edge-dhcp 0.8 builds without the standard library too; its server keeps no offers, so that two
//! clients may be offered one address, knows clients by their stations only, has no leases that are
//! set down, and leases an address again at once that was declined.

mod message;
#[cfg(test)]
mod tests;

use crate::{Cidr, Instant, LinkAddress};
use core::net::Ipv4Addr;
use core::time::Duration;
use message::{Call, Question};

pub use message::{Identity, LONGEST_ANSWER};

/// For how long an address that was offered is nobody else's.
pub const OFFER: Duration = Duration::from_secs(30);

/// For how long an address that a client has found in use is not leased.
pub const DECLINED: Duration = Duration::from_secs(600);

/// Leases that are set down.
pub const RESERVATIONS: usize = 32;

/// What a server leases, and what it says with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The server's address and its network.
    pub own: Cidr<Ipv4Addr>,
    /// The first address that is leased.
    pub first: Ipv4Addr,
    /// The last one.
    pub last: Ipv4Addr,
    /// The router to other networks.
    pub router: Option<Ipv4Addr>,
    /// The server for names.
    pub name_server: Option<Ipv4Addr>,
    /// Seconds that a lease holds.
    pub lease: u32,
}

/// Why settings are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The range is empty, or not within the network, its first and last address excluded.
    Range,
    /// The server's address is in the range, or the router's.
    OwnInRange(Ipv4Addr),
    /// The range has more addresses than there are places.
    TooLarge,
    /// A reserved address is not within the network, the server's, the router's, or reserved twice.
    Reservation(Ipv4Addr),
    /// There are more than [`RESERVATIONS`].
    TooManyReservations,
}

impl core::fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Range => {
                formatter.write_str("the range has to lie within the network, from a lower address to a higher")
            }
            Self::OwnInRange(address) => write!(formatter, "{address} is in the range, and somebody's already"),
            Self::TooLarge => formatter.write_str("the range has more addresses than there are places"),
            Self::Reservation(address) => {
                write!(formatter, "{address} cannot be reserved: it is of another network, or somebody's already")
            }
            Self::TooManyReservations => write!(formatter, "more than {RESERVATIONS} addresses are reserved"),
        }
    }
}

impl core::error::Error for Unusable {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody's, but perhaps somebody's before.
    #[default]
    Free,
    Offered,
    Leased,
    Declined,
}

/// A place for an address of the range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    state: State,
    client: Identity,
    until: Instant,
}

impl Place {
    fn is_free(&self, now: Instant) -> bool {
        self.state == State::Free || self.until <= now
    }

    fn is_of(&self, client: &Identity) -> bool {
        self.client == *client && self.state != State::Declined
    }
}

/// Whom an answer is for; it is sent from the server's address and port, to the client's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Every station, or the client's.
    pub link: LinkAddress,
    /// The address that the packet is sent to.
    pub address: Ipv4Addr,
    /// Bytes of the payload.
    pub length: usize,
}

/// What a server has done since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Leases that were granted or prolonged.
    pub granted: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Clients that there was no address for.
    pub exhausted: u64,
    /// Addresses that a client has found in use.
    pub declined: u64,
}

/// A server. See the [module](self).
#[derive(Debug)]
pub struct Server<'a> {
    settings: Settings,
    places: &'a mut [Place],
    reserved: [Option<(LinkAddress, Ipv4Addr)>; RESERVATIONS],
    tally: Tally,
}

impl<'a> Server<'a> {
    /// A server with as many addresses of the range as there are places, and with addresses that
    /// are reserved for stations, in or outside the range.
    ///
    /// # Errors
    ///
    /// The settings contradict themselves.
    pub fn new(
        settings: Settings,
        reserved: impl IntoIterator<Item = (LinkAddress, Ipv4Addr)>,
        places: &'a mut [Place],
    ) -> Result<Self, Unusable> {
        let Settings { own, first, last, router, .. } = settings;
        if !own.has_host(first) || !own.has_host(last) || first > last {
            return Err(Unusable::Range);
        }
        let is_taken = |address: Ipv4Addr| address == own.address() || router == Some(address);
        if let Some(address) =
            [Some(own.address()), router].into_iter().flatten().find(|it| (first..=last).contains(it))
        {
            return Err(Unusable::OwnInRange(address));
        }
        if last.to_bits() - first.to_bits() >= places.len() as u32 {
            return Err(Unusable::TooLarge);
        }
        let mut this = Self { settings, places, reserved: [None; RESERVATIONS], tally: Tally::default() };
        for (station, address) in reserved {
            if !own.has_host(address) || is_taken(address) || this.is_reserved(address) {
                return Err(Unusable::Reservation(address));
            }
            let place = this.reserved.iter_mut().find(|place| place.is_none());
            *place.ok_or(Unusable::TooManyReservations)? = Some((station, address));
        }
        Ok(this)
    }

    /// Returns what was done since this was called last.
    pub fn take_tally(&mut self) -> Tally {
        core::mem::take(&mut self.tally)
    }

    /// Returns how many addresses are leased.
    pub fn leased(&self, now: Instant) -> usize {
        self.places.iter().filter(|place| place.state == State::Leased && place.until > now).count()
    }

    /// Takes the payload of a client's datagram; writes that of the answer into `buffer`, which has
    /// at least [`LONGEST_ANSWER`] bytes. `None` if there is no answer.
    pub fn receive(&mut self, payload: &[u8], now: Instant, buffer: &mut [u8]) -> Option<Answer> {
        let question = Question::parse(payload).ok()?;
        let is_for_this = question.server.is_none_or(|server| server == self.settings.own.address());
        match question.call {
            Call::Discover => {
                let Some(address) = self.choose(&question, now) else {
                    self.tally.exhausted += 1;
                    return None;
                };
                // A lease that it has is not made shorter.
                let has = |place: &Place| {
                    place.state == State::Leased && place.is_of(&question.client) && place.until > now + OFFER
                };
                if !self.place(address).is_some_and(|place| has(place)) {
                    self.set(address, &question, State::Offered, now + OFFER);
                }
                self.answer(&question, message::OFFER, Some(address), buffer)
            }
            Call::Request if is_for_this => {
                let address = if question.own.is_unspecified() { question.wanted? } else { question.own };
                if !self.may_have(address, &question, now) {
                    self.tally.refused += 1;
                    return self.answer(&question, message::NAK, None, buffer);
                }
                // It has no other one any more.
                self.free(&question.client);
                let until = now + Duration::from_secs(self.settings.lease.into());
                self.set(address, &question, State::Leased, until);
                self.tally.granted += 1;
                self.answer(&question, message::ACK, Some(address), buffer)
            }
            Call::Decline if is_for_this => {
                let address = question.wanted?;
                if self.place(address).is_some_and(|place| place.is_of(&question.client) && place.until > now) {
                    self.set(address, &question, State::Declined, now + DECLINED);
                    self.tally.declined += 1;
                }
                None
            }
            // It has taken another server's offer, or gives its address back.
            Call::Request | Call::Release => {
                self.free(&question.client);
                None
            }
            Call::Inform if is_for_this && self.settings.own.has_host(question.own) => {
                self.answer(&question, message::ACK, None, buffer)
            }
            Call::Decline | Call::Inform => None,
        }
    }

    fn is_reserved(&self, address: Ipv4Addr) -> bool {
        self.reserved.iter().flatten().any(|(_, reserved)| *reserved == address)
    }

    fn reservation(&self, station: LinkAddress) -> Option<Ipv4Addr> {
        self.reserved.iter().flatten().find(|(of, _)| *of == station).map(|(_, address)| *address)
    }

    fn place(&mut self, address: Ipv4Addr) -> Option<&mut Place> {
        let Settings { first, last, .. } = self.settings;
        let index = address.to_bits().checked_sub(first.to_bits()).filter(|_| address <= last)?;
        self.places.get_mut(index as usize)
    }

    fn set(&mut self, address: Ipv4Addr, question: &Question, state: State, until: Instant) {
        if let Some(place) = self.place(address) {
            *place = Place { state, client: question.client, until };
        }
    }

    /// Frees what a client has; it may have it again.
    fn free(&mut self, client: &Identity) {
        for place in self.places.iter_mut().filter(|place| place.is_of(client)) {
            place.state = State::Free;
        }
    }

    /// Returns whether a client may have an address.
    fn may_have(&mut self, address: Ipv4Addr, question: &Question, now: Instant) -> bool {
        if let Some(reserved) = self.reservation(question.link) {
            return reserved == address;
        }
        let is_reserved = self.is_reserved(address);
        self.place(address).is_some_and(|place| !is_reserved && (place.is_of(&question.client) || place.is_free(now)))
    }

    /// Returns the address that a client is offered.
    fn choose(&mut self, question: &Question, now: Instant) -> Option<Ipv4Addr> {
        if let Some(reserved) = self.reservation(question.link) {
            return Some(reserved);
        }
        let first = self.settings.first.to_bits();
        let count = self.settings.last.to_bits() - first + 1;
        let had = self.places.iter().position(|place| place.is_of(&question.client));
        let had = had.map(|index| Ipv4Addr::from_bits(first + index as u32));
        let usable = |this: &mut Self, address: &Ipv4Addr| this.may_have(*address, question, now);
        if let Some(address) = [had, question.wanted].into_iter().flatten().find(|address| usable(self, address)) {
            return Some(address);
        }
        let free = |(index, place): (u32, &Place)| {
            let address = Ipv4Addr::from_bits(first + index);
            (place.is_free(now) && !self.is_reserved(address)).then_some((place.until, address))
        };
        (0..count).zip(self.places.iter()).filter_map(free).min().map(|(_, address)| address)
    }

    fn answer(&self, question: &Question, kind: u8, address: Option<Ipv4Addr>, buffer: &mut [u8]) -> Option<Answer> {
        let length = question.write_answer(kind, address, &self.settings, buffer)?;
        // RFC 2131 §4.1: a refusal is for all, since the client's address may be another one's.
        let (link, address) = match address {
            _ if kind == message::NAK => (LinkAddress::BROADCAST, Ipv4Addr::BROADCAST),
            // To another network the station would pass the answer on, were it a router.
            _ if self.settings.own.has_host(question.own) => (question.link, question.own),
            Some(address) if !question.wants_broadcast => (question.link, address),
            _ => (LinkAddress::BROADCAST, Ipv4Addr::BROADCAST),
        };
        Some(Answer { link, address, length })
    }
}
