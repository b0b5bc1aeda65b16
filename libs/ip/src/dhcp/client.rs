//! What a client sends when, and what follows from an answer (RFC 2131 §4.4).

use super::message::{Answer, Kind, Lease, Request};
use crate::address::is_host;
use crate::time::part;
use crate::{Instant, LinkAddress};
use core::net::Ipv4Addr;
use core::time::Duration;

/// How long the first answer may take, which doubles with each further request, and how long at
/// most (§4.1).
const PATIENCE: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(64));

/// By how much less or more than that, as chance has it (§4.1).
const SPREAD: Duration = Duration::from_secs(1);

/// Requests for an offered address before offers are looked for anew.
const REQUESTS: u8 = 4;

/// Requests for the address of before a restart of the link, before another one is looked for.
const REBOOTS: u8 = 2;

/// The least time between two requests for more time (§4.4.5).
const LEAST: Duration = Duration::from_secs(60);

/// How long the next attempt waits after an address that somebody else has (§3.1, 5).
const AFTER_CONFLICT: Duration = Duration::from_secs(10);

/// How long it waits after a refusal: a server that offers and then refuses without end is not
/// asked without end.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To send a message from [`CLIENT_PORT`](super::CLIENT_PORT) to
    /// [`SERVER_PORT`](super::SERVER_PORT).
    Send {
        /// The address that it comes from; unspecified while there is none.
        source: Ipv4Addr,
        /// Whom it is for: a server, or everybody.
        destination: Ipv4Addr,
        /// The message.
        request: Request,
    },
    /// No longer to use the address: its time is over.
    Lost,
}

/// What an answer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing.
    Nothing,
    /// This address is the host's, if nobody else has it ([`Client::decline`]).
    Granted(Lease),
    /// The address is the host's for longer; what comes with it may be new.
    Renewed(Lease),
    /// No longer to use the address: the server has refused it.
    Lost,
    /// Nothing, but that a server offers an address that no host can have.
    Unusable(Ipv4Addr),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// It looks for offers.
    Selecting,
    /// It has taken up an offer.
    Requesting(Lease),
    /// It asks whether the address of before holds on a link that is up again.
    Rebooting(Lease),
    /// It has an address.
    Bound(Lease),
    /// It is to tell that somebody else has the address.
    Declining(Lease),
}

/// The client of one link.
#[derive(Clone, Debug)]
pub struct Client {
    link: LinkAddress,
    state: State,
    /// The number of the request under way.
    transaction: u32,
    /// When it began to look for an address, or for more time.
    began: Instant,
    /// When the address that it has was granted.
    granted: Instant,
    /// How often the same was asked for.
    asked: u8,
    due: Instant,
}

impl Client {
    /// A client of the station `link` that has no address and looks for one at once.
    pub fn new(link: LinkAddress, now: Instant, random: u32) -> Self {
        let state = State::Selecting;
        Self { link, state, transaction: random, began: now, granted: now, asked: 0, due: now }
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        self.due
    }

    /// Returns what the client has, if it has an address.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Bound(lease) | State::Rebooting(lease) => Some(lease),
            State::Selecting | State::Requesting(_) | State::Declining(_) => None,
        }
    }

    /// Takes note that the link is up again, where the host may be in another network now: the
    /// servers are asked at once whether the address still holds (§3.2). Until one says that it
    /// does not, or its time is over, it does.
    pub fn link_is_up(&mut self, now: Instant, random: u32) {
        let state = match self.state {
            State::Bound(lease) | State::Rebooting(lease) => State::Rebooting(lease),
            State::Selecting | State::Requesting(_) | State::Declining(_) => State::Selecting,
        };
        self.begin(state, now, random);
    }

    /// Takes note that somebody else has the address that was granted: the server is told, and
    /// another one is looked for (§3.1, 5).
    pub fn decline(&mut self, now: Instant, random: u32) {
        if let State::Bound(lease) | State::Rebooting(lease) = self.state {
            self.begin(State::Declining(lease), now, random);
        }
    }

    /// Returns what is to be done by `now`. `random` chooses when there is more, and numbers.
    pub fn poll(&mut self, now: Instant, random: u32) -> Option<Step> {
        if now < self.due {
            return None;
        }
        match self.state {
            State::Selecting => {
                self.wait(now, random);
                Some(self.request(Kind::Discover, None, None, now))
            }
            State::Requesting(_) if self.asked >= REQUESTS => self.start_over(now, random),
            State::Requesting(lease) => {
                self.wait(now, random);
                Some(self.request(Kind::Request, Some(lease.address.address()), Some(lease.server), now))
            }
            // However often the link comes up.
            State::Rebooting(lease) if now >= self.granted + lease.duration => self.lose(now, random),
            State::Rebooting(lease) if self.asked >= REBOOTS => {
                // Nobody answers: what was granted before still holds.
                (self.state, self.asked) = (State::Bound(lease), 0);
                self.due = self.granted + lease.renewal;
                if now < self.due { None } else { self.prolong(&lease, now, random) }
            }
            State::Rebooting(lease) => {
                self.wait(now, random);
                self.due = self.due.min(self.granted + lease.duration);
                Some(self.request(Kind::Request, Some(lease.address.address()), None, now))
            }
            State::Declining(lease) => {
                let step = self.request(Kind::Decline, Some(lease.address.address()), Some(lease.server), now);
                self.begin(State::Selecting, now, random);
                self.due = now + AFTER_CONFLICT;
                Some(step)
            }
            State::Bound(lease) => self.prolong(&lease, now, random),
        }
    }

    /// Takes the payload of a datagram for [`CLIENT_PORT`](super::CLIENT_PORT), whoever has sent
    /// it: what is no answer to this client's request is passed over.
    pub fn receive(&mut self, message: &[u8], now: Instant, random: u32) -> Outcome {
        let Ok(answer) = Answer::parse(message) else { return Outcome::Nothing };
        if answer.transaction != self.transaction || answer.link != self.link || self.asked == 0 {
            return Outcome::Nothing;
        }
        match (self.state, answer.kind, answer.lease) {
            (State::Selecting, Kind::Offer, Some(lease)) => {
                // The same number: offer and request are one transaction (§4.4.1).
                (self.state, self.asked, self.due) = (State::Requesting(lease), 0, now);
                Outcome::Nothing
            }
            (State::Selecting, Kind::Offer, None) if !is_host(answer.address) => Outcome::Unusable(answer.address),
            (State::Requesting(offered), Kind::Ack, Some(lease)) if answer.server == offered.server => {
                self.bind(lease);
                Outcome::Granted(lease)
            }
            (State::Bound(held) | State::Rebooting(held), Kind::Ack, Some(lease))
                if lease.address.address() == held.address.address() =>
            {
                self.bind(lease);
                Outcome::Renewed(lease)
            }
            (State::Requesting(offered), Kind::Nak, _) if answer.server == offered.server => {
                self.refused(now, random);
                Outcome::Nothing
            }
            (State::Rebooting(_) | State::Bound(_), Kind::Nak, _) => {
                self.refused(now, random);
                Outcome::Lost
            }
            _ => Outcome::Nothing,
        }
    }

    /// Asks for more time, first the server that granted the address, then any; gives the address
    /// up when its time is over (§4.4.5).
    fn prolong(&mut self, lease: &Lease, now: Instant, random: u32) -> Option<Step> {
        let (rebinding, end) = (self.granted + lease.rebinding, self.granted + lease.duration);
        if now >= end {
            return self.lose(now, random);
        }
        if self.asked == 0 {
            (self.transaction, self.began) = (random, now);
        }
        self.asked = self.asked.saturating_add(1);
        let (next, destination) = if now < rebinding { (rebinding, lease.server) } else { (end, Ipv4Addr::BROADCAST) };
        // After half of what is left, but after a minute at least.
        self.due = (now + (next.since(now) / 2).max(LEAST)).min(next);
        Some(self.message(Kind::Request, lease.address.address(), destination, None, None, now))
    }

    /// Gives up an address whose time is over, and looks for another one.
    fn lose(&mut self, now: Instant, random: u32) -> Option<Step> {
        self.begin(State::Selecting, now, random);
        Some(Step::Lost)
    }

    /// Begins with another state, at once and with a new number.
    fn begin(&mut self, state: State, now: Instant, random: u32) {
        (self.state, self.transaction) = (state, random);
        (self.began, self.asked, self.due) = (now, 0, now);
    }

    fn start_over(&mut self, now: Instant, random: u32) -> Option<Step> {
        self.begin(State::Selecting, now, random);
        self.wait(now, random);
        Some(self.request(Kind::Discover, None, None, now))
    }

    fn refused(&mut self, now: Instant, random: u32) {
        self.begin(State::Selecting, now, random);
        self.due = now + AFTER_REFUSAL;
    }

    /// Has an address from now on. Its time counts from the request, which is when the server can
    /// have begun to count at the earliest (§4.4.1).
    fn bind(&mut self, lease: Lease) {
        (self.state, self.granted, self.asked) = (State::Bound(lease), self.began, 0);
        self.due = self.granted + lease.renewal;
    }

    /// Counts a request, and sets when it is repeated.
    fn wait(&mut self, now: Instant, random: u32) {
        if self.asked == 0 {
            self.began = now;
        }
        let patience = PATIENCE.0.saturating_mul(1 << self.asked.min(8)).min(PATIENCE.1);
        self.asked = self.asked.saturating_add(1);
        self.due = now + (patience - SPREAD) + part(SPREAD * 2, random);
    }

    /// A message to everybody, from no address.
    fn request(&self, kind: Kind, wanted: Option<Ipv4Addr>, server: Option<Ipv4Addr>, now: Instant) -> Step {
        self.message(kind, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, wanted, server, now)
    }

    fn message(
        &self,
        kind: Kind,
        own: Ipv4Addr,
        destination: Ipv4Addr,
        wanted: Option<Ipv4Addr>,
        server: Option<Ipv4Addr>,
        now: Instant,
    ) -> Step {
        let seconds = u16::try_from(now.since(self.began).as_secs()).unwrap_or(u16::MAX);
        let (transaction, link) = (self.transaction, self.link);
        let request = Request { kind, transaction, seconds, link, own, wanted, server };
        Step::Send { source: own, destination, request }
    }
}
