//! The cache of neighbours (RFC 4861 §5.1, §7.2 and §7.3), for ARP as for neighbour discovery.
//!
//! A neighbour has its place in one of two sets of [`WAYS`], which a secret hash chooses: a look-up
//! takes as long with four places as with four thousand, and nobody outside can tell which
//! addresses share a set. Who sends much to one neighbour keeps its [`Place`], and need not even
//! look it up.
//!
//! # Who is forgotten
//!
//! A new neighbour takes, of the places in its two sets, a free one, or that of the neighbour that
//! has been unused longest: first among those to which nothing was ever sent, then among those to
//! which nothing has been sent for a minute. Nobody else makes way, so that whoever sweeps
//! through all addresses takes nothing from those in use. There is one exception, so that no
//! station keeps others out: where one answers for so many addresses that it has more than
//! [`SHARE`] of these places, the one of its own that has been unused longest makes way. Neighbours
//! of which no address is known yet take a quarter of the places at most; the oldest of them makes
//! way, since a neighbour that is there answers long before its turn comes.

use super::entry::{DELAY, Entry, REQUESTS, State, Times};
use crate::{Instant, Key, LinkAddress};
use core::cmp::Reverse;
use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;

/// Places in each of the two sets in which a neighbour may be.
pub const WAYS: usize = 8;

/// Places that one station can have, of those that a new neighbour could take, without making way
/// for it.
pub const SHARE: usize = WAYS / 2;

/// How long after its last use a neighbour does not make way for another.
const IN_USE: Duration = Duration::from_secs(60);

/// Where a neighbour is in the cache. It stays valid until another neighbour takes its place,
/// which is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    index: u32,
    generation: u32,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution<P> {
    /// It can be sent to this station.
    Known(P, LinkAddress, Place),
    /// It waits until the neighbour's address is known. The packet in here, if there is one, had
    /// to make way and is lost.
    Waiting(Option<P>),
    /// It is lost: nobody answers for the address, or there are too many neighbours.
    Refused(P),
}

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<P> {
    /// To ask who has `address`: everybody, or only the station in `to`.
    Ask {
        /// Whom to ask for.
        address: IpAddr,
        /// The station that had it last.
        to: Option<LinkAddress>,
    },
    /// To send a packet that has waited.
    Send {
        /// The packet.
        packet: P,
        /// The station that has its neighbour's address.
        to: LinkAddress,
    },
    /// To take back a packet that has waited in vain, and to tell its sender if `is_missing`
    /// (RFC 4861 §7.2.2).
    Unreachable {
        /// The packet.
        packet: P,
        /// Whom it waited for.
        address: IpAddr,
        /// Whether nobody has `address`: all questions were asked, and none was answered. Else
        /// others had to be asked for, or the link came up: it may be there.
        is_missing: bool,
    },
    /// To choose another next hop for what goes by way of `address`, which no longer answers
    /// (RFC 4861 §7.3.3). The cache has forgotten it. Is not said of neighbours that made way for
    /// others, or were forgotten because the link came up.
    Gone {
        /// Who no longer answers.
        address: IpAddr,
    },
}

/// What a neighbour says of itself (RFC 4861 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// Its address.
    pub address: IpAddr,
    /// The station that has it, if that was said.
    pub link: Option<LinkAddress>,
    /// Whether this answers a request.
    pub is_solicited: bool,
    /// Whether it is to replace another station.
    pub overrides: bool,
    /// Whether it is a router; ARP does not tell.
    pub is_router: Option<bool>,
}

/// The neighbours of one link, in sets of which a secret hash chooses two for each address.
#[derive(Debug)]
pub struct Cache<'a, P, const WAITING: usize> {
    entries: &'a mut [Entry<P, WAITING>],
    key: Key,
    times: Times,
    /// How many entries are [`State::Incomplete`].
    incomplete: usize,
    /// No entry is due before.
    deadline: Instant,
    /// The entry that is looked at next.
    cursor: usize,
    /// How many neighbours have come.
    arrivals: u64,
}

impl<'a, P, const WAITING: usize> Cache<'a, P, WAITING> {
    /// A cache with a place in `entries` for each neighbour, which are all free from now on.
    pub fn new(entries: &'a mut [Entry<P, WAITING>], key: Key) -> Self {
        entries.fill_with(Entry::default);
        let (times, deadline) = (Times::default(), Instant::NEVER);
        Self { entries, key, times, incomplete: 0, deadline, cursor: 0, arrivals: 0 }
    }

    /// Sets the times that hold from now on.
    pub fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns where to send to the neighbour in `place` without a further look, or `None` if it
    /// has to be looked up: because it is no longer there, or because it is to be confirmed.
    #[inline(always)]
    pub fn at(&mut self, place: Place, now: Instant) -> Option<LinkAddress> {
        let entry = self.entries.get_mut(place.index as usize)?;
        let is_fresh = match entry.state {
            State::Reachable(until) => now < until,
            State::Delay | State::Probe(_) => true,
            State::Free | State::Incomplete(_) | State::Failed | State::GivenUp | State::Stale => false,
        };
        if entry.generation != place.generation || !is_fresh {
            return None;
        }
        entry.used = Some(now);
        Some(entry.link)
    }

    /// Takes note that the neighbour in `place` was heard by an upper layer: that something arrived
    /// there that it was sent a moment ago, such as TCP's data by their acknowledgement
    /// (RFC 4861 §7.3.1).
    #[inline]
    pub fn confirm(&mut self, place: Place, now: Instant) {
        let until = now + self.times.reachable;
        if let Some(entry) = self.entries.get_mut(place.index as usize)
            && entry.generation == place.generation
            && let Some(link) = entry.known()
        {
            entry.enter(link, State::Reachable(until), now);
        }
    }

    /// Takes note of the same for the neighbour `address`, which was heard by way of `link`: that
    /// says nothing of another station.
    pub fn confirm_at(&mut self, address: IpAddr, link: LinkAddress, now: Instant) {
        if let Some(index) = self.find(address)
            && self.entries.get(index).is_some_and(|entry| entry.known() == Some(link))
        {
            self.enter(index, link, State::Reachable(now + self.times.reachable), now);
        }
    }

    /// Returns whether [`Self::poll`] would ask a neighbour whose station is known whether it is
    /// still there: whoever knows that it is may say so before.
    pub fn is_asking(&self, now: Instant) -> bool {
        let asks = |entry: &Entry<P, WAITING>| matches!(entry.state, State::Delay | State::Probe(_));
        now >= self.deadline && self.entries.iter().any(|entry| entry.due <= now && asks(entry))
    }

    /// Says what becomes of a packet whose next hop is `address`, a neighbour's: it is to be sent
    /// at once, or waits here.
    pub fn resolve(&mut self, address: IpAddr, packet: P, now: Instant) -> Resolution<P> {
        let Some(index) = self.find(address).or_else(|| self.begin(address, now)) else {
            return Resolution::Refused(packet);
        };
        let deadline = self.deadline;
        let Some(entry) = self.entries.get_mut(index) else { return Resolution::Refused(packet) };
        entry.used = Some(now);
        match entry.state {
            State::Incomplete(_) => return Resolution::Waiting(entry.push(packet)),
            State::Free | State::Failed | State::GivenUp => return Resolution::Refused(packet),
            State::Reachable(until) if now < until => {}
            // Where packets wait yet, the state changes when the last of them goes.
            State::Reachable(_) | State::Stale if entry.is_waited_for() => {}
            State::Reachable(_) | State::Stale => {
                (entry.state, entry.due) = (State::Delay, now + DELAY);
                self.deadline = deadline.min(entry.due);
            }
            State::Delay | State::Probe(_) => {}
        }
        Resolution::Known(packet, entry.link, Place { index: index as u32, generation: entry.generation })
    }

    /// Takes note that the neighbour `address` has asked for something, from the station `link`
    /// (RFC 4861 §7.2.3, §6.1.1; RFC 826). If it is new it gets a place only if `is_for_us`: if
    /// what it asked for is an address of this host, which will answer.
    pub fn heard(&mut self, address: IpAddr, link: LinkAddress, is_for_us: bool, now: Instant) {
        let index = match self.find(address) {
            None if is_for_us => self.claim(address, now),
            found => found,
        };
        let Some(index) = index else { return };
        if self.entries.get(index).is_some_and(|entry| entry.known() != Some(link)) {
            self.enter(index, link, State::Stale, now);
        }
    }

    /// Takes note of what a neighbour says of itself (RFC 4861 §7.2.5). Returns whether it was a
    /// router and says that it no longer is one, so that its routes have to go.
    pub fn advertised(&mut self, said: Advertised, now: Instant) -> bool {
        let reachable = State::Reachable(now + self.times.reachable);
        let Some(index) = self.find(said.address) else { return false };
        let Some(entry) = self.entries.get_mut(index) else { return false };
        let was_router = entry.is_router;
        match (entry.known(), said.link) {
            (None, None) => return false,
            (None, Some(link)) => {
                let state = if said.is_solicited { reachable } else { State::Stale };
                self.enter(index, link, state, now);
            }
            (Some(known), link) => {
                let link = link.unwrap_or(known);
                let is_other = link != known;
                if is_other && !said.overrides {
                    // Somebody else answers too. Who is reachable is asked again; the rest of what
                    // is said does not count.
                    if matches!(entry.state, State::Reachable(_)) {
                        entry.state = State::Stale;
                    }
                    return false;
                }
                if said.is_solicited {
                    self.enter(index, link, reachable, now);
                } else if is_other {
                    self.enter(index, link, State::Stale, now);
                }
            }
        }
        if let Some(entry) = self.entries.get_mut(index) {
            entry.is_router = said.is_router.unwrap_or(was_router);
        }
        was_router && said.is_router == Some(false)
    }

    /// Forgets all neighbours, for a link that is another one than before. What waits is given
    /// back, and nobody counts as missing.
    pub fn forget(&mut self, now: Instant) {
        for entry in self.entries.iter_mut().filter(|entry| entry.state != State::Free) {
            (entry.state, entry.due) = (State::GivenUp, now);
        }
        (self.incomplete, self.deadline) = (0, now);
    }

    /// Returns the next thing that is to be done by `now`; `None` if there is nothing, and not
    /// before [`Self::deadline`].
    pub fn poll(&mut self, now: Instant) -> Option<Action<P>> {
        if now < self.deadline {
            return None;
        }
        for _ in 0..self.entries.len() {
            if self.cursor >= self.entries.len() {
                self.cursor = 0;
            }
            if let Some(action) = self.step(self.cursor, now) {
                return Some(action);
            }
            self.cursor += 1;
        }
        self.deadline = self.entries.iter().map(|entry| entry.due).min().unwrap_or(Instant::NEVER);
        None
    }

    /// Returns the next thing that is to be done about one entry.
    fn step(&mut self, index: usize, now: Instant) -> Option<Action<P>> {
        let retry = now + self.times.retransmit;
        let entry = self.entries.get_mut(index).filter(|entry| entry.due <= now)?;
        let address = entry.address;
        if let Some(to) = entry.known()
            && let Some(packet) = entry.pop()
        {
            if !entry.is_waited_for() && entry.state == State::Stale {
                (entry.state, entry.due) = (State::Delay, now + DELAY);
            }
            return Some(Action::Send { packet, to });
        }
        match entry.state {
            State::Incomplete(asked) if asked < REQUESTS => {
                (entry.state, entry.due) = (State::Incomplete(asked + 1), retry);
                return Some(Action::Ask { address, to: None });
            }
            State::Delay => {
                (entry.state, entry.due) = (State::Probe(1), retry);
                return Some(Action::Ask { address, to: Some(entry.link) });
            }
            State::Probe(asked) if asked < REQUESTS => {
                (entry.state, entry.due) = (State::Probe(asked + 1), retry);
                return Some(Action::Ask { address, to: Some(entry.link) });
            }
            State::Free | State::Reachable(_) | State::Stale => {
                entry.due = Instant::NEVER;
                return None;
            }
            State::Incomplete(_) => {
                entry.state = State::Failed;
                self.incomplete = self.incomplete.saturating_sub(1);
            }
            State::Failed | State::GivenUp | State::Probe(_) => {}
        }
        if let Some(packet) = entry.pop() {
            let is_missing = entry.state == State::Failed;
            return Some(Action::Unreachable { packet, address, is_missing });
        }
        let has_failed = entry.state != State::GivenUp;
        (entry.state, entry.due) = (State::Free, Instant::NEVER);
        has_failed.then_some(Action::Gone { address })
    }

    /// Takes note that `link` is the station of the neighbour at `index`.
    fn enter(&mut self, index: usize, link: LinkAddress, state: State, now: Instant) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        if matches!(entry.state, State::Incomplete(_)) {
            self.incomplete = self.incomplete.saturating_sub(1);
        }
        entry.enter(link, state, now);
        self.deadline = self.deadline.min(entry.due);
    }

    /// Begins to ask for a neighbour. Returns where it is.
    fn begin(&mut self, address: IpAddr, now: Instant) -> Option<usize> {
        let index = self.claim(address, now)?;
        if self.incomplete >= (self.entries.len() / 4).max(1) {
            self.give_up_oldest(now);
        }
        let entry = self.entries.get_mut(index)?;
        (entry.state, entry.due) = (State::Incomplete(0), now);
        self.incomplete += 1;
        self.deadline = now;
        Some(index)
    }

    /// Gives up the neighbour that has been asked for longest.
    #[cold]
    fn give_up_oldest(&mut self, now: Instant) {
        let incomplete = self.entries.iter_mut().filter(|entry| matches!(entry.state, State::Incomplete(_)));
        if let Some(entry) = incomplete.min_by_key(|entry| entry.order) {
            (entry.state, entry.due) = (State::GivenUp, now);
            self.incomplete = self.incomplete.saturating_sub(1);
            self.deadline = now;
        }
    }

    /// Gives a place to a neighbour that has none. Returns where, `None` if nobody makes way.
    fn claim(&mut self, address: IpAddr, now: Instant) -> Option<usize> {
        // Of two free places that in the emptier set is taken: so hardly any set is full before
        // nearly all are (Azar, Broder, Karlin and Upfal 1999).
        let candidates = self.sets(address).into_iter().flat_map(|set| {
            let entries = self.entries.get(set.clone()).unwrap_or_default();
            let load = entries.iter().filter(|entry| entry.state != State::Free).count();
            let ranks = entries.iter().map(|entry| Self::claim_rank(entry, now));
            set.zip(ranks).filter_map(move |(index, rank)| Some((rank?, load, index)))
        });
        let found = candidates.min().map(|(_, _, index)| index);
        let index = found.or_else(|| self.crowding(address))?;
        let entry = self.entries.get_mut(index)?;
        let generation = entry.generation.wrapping_add(1);
        *entry = Entry { address, order: self.arrivals, generation, ..Entry::default() };
        self.arrivals += 1;
        Some(index)
    }

    /// Returns, of the places that a neighbour could have, the one unused longest of the station
    /// that has the most of them, if that is more than its share.
    #[cold]
    fn crowding(&self, address: IpAddr) -> Option<usize> {
        let [first, second] = self.sets(address);
        let second = if first == second { 0..0 } else { second };
        let places = first.chain(second).filter_map(|index| {
            let entry = self.entries.get(index)?;
            Some((index, entry.known()?, entry))
        });
        let count = |link| places.clone().filter(|(_, other, _)| *other == link).count();
        let ranks = places.clone().filter(|(_, _, entry)| !entry.is_waited_for());
        let ranks = ranks.map(|(index, link, entry)| (Reverse(count(link)), entry.used, index));
        let (_, _, index) = ranks.filter(|(Reverse(count), ..)| *count > SHARE).min()?;
        Some(index)
    }

    /// Ranks a place: the least is taken first, `None` never. No place from which a packet has yet
    /// to go is taken.
    fn claim_rank(entry: &Entry<P, WAITING>, now: Instant) -> Option<(u8, u64)> {
        match (entry.state, entry.used) {
            (State::Free, _) => Some((0, 0)),
            (State::Incomplete(_) | State::Failed | State::GivenUp, _) => None,
            _ if entry.is_waited_for() => None,
            (_, None) => Some((1, entry.order)),
            (_, Some(used)) if now.since(used) >= IN_USE => Some((2, used.0)),
            (_, Some(_)) => None,
        }
    }

    fn find(&self, address: IpAddr) -> Option<usize> {
        let is_it = |index: &usize| {
            self.entries.get(*index).is_some_and(|entry| entry.address == address && entry.state != State::Free)
        };
        self.sets(address).into_iter().flatten().find(is_it)
    }

    /// Returns the two sets in which `address` may be; they may be the same.
    fn sets(&self, address: IpAddr) -> [Range<usize>; 2] {
        let hash = self.key.hash(address);
        let sets = (self.entries.len() / WAYS).max(1) as u64;
        [hash >> 16, hash & 0xffff].map(|hash| {
            let set = ((u64::from(hash) * sets) >> 16) as usize;
            set * WAYS..(set * WAYS + WAYS).min(self.entries.len())
        })
    }
}
