//! Serves the guest's virtio devices by the monitor's connections to the system's own.

mod disk;
mod entropy;
mod net;

use crate::memory::GuestMemory;
use crate::{Connections, counters};
use culm::{Progress, ROUNDS, run_rounds};
use culm_guest::virtio::Devices;
use disk::Disk;
use net::Card;

/// The connections behind the devices.
pub struct Backends {
    card: Option<Card>,
    disk: Option<Disk>,
}

impl Backends {
    /// Takes the connections up; returns the devices that the guest gets for them.
    pub fn new(connections: &Connections) -> (Self, Devices) {
        let card = connections.net.map(Card::new);
        let disk = connections.disk.as_ref().map(Disk::new);
        if let Some(entropy) = &connections.entropy {
            culm_entropy::take_seed(entropy);
        }
        let devices = Devices {
            net: card.as_ref().map(Card::device),
            block: disk.as_ref().map(|_| Default::default()),
            entropy: connections.entropy.map(|_| Default::default()),
        };
        (Self { card, disk }, devices)
    }

    /// Returns whether all that a guest asks of its devices when it begins is known.
    pub fn are_known(&self) -> bool {
        self.disk.as_ref().is_none_or(Disk::is_known)
    }

    /// Returns whether the monitor is to know when the guest waits next.
    pub fn want_wait(devices: &Devices) -> bool {
        devices.net.as_ref().is_some_and(culm_guest::virtio::net::Net::is_watched)
    }

    /// Returns whether the guest has a frame to send for which it need not ring.
    pub fn has_frame(devices: &mut Devices, memory: &GuestMemory) -> bool {
        devices.net.as_mut().is_some_and(|device| device.has_frame(memory))
    }

    /// Takes it that the guest waits. Call [`Self::carry`] after it.
    pub fn guest_waits(&mut self, devices: &mut Devices) {
        if let Some(device) = &mut devices.net {
            device.ask_doorbell();
        }
    }

    /// Carries what there is, and asks to be notified of more.
    pub fn carry(&mut self, devices: &mut Devices, memory: &GuestMemory) {
        if let (Some(card), Some(device)) = (&mut self.card, &mut devices.net) {
            card.carry(device, memory);
        }
        if let (Some(disk), Some(device)) = (&mut self.disk, &mut devices.block) {
            disk.carry(device, memory);
        }
        if let Some(device) = &mut devices.entropy {
            run_rounds(ROUNDS, || {
                let filled = device.fill(memory, entropy::portion);
                counters::RANDOM_BYTES.add(filled.bytes);
                Progress::more_if(filled.has_more)
            });
        }
    }
}
