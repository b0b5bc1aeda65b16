//! The queues to and from one virtualiser, and the account of what went over them.

use crate::account::{Account, Direction, State};
use crate::ring::Ring;
use culm::connection;
use culm::link::{Event, Generations, Link};
use culm::time::{self, Duration, Instant};
use culm_net::{DmaDescriptor, put_off};

/// How long a device may take to send what a previous life of the transmit virtualiser gave it.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// Where the queues to and from a virtualiser are.
pub struct Place {
    /// What the virtualiser gives.
    pub input: connection::Ring,
    /// What goes back to it.
    pub output: connection::Ring,
    pub channel: u32,
}

/// The queues to and from one virtualiser.
pub struct Pair {
    /// Number of the virtqueue that they lead to.
    queue: u32,
    pub link: Link<DmaDescriptor>,
    /// There may be something to move.
    pub due: bool,
    /// The virtualiser has started over, and finds the driver when the device has no buffer of its previous life.
    pub stale: bool,
    /// When that has taken long enough.
    pub patience: Instant,
}

impl Pair {
    /// Goes on where the previous life of the driver stopped, as far as there is an account of it that can be; else begins a new life of the
    /// link, for which `ring` is empty. The second value says whether the device can go on working in `ring`.
    pub fn resume(queue: u32, place: &Place, ring: &mut Ring, account: &Account, event_index: bool) -> (Self, bool) {
        let resume = |generations: Generations, taken: u16| {
            Link::resume(place.output, place.input, place.channel, generations, taken.into())
        };
        let known = match (account.state(), account.direction(queue)) {
            (State::AtWork, Some(Direction { generations, input, output })) => {
                // Where the entries to take and to pass on are follows from what the device was given and has used.
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

    /// At the beginning of a round in which everything added to `ring` was published: looks what the virtualiser has given, and
    /// whether the pair starts over. That waits until the device has no buffer of the life that was, and is to have none, since the
    /// virtualiser takes all of them for its own then.
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

    /// Keeps the account. Everything that was pushed and added is published.
    pub fn keep(&self, ring: &Ring, account: &Account) {
        let input = (self.link.input.position() as u16).wrapping_sub(ring.added());
        let output = ring.taken().wrapping_sub(self.link.output.position() as u16);
        account.keep(self.queue, Direction { generations: self.link.generations(), input, output });
    }

    /// Lets the virtualiser see what was pushed: before a descriptor that comes with it is used again.
    #[inline(always)]
    pub fn pass_on(&mut self) {
        self.link.publish_output();
    }

    /// Ends a round: gives the virtualiser the space of what was taken. Everything was made available.
    #[inline(always)]
    pub fn finish(&mut self) {
        let count = put_off(self.link.input.capacity());
        self.link.release_input(count);
    }

    /// Gives all space of what was taken back, so that what was taken needs no account.
    pub fn release_all(&mut self) {
        self.link.release_input(1);
    }

    /// No account holds any more, and the device is to have no buffer.
    pub fn forget(&mut self, ring: &Ring, account: &Account) {
        account.forget(self.queue);
        ring.clear();
    }
}
