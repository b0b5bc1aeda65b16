//! Moving packets between the device's queues and the virtualisers'.
//!
//! A round does everything there is to do in the directions that are due, then publishes each queue once and rings each doorbell at most once. The device's
//! interrupt is asked for at the next received packet. For sent ones it is not asked for: their buffers are taken back when
//! there are a number of them, or as soon as the transmit virtualiser says that it waits; only then, or when there is more to
//! send than the queue holds, does the device interrupt for them.

use crate::counters;
use crate::device::{Device, Rings, Unusable};
use crate::registers::{QUEUE_RECEIVE, QUEUE_TRANSMIT};
use crate::ring::Ring;
use culm::connection::NetDriver;
use culm::queue::{Consumer, Producer};
use culm::{Channel, Channels, Region, queue};
use culm_mmio::Registers;
use culm_net::session::{Event, Marked, Marker};
use culm_net::{DmaDescriptor, Mac, Session, put_off};

/// Sent buffers that are worth taking back although nobody waits for them.
const RECLAIM: u16 = 64;

/// Received buffers that are worth replacing.
const REFILL: u64 = 32;

/// Resets in a row, without a packet in between, after which a device is given up.
const RESET_LIMIT: u32 = 8;

/// The queues to and from one virtualiser.
struct Pair {
    input: Consumer<DmaDescriptor>,
    output: Producer<DmaDescriptor>,
    session: Session,
    channel: Channel,
    /// There may be something to move.
    due: bool,
    /// The virtualiser has started over while the device had buffers of its previous life.
    stale: bool,
}

/// The driver's state.
pub struct Net<R> {
    device: Device<R>,
    memory: Region,
    rings: Rings,
    receive: Pair,
    transmit: Pair,
    /// What the device does for clients.
    flags: u16,
    link: bool,
    /// Packets received since the virtualiser's buffers were last looked at; at [`REFILL`] they are.
    missing: u64,
    /// The device has interrupted since the last round.
    interrupted: bool,
    /// An interrupt was asked for when buffers are sent.
    waits_for_sent: bool,
    resets: u32,
    usable: bool,
}

impl Pair {
    fn new(input: Consumer<DmaDescriptor>, mut output: Producer<DmaDescriptor>, channel: u32) -> Self {
        let session = Session::begin(&mut output);
        Self { input, output, session, channel: Channel::new(channel), due: true, stale: false }
    }

    /// Deals with an entry that is no buffer.
    #[cold]
    fn examine(&mut self, entry: DmaDescriptor, in_flight: u16) {
        if let Some(marker) = entry.as_marker() {
            self.session.receive(marker);
            if matches!(marker, Marker::Welcome(_)) {
                self.settle(in_flight);
            }
        }
    }

    /// Answers markers.
    #[cold]
    fn settle(&mut self, in_flight: u16) {
        if self.session.settle(&mut self.output) == Event::Renewed && in_flight > 0 {
            self.stale = true;
        }
    }

    #[inline(always)]
    fn publish(&mut self, in_flight: u16) {
        if !self.session.is_live() {
            self.settle(in_flight);
        }
        let given = self.output.publish();
        // In this order: what is read again after a restart must not have been answered in vain.
        let taken = self.session.may_release() && self.input.release_many(put_off(self.input.capacity()));
        if given | taken {
            self.channel.notify();
        }
    }

    #[cold]
    fn sleep_apart(&mut self) -> bool {
        self.session.sleep(&mut self.output, &mut self.input)
    }
}

impl<R: Registers> Net<R> {
    /// Sets the device up.
    pub fn new(registers: R, memory: Region, connection: &NetDriver) -> Result<Self, Unusable> {
        let (device, rings) =
            Device::start(registers, &memory, connection.large_receive != 0).map_err(|(_, reason)| reason)?;
        let flags = device.flags();
        let link = device.has_link();
        if let Some(mac) = device.mac()
            && mac != Mac::new(connection.mac)
        {
            culm::debug!("the device's own address is {mac}; it receives for every address");
        }
        let rx = (queue::consumer(connection.rx_free), queue::producer(connection.rx_filled));
        let tx = (queue::consumer(connection.tx_filled), queue::producer(connection.tx_free));
        Ok(Self {
            device,
            memory,
            rings,
            receive: Pair::new(rx.0, rx.1, connection.rx_channel),
            transmit: Pair::new(tx.0, tx.1, connection.tx_channel),
            flags,
            link,
            missing: 0,
            interrupted: false,
            waits_for_sent: false,
            resets: 0,
            usable: true,
        })
    }

    /// The device has interrupted: for the received packet that was asked for, or for sent ones if those were.
    #[inline(always)]
    pub fn interrupted(&mut self) {
        self.device.acknowledge();
        counters::INTERRUPTS.add(1);
        self.receive.due = true;
        self.transmit.due |= self.waits_for_sent;
        self.interrupted = true;
    }

    /// These channels were notified; none: a deadline passed.
    #[inline(always)]
    pub fn note(&mut self, channels: Channels) {
        if channels.is_empty() {
            (self.receive.due, self.transmit.due) = (true, true);
        }
        if channels.contains(self.receive.channel) {
            // There are new buffers, or the virtualiser has started over: look now, not only when many are missing.
            self.missing = REFILL;
            self.receive.due = true;
        }
        self.transmit.due |= channels.contains(self.transmit.channel);
    }

    /// The configuration may have changed.
    #[cold]
    fn check_link(&mut self) {
        let link = self.device.has_link();
        if link != self.link {
            self.link = link;
            culm::info!("link {}", if link { "up" } else { "down" });
        }
    }

    /// Moves everything that is there to be moved in the directions that are due, publishes it and announces sleep. False: there
    /// is more already.
    #[inline]
    pub fn round(&mut self) -> bool {
        if !self.usable {
            return true;
        }
        if self.receive.due {
            let received = self.serve_receive();
            if core::mem::take(&mut self.interrupted) && received == 0 && !self.waits_for_sent {
                self.check_link();
            }
        }
        if self.transmit.due {
            self.serve_transmit();
        }
        if self.receive.stale | self.transmit.stale | self.rings.receive.is_broken() | self.rings.transmit.is_broken() {
            self.start_over();
        }
        !(self.receive.due | self.transmit.due)
    }

    /// Passes received packets on, gives the device empty buffers. Returns how many packets there were.
    #[inline]
    fn serve_receive(&mut self) -> u64 {
        let Self { device, rings, receive: pair, flags, .. } = self;
        let ring = &mut rings.receive;
        let received = take_received(ring, pair, *flags);
        // By the number, while the device has plenty of others.
        self.missing += received;
        if self.missing >= REFILL || ring.in_flight() < ring.size() / 4 || !pair.session.is_live() {
            self.missing = 0;
            refill(ring, pair);
        }
        if ring.publish() {
            device.ring_doorbell(QUEUE_RECEIVE);
            counters::DOORBELLS.add(1);
        }
        pair.publish(ring.in_flight());
        if received > 0 {
            counters::RECEIVED_PACKETS.add(received);
            self.resets = 0;
        }
        count_errors(ring);

        let mut asleep = true;
        if !pair.session.is_live() {
            asleep &= pair.sleep_apart();
        } else if ring.in_flight() < ring.size() / 4 {
            // While the device has plenty, what comes back is found at the next packet.
            asleep &= pair.input.sleep();
        }
        asleep &= if pair.output.free() > 0 { ring.wait_for(1) } else { pair.output.sleep() };
        pair.due = !asleep;
        received
    }

    /// Gives the device packets to send, returns sent ones where somebody waits for them.
    #[inline]
    fn serve_transmit(&mut self) {
        let Self { device, rings, transmit: pair, .. } = self;
        let ring = &mut rings.transmit;
        let in_flight = ring.in_flight();
        if in_flight >= RECLAIM.min(ring.size() / 2) || (in_flight > 0 && pair.output.awaited(in_flight.into())) {
            take_sent(ring, pair);
        }
        let sent = send(ring, pair);
        if ring.publish() {
            device.ring_doorbell(QUEUE_TRANSMIT);
            counters::DOORBELLS.add(1);
        }
        pair.publish(ring.in_flight());
        counters::SENT_PACKETS.add(sent);
        count_errors(ring);

        let mut asleep = true;
        let in_flight = ring.in_flight();
        let full = ring.space() == 0;
        if !pair.session.is_live() {
            asleep &= pair.sleep_apart();
        } else if !full {
            asleep &= pair.input.sleep();
        }
        self.waits_for_sent = full || (in_flight > 0 && pair.output.awaited(in_flight.into()));
        if self.waits_for_sent {
            // Most of them, so that one interrupt is enough for many.
            let most = in_flight - in_flight / 4;
            asleep &= if pair.output.free() > 0 { ring.wait_for(most) } else { pair.output.sleep() };
        }
        pair.due = !asleep;
    }

    /// Resets the device. Everything that it had is lost, and the virtualisers take it back.
    #[cold]
    fn start_over(&mut self) {
        counters::RESETS.add(1);
        self.resets += 1;
        let rings = if self.resets > RESET_LIMIT { Err(Unusable::Stuck) } else { self.device.restart(&self.memory) };
        match rings {
            Ok(rings) => self.rings = rings,
            Err(reason) => {
                culm::error!("the device is given up: {reason}");
                self.usable = false;
            }
        }
        for pair in [&mut self.receive, &mut self.transmit] {
            pair.session.restart(&mut pair.output);
            (pair.due, pair.stale) = (true, false);
        }
    }
}

/// Passes received packets on; returns how many.
#[inline(always)]
fn take_received(ring: &mut Ring, pair: &mut Pair, flags: u16) -> u64 {
    let count = u32::from(ring.refresh());
    let mut space = pair.output.reserve(count);
    let mut received = 0;
    while space.left() > 0
        && let Some(used) = ring.take()
    {
        // There is space, as just asked.
        let _ = space.push(DmaDescriptor { address: 0, length: used.length, flags, token: used.token });
        received += 1;
    }
    received
}

/// Gives empty buffers to the device.
#[inline(always)]
fn refill(ring: &mut Ring, pair: &mut Pair) {
    pair.input.refresh();
    while ring.space() > 0
        && let Some(entry) = pair.input.pop_known()
    {
        if entry.flags == 0 && pair.session.is_live() {
            ring.add(entry.address, entry.length, entry.token);
        } else {
            pair.examine(entry, ring.in_flight());
        }
    }
}

/// Gives packets to the device; returns how many.
#[inline(always)]
fn send(ring: &mut Ring, pair: &mut Pair) -> u64 {
    let mut sent = 0;
    pair.input.refresh();
    loop {
        if ring.space() == 0 {
            take_sent(ring, pair);
            if ring.space() == 0 {
                return sent;
            }
        }
        let Some(entry) = pair.input.pop_known() else { return sent };
        if entry.flags == 0 && pair.session.is_live() {
            ring.add(entry.address, entry.length, entry.token);
            sent += 1;
        } else {
            pair.examine(entry, ring.in_flight());
        }
    }
}

/// Returns sent buffers to the virtualiser.
#[inline]
fn take_sent(ring: &mut Ring, pair: &mut Pair) {
    let mut space = pair.output.reserve(u32::from(ring.refresh()));
    while space.left() > 0
        && let Some(used) = ring.take()
    {
        // There is space, as just asked.
        let _ = space.push(DmaDescriptor { address: 0, length: 0, flags: 0, token: used.token });
    }
    ring.suppress();
}

/// Counts what the device wrote that makes no sense.
#[inline(always)]
fn count_errors(ring: &mut Ring) {
    let errors = ring.errors();
    if errors > 0 {
        counters::DEVICE_ERRORS.add(errors.into());
    }
}
