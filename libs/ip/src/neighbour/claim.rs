//! One's own right to an address: whether anybody else has it is asked before it is used, and it
//! is defended afterwards.
//!
//! IPv4 does so by RFC 5227, IPv6 by RFC 4862 §5.4. The steps are the same, only their counts and
//! times differ ([`Rules`]); the messages are those of [`super::arp`] and [`super::discovery`].

use crate::Instant;
use crate::time::part;
use core::time::Duration;

/// How often an address is given up for another one at once. After so many conflicts the next
/// attempt waits for [`RESTRAINT`] (RFC 5227 §1.1, `MAX_CONFLICTS`).
const CONFLICTS: u8 = 10;

/// How long the next attempt waits after many conflicts (RFC 5227 §1.1, `RATE_LIMIT_INTERVAL`).
const RESTRAINT: Duration = Duration::from_secs(60);

/// Two conflicts within this time end the right to an address (RFC 5227 §1.1, `DEFEND_INTERVAL`).
const DEFENCE: Duration = Duration::from_secs(10);

/// Counts and times of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long the first probe waits at most; how long it does is random.
    pub delay: Duration,
    /// How many probes there are.
    pub probes: u8,
    /// The time between two of them at least, and what is added to it at most.
    pub interval: (Duration, Duration),
    /// How long an answer to the last one may take.
    pub patience: Duration,
    /// How many announcements follow.
    pub announcements: u8,
    /// The time between two of those.
    pub pause: Duration,
    /// Whether the host gives the address up if somebody else insists on it.
    pub yields: bool,
}

impl Rules {
    /// Those of ARP (RFC 5227 §1.1). A server whose address is given, and not fetched, may rather
    /// not yield (§2.4, (c)).
    pub const ARP: Self = Self {
        delay: Duration::from_secs(1),
        probes: 3,
        interval: (Duration::from_secs(1), Duration::from_secs(1)),
        patience: Duration::from_secs(2),
        announcements: 2,
        pause: Duration::from_secs(2),
        yields: true,
    };

    /// Those of neighbour discovery (RFC 4862 §5.1 and §5.4.2, RFC 4861 §10), which announces
    /// nothing, and gives up no address that was found free.
    pub const DISCOVERY: Self = Self {
        delay: Duration::from_secs(1),
        probes: 1,
        interval: (Duration::from_secs(1), Duration::ZERO),
        patience: Duration::from_secs(1),
        announcements: 0,
        pause: Duration::ZERO,
        yields: false,
    };
}

/// What is to be done about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To ask whether anybody has it.
    Probe,
    /// To use it from now on: nobody has it.
    Use,
    /// To tell all that this host has it.
    Announce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many probes were sent.
    Probing(u8),
    /// It is the host's own, and so many announcements were sent.
    Announcing(u8),
    /// It is the host's own.
    Held,
    /// Somebody else has it.
    Lost,
}

/// The right to one address.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    rules: Rules,
    state: State,
    due: Instant,
    /// When the address was last defended against somebody who said that it is his.
    disputed: Option<Instant>,
}

impl Claim {
    /// Begins to find out whether an address is free, after `conflicts` others that were not.
    /// `random` chooses when.
    pub fn new(rules: Rules, conflicts: u8, now: Instant, random: u32) -> Self {
        let restraint = if conflicts >= CONFLICTS { RESTRAINT } else { Duration::ZERO };
        let due = now + restraint + part(rules.delay, random);
        Self { rules, state: State::Probing(0), due, disputed: None }
    }

    /// Returns whether the address is not yet the host's own.
    pub fn is_tentative(&self) -> bool {
        matches!(self.state, State::Probing(_))
    }

    /// Returns whether the address is the host's own.
    pub fn is_held(&self) -> bool {
        matches!(self.state, State::Announcing(_) | State::Held)
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        self.due
    }

    /// Returns what is to be done by `now`. `random` chooses when there is more.
    pub fn poll(&mut self, now: Instant, random: u32) -> Option<Step> {
        if now < self.due {
            return None;
        }
        let Rules { probes, interval, patience, announcements, pause, .. } = self.rules;
        match self.state {
            State::Probing(sent) if sent < probes => {
                self.state = State::Probing(sent + 1);
                let wait = if sent + 1 == probes { patience } else { interval.0 + part(interval.1, random) };
                self.due = now + wait;
                Some(Step::Probe)
            }
            State::Probing(_) => {
                (self.state, self.due) =
                    if announcements == 0 { (State::Held, Instant::NEVER) } else { (State::Announcing(0), now) };
                Some(Step::Use)
            }
            State::Announcing(sent) if sent < announcements => {
                self.state = State::Announcing(sent + 1);
                self.due = now + pause;
                Some(Step::Announce)
            }
            State::Announcing(_) | State::Held | State::Lost => {
                if self.is_held() {
                    self.state = State::Held;
                }
                self.due = Instant::NEVER;
                None
            }
        }
    }

    /// Takes note that somebody else has the address, or wants it too. Returns whether this host
    /// has lost it: at once if it was not its own yet, else if it yields, at the second time within
    /// ten seconds. The first time it announces that it has it (RFC 5227 §2.4, (b) and (c)).
    pub fn conflict(&mut self, now: Instant) -> bool {
        if self.state == State::Lost {
            return false;
        }
        if self.is_held() {
            if self.disputed.is_none_or(|at| now.since(at) >= DEFENCE) {
                self.disputed = Some(now);
                // One announcement, whether others were to follow or not.
                self.state = State::Announcing(self.rules.announcements.saturating_sub(1));
                self.due = now;
                return false;
            }
            if !self.rules.yields {
                return false;
            }
        }
        (self.state, self.due) = (State::Lost, Instant::NEVER);
        true
    }
}
