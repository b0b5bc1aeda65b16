//! What a host of IPv6 learns from routers (RFC 4861 §6.3, RFC 4862 §5.5): the routers, what is
//! on the link, and its own addresses; and what follows for a packet, its next hop (RFC 4861 §5.2)
//! and its source (RFC 6724 §5).
//!
//! All is bounded by constants, and who comes when nothing is free is passed over: whoever has
//! many routers advertise themselves does not have those forgotten that were there before. Of name
//! servers the one that ends first makes way, so that none that is forged keeps others out.

use crate::neighbour::{Prefix, RouterAdvertisement};
use crate::time::part;
use crate::{Instant, LinkAddress, ipv6};
use core::net::Ipv6Addr;
use core::time::Duration;

/// Routers that are remembered.
pub const ROUTERS: usize = 4;

/// Prefixes of the link, and own addresses, that are remembered of each.
pub const PREFIXES: usize = 8;

/// Name servers that are remembered of all routers (RFC 8106 §5.3.1: three).
pub const NAME_SERVERS: usize = 3;

/// How long a name server is kept at most after it was told of. A router tells of it again within
/// half an hour (RFC 4861 §6.2.1, `MaxRtrAdvInterval`), or 65,535 seconds (RFC 8319 §4).
const SERVER_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Bits of a prefix to which a station adds its identifier (RFC 4862 §5.5.3 (d), RFC 2464 §4).
const PREFIX_BITS: u8 = 64;

/// No router shortens the time that an address is valid below this (RFC 4862 §5.5.3 (e)).
const TWO_HOURS: Duration = Duration::from_secs(7200);

/// How long the first question waits at most (RFC 4861 §10, `MAX_RTR_SOLICITATION_DELAY`).
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// How long an answer to the first question may take, which doubles with each further one, and
/// how long at most (RFC 7559 §2).
const PATIENCE: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(3600));

/// How long routers have to repeat what they have said when the link is up again: one that was
/// switched off with it takes a while to come up.
const REPEAT: Duration = Duration::from_secs(180);

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To ask for routers ([`RouterSolicitation`](crate::neighbour::RouterSolicitation)).
    Solicit,
    /// To find out whether anybody else has this address
    /// ([`Claim`](crate::neighbour::Claim)), and to tell [`Routers::assign`] the answer.
    Claim(Ipv6Addr),
    /// No longer to use this address: it is not valid any more.
    Remove(Ipv6Addr),
    /// To ask other name servers ([`Routers::name_servers`]).
    NameServers,
}

#[derive(Clone, Copy, Debug)]
struct Router {
    address: Ipv6Addr,
    until: Instant,
    /// Whether it did not answer when it was used, or has said nothing since the link came up.
    is_suspect: bool,
    /// Whether it has said nothing since the link came up: it makes way for who has.
    is_old: bool,
}

#[derive(Clone, Copy, Debug)]
struct OnLink {
    prefix: Ipv6Addr,
    length: u8,
    until: Instant,
    /// Whether nobody has told of it since the link came up.
    is_old: bool,
}

#[derive(Clone, Copy, Debug)]
struct NameServer {
    address: Ipv6Addr,
    until: Instant,
    /// Whether the last advertisement has told of it.
    is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has been asked yet.
    New,
    /// It is being found out whether anybody else has it.
    Tentative,
    /// It is the host's.
    Assigned,
    /// Somebody else has it. It is kept so that it is not tried again at the next advertisement.
    Duplicate,
}

#[derive(Clone, Copy, Debug)]
struct Address {
    address: Ipv6Addr,
    state: State,
    preferred: Instant,
    valid: Instant,
    /// Whether nobody has told of its prefix since the link came up.
    is_old: bool,
}

/// What is known from routers of one link.
#[derive(Clone, Debug)]
pub struct Routers {
    link: LinkAddress,
    routers: [Option<Router>; ROUTERS],
    prefixes: [Option<OnLink>; PREFIXES],
    addresses: [Option<Address>; PREFIXES],
    name_servers: [Option<NameServer>; NAME_SERVERS],
    /// Whether they are others than was told.
    are_servers_new: bool,
    /// What the link carries, and what routers say.
    most: u16,
    mtu: u16,
    hop_limit: u8,
    /// How long the next answer may take, and when the next question is due.
    patience: Duration,
    due: Instant,
}

impl Routers {
    /// Nothing yet, for the station `link` on a link that carries `mtu` bytes of a packet, 1,280 at
    /// least. `random` chooses when routers are asked for, within a second.
    pub fn new(link: LinkAddress, mtu: u16, now: Instant, random: u32) -> Self {
        let most = mtu.max(ipv6::MINIMUM_MTU);
        Self {
            link,
            routers: [None; ROUTERS],
            prefixes: [None; PREFIXES],
            addresses: [None; PREFIXES],
            name_servers: [None; NAME_SERVERS],
            are_servers_new: false,
            most,
            mtu: most,
            hop_limit: 64,
            patience: PATIENCE.0,
            due: now + part(FIRST_DELAY, random),
        }
    }

    /// Returns how many bytes a packet on this link may have.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Returns the hop limit that packets begin with.
    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Returns the name servers that routers tell of.
    pub fn name_servers(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.name_servers.iter().flatten().map(|server| server.address)
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        let addresses = self.addresses.iter().flatten();
        let addresses = addresses.map(|own| if own.state == State::New { Instant::default() } else { own.valid });
        let routers = self.routers.iter().flatten().map(|router| router.until);
        let prefixes = self.prefixes.iter().flatten().map(|prefix| prefix.until);
        let servers = self.name_servers.iter().flatten().map(|server| server.until);
        let is_due = self.are_servers_new || self.has_lost_all();
        let due = if is_due { Instant::default() } else { self.due };
        addresses.chain(routers).chain(prefixes).chain(servers).fold(due, Instant::min)
    }

    /// Returns the next thing that is to be done by `now`. `random` chooses when there is more.
    pub fn poll(&mut self, now: Instant, random: u32) -> Option<Step> {
        while remove(&mut self.routers, |router| router.until <= now).is_some() {}
        while remove(&mut self.prefixes, |prefix| prefix.until <= now).is_some() {}
        while remove(&mut self.name_servers, |server| server.until <= now).is_some() {
            self.are_servers_new = true;
        }
        if core::mem::take(&mut self.are_servers_new) {
            return Some(Step::NameServers);
        }
        while let Some(own) = remove(&mut self.addresses, |own| own.valid <= now) {
            if matches!(own.state, State::Tentative | State::Assigned) {
                return Some(Step::Remove(own.address));
            }
        }
        if let Some(own) = self.addresses.iter_mut().flatten().find(|own| own.state == State::New) {
            own.state = State::Tentative;
            return Some(Step::Claim(own.address));
        }
        if self.has_lost_all() {
            // Other hosts have lost the same one: they do not ask at the same moment.
            (self.due, self.patience) = (now + part(FIRST_DELAY, random), PATIENCE.0);
        }
        if self.due <= now {
            // What was there before the link came up may have ended since.
            self.end_questions();
        }
        if self.due > now {
            return None;
        }
        // A tenth less to a tenth more, so that hosts do not ask in step (RFC 7559 §2.1).
        self.due = now + self.patience * 9 / 10 + part(self.patience / 5, random);
        self.patience = (self.patience * 2).min(PATIENCE.1);
        Some(Step::Solicit)
    }

    /// Takes an advertisement. What it says of neighbours' times is for
    /// [`Times`](crate::neighbour::Times), and of its sender's station for
    /// [`Cache::heard`](crate::neighbour::Cache::heard).
    pub fn advertised(&mut self, told: &RouterAdvertisement<'_>, now: Instant) {
        if let Some(hop_limit) = told.hop_limit {
            self.hop_limit = hop_limit;
        }
        if let Some(mtu) = told.mtu.and_then(|mtu| u16::try_from(mtu).ok())
            && (ipv6::MINIMUM_MTU..=self.most).contains(&mtu)
        {
            self.mtu = mtu;
        }
        if told.lifetime.is_zero() {
            self.no_router(told.source);
        } else {
            let router = Router { address: told.source, until: now + told.lifetime, is_suspect: false, is_old: false };
            put(&mut self.routers, router, |known| known.address == told.source, |known| known.is_old);
        }
        for prefix in told.prefixes().filter(|prefix| !is_local(prefix.prefix) && !prefix.prefix.is_multicast()) {
            if prefix.is_on_link {
                self.on_link(&prefix, now);
            }
            if prefix.is_autonomous {
                self.autonomous(&prefix, now);
            }
        }
        self.end_questions();
        self.told_of_servers(told.name_servers(), now);
    }

    /// Asks for routers no more if one has answered (RFC 7559 §2), and nothing is left of before
    /// the link came up: of that another may have told, whose answer was lost, and which advertises
    /// itself in half an hour only. (RFC 4861 §6.3.7 has a host end with the first answer.)
    fn end_questions(&mut self) {
        let has_old = self.routers.iter().flatten().any(|router| router.is_old)
            || self.prefixes.iter().flatten().any(|prefix| prefix.is_old)
            || self.addresses.iter().flatten().any(|own| own.is_old);
        if !has_old && self.routers.iter().any(Option::is_some) {
            (self.due, self.patience) = (Instant::NEVER, PATIENCE.0);
        }
    }

    /// Returns whether nobody is asked for routers since one had answered, and none is left: its
    /// lifetime has ended, or it has said that it is none any more. Then they are asked for as at
    /// the beginning, until one answers (RFC 4861 §6.3.7, RFC 7559 §2).
    fn has_lost_all(&self) -> bool {
        self.due == Instant::NEVER && self.routers.iter().all(Option::is_none)
    }

    /// RFC 8106 §5.3.1 and §6.2. Where all places are taken, the server that ends first makes way
    /// for a new one, but none of the same advertisement: of those that it tells of, the first are
    /// taken.
    fn told_of_servers(&mut self, told: impl Iterator<Item = (Ipv6Addr, Duration)>, now: Instant) {
        self.name_servers.iter_mut().flatten().for_each(|server| server.is_told = false);
        for (address, lifetime) in told {
            if lifetime.is_zero() {
                self.are_servers_new |= remove(&mut self.name_servers, |known| known.address == address).is_some();
                continue;
            }
            let is_other = |known: NameServer| known.address != address;
            let places = self.name_servers.iter_mut();
            let places = places.filter(|place| place.is_none_or(|known| !known.is_told || !is_other(known)));
            // Its own place, or else a free one, or else that of the server that ends first.
            let place = places.min_by_key(|place| (place.is_none_or(is_other), place.map(|known| known.until)));
            if let Some(place) = place {
                self.are_servers_new |= place.is_none_or(is_other);
                *place = Some(NameServer { address, until: now + lifetime.min(SERVER_LIFETIME), is_told: true });
            }
        }
    }

    /// Takes note that the link is up again, where routers may be others: they are asked for at
    /// once (RFC 4861 §6.3.7), and name servers are forgotten until they tell of them. What they
    /// have said before gives way to what is said from now on, and holds for three minutes unless
    /// it is said again, for which they are asked until then.
    pub fn link_is_up(&mut self, now: Instant) {
        let end = now + REPEAT;
        for router in self.routers.iter_mut().flatten() {
            (router.until, router.is_suspect, router.is_old) = (router.until.min(end), true, true);
        }
        for prefix in self.prefixes.iter_mut().flatten() {
            (prefix.until, prefix.is_old) = (prefix.until.min(end), true);
        }
        for own in self.addresses.iter_mut().flatten() {
            (own.preferred, own.valid, own.is_old) = (now, own.valid.min(end), true);
        }
        while remove(&mut self.name_servers, |_| true).is_some() {
            self.are_servers_new = true;
        }
        (self.due, self.patience) = (now, PATIENCE.0);
    }

    /// Takes note that `address` is no router any more, or does not say so (RFC 4861 §6.3.4,
    /// §7.2.5).
    pub fn no_router(&mut self, address: Ipv6Addr) {
        remove(&mut self.routers, |router| router.address == address);
    }

    /// Takes note that the neighbour `address` no longer answers
    /// ([`Action::Gone`](crate::neighbour::Action::Gone)): if it is a router, others are used
    /// first, until it advertises itself again (RFC 4861 §6.3.6).
    pub fn gone(&mut self, address: Ipv6Addr) {
        let Some(index) = self.routers.iter().position(|router| router.is_some_and(|router| router.address == address))
        else {
            return;
        };
        if let Some(Some(router)) = self.routers.get_mut(index) {
            router.is_suspect = true;
        }
        // It comes last among those that do not answer: they are tried in turn.
        if let Some(rest) = self.routers.get_mut(index..) {
            rest.rotate_left(1);
        }
    }

    /// Takes note whether `address`, which was to be claimed, is the host's now. One that is not is
    /// not tried again while it would be valid.
    pub fn assign(&mut self, address: Ipv6Addr, is_own: bool) {
        if let Some(own) = self.addresses.iter_mut().flatten().find(|own| own.address == address) {
            own.state = if is_own { State::Assigned } else { State::Duplicate };
        }
    }

    /// Returns the neighbour to which a packet for `destination`, an address of one host, goes
    /// (RFC 4861 §5.2); `None` if there is none: who is not known to be on the link, is not
    /// (RFC 5942 §4).
    pub fn next_hop(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        let is_on_link = |known: &OnLink| common_bits(known.prefix, destination) >= known.length.into();
        if destination.is_unicast_link_local() || self.prefixes.iter().flatten().any(is_on_link) {
            return Some(destination);
        }
        let router = self.routers.iter().flatten().min_by_key(|router| router.is_suspect)?;
        Some(router.address)
    }

    /// Returns the best of the host's own addresses for packets to `destination` at `now`
    /// (RFC 6724 §5): `link_local`, which the host has in any case, or one that a router's prefix
    /// made.
    pub fn source(&self, destination: Ipv6Addr, link_local: Ipv6Addr, now: Instant) -> Ipv6Addr {
        let assigned = self.addresses.iter().flatten().filter(|own| own.state == State::Assigned && now < own.valid);
        let rank = |address: Ipv6Addr, is_preferred: bool| {
            // The same address, one that reaches far enough but no farther, one that is not
            // deprecated, and the longest prefix: rules 1, 2, 3 and 8, of which a smaller number
            // is better. A host with one link and no labels of its own needs no others.
            let (own, wanted) = (is_local(address), is_local(destination) || is_local_group(destination));
            let scope = match (own, wanted) {
                (true, true) | (false, false) => 0,
                (false, true) => 1,
                (true, false) => 2,
            };
            let bits = common_bits(address, destination).min(PREFIX_BITS.into());
            (address != destination, scope, !is_preferred, u32::from(PREFIX_BITS) - bits)
        };
        let assigned = assigned.map(|own| (rank(own.address, now < own.preferred), own.address));
        let first = (rank(link_local, true), link_local);
        assigned.fold(first, |best, other| if other.0 < best.0 { other } else { best }).1
    }

    fn on_link(&mut self, told: &Prefix, now: Instant) {
        let (prefix, length) = (told.prefix, told.length);
        let is_it = |known: &OnLink| known.length == length && common_bits(known.prefix, prefix) >= length.into();
        if told.valid.is_zero() {
            remove(&mut self.prefixes, is_it);
        } else {
            let on_link = OnLink { prefix, length, until: now + told.valid, is_old: false };
            put(&mut self.prefixes, on_link, is_it, |known| known.is_old);
        }
    }

    /// RFC 4862 §5.5.3.
    fn autonomous(&mut self, told: &Prefix, now: Instant) {
        if told.length != PREFIX_BITS || told.preferred > told.valid {
            return;
        }
        let prefix = u128::from(told.prefix) >> 64 << 64;
        let address = Ipv6Addr::from(prefix | u128::from(self.link.interface_identifier()));
        let (preferred, valid) = (now + told.preferred, now + told.valid);
        if let Some(own) = self.addresses.iter_mut().flatten().find(|own| own.address == address) {
            (own.preferred, own.is_old) = (preferred, false);
            // Nobody can be rid of an address by a single forged advertisement ((e), 1 to 3).
            let least = own.valid.min(now + TWO_HOURS);
            own.valid = valid.max(least);
        } else if !told.valid.is_zero() {
            let own = Address { address, state: State::New, preferred, valid, is_old: false };
            let is_put = put(&mut self.addresses, own, |_| false, |_| false);
            // One of before is removed first, and then routers are asked again.
            if !is_put && let Some(old) = self.addresses.iter_mut().flatten().find(|own| own.is_old) {
                old.valid = now;
                self.due = now;
            }
        }
    }
}

/// Returns the address that the station `link` has on its link alone (RFC 4862 §5.3).
pub fn link_local(link: LinkAddress) -> Ipv6Addr {
    Ipv6Addr::from(0xfe80 << 112 | u128::from(link.interface_identifier()))
}

/// Returns whether `address` means something on its link alone.
fn is_local(address: Ipv6Addr) -> bool {
    address.is_unicast_link_local()
}

/// Returns whether `group` is one of hosts on one link (RFC 4291 §2.7).
fn is_local_group(group: Ipv6Addr) -> bool {
    group.is_multicast() && group.octets()[1] & 15 <= 2
}

/// Returns how many bits two addresses begin with in common.
fn common_bits(one: Ipv6Addr, other: Ipv6Addr) -> u32 {
    (u128::from(one) ^ u128::from(other)).leading_zeros()
}

/// Puts `value` in the place of what it replaces, or in a free one, or else in that of one that
/// gives way, if there is one. Returns whether there was.
fn put<T>(places: &mut [Option<T>], value: T, replaces: impl Fn(&T) -> bool, gives_way: impl Fn(&T) -> bool) -> bool {
    let find = |is_it: &dyn Fn(&T) -> bool| places.iter().position(|place| place.as_ref().is_some_and(is_it));
    let index = find(&replaces).or_else(|| places.iter().position(Option::is_none)).or_else(|| find(&gives_way));
    let place = index.and_then(|index| places.get_mut(index));
    place.map(|place| *place = Some(value)).is_some()
}

/// Removes the first for which `is_it` holds, and returns it.
fn remove<T>(places: &mut [Option<T>], is_it: impl Fn(&T) -> bool) -> Option<T> {
    places.iter_mut().find(|place| place.as_ref().is_some_and(&is_it))?.take()
}

#[cfg(test)]
mod tests;
