//! The queues to and from one virtualiser, and the account of the entries that passed over them.

use crate::account::{Account, Direction, State};
use crate::ring::Ring;
use culm::connection;
use culm::link::{Event, Generations, Link};
use culm::time::{self, Duration, Instant};
use culm_net::{DmaDescriptor, put_off};

/// Time in which a device must send the packets of the transmit virtualiser's previous life.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// The rings to and from a virtualiser.
pub struct Place {
    /// The ring from the virtualiser.
    pub input: connection::Ring,
    /// The ring to the virtualiser.
    pub output: connection::Ring,
    pub channel: u32,
}

/// The queues to and from one virtualiser.
pub struct Pair {
    /// Number of the virtqueue that they lead to.
    queue: u32,
    pub link: Link<DmaDescriptor>,
    /// True if there may be something to move.
    pub due: bool,
    /// True if the virtualiser has started over while the device has buffers of its previous life.
    /// The link becomes live when it has none.
    pub stale: bool,
    /// The time at which the driver stops waiting for that, and resets the device.
    pub patience: Instant,
}

impl Pair {
    /// Goes on where the previous life of the driver stopped, as far as there is an account of it
    /// that can be; else begins a new life of the link, for which `ring` is empty. The second value
    /// says whether the device can go on working in `ring`.
    pub fn resume(queue: u32, place: &Place, ring: &mut Ring, account: &Account, event_index: bool) -> (Self, bool) {
        let resume = |generations: Generations, taken: u16| {
            Link::resume(place.output, place.input, place.channel, generations, taken.into())
        };
        let known = match (account.state(), account.direction(queue)) {
            (State::AtWork, Some(Direction { generations, input, output })) => {
                // The indices of the virtqueue give the positions in both queues: the account's
                // distances are constant.
                let link = resume(generations, 0);
                link.and_then(|link| {
                    let seen = (link.output.position() as u16).wrapping_add(output);
                    let taken = ring.committed().wrapping_add(input).wrapping_sub(link.input.position() as u16);
                    if ring.adopt(seen, event_index) { resume(generations, taken) } else { None }
                })
            }
            (State::Resetting, Some(direction)) => resume(direction.generations, 0),
            _ => None,
        };
        let goes_on = known.is_some() || account.state() == State::AtWork && ring.adopt_empty(event_index);
        let link = known.unwrap_or_else(|| {
            account.forget(queue);
            if !goes_on {
                ring.clear();
            }
            Link::new(place.output, place.input, place.channel)
        });
        (Self { queue, link, due: true, stale: false, patience: Instant::NEVER }, goes_on)
    }

    /// Begins a round: looks at the virtualiser's entries, and whether the pair starts over. It
    /// starts over only when the device has no buffer of the previous life and no more are queued
    /// for it, since the virtualiser then takes all buffers for its own. Everything added to `ring`
    /// must be published.
    #[inline(always)]
    pub fn begin(&mut self, ring: &Ring, account: &Account) {
        if !self.link.look() {
            self.start_over(ring, account);
        }
    }

    #[cold]
    fn start_over(&mut self, ring: &Ring, account: &Account) {
        if ring.in_flight() > 0 || self.link.input.available() > 0 {
            if !self.stale {
                (self.stale, self.patience) = (true, time::now() + DRAIN_LIMIT);
            }
            return;
        }
        self.stale = false;
        account.forget(self.queue);
        if self.link.settle() == Event::Renewed {
            self.keep(ring, account);
        }
    }

    /// Records the account. Everything that was pushed and added must be published.
    pub fn keep(&self, ring: &Ring, account: &Account) {
        let input = (self.link.input.position() as u16).wrapping_sub(ring.added());
        let output = ring.taken().wrapping_sub(self.link.output.position() as u16);
        account.keep(self.queue, Direction { generations: self.link.generations(), input, output });
    }

    /// Publishes pushed entries to the virtualiser. Call it before a descriptor that one of them
    /// returns is used again.
    #[inline(always)]
    pub fn pass_on(&mut self) {
        self.link.publish_output();
    }

    /// Ends a round: releases popped entries, in batches. All of them must have been made available
    /// to the device.
    #[inline(always)]
    pub fn finish(&mut self) {
        let count = put_off(self.link.input.capacity());
        self.link.release_input(count);
    }

    /// Releases all popped entries, so that they need no account.
    pub fn release_all(&mut self) {
        self.link.release_input(1);
    }

    /// Removes the account, and takes all buffers from `ring`.
    pub fn forget(&mut self, ring: &Ring, account: &Account) {
        account.forget(self.queue);
        ring.clear();
    }
}
