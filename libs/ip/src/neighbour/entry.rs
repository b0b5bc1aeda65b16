//! One neighbour: its state (RFC 4861 §7.3.2), and the packets that wait for its address.

use crate::{Instant, LinkAddress};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

/// Requests by multicast before a neighbour counts as absent, and by unicast before one counts as
/// gone (RFC 4861 §10, `MAX_MULTICAST_SOLICIT` and `MAX_UNICAST_SOLICIT`).
pub(super) const REQUESTS: u8 = 3;

/// How long a neighbour that is used has to be confirmed by others before it is asked itself
/// (RFC 4861 §10, `DELAY_FIRST_PROBE_TIME`).
pub(super) const DELAY: Duration = Duration::from_secs(5);

/// Times of neighbours, which routers may set (RFC 4861 §6.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a neighbour counts as reachable after it was confirmed.
    pub reachable: Duration,
    /// The time between two requests to the same neighbour.
    pub retransmit: Duration,
}

impl Times {
    /// The base of [`Self::reachable`] where no router says another (RFC 4861 §10).
    pub const REACHABLE: Duration = Duration::from_secs(30);

    /// Times from what a router advertises: between half and one and a half of `reachable`, which
    /// `random` chooses, so that neighbours do not ask each other in step (RFC 4861 §6.3.2). An
    /// hour and a minute at most are taken, and a millisecond and a tenth of a second at least.
    pub fn new(reachable: Duration, retransmit: Duration, random: u32) -> Self {
        let reachable = reachable.clamp(Duration::from_millis(1), Duration::from_secs(3600));
        Self {
            reachable: reachable / 2 + crate::time::part(reachable, random),
            retransmit: retransmit.clamp(Duration::from_millis(100), Duration::from_secs(60)),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self { reachable: Self::REACHABLE, retransmit: Duration::from_secs(1) }
    }
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The place holds no neighbour.
    Free,
    /// Its address is being asked for. So many requests were made.
    Incomplete(u8),
    /// It was asked for as often as is allowed, and nobody answers for it: what waits is given
    /// back.
    Failed,
    /// It is asked for no longer, and may be there: what waits is given back.
    GivenUp,
    /// It was confirmed; until then it counts as reachable.
    Reachable(Instant),
    /// Its address may be out of date: it is used, and to be confirmed when it is.
    Stale,
    /// It was used while stale, and others may still confirm it.
    Delay,
    /// It is asked itself. So many requests were made.
    Probe(u8),
}

/// A place for a neighbour, and for `WAITING` packets that wait for its address. `P` is a packet
/// as its owner names it: the number of a buffer, say.
#[derive(Clone, Debug)]
pub struct Entry<P, const WAITING: usize> {
    pub(super) address: IpAddr,
    pub(super) link: LinkAddress,
    pub(super) state: State,
    pub(super) is_router: bool,
    /// When something was last sent to it; `None` if it only made itself known.
    pub(super) used: Option<Instant>,
    /// How many neighbours had come before it.
    pub(super) order: u64,
    /// Which of the neighbours that this place has held it is.
    pub(super) generation: u32,
    /// When there is something to be done about it.
    pub(super) due: Instant,
    pub(super) waiting: [Option<P>; WAITING],
}

impl<P, const WAITING: usize> Default for Entry<P, WAITING> {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            link: LinkAddress::default(),
            state: State::Free,
            is_router: false,
            used: None,
            order: 0,
            generation: 0,
            due: Instant::NEVER,
            waiting: [const { None }; WAITING],
        }
    }
}

impl<P, const WAITING: usize> Entry<P, WAITING> {
    /// Appends a packet to those that wait. Returns the oldest, or this one where none can wait, if
    /// there is no place for both (RFC 4861 §7.2.2: the new one replaces the oldest).
    pub(super) fn push(&mut self, packet: P) -> Option<P> {
        match self.waiting.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(packet);
                None
            }
            None => {
                let oldest = self.pop();
                let Some(last) = self.waiting.last_mut() else { return Some(packet) };
                *last = Some(packet);
                oldest
            }
        }
    }

    /// Takes the packet that has waited longest.
    pub(super) fn pop(&mut self) -> Option<P> {
        let oldest = self.waiting.first_mut()?.take();
        self.waiting.rotate_left(1);
        oldest
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.first().is_some_and(Option::is_some)
    }

    /// Returns where to send what is for this neighbour, if that is known.
    pub(super) fn known(&self) -> Option<LinkAddress> {
        match self.state {
            State::Free | State::Incomplete(_) | State::Failed | State::GivenUp => None,
            State::Reachable(_) | State::Stale | State::Delay | State::Probe(_) => Some(self.link),
        }
    }

    /// Takes note that `link` is the neighbour's, in a state in which it is known.
    pub(super) fn enter(&mut self, link: LinkAddress, state: State, now: Instant) {
        self.link = link;
        self.state = state;
        self.due = if self.is_waited_for() { now } else { Instant::NEVER };
    }
}
