//! The device for virtualisers that share the driver's domain: each works in the device's queue
//! itself.
//!
//! There are no queues between driver and virtualisers then, and no record of the driver's own but
//! the features, and how often the device was reset: a virtualiser's account says which buffers the
//! device has, and which used ones were dealt with. So all three go on together after a restart, as
//! each of them would alone.
//!
//! A device that is reset starts over: its virtualisers take back all that it had. Hazard: packets
//! that the device had and did not report are lost.

use crate::counters;
use crate::device::{self, QUEUE_LIMIT, Virtqueues};
use crate::health::Health;
use crate::registers::{self, QUEUE_RECEIVE, QUEUE_TRANSMIT};
use culm::connection::NetDriver;
use culm::link::{Event, Generations, Positions};
use culm::{Channel, Progress, Region};
use culm_mmio::{Mapped, Registers};
use culm_net::DmaDescriptor;
use culm_net::driver::{Chip, DriverLink, Entries, FoundDriver, Space};
use culm_virtio::checkpoint::{self, Checkpoint, Position, State};
use culm_virtio::virtqueue::{Drain, Reservation};
use culm_virtio::{Unusable, Virtqueue};

/// The device's queue, as the driver of a virtualiser whose counters stand behind so many others.
pub struct FusedQueue<const COUNTERS_BEFORE: usize> {
    queue: Virtqueue,
    state: Standing,
    /// How often the device was reset.
    generation: u32,
    /// Flags of the device's offloads for clients.
    flags: u16,
    /// Whether the doorbell is to be rung.
    rings: bool,
    /// Whether the device was asked to interrupt for used buffers that nothing else asks for.
    waits: bool,
    /// How many entries were counted.
    counted: u16,
}

/// Whether buffers can pass between a virtualiser and its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The device does not work.
    Apart,
    /// The device was reset, and the virtualiser has not taken its buffers back yet.
    Renewed,
    Live,
}

impl<const COUNTERS_BEFORE: usize> FusedQueue<COUNTERS_BEFORE> {
    /// Sets the queue up for a device that was reset so often, and that has no buffers.
    fn renew(&mut self, generation: u32, event_index: bool) {
        self.queue.clear();
        self.queue.renew(event_index);
        (self.state, self.generation) = (Standing::Renewed, generation);
        (self.rings, self.waits, self.counted) = (false, false, 0);
    }

    /// Returns how far `position` has come since the last call.
    #[inline(always)]
    fn count(&mut self, position: u16) -> u64 {
        position.wrapping_sub(core::mem::replace(&mut self.counted, position)).into()
    }
}

impl<const BEFORE: usize> DriverLink for FusedQueue<BEFORE> {
    type Space<'a> = FusedSpace<'a>;
    type Entries<'a> = FusedEntries<'a>;

    const COUNTERS_BEFORE: usize = BEFORE;

    /// The device interrupts, which is not a virtualiser's to handle.
    #[inline(always)]
    fn notifies_over(&self, _: Channel) -> bool {
        false
    }

    #[inline(always)]
    fn look(&mut self) -> bool {
        if self.state != Standing::Live {
            return false;
        }
        if self.queue.refresh() > 0 && self.waits {
            self.waits = false;
            self.queue.suppress();
        }
        true
    }

    fn reconnect(&mut self) -> Event {
        if self.state == Standing::Renewed {
            self.state = Standing::Live;
            return Event::Renewed;
        }
        Event::None
    }

    #[inline(always)]
    fn is_live(&self) -> bool {
        self.state == Standing::Live
    }

    #[inline(always)]
    fn drain(&mut self) -> FusedEntries<'_> {
        FusedEntries { flags: self.flags, used: self.queue.drain() }
    }

    #[inline(always)]
    fn space(&mut self, _: u32) -> u32 {
        self.queue.space() as u32
    }

    #[inline(always)]
    fn reserve(&mut self, count: u32) -> FusedSpace<'_> {
        // Until the virtualiser has taken all back, it gives nothing.
        FusedSpace(self.queue.reserve(if self.is_live() { count } else { 0 }))
    }

    #[inline(always)]
    fn positions(&self) -> Positions {
        Positions { output: self.queue.added().into(), input: self.queue.taken().into() }
    }

    fn generations(&self) -> Generations {
        Generations { own: self.generation, peer: self.generation }
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.rings |= self.queue.publish();
    }

    #[inline(always)]
    fn publish_output(&mut self) {
        self.publish();
    }

    #[inline(always)]
    fn sleep(&mut self) -> Progress {
        match self.state {
            Standing::Live => self.queue.wait_for(1),
            Standing::Renewed => Progress::More,
            Standing::Apart => Progress::Asleep,
        }
    }

    /// There is space when buffers are taken, which is asked for otherwise.
    #[inline(always)]
    fn sleep_for_space(&mut self, _: u32) -> Progress {
        Progress::Asleep
    }

    #[inline]
    fn ask_for(&mut self, count: u32) -> Progress {
        self.waits = true;
        self.queue.wait_for(count.min(u32::from(self.queue.in_flight())) as u16)
    }

    #[inline(always)]
    fn capacity(&self) -> u32 {
        self.queue.size().into()
    }
}

/// Space in the device's queue, being filled.
pub struct FusedSpace<'a>(Reservation<'a>);

impl Space for FusedSpace<'_> {
    #[inline(always)]
    fn left(&self) -> u32 {
        self.0.left().into()
    }

    #[inline(always)]
    fn position(&self) -> u32 {
        self.0.position().into()
    }

    #[inline(always)]
    fn push(&mut self, entry: DmaDescriptor) {
        self.0.add(entry.address, entry.length, entry.token);
    }
}

/// Used buffers of the device's queue, being taken.
pub struct FusedEntries<'a> {
    used: Drain<'a>,
    flags: u16,
}

impl Iterator for FusedEntries<'_> {
    type Item = DmaDescriptor;

    #[inline(always)]
    fn next(&mut self) -> Option<DmaDescriptor> {
        let used = self.used.next()?;
        Some(DmaDescriptor { address: 0, length: used.length as u16, flags: self.flags, token: used.token })
    }
}

impl Entries for FusedEntries<'_> {
    #[inline(always)]
    fn position(&self) -> u32 {
        self.used.taken().into()
    }
}

/// A device's queue as the previous life left it.
pub struct FoundQueue<const COUNTERS_BEFORE: usize> {
    queue: Virtqueue,
    event_index: bool,
    /// How often the device was reset that works in it, or that did until it failed. If there is
    /// none, a reset was under way, and nothing that stands in the queue means anything.
    generation: Option<u32>,
    /// Whether the device still works.
    goes_on: bool,
}

impl<const COUNTERS_BEFORE: usize> FoundQueue<COUNTERS_BEFORE> {
    fn driver(queue: Virtqueue, state: Standing, generation: u32) -> FusedQueue<COUNTERS_BEFORE> {
        FusedQueue { queue, state, generation, flags: 0, rings: false, waits: false, counted: 0 }
    }
}

impl<const COUNTERS_BEFORE: usize> FoundDriver for FoundQueue<COUNTERS_BEFORE> {
    type Driver = FusedQueue<COUNTERS_BEFORE>;

    fn capacity(&self) -> u32 {
        self.queue.size().into()
    }

    fn has(&self, generations: Generations) -> bool {
        self.generation.is_some_and(|own| generations == Generations { own, peer: own })
    }

    fn published(&self) -> u32 {
        self.queue.committed().into()
    }

    fn unpublished(&self, index: u32, token: u32) -> Option<u32> {
        let rank = (index as u16).wrapping_sub(self.queue.committed());
        (rank < self.queue.size() && self.queue.added_token(index as u16) == Some(token)).then_some(rank.into())
    }

    fn popped(&self, index: u32) -> u32 {
        self.queue.used_token(index as u16).unwrap_or(u32::MAX)
    }

    fn resume(mut self, generations: Generations, positions: Positions) -> Result<Self::Driver, Self> {
        let Positions { output, input } = positions;
        let goes_on = self.has(generations) && self.goes_on;
        if !(goes_on && self.queue.adopt_with(input as u16, output as u16, self.event_index)) {
            return Err(self);
        }
        Ok(Self::driver(self.queue, Standing::Live, generations.own))
    }

    fn begin(self) -> Self::Driver {
        Self::driver(self.queue, Standing::Apart, 0)
    }
}

/// The device, but for the queues, which its virtualisers have. `RX` and `TX` are how many counters
/// stand before those of each.
pub struct FusedNet<R, const RX: usize, const TX: usize> {
    device: device::Device<R>,
    memory: Region,
    checkpoint: Checkpoint,
    health: Health,
    /// Whether the device has interrupted since the last round.
    interrupted: bool,
}

impl<R: Registers, const RX: usize, const TX: usize> FusedNet<R, RX, TX> {
    /// Finds the device, and its queues as the previous life left them: the one to receive, then
    /// the one to send. With `large`, received packets may lie in several buffers.
    pub fn find(registers: R, memory: Region, large: bool) -> Result<(Self, FoundQueue<RX>, FoundQueue<TX>), Unusable> {
        let checkpoint = Checkpoint::new(&memory).ok_or(Unusable::Queue)?;
        let (mut device, Virtqueues { receive, transmit }) =
            device::Device::find(registers, &memory, checkpoint::SIZE, large)?;
        let at_work = checkpoint.state() == State::AtWork;
        let goes_on = at_work && device.goes_on(checkpoint.features());
        let event_index = device.has_event_index();
        let net = Self { device, memory, checkpoint, health: Health::new(), interrupted: false };
        let generation = at_work.then(|| net.generation());
        let receive = FoundQueue { queue: receive, event_index, generation, goes_on };
        Ok((net, receive, FoundQueue { queue: transmit, event_index, generation, goes_on }))
    }

    /// Returns how often the device was reset, by all lives together.
    fn generation(&self) -> u32 {
        self.checkpoint.position(QUEUE_RECEIVE).map_or(0, |position| position.generations.own)
    }

    #[inline(always)]
    fn ring_doorbell(&self, queue: u32) {
        self.device.ring_doorbell(queue);
        counters::DOORBELLS.add(1);
    }

    /// Resets a device that cannot go on.
    #[cold]
    fn repair(&mut self, receive: &mut FusedQueue<RX>, transmit: &mut FusedQueue<TX>) -> Progress {
        (receive.state, transmit.state) = (Standing::Apart, Standing::Apart);
        if !self.health.may_reset(true) {
            return Progress::Asleep;
        }
        let outcome = self.set_up(receive, transmit);
        self.health.was_set_up(outcome);
        Progress::more_if(outcome.is_ok())
    }

    /// Resets the device and sets it up. It has no buffers then.
    fn set_up(&mut self, receive: &mut FusedQueue<RX>, transmit: &mut FusedQueue<TX>) -> Result<(), Unusable> {
        self.checkpoint.set_state(State::Resetting);
        counters::RESETS.add(1);
        self.device.reset()?;
        self.checkpoint.set_features(self.device.features());
        // No account is of this generation yet.
        let generation = self.generation().wrapping_add(1).max(1);
        let generations = Generations { own: generation, peer: generation };
        self.checkpoint.keep(QUEUE_RECEIVE, Position { generations, input: 0, output: 0 });
        let event_index = self.device.has_event_index();
        receive.renew(generation, event_index);
        transmit.renew(generation, event_index);
        self.checkpoint.set_state(State::AtWork);
        self.device.set_to_work(&self.memory, &receive.queue, &transmit.queue);
        self.take_over(receive);
        Ok(())
    }

    /// Reads what of the device its driver has to know.
    fn take_over(&mut self, receive: &mut FusedQueue<RX>) {
        receive.flags = self.device.flags() | self.health.flags();
        self.health.take_over(&self.device);
    }
}

/// A real device.
pub type Device<const RX: usize, const TX: usize> = FusedNet<Mapped<{ registers::SIZE }>, RX, TX>;

impl<const RX: usize, const TX: usize> Device<RX, TX> {
    /// Finds the device of these connections: see [`Self::find`].
    pub fn of(
        device: &culm::Device,
        connection: &NetDriver,
    ) -> Result<(Self, FoundQueue<RX>, FoundQueue<TX>), Unusable> {
        Self::find(Mapped::new(device.registers()), device.dma(), connection.large_receive != 0)
    }
}

impl<R: Registers, const RX: usize, const TX: usize> Chip for FusedNet<R, RX, TX> {
    type Receive = FusedQueue<RX>;
    type Transmit = FusedQueue<TX>;
    type Unusable = Unusable;

    fn start(&mut self, receive: &mut FusedQueue<RX>, transmit: &mut FusedQueue<TX>) -> Result<(), Unusable> {
        if !(receive.is_live() && transmit.is_live()) {
            let found = self.checkpoint.state();
            let outcome = self.set_up(receive, transmit);
            return self.health.began(outcome, found, &self.checkpoint);
        }
        // That life may have got the notification of an interrupt, and an edge does not come again:
        // so acknowledge the interrupt first, then look at everything.
        self.device.acknowledge();
        self.take_over(receive);
        (receive.counted, transmit.counted) = (receive.queue.taken(), transmit.queue.added());
        // The previous life may not have rung these.
        (receive.rings, transmit.rings) = (true, true);
        // That life may have asked for interrupts for sent frames. This one asks if it waits.
        transmit.queue.suppress();
        self.health.check(&self.device);
        Ok(())
    }

    #[inline(always)]
    fn interrupted(&mut self, transmit: &FusedQueue<TX>) -> bool {
        self.device.acknowledge();
        counters::INTERRUPTS.add(1);
        self.interrupted = true;
        transmit.waits
    }

    #[inline(always)]
    fn finish(&mut self, receive: &mut FusedQueue<RX>, transmit: &mut FusedQueue<TX>) -> Progress {
        if core::mem::take(&mut receive.rings) {
            self.ring_doorbell(QUEUE_RECEIVE);
        }
        if core::mem::take(&mut transmit.rings) {
            self.ring_doorbell(QUEUE_TRANSMIT);
        }
        let mut received = receive.count(receive.queue.taken());
        let errors = receive.queue.errors() + transmit.queue.errors();
        if errors > 0 {
            counters::DEVICE_ERRORS.add(errors.into());
            received = received.saturating_sub(receive.queue.skipped().into());
        }
        if received > 0 {
            counters::RECEIVED_PACKETS.add(received);
        }
        let sent = transmit.count(transmit.queue.added());
        if sent > 0 {
            counters::SENT_PACKETS.add(sent);
        }
        if core::mem::take(&mut self.interrupted) && received == 0 {
            self.health.check(&self.device);
            receive.flags = self.device.flags() | self.health.flags();
        }
        if self.health.has_failed() | receive.queue.is_broken() | transmit.queue.is_broken() {
            return self.repair(receive, transmit);
        }
        Progress::Asleep
    }
}

const _: () = assert!(QUEUE_LIMIT as usize <= 1 << 15, "indices of entries are told apart modulo 2¹⁶");
