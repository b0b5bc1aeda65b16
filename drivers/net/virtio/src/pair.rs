//! The queues to and from one virtualiser, and the checkpoint of the entries that passed over them.

use crate::registers::QUEUE_TRANSMIT;
use culm::connection;
use culm::link::{Event, Generations, Link, Positions};
use culm::time::{self, Duration, Instant};
use culm_net::{DmaDescriptor, release_batch};
use culm_virtio::Virtqueue;
use culm_virtio::checkpoint::{Checkpoint, Position, State};

/// Time in which a device must send the next packet of the transmit virtualiser's previous life.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// The rings to and from a virtualiser.
pub struct Rings {
    /// The ring from the virtualiser.
    pub input: connection::Ring,
    /// The ring to the virtualiser.
    pub output: connection::Ring,
    pub channel: u32,
}

/// The queues to and from one virtualiser.
pub struct Pair {
    /// Number of the virtqueue that they lead to.
    number: u32,
    pub link: Link<DmaDescriptor>,
    /// Whether there may be something to move.
    pub due: bool,
    /// Whether the virtualiser has started over while the device has buffers of its previous life.
    /// The link becomes live when it has none.
    pub stale: bool,
    /// The time at which the driver stops waiting for that, and resets the device.
    pub drain_deadline: Instant,
    /// How many packets were sent when that time was set, modulo 2¹⁶.
    drained: u16,
}

impl Pair {
    /// Goes on where the previous life of the driver stopped, as far as there is a checkpoint of it
    /// that can be; else begins a new life of the link, for which `queue` is empty. The second
    /// value says whether the device can go on working in `queue`.
    pub fn resume(
        number: u32,
        rings: &Rings,
        queue: &mut Virtqueue,
        checkpoint: &Checkpoint,
        event_index: bool,
    ) -> (Self, bool) {
        let shown = Link::<DmaDescriptor>::shown(rings.output, rings.input);
        let resume = |generations: Generations, taken: u16| {
            let input = shown.input.wrapping_add(taken.into());
            Link::resume(rings.output, rings.input, rings.channel, generations, Positions { input, ..shown })
        };
        let known = match (checkpoint.state(), checkpoint.position(number)) {
            (State::AtWork, Some(Position { generations, input, output })) => {
                // The indices of the virtqueue give the positions in both queues: the checkpoint's
                // distances are constant.
                let seen = (shown.output as u16).wrapping_add(output);
                let taken = queue.committed().wrapping_add(input).wrapping_sub(shown.input as u16);
                let exists = resume(generations, 0).is_some();
                if exists && queue.adopt(seen, event_index) { resume(generations, taken) } else { None }
            }
            (State::Resetting, Some(direction)) => resume(direction.generations, 0),
            _ => None,
        };
        let goes_on = known.is_some() || checkpoint.state() == State::AtWork && queue.adopt_empty(event_index);
        let link = known.unwrap_or_else(|| {
            checkpoint.forget(number);
            if !goes_on {
                queue.clear();
            }
            Link::new(rings.output, rings.input, rings.channel)
        });
        (Self { number, link, due: true, stale: false, drain_deadline: Instant::NEVER, drained: 0 }, goes_on)
    }

    /// Begins a round: looks at the virtualiser's entries, and whether the pair starts over. It
    /// starts over only when the device has no buffer of the previous life, since the virtualiser
    /// then takes all buffers for its own, and when no packet of that life is left to send.
    /// Everything added to `queue` must be published.
    #[inline(always)]
    pub fn begin(&mut self, queue: &Virtqueue, checkpoint: &Checkpoint) {
        if !self.link.look() {
            self.start_over(queue, checkpoint);
        }
    }

    #[cold]
    fn start_over(&mut self, queue: &Virtqueue, checkpoint: &Checkpoint) {
        // Empty buffers that are left in the queue are void, and the device never gets them.
        let is_left = self.number == QUEUE_TRANSMIT && self.link.input.available() > 0;
        // Of a queue that lost its place nobody knows what the device has.
        if queue.in_flight() > 0 || queue.is_broken() || is_left {
            if !self.stale {
                self.stale = true;
                self.await_drain(queue);
            }
            // Buffers that come back are the previous life's, which needs no space for them.
            self.link.discard_output();
            return;
        }
        self.stale = false;
        checkpoint.forget(self.number);
        if self.link.reconnect() == Event::Renewed {
            self.keep(queue, checkpoint);
        }
    }

    /// Gives the device [`DRAIN_LIMIT`] to send the next packet of the previous life.
    fn await_drain(&mut self, queue: &Virtqueue) {
        (self.drained, self.drain_deadline) = (queue.taken(), time::now() + DRAIN_LIMIT);
    }

    /// Returns whether the device has sent no packet of the previous life in [`DRAIN_LIMIT`]. Each
    /// one that it has sent since the last call gives it as long again.
    pub fn is_stuck(&mut self, queue: &Virtqueue) -> bool {
        if queue.taken() != self.drained {
            self.await_drain(queue);
        }
        time::now() >= self.drain_deadline
    }

    /// Records this in the checkpoint. Everything that was pushed and added must be published.
    pub fn keep(&self, queue: &Virtqueue, checkpoint: &Checkpoint) {
        let input = (self.link.input.position() as u16).wrapping_sub(queue.added());
        let output = queue.taken().wrapping_sub(self.link.output.position() as u16);
        checkpoint.keep(self.number, Position { generations: self.link.generations(), input, output });
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
        let count = release_batch(self.link.input.capacity());
        self.link.release_input(count);
    }

    /// Releases all popped entries, so that the checkpoint need not tell of them.
    pub fn release_all(&mut self) {
        self.link.release_input(1);
    }

    /// Removes this from the checkpoint, and takes all buffers from `queue`.
    pub fn forget(&mut self, queue: &Virtqueue, checkpoint: &Checkpoint) {
        checkpoint.forget(self.number);
        queue.clear();
    }
}
