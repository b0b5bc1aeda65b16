//! Places for new connections: which connection ends when all places are taken.
//!
//! A place is always looked for in the same order, and found at once:
//!
//! 1. a free one;
//! 2. that of an idle connection, that is, the application has nothing under way on it and all that
//!    was sent is acknowledged; the one whose time of grace is over longest: [`GRACE`] after its
//!    last answer was acknowledged, [`FIRST_GRACE`] after it connected if it was not answered yet.
//!    That time counts as far as all is known that had come by then: what waits in the receive
//!    queue may be its next request;
//! 3. that of a connection whose peer has taken next to nothing of what was sent to it for
//!    [`STALL`].
//!
//! A connection with a request under way is never ended but by the last of these.

use super::{Tcp, Times};
use crate::client::Transmitter;
use crate::stack::BATCH;
use crate::stack::table::Phase;
use culm::time::{Duration, Instant};

/// How long a connection may be idle after an answer before it makes way.
const GRACE: Duration = Duration::from_millis(100);

/// How long one may be idle that was not answered yet. Its request is about to come; where that is
/// lost on the way, it comes again within a second (RFC 6298 §2).
const FIRST_GRACE: Duration = Duration::from_secs(1);

/// In which phases connections are idle, and how long they may be.
const IDLE_PHASES: [(Phase, Duration); 2] = [(Phase::Idle, GRACE), (Phase::AwaitingFirstRequest, FIRST_GRACE)];

/// How long a peer may take nothing of what was sent to it, when places are short.
const STALL: Duration = Duration::from_secs(5);

/// How many connections are looked at in one search for one that stalls.
const LOOKS: usize = 4;

impl Tcp {
    /// Returns whether there is a place for one more than those clients that are expected.
    #[cold]
    pub(super) fn has_opening(&mut self, now: Instant) -> bool {
        let expected = self.promises.expected(now);
        self.spare(expected + 1) > expected || (expected == 0 && self.stalled(now).is_some())
    }

    /// Returns whether there are more free places than clients that are expected, and those besides
    /// that may have shaken hands longer ago, of whom as many may come in a round as it has frames.
    pub(super) fn has_plenty(&mut self, now: Instant) -> bool {
        self.table.count(Phase::Free) > self.promises.expected(now) + BATCH
    }

    /// Returns the number of places that new connections would get at once, counted up to `most`;
    /// those of connections that stall are left out.
    fn spare(&self, most: usize) -> usize {
        let mut spare = self.table.count(Phase::Free).min(most);
        for (phase, grace) in IDLE_PHASES {
            let idle = self.table.all(phase).take_while(|index| self.heard >= self.table[*index].since + grace);
            spare += idle.take(most - spare).count();
        }
        spare
    }

    /// Returns the slot that a new connection would get.
    fn candidate(&mut self, now: Instant) -> Option<usize> {
        self.table.first(Phase::Free).or_else(|| self.longest_idle()).or_else(|| self.stalled(now))
    }

    /// Returns the idle connection whose time of grace is over for longest.
    fn longest_idle(&self) -> Option<usize> {
        let end = |(phase, grace)| self.table.first(phase).map(|index| (self.table[index].since + grace, index));
        let (end, index) = IDLE_PHASES.into_iter().filter_map(end).min()?;
        (self.heard >= end).then_some(index)
    }

    /// Returns a connection whose peer takes nothing, released or not. Those that were looked at in
    /// vain go to the end of their list.
    #[cold]
    fn stalled(&mut self, now: Instant) -> Option<usize> {
        for phase in [Phase::Closing, Phase::Open] {
            for _ in 0..LOOKS {
                let Some(index) = self.table.first(phase) else { break };
                let slot = &self.table[index];
                let is_awaited = phase == Phase::Closing || slot.unacknowledged > 0;
                if is_awaited && now >= slot.since + STALL {
                    return Some(index);
                }
                self.table.change(index, phase);
            }
        }
        None
    }

    /// Has a connection that is ended say so. Where that cannot be sent, or not before data, the
    /// peer hears of it when it sends something itself.
    #[cold]
    #[inline(never)]
    fn say_end(&mut self, index: usize, transmitter: &mut Transmitter, times: Times) {
        let slot = &mut self.table[index];
        if transmitter.becomes_ready()
            && let Some(sent) = slot.connection.transmit(times.tcp)
            && sent.length == 0
        {
            slot.route.send_alone(transmitter, &sent.header);
        }
    }

    /// Returns a free slot, if need be by ending the connection that loses least.
    pub(super) fn place(&mut self, transmitter: &mut Transmitter, times: Times) -> Option<usize> {
        let index = self.candidate(times.now)?;
        let slot = &mut self.table[index];
        match slot.phase() {
            Phase::Free => return Some(index),
            // An orderly end: the peer is told that nothing more will come.
            Phase::Idle | Phase::AwaitingFirstRequest => slot.close(),
            Phase::Open => {
                slot.abort();
                self.resets += 1;
            }
            Phase::Closing => {}
        }
        if slot.is_open() {
            self.evicted += 1;
            self.say_end(index, transmitter, times);
        }
        self.free(index);
        Some(index)
    }
}
