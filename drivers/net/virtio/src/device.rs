//! The network device: what of a virtio device is particular to its class (VIRTIO 1.2 §5.1).

use crate::registers::*;
use culm::Region;
use culm_mmio::Registers;
use culm_net::Mac;
use culm_net::descriptor::flags::{CHECKSUM_OFFLOAD, SEGMENTATION_OFFLOAD_4, SEGMENTATION_OFFLOAD_6};
use culm_virtio::registers::Kind;
use culm_virtio::virtqueue::Access;
use culm_virtio::{Configuration, Transport, Unusable, Virtqueue, transport};

/// Descriptors in each queue, at most.
pub const QUEUE_LIMIT: u16 = 512;

/// Features that the driver uses if the device has them.
const WANTED: u64 =
    FEATURE_CHECKSUM | FEATURE_GUEST_CHECKSUM | HOST_TSO | FEATURE_MAC | FEATURE_STATUS | transport::FEATURES;

/// Features by which the device divides packets.
const HOST_TSO: u64 = FEATURE_HOST_TSO4 | FEATURE_HOST_TSO6;

/// Features that are used too if all clients take packets in several buffers.
const WANTED_FOR_LARGE: u64 = FEATURE_GUEST_TSO | FEATURE_MERGE;

/// A device.
pub struct Device<R> {
    transport: Transport<R>,
    /// Features that may be asked for.
    wanted: u64,
}

/// A device's two queues.
pub struct Virtqueues {
    pub receive: Virtqueue,
    pub transmit: Virtqueue,
}

impl<R: Registers> Device<R> {
    /// Finds the device behind `registers`, and its queues in `memory` from `start` on, as the
    /// previous life left them. With `large`, received packets may lie in several buffers.
    pub fn find(registers: R, memory: &Region, start: usize, large: bool) -> Result<(Self, Virtqueues), Unusable> {
        let wanted = if large { WANTED | WANTED_FOR_LARGE } else { WANTED };
        let transport = Transport::find(registers, Kind::NETWORK)?;
        let receive = transport.find_queue(QUEUE_RECEIVE, QUEUE_LIMIT, memory, start, Access::Write)?;
        let transmit = transport.find_queue(QUEUE_TRANSMIT, QUEUE_LIMIT, memory, receive.layout().end, Access::Read)?;
        Ok((Self { transport, wanted }, Virtqueues { receive, transmit }))
    }

    /// Returns whether the device is at work with these features, as far as its registers show.
    pub fn goes_on(&mut self, features: u64) -> bool {
        features & !self.wanted == 0 && self.transport.resume(features, [QUEUE_RECEIVE, QUEUE_TRANSMIT])
    }

    /// Returns whether the device says that it cannot go on without a reset.
    pub fn needs_reset(&self) -> bool {
        self.transport.needs_reset()
    }

    /// Resets the device and negotiates its features. The device touches no memory from here on.
    pub fn reset(&mut self) -> Result<(), Unusable> {
        let wanted = self.wanted;
        self.transport.reset(|offered| {
            let mut features = offered & wanted;
            // Segmentation requires checksums (§5.1.3.1): do not use it if a device offers it
            // alone.
            if features & FEATURE_CHECKSUM == 0 {
                features &= !HOST_TSO;
            }
            // Without packets in several buffers, each buffer would have to hold the largest
            // packet.
            if features & FEATURE_GUEST_CHECKSUM == 0 || features & FEATURE_MERGE == 0 {
                features &= !WANTED_FOR_LARGE;
            }
            features
        })
    }

    /// Sets a device that was reset to work in its queues, which were renewed.
    pub fn set_to_work(&self, memory: &Region, receive: &Virtqueue, transmit: &Virtqueue) {
        self.transport.set_to_work(memory, &[(QUEUE_RECEIVE, receive), (QUEUE_TRANSMIT, transmit)]);
    }

    /// Returns the device's own address, if it has one.
    pub fn mac(&self) -> Option<Mac> {
        let read = |own: &Configuration<'_, R>| Mac::new(CONFIG_MAC.map(|register| own.read(register)));
        self.transport.has(FEATURE_MAC).then(|| self.transport.configuration(read))
    }

    /// Returns whether its link is up; true if the device cannot tell.
    pub fn has_link(&self) -> bool {
        let read = |own: &Configuration<'_, R>| own.read(CONFIG_STATUS).has(LinkStatus::UP);
        !self.transport.has(FEATURE_STATUS) || self.transport.configuration(read)
    }

    /// Returns its offloads for clients, as flags of the class.
    pub fn flags(&self) -> u16 {
        let flag = |feature, flag| if self.transport.has(feature) { flag } else { 0 };
        flag(FEATURE_CHECKSUM, CHECKSUM_OFFLOAD)
            | flag(FEATURE_HOST_TSO4, SEGMENTATION_OFFLOAD_4)
            | flag(FEATURE_HOST_TSO6, SEGMENTATION_OFFLOAD_6)
    }

    /// Returns the features that were negotiated.
    pub fn features(&self) -> u64 {
        self.transport.features()
    }

    /// Returns whether interrupts and doorbells are asked for by index.
    pub fn has_event_index(&self) -> bool {
        self.transport.has_event_index()
    }

    /// Acknowledges that buffers were used.
    #[inline(always)]
    pub fn acknowledge(&self) {
        self.transport.acknowledge();
    }

    /// Returns whether its configuration changed, or it met an error, since the last call of this.
    pub fn has_changed(&self) -> bool {
        self.transport.has_changed()
    }

    /// Rings the doorbell of a queue.
    #[inline(always)]
    pub fn ring_doorbell(&self, queue: u32) {
        self.transport.ring_doorbell(queue);
    }
}
