//! Serves the guest's virtio devices by the monitor's connections to the system's own.

mod disk;
mod entropy;
mod net;
mod put_off;

use crate::memory::GuestMemory;
use crate::{Connections, counters};
use alloc::vec::Vec;
use culm::guest::{VIRTIO_BLOCK, VIRTIO_ENTROPY, VIRTIO_NETS, VirtioSlot};
use culm::{Channels, Progress, ROUNDS, run_rounds};
use culm_guest::virtio::Devices;
use culm_guest::virtio::entropy::Entropy;
use culm_guest::virtio::net::Net;
use disk::Disk;
use net::Card;

/// The connections behind the devices.
pub struct Backends {
    /// Each in the place of its device in [`Devices::nets`].
    cards: Vec<Card>,
    disk: Option<Disk>,
    due: Due,
}

/// The devices for which there may be something to carry. Most turns are for one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Due {
    cards: [bool; VIRTIO_NETS.len()],
    disk: bool,
    entropy: bool,
}

impl Due {
    const ALL: Self = Self { cards: [true; VIRTIO_NETS.len()], disk: true, entropy: true };
}

impl Backends {
    /// Takes the connections up; returns the devices that the guest gets for them.
    pub fn new(connections: &Connections) -> (Self, Devices) {
        // The device tree has them in this order.
        let cards = [connections.net, connections.net2, connections.net3];
        let cards = cards.into_iter().flatten().map(Card::new).chain(connections.link.map(Card::linked));
        let cards: Vec<_> = cards.collect();
        let disk = connections.disk.as_ref().map(Disk::new);
        if let Some(entropy) = &connections.entropy {
            culm_entropy::take_seed(entropy);
        }
        let devices = Devices {
            nets: cards.iter().map(Card::device).collect(),
            block: disk.as_ref().map(|_| Default::default()),
            entropy: connections.entropy.map(|_| Default::default()),
            console: Some(Default::default()),
        };
        (Self { cards, disk, due: Due::ALL }, devices)
    }

    /// Returns whether all that a guest asks of its devices when it begins is known.
    pub fn are_known(&self) -> bool {
        self.disk.as_ref().is_none_or(Disk::is_known)
    }

    /// Returns whether the monitor is to know when the guest waits next.
    pub fn want_wait(devices: &Devices) -> bool {
        devices.nets.iter().any(Net::is_busy)
    }

    /// Marks the devices whose connections have notified.
    pub fn mark_notified(&mut self, channels: Channels) {
        for (due, card) in self.due.cards.iter_mut().zip(&self.cards) {
            *due |= card.is_notified(channels);
        }
        self.due.disk |= self.disk.as_ref().is_some_and(|disk| channels.contains(disk.channel()));
    }

    /// Marks the devices whose doorbells the guest has rung, of which `is_rung` tells once each.
    /// Call [`Self::guest_waits`] after it, if the guest waits as well: which of the two came first
    /// is not known, and to be taken for busy while it sleeps would cost it more.
    pub fn take_rings(&mut self, devices: &mut Devices, mut is_rung: impl FnMut(VirtioSlot) -> bool) {
        let Devices { nets, block, entropy, .. } = devices;
        for ((device, due), slot) in nets.iter_mut().zip(&mut self.due.cards).zip(VIRTIO_NETS) {
            if is_rung(slot) {
                device.guest_rings();
                *due = true;
            }
        }
        self.due.disk |= block.is_some() && is_rung(VIRTIO_BLOCK);
        self.due.entropy |= entropy.is_some() && is_rung(VIRTIO_ENTROPY);
    }

    /// Marks all devices: the guest may have done anything with their registers.
    pub fn mark_all(&mut self) {
        self.due = Due::ALL;
    }

    /// Takes it that the guest waits. Call [`Self::carry`] after it: there is something to carry if
    /// the guest was busy, since that puts frames off.
    pub fn guest_waits(&mut self, devices: &mut Devices) {
        for (device, due) in devices.nets.iter_mut().zip(&mut self.due.cards) {
            *due |= device.is_busy();
            device.guest_waits();
        }
    }

    /// Carries what there is for the devices that are due, and asks to be notified of more.
    #[inline]
    pub fn carry(&mut self, devices: &mut Devices, memory: &GuestMemory) {
        let Self { cards, disk, due } = self;
        for ((card, device), due) in cards.iter_mut().zip(&mut devices.nets).zip(&mut due.cards) {
            if *due || card.is_due() {
                *due = card.carry(device, memory).is_more();
            }
        }
        if due.disk {
            due.disk = match (disk, &mut devices.block) {
                (Some(disk), Some(device)) => disk.carry(device, memory).is_more(),
                _ => false,
            };
        }
        if due.entropy {
            due.entropy = devices.entropy.as_mut().is_some_and(|device| carry_entropy(device, memory).is_more());
        }
    }
}

/// Fills the buffers of the guest's source of random bytes. Those for which there is no seed yet
/// are looked at again in each turn.
#[inline(never)]
fn carry_entropy(device: &mut Entropy, memory: &GuestMemory) -> Progress {
    let mut lacks_seed = false;
    let left = rounds(|| {
        let filled = device.fill(memory, || {
            let portion = entropy::portion();
            lacks_seed = portion.is_none();
            portion
        });
        counters::RANDOM_BYTES.add(filled.bytes);
        Progress::more_if(filled.has_more)
    });
    left & Progress::more_if(lacks_seed)
}

/// Does rounds as [`run_rounds`] does. Returns what the last one has left, for which there is
/// another turn: any earlier one cancels that, and must go on with it.
fn rounds(mut round: impl FnMut() -> Progress) -> Progress {
    let mut left = Progress::Asleep;
    run_rounds(ROUNDS, || {
        left = round();
        left
    });
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use culm_guest::virtio::Memory;
    use culm_guest::virtio::testing::{Ram, set_up};

    /// Places of a queue's parts: the receive queue's, then the transmit queue's.
    const PLACES: [[u64; 3]; 2] =
        [[Ram::BASE, Ram::BASE + 1024, Ram::BASE + 2048], [Ram::BASE + 4096, Ram::BASE + 5120, Ram::BASE + 6144]];

    /// The guest sends so many frames, from its first one on.
    fn send(net: &mut Net, ram: &Ram, count: u16) {
        let [descriptors, driver, _] = PLACES[1];
        // A buffer of 16 bytes, which the device reads.
        ram.write(descriptors, &(u128::from(Ram::BASE) | 16 << 64).to_le_bytes()).expect("inside");
        ram.store(driver + 2, count).expect("inside");
        for _ in 0..count {
            net.next_frame(ram).expect("it was sent");
            net.sent(ram);
        }
    }

    #[test]
    fn a_guest_that_waits_has_its_card_looked_at_if_it_was_busy() {
        for (count, is_busy) in [(0, false), (3, false), (4, true)] {
            let ram = Ram::new(8192);
            let mut net = Net::new([2, 0, 0, 0, 0, 1]);
            set_up(&mut net.transport, 0, &PLACES, 16);
            send(&mut net, &ram, count);
            assert_eq!(net.is_busy(), is_busy);
            let mut devices = Devices { nets: vec![Net::new([2, 0, 0, 0, 0, 2]), net], ..Devices::default() };
            let mut backends = Backends { cards: Vec::new(), disk: None, due: Due::default() };
            backends.guest_waits(&mut devices);
            let cards = [false, is_busy, false, false];
            assert_eq!(backends.due, Due { cards, ..Due::default() }, "{count}");
            assert!(!Backends::want_wait(&devices));
            // It is told once.
            backends.due = Due::default();
            backends.guest_waits(&mut devices);
            assert_eq!(backends.due, Due::default(), "{count}");
        }
    }

    #[test]
    fn a_ring_is_for_the_card_that_was_rung() {
        let nets = VIRTIO_NETS.map(|_| Net::new([2, 0, 0, 0, 0, 1])).into();
        let mut devices = Devices { nets, ..Devices::default() };
        for (rung, slot) in VIRTIO_NETS.into_iter().enumerate() {
            let mut backends = Backends { cards: Vec::new(), disk: None, due: Due::default() };
            backends.take_rings(&mut devices, |asked| asked == slot);
            let cards = core::array::from_fn(|card| card == rung);
            assert_eq!(backends.due, Due { cards, ..Due::default() });
        }
        let mut backends = Backends { cards: Vec::new(), disk: None, due: Due::default() };
        backends.take_rings(&mut devices, |slot| slot == VIRTIO_BLOCK);
        assert_eq!(backends.due, Due::default(), "there is no disk");
    }
}
