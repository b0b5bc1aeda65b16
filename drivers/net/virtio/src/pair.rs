//! The queues to and from one virtualiser, and the account of what went over them.

use crate::account::{Account, Direction, State};
use crate::counters;
use crate::ring::Ring;
use culm::Channel;
use culm::queue::{Consumer, Producer};
use culm::time::{self, Duration, Instant};
use culm_net::session::{Marked, Marker};
use culm_net::{DmaDescriptor, Session, put_off};

/// How long a device may take to send what a previous life of the transmit virtualiser gave it.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// The queues to and from one virtualiser.
pub struct Pair {
    /// Number of the virtqueue that they lead to.
    queue: u32,
    pub input: Consumer<DmaDescriptor>,
    pub output: Producer<DmaDescriptor>,
    pub session: Session,
    channel: Channel,
    /// There may be something to move.
    pub due: bool,
    /// The virtualiser has started over, and its greeting waits for the device to have no buffer of its previous life.
    pub stale: bool,
    /// When it has waited long enough.
    pub patience: Instant,
}

impl Pair {
    /// Goes on where the previous life of the driver stopped, as far as there is an account of it that can be; else begins a new session, for
    /// which `ring` is empty. The second value says whether the device can go on working in `ring`.
    pub fn resume(
        queue: u32,
        (mut input, mut output): (Consumer<DmaDescriptor>, Producer<DmaDescriptor>),
        channel: u32,
        ring: &mut Ring,
        account: &Account,
        event_index: bool,
    ) -> (Self, bool) {
        let known = match (account.state(), account.direction(queue)) {
            (State::AtWork, Some(direction)) => {
                let seen = (output.position() as u16).wrapping_add(direction.output);
                let taken = ring.committed().wrapping_add(direction.input).wrapping_sub(input.position() as u16);
                (ring.adopt(seen, event_index) && input.skip(taken.into())).then_some(direction.session)
            }
            (State::Resetting, Some(direction)) => Some(direction.session),
            _ => None,
        };
        let goes_on = known.is_some() || account.state() == State::AtWork && ring.adopt_empty(event_index);
        if known.is_none() {
            account.forget(queue);
            if !goes_on {
                ring.clear();
            }
        }
        let session = known.map_or_else(|| Session::begin(&mut output), Session::resume);
        let channel = Channel::new(channel);
        let pair = Self { queue, input, output, session, channel, due: true, stale: false, patience: Instant::NEVER };
        (pair, goes_on)
    }

    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Deals with an entry that is no buffer, or with any where the session is not live. False: it is left queued, for what
    /// came before it is to be finished first.
    #[cold]
    pub fn examine(&mut self, entry: DmaDescriptor, ring: &Ring, account: &Account) -> bool {
        let marker = entry.as_marker();
        // What is added and not published is not accounted for.
        if ring.has_unpublished() {
            self.input.put_back();
            return false;
        }
        if matches!(marker, Some(Marker::Hello(_))) && ring.in_flight() > 0 {
            self.input.put_back();
            if !self.stale {
                (self.stale, self.patience) = (true, time::now() + DRAIN_LIMIT);
            }
            return false;
        }
        self.stale = false;
        account.forget(self.queue);
        match marker {
            Some(marker) => {
                self.session.receive(marker);
                if matches!(marker, Marker::Welcome(_)) {
                    self.settle(ring, account);
                }
            }
            None if self.session.is_live() => counters::REFUSED.add(1),
            None => {}
        }
        if self.session.is_live() {
            self.keep(ring, account);
        }
        true
    }

    /// Answers markers.
    #[cold]
    fn settle(&mut self, ring: &Ring, account: &Account) {
        // The device has no buffer of another session: see `examine`.
        let _ = self.session.settle(&mut self.output);
        self.pass_on();
        if self.session.is_live() {
            self.keep(ring, account);
        }
    }

    /// Keeps the account. Everything that was pushed and added is published.
    pub fn keep(&self, ring: &Ring, account: &Account) {
        let input = (self.input.position() as u16).wrapping_sub(ring.added());
        let output = ring.taken().wrapping_sub(self.output.position() as u16);
        account.keep(self.queue, Direction { session: self.session.number(), input, output });
    }

    /// Lets the virtualiser see what was pushed: before a descriptor that comes with it is used again.
    #[inline(always)]
    pub fn pass_on(&mut self) {
        if self.output.publish() {
            self.channel.notify();
        }
    }

    /// Ends a round: answers markers, and gives the virtualiser the space of what was taken. Everything was made available.
    #[inline(always)]
    pub fn finish(&mut self, ring: &Ring, account: &Account) {
        if !self.session.is_live() {
            self.settle(ring, account);
        }
        if self.session.may_release() && self.input.release_many(put_off(self.input.capacity())) {
            self.channel.notify();
        }
    }

    /// Gives all space of what was taken back, so that what was taken needs no account.
    pub fn release_all(&mut self) {
        if self.session.may_release() && self.input.release() {
            self.channel.notify();
        }
    }

    /// No account holds any more, and the device is to have no buffer.
    pub fn forget(&mut self, ring: &Ring, account: &Account) {
        account.forget(self.queue);
        ring.clear();
    }

    #[cold]
    pub fn sleep_apart(&mut self) -> bool {
        self.session.sleep(&mut self.output, &mut self.input)
    }
}
