//! Moving packets between the device's queues and the virtualisers'.
//!
//! A round does everything there is to do, then publishes each queue once and rings each doorbell at most once. The device's
//! interrupt is asked for at the next received packet. For sent ones it is not asked for: their buffers are taken back when
//! half of the queue is full of them, or as soon as the transmit virtualiser says that it waits; only then, or when there is more to
//! send than the queue holds, does the device interrupt for them.

use crate::counters;
use crate::device::{Device, Rings, Unusable};
use crate::registers::{QUEUE_RECEIVE, QUEUE_TRANSMIT};
use culm::connection::NetDriver;
use culm::queue::{Consumer, Producer};
use culm::{Channel, Region, queue};
use culm_mmio::Registers;
use culm_net::session::{Event, Marked, Marker};
use culm_net::{DmaDescriptor, Mac, Session};

/// Resets in a row, without a packet in between, after which a device is given up.
const RESET_LIMIT: u32 = 8;

/// The queues to and from one virtualiser.
struct Pair {
    input: Consumer<DmaDescriptor>,
    output: Producer<DmaDescriptor>,
    session: Session,
    channel: Channel,
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
    resets: u32,
    usable: bool,
}

impl Pair {
    fn new(input: Consumer<DmaDescriptor>, mut output: Producer<DmaDescriptor>, channel: u32) -> Self {
        let session = Session::begin(&mut output);
        Self { input, output, session, channel: Channel::new(channel), stale: false }
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
        if self.session.is_unsettled() {
            self.settle(in_flight);
        }
        let given = self.output.publish();
        // In this order: what is read again after a restart must not have been answered in vain.
        let taken = self.session.may_release() && self.input.release();
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
        let (device, rings) = Device::start(registers, &memory).map_err(|(_, reason)| reason)?;
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
            resets: 0,
            usable: true,
        })
    }

    /// The device has interrupted.
    #[inline(always)]
    pub fn interrupted(&mut self) {
        self.device.acknowledge();
        counters::INTERRUPTS.add(1);
        if self.rings.receive.refresh() == 0 && self.rings.transmit.refresh() == 0 {
            self.check_link();
        }
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

    /// Moves everything that is there to be moved, publishes it and announces sleep. False: there is more already.
    #[inline]
    pub fn round(&mut self) -> bool {
        if !self.usable {
            return true;
        }
        let received = self.take_received();
        self.refill();
        let sent = self.send();
        self.publish(received, sent);
        if self.receive.stale | self.transmit.stale | self.rings.receive.is_broken() | self.rings.transmit.is_broken() {
            self.start_over();
            return false;
        }
        self.sleep()
    }

    /// Passes received packets on.
    #[inline]
    fn take_received(&mut self) -> u64 {
        let Pair { output, .. } = &mut self.receive;
        let ring = &mut self.rings.receive;
        let count = u32::from(ring.refresh());
        if count == 0 {
            return 0;
        }
        let mut space = output.reserve(count);
        let mut received = 0;
        while space.left() > 0
            && let Some(used) = ring.take()
        {
            let entry = DmaDescriptor { address: 0, length: used.length, flags: self.flags, token: used.token };
            // There is space, as just asked.
            let _ = space.push(entry);
            received += 1;
        }
        received
    }

    /// Gives empty buffers to the device.
    #[inline]
    fn refill(&mut self) {
        let pair = &mut self.receive;
        let ring = &mut self.rings.receive;
        while ring.space() > 0
            && let Some(entry) = pair.input.pop()
        {
            if entry.flags == 0 && pair.session.is_live() {
                ring.add(entry.address, entry.length, entry.token);
            } else {
                pair.examine(entry, ring.in_flight());
            }
        }
    }

    /// Gives packets to the device.
    #[inline]
    fn send(&mut self) -> u64 {
        let ring = &mut self.rings.transmit;
        let pair = &mut self.transmit;
        let in_flight = ring.in_flight();
        if in_flight >= ring.size() / 2 || (in_flight > 0 && pair.output.awaited(in_flight.into())) {
            take_sent(ring, pair);
        }
        let mut sent = 0;
        loop {
            if ring.space() == 0 {
                take_sent(ring, pair);
                if ring.space() == 0 {
                    break;
                }
            }
            let Some(entry) = pair.input.pop() else { break };
            if entry.flags == 0 && pair.session.is_live() {
                ring.add(entry.address, entry.length, entry.token);
                sent += 1;
            } else {
                pair.examine(entry, ring.in_flight());
            }
        }
        sent
    }

    #[inline]
    fn publish(&mut self, received: u64, sent: u64) {
        let mut doorbells = 0;
        if self.rings.receive.publish() {
            self.device.ring_doorbell(QUEUE_RECEIVE);
            doorbells += 1;
        }
        if self.rings.transmit.publish() {
            self.device.ring_doorbell(QUEUE_TRANSMIT);
            doorbells += 1;
        }
        self.receive.publish(self.rings.receive.in_flight());
        self.transmit.publish(self.rings.transmit.in_flight());
        counters::RECEIVED_PACKETS.add(received);
        counters::SENT_PACKETS.add(sent);
        counters::DOORBELLS.add(doorbells);
        if received > 0 {
            self.resets = 0;
        }
        let errors = self.rings.receive.errors() + self.rings.transmit.errors();
        if errors > 0 {
            counters::DEVICE_ERRORS.add(errors.into());
        }
    }

    #[inline]
    fn sleep(&mut self) -> bool {
        let pair = &mut self.receive;
        let ring = &mut self.rings.receive;
        let mut asleep = true;
        if !pair.session.is_live() {
            asleep &= pair.sleep_apart();
        } else if ring.in_flight() < ring.size() / 4 {
            // While the device has plenty, what comes back is found at the next packet.
            asleep &= pair.input.sleep();
        }
        asleep &= if pair.output.free() > 0 { ring.wait_for(1) } else { pair.output.sleep() };

        let ring = &mut self.rings.transmit;
        let pair = &mut self.transmit;
        let in_flight = ring.in_flight();
        let full = ring.space() == 0;
        if !pair.session.is_live() {
            asleep &= pair.sleep_apart();
        } else if !full {
            asleep &= pair.input.sleep();
        }
        if full || (in_flight > 0 && pair.output.awaited(in_flight.into())) {
            // Most of them, so that one interrupt is enough for many.
            let most = in_flight - in_flight / 4;
            asleep &= if pair.output.free() > 0 { ring.wait_for(most) } else { pair.output.sleep() };
        }
        asleep
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
            pair.stale = false;
        }
    }
}

/// Returns sent buffers to the virtualiser.
#[inline]
fn take_sent(ring: &mut crate::ring::Ring, pair: &mut Pair) {
    let mut space = pair.output.reserve(u32::from(ring.refresh()));
    while space.left() > 0
        && let Some(used) = ring.take()
    {
        // There is space, as just asked.
        let _ = space.push(DmaDescriptor { address: 0, length: 0, flags: 0, token: used.token });
    }
    ring.suppress();
}
