//! The fake device on a PCI bus: its structures among registers, as QEMU's has them.

use super::Fake;
use crate::pci::registers::*;
use crate::registers::{self as mmio, Causes, STATUS as MMIO_STATUS};
use culm_mmio::{Layout as _, Registers, Width};
use culm_pci::virtio::{Place, Structures};

/// Returns the structures of the fake.
pub fn structures(fake: &Fake) -> Structures {
    let place = |offset| Place { offset, size: 0x1000 };
    Structures {
        kind: fake.0.kind.get().number() as u16,
        common: place(0),
        doorbells: place(0x3000),
        multiplier: 4,
        causes: place(0x1000),
        configuration: place(0x2000),
    }
}

/// The registers of a fake device on a PCI bus.
#[derive(Clone, Debug)]
pub struct FakePci(pub Fake);

/// Returns the register on MMIO that has the same meaning as this one of the common configuration.
fn meant(offset: usize) -> usize {
    match offset {
        0x00 => mmio::DEVICE_FEATURES_SELECT.offset(),
        0x04 => mmio::DEVICE_FEATURES.offset(),
        0x08 => mmio::DRIVER_FEATURES_SELECT.offset(),
        0x0c => mmio::DRIVER_FEATURES.offset(),
        0x14 => MMIO_STATUS.offset(),
        0x15 => mmio::CONFIGURATION_GENERATION.offset(),
        0x16 => mmio::QUEUE_SELECT.offset(),
        0x18 => mmio::QUEUE_SIZE.offset(),
        0x1c => mmio::QUEUE_READY.offset(),
        0x20..0x38 => mmio::QUEUE_DESCRIPTORS_LOW.offset() + (offset - 0x20) / 8 * 0x10 + offset % 8,
        _ => panic!("an access to {offset:#x} of the common configuration, for which there is no reason"),
    }
}

impl Registers for FakePci {
    fn load<W: Width>(&self, offset: usize) -> W {
        let Self(fake) = self;
        let state = &fake.0;
        match offset {
            _ if offset == QUEUE_SIZE.offset() => {
                let set = state.queues.borrow().get(state.selected.get()).map(|queue| queue.size);
                W::truncate(set.map_or(0, |size| if size == 0 { state.queue_size.get() } else { size }))
            }
            _ if offset == QUEUE_NOTIFY_OFFSET.offset() => W::truncate(state.selected.get() as u32),
            0x1000 => {
                // Reading acknowledges all (§4.1.4.5).
                state.acknowledged.set(state.acknowledged.get() + 1);
                W::truncate(state.causes.replace(Causes::ZERO).bits())
            }
            0x2000..0x3000 => fake.load(mmio::CONFIGURATION + offset - 0x2000),
            _ => W::truncate(fake.load::<u32>(meant(offset))),
        }
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        let Self(fake) = self;
        if let Some(doorbell) = offset.checked_sub(0x3000) {
            assert_eq!(value.extend() as usize * 4, doorbell, "a number at another's doorbell");
            return fake.0.doorbells.borrow_mut().push(value.extend());
        }
        fake.store(meant(offset), value.extend());
    }
}
