//! Moving packets between the device's queues and the virtualisers'.
//!
//! A round does everything there is to do in the directions that are due, then publishes each queue
//! once and queues each doorbell at most once. The device's interrupt is asked for at the next
//! received packet. The device is not asked to interrupt for sent ones: their buffers are taken
//! back when there are a number of them, or as soon as the transmit virtualiser announces that it
//! waits. Only then, or if there is more to send than the queue holds, does the device interrupt
//! for them.

use crate::counters;
use crate::device::{Device, Virtqueues};
use crate::health::Health;
use crate::pair::{Pair, Rings};
use crate::registers::{QUEUE_RECEIVE, QUEUE_TRANSMIT};
use culm::connection::NetDriver;
use culm::{Channels, Progress, Region};
use culm_mmio::Registers;
use culm_net::descriptor::flags::AFTER_RESET;
use culm_net::{DmaDescriptor, Mac};
use culm_virtio::checkpoint::{self, Checkpoint, State};
use culm_virtio::{Unusable, Virtqueue};

/// Number of sent buffers that are taken back although nobody waits for them.
const RECLAIM: u16 = 64;

/// Number of received buffers after which the device gets new ones.
const REFILL: u64 = 32;

/// The driver's state.
pub struct Net<R> {
    pub(crate) device: Device<R>,
    pub(crate) memory: Region,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) queues: Virtqueues,
    pub(crate) receive: Pair,
    pub(crate) transmit: Pair,
    /// Flags of the device's offloads for clients.
    pub(crate) flags: u16,
    /// Whether no packet was passed on since the device was reset.
    pub(crate) is_fresh: bool,
    pub(crate) health: Health,
    /// Packets received since the virtualiser's buffers were last looked at, which happens at
    /// [`REFILL`].
    missing: u64,
    /// Whether the device has interrupted since the last round.
    interrupted: bool,
    /// Whether the device was asked to interrupt for sent buffers.
    waits_for_sent: bool,
}

impl<R: Registers> Net<R> {
    /// Goes on with the device that the previous life left at work; if none is at work, sets the
    /// device up.
    pub fn new(registers: R, memory: Region, connection: &NetDriver) -> Result<Self, Unusable> {
        let checkpoint = Checkpoint::new(&memory).ok_or(Unusable::Queue)?;
        let large = connection.large_receive != 0;
        let (mut device, mut queues) = Device::find(registers, &memory, checkpoint::SIZE, large)?;
        let found = checkpoint.state();
        let at_work = found == State::AtWork;
        let goes_on = at_work && device.goes_on(checkpoint.features());
        let event_index = device.has_event_index();
        let NetDriver { rx_free, rx_filled, rx_channel, tx_filled, tx_free, tx_channel, .. } = *connection;
        let rx = Rings { input: rx_free, output: rx_filled, channel: rx_channel };
        let tx = Rings { input: tx_filled, output: tx_free, channel: tx_channel };
        let (receive, receives) = Pair::resume(QUEUE_RECEIVE, &rx, &mut queues.receive, &checkpoint, event_index);
        let (transmit, transmits) = Pair::resume(QUEUE_TRANSMIT, &tx, &mut queues.transmit, &checkpoint, event_index);
        let mut net = Self {
            device,
            memory,
            checkpoint,
            queues,
            receive,
            transmit,
            flags: 0,
            is_fresh: false,
            health: Health::new(),
            missing: REFILL,
            interrupted: false,
            waits_for_sent: false,
        };
        if goes_on && receives && transmits {
            culm::info!(
                "goes on: the device has {} buffers to fill and {} to send",
                net.queues.receive.in_flight(),
                net.queues.transmit.in_flight()
            );
            net.adopt();
        } else {
            if at_work {
                net.commit_all();
            }
            let outcome = net.set_up();
            net.health.began(outcome, found, &net.checkpoint)?;
        }
        if let Some(mac) = net.device.mac()
            && mac != Mac::new(connection.mac)
        {
            culm::debug!("the device's own address is {mac}; it receives for every address");
        }
        Ok(net)
    }

    /// Handles the device's interrupt: for the received packet that was asked for, or for sent ones
    /// if those were.
    #[inline(always)]
    pub fn interrupted(&mut self) {
        self.device.acknowledge();
        counters::INTERRUPTS.add(1);
        self.receive.due = true;
        self.transmit.due |= self.waits_for_sent;
        self.interrupted = true;
    }

    /// Marks the peers that notified. An empty set means that a deadline passed.
    #[inline(always)]
    pub fn mark_due(&mut self, channels: Channels) {
        if channels.is_empty() {
            (self.receive.due, self.transmit.due) = (true, true);
        }
        if channels.contains(self.receive.link.channel()) {
            // There are new buffers, or the virtualiser has started over: look in this round, not
            // only when many buffers are missing.
            self.missing = REFILL;
            self.receive.due = true;
        }
        self.transmit.due |= channels.contains(self.transmit.link.channel());
    }

    /// Moves packets and buffers in the directions that are due, publishes them and announces
    /// sleep.
    #[inline]
    pub fn round(&mut self) -> Progress {
        if self.health.is_out_of_service() {
            return self.wait_for_reset();
        }
        if self.receive.due {
            let received = self.serve_receive();
            if core::mem::take(&mut self.interrupted) && received == 0 {
                self.check();
            }
        }
        if self.transmit.due {
            self.serve_transmit();
        }
        if self.receive.stale
            | self.transmit.stale
            | self.health.has_failed()
            | self.queues.receive.is_broken()
            | self.queues.transmit.is_broken()
        {
            self.mend();
        }
        Progress::more_if(self.receive.due | self.transmit.due)
    }

    /// Has the device reset if it must be, and the deadline kept for what it is to send before.
    #[cold]
    fn mend(&mut self) {
        let is_broken = self.queues.receive.is_broken() | self.queues.transmit.is_broken();
        if self.receive.stale | self.health.has_failed() | is_broken {
            self.repair();
        }
        if self.transmit.stale {
            // Each turn forgets the deadline of the last, whatever this one is for.
            culm::wake_at(self.transmit.drain_deadline);
        }
    }

    /// Checks the device after an interrupt that may be about something other than packets.
    #[cold]
    fn check(&mut self) {
        self.health.check(&self.device);
        self.flags = self.device.flags() | self.health.flags();
    }

    /// Does nothing for a device that waits for its reset, but reset it when it is time.
    #[cold]
    fn wait_for_reset(&mut self) -> Progress {
        if core::mem::take(&mut self.interrupted) {
            // A cause that is not acknowledged would interrupt again at once.
            self.check();
        }
        self.repair();
        Progress::asleep_if(self.health.is_out_of_service())
    }

    /// Returns whether the device has few buffers to fill, so that it should get more at once.
    #[inline(always)]
    fn is_short(queue: &Virtqueue) -> bool {
        u32::from(queue.in_flight()) * 4 < u32::from(queue.size())
    }

    /// Passes received packets on, gives the device empty buffers. Returns how many packets there
    /// were.
    #[inline]
    fn serve_receive(&mut self) -> u64 {
        let first = if self.is_fresh { self.pass_first_on() } else { 0 };
        let Self { device, queues, receive: pair, flags, checkpoint, .. } = self;
        let queue = &mut queues.receive;
        let received = first + take_received(queue, pair, *flags);
        pair.pass_on();
        // Refill in batches while the device has plenty of other buffers.
        self.missing += received;
        if self.missing >= REFILL || Self::is_short(queue) {
            self.missing = 0;
            pair.begin(queue, checkpoint);
            if !pair.link.is_live() {
                self.wait_for_receiver();
                return received;
            }
            refill(queue, pair);
        }
        if queue.publish() {
            device.ring_doorbell(QUEUE_RECEIVE);
            counters::DOORBELLS.add(1);
        }
        pair.finish();
        if received > 0 {
            counters::RECEIVED_PACKETS.add(received);
        }
        count_errors(queue);

        // While the device has plenty, returned buffers are found at the next packet.
        let mut progress = Progress::Asleep;
        if Self::is_short(queue) {
            progress &= pair.link.sleep();
        }
        progress &= if pair.link.output.free() > 0 {
            queue.wait_for(1)
        } else {
            // If the virtualiser's index is found to be invalid, the next round must start over.
            self.missing = REFILL;
            pair.link.sleep_for_space(1)
        };
        pair.due = progress.is_more();
        received
    }

    /// Passes the first packet on that the device has received since its reset, and marks it as
    /// that. Returns how many packets there were.
    #[cold]
    pub(crate) fn pass_first_on(&mut self) -> u64 {
        let (queue, pair) = (&mut self.queues.receive, &mut self.receive);
        let mut space = pair.link.output.reserve(u32::from(queue.refresh()).min(1));
        let Some(used) = (space.left() > 0).then(|| queue.take()).flatten() else { return 0 };
        let (length, flags) = (used.length as u16, self.flags | AFTER_RESET);
        // There is space, as just asked.
        let _ = space.push(DmaDescriptor { address: 0, length, flags, token: used.token });
        drop(space);
        pair.pass_on();
        // A life that ends in between finds by the queue's index that the packet was passed on.
        self.checkpoint.end_freshness();
        self.is_fresh = false;
        1
    }

    /// Handles a receive virtualiser that is not there, or has started over. The device's buffers
    /// are then of the virtualiser's previous life, and a reset takes them back: see
    /// [`Self::round`].
    #[cold]
    fn wait_for_receiver(&mut self) {
        // Look for the virtualiser in each round.
        self.missing = REFILL;
        let pair = &mut self.receive;
        // It may have to be told of this life.
        pair.pass_on();
        pair.due = !pair.stale && pair.link.sleep().is_more();
    }

    /// Gives the device packets to send, and returns sent buffers if the virtualiser waits for
    /// them.
    #[inline]
    fn serve_transmit(&mut self) {
        let Self { device, queues, transmit: pair, checkpoint, .. } = self;
        let queue = &mut queues.transmit;
        pair.begin(queue, checkpoint);
        if !pair.link.is_live() && !pair.stale {
            // It may have to be told of this life.
            pair.pass_on();
            self.waits_for_sent = false;
            pair.due = pair.link.sleep().is_more();
            return;
        }
        let in_flight = queue.in_flight();
        if in_flight >= RECLAIM.min(queue.size() / 2) || (in_flight > 0 && pair.link.output.awaited(in_flight.into())) {
            take_sent(queue, pair);
        }
        let sent = send(queue, pair);
        if queue.publish() {
            device.ring_doorbell(QUEUE_TRANSMIT);
            counters::DOORBELLS.add(1);
        }
        pair.finish();
        counters::SENT_PACKETS.add(sent);
        count_errors(queue);

        if pair.stale {
            return self.wait_for_the_last();
        }
        let mut progress = Progress::Asleep;
        let in_flight = queue.in_flight();
        let full = queue.space() == 0;
        if !full {
            progress &= pair.link.sleep();
        }
        self.waits_for_sent = full || (in_flight > 0 && pair.link.output.awaited(in_flight.into()));
        if self.waits_for_sent {
            // Wait for most of them, so that one interrupt serves many.
            let most = in_flight - in_flight / 4;
            progress &= if pair.link.output.free() > 0 { queue.wait_for(most) } else { pair.link.sleep_for_space(1) };
        }
        pair.due = progress.is_more();
    }

    /// Handles a transmit virtualiser that was restarted: its link becomes live when the device has
    /// sent the packets of its previous life.
    #[cold]
    fn wait_for_the_last(&mut self) {
        let (queue, pair) = (&mut self.queues.transmit, &mut self.transmit);
        take_sent(queue, pair);
        self.waits_for_sent = true;
        let in_flight = queue.in_flight();
        pair.due = in_flight == 0 || queue.wait_for(in_flight).is_more();
        if pair.is_stuck(queue) {
            culm::warn!("the device does not send {in_flight} packets of a previous life");
            self.health.fail();
        }
    }
}

/// Passes received packets on; returns how many.
#[inline(always)]
pub(crate) fn take_received(queue: &mut Virtqueue, pair: &mut Pair, flags: u16) -> u64 {
    let count = u32::from(queue.refresh());
    let mut space = pair.link.output.reserve(count);
    let mut used = queue.drain();
    let mut received = 0;
    while space.left() > 0
        && let Some(used) = used.next()
    {
        // There is space, as just asked.
        let _ = space.push(DmaDescriptor { address: 0, length: used.length as u16, flags, token: used.token });
        received += 1;
    }
    received
}

/// Gives empty buffers to the device.
#[inline(always)]
fn refill(queue: &mut Virtqueue, pair: &mut Pair) {
    while queue.space() > 0
        && let Some(entry) = pair.link.input.pop_known()
    {
        queue.add(entry.address, entry.length, entry.token);
    }
}

/// Gives packets to the device; returns how many.
#[inline(always)]
fn send(queue: &mut Virtqueue, pair: &mut Pair) -> u64 {
    let mut sent = 0;
    loop {
        if queue.space() == 0 {
            take_sent(queue, pair);
            if queue.space() == 0 {
                return sent;
            }
        }
        let Some(entry) = pair.link.input.pop_known() else { return sent };
        queue.add(entry.address, entry.length, entry.token);
        sent += 1;
    }
}

/// Returns sent buffers to the virtualiser.
#[inline]
pub(crate) fn take_sent(queue: &mut Virtqueue, pair: &mut Pair) {
    let mut space = pair.link.output.reserve(u32::from(queue.refresh()));
    let mut used = queue.drain();
    while space.left() > 0
        && let Some(used) = used.next()
    {
        // There is space, as just asked.
        let _ = space.push(DmaDescriptor { address: 0, length: 0, flags: 0, token: used.token });
    }
    drop((space, used));
    pair.pass_on();
    queue.suppress();
}

/// Counts invalid values that the device wrote.
#[inline(always)]
fn count_errors(queue: &mut Virtqueue) {
    let errors = queue.errors();
    if errors > 0 {
        counters::DEVICE_ERRORS.add(errors.into());
    }
}
