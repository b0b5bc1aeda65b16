//! The interface of a device on a PCI bus (VIRTIO 1.2 §4.1), interrupting by its line.
//!
//! The bus's driver says where among the device's registers its structures are
//! ([`Structures`]): configuration space is that driver's alone. Messages (MSI-X) are off, so no
//! vector is given to a queue.

pub mod registers;

use crate::registers::{Causes, Kind, Status};
use crate::{Interface, Unusable};
use core::cell::Cell;
use culm_mmio::{Layout, Register, Registers, Width, WriteOnly};
use culm_pci::virtio::{Place, Structures};
use registers::*;

/// Queues of a device that a driver can use.
const QUEUES: usize = 4;

/// A device on a PCI bus.
#[derive(Debug)]
pub struct Pci<R> {
    registers: R,
    structures: Structures,
    /// The doorbells of the queues that were found.
    doorbells: [Cell<Option<Doorbell>>; QUEUES],
    /// Whether an interrupt said that the configuration changed: reading that clears it.
    changed: Cell<bool>,
}

/// A queue's doorbell, which takes the queue's number.
type Doorbell = Register<u16, WriteOnly>;

impl<R: Registers> Pci<R> {
    /// Creates the interface behind `registers`, all of which `structures` are among, as
    /// [`Structures::from_words`] has checked.
    pub fn new(registers: R, structures: Structures) -> Self {
        Self { registers, structures, doorbells: [const { Cell::new(None) }; QUEUES], changed: Cell::new(false) }
    }

    /// Returns a register of the common configuration.
    fn common<L: Layout, A>(&self, register: Register<L, A>) -> Register<L, A> {
        inside(self.structures.common, register)
    }

    fn select(&self, queue: u32) {
        self.registers.write(self.common(QUEUE_SELECT), queue as u16);
    }
}

/// Returns a register that stands in a structure.
#[inline(always)]
fn inside<L: Layout, A>(place: Place, register: Register<L, A>) -> Register<L, A> {
    Register::at(place.offset as usize + register.offset())
}

impl<R: Registers> Interface for Pci<R> {
    /// The kind is part of what the bus's driver compared.
    fn kind(&self) -> Result<Kind, Unusable> {
        Ok(Kind::from_bits(self.structures.kind.into()))
    }

    fn status(&self) -> Status {
        Status::from_bits(self.registers.read(self.common(STATUS)).into())
    }

    fn set_status(&self, status: Status) {
        self.registers.write(self.common(STATUS), status.bits() as u8);
    }

    fn offered(&self) -> u64 {
        (0..2).fold(0, |offered, half| {
            self.registers.write(self.common(DEVICE_FEATURES_SELECT), half);
            offered | u64::from(self.registers.read(self.common(DEVICE_FEATURES))) << (32 * half)
        })
    }

    fn choose(&self, features: u64) {
        for half in 0..2 {
            self.registers.write(self.common(DRIVER_FEATURES_SELECT), half);
            self.registers.write(self.common(DRIVER_FEATURES), (features >> (32 * half)) as u32);
        }
    }

    /// A queue whose doorbell is not among the doorbells cannot be used (§4.1.4.4).
    fn find_queue(&self, queue: u32) -> u32 {
        let Some(doorbell) = self.doorbells.get(queue as usize) else { return 0 };
        self.select(queue);
        let size = self.registers.read(self.common(QUEUE_SIZE));
        let number = self.registers.read(self.common(QUEUE_NOTIFY_OFFSET));
        let place = self.structures.doorbell(number).filter(|_| size > 0);
        doorbell.set(place.map(|offset| Register::at(offset as usize)));
        if place.is_some() { size.into() } else { 0 }
    }

    fn is_ready(&self, queue: u32) -> bool {
        self.select(queue);
        self.registers.read(self.common(QUEUE_ENABLE)) == ENABLED
    }

    fn set_up_queue(&self, queue: u32, size: u16, addresses: [u64; 3]) {
        self.select(queue);
        self.registers.write(self.common(QUEUE_SIZE), size);
        let registers = [
            (QUEUE_DESCRIPTORS_LOW, QUEUE_DESCRIPTORS_HIGH),
            (QUEUE_DRIVER_LOW, QUEUE_DRIVER_HIGH),
            (QUEUE_DEVICE_LOW, QUEUE_DEVICE_HIGH),
        ];
        for ((low, high), address) in registers.into_iter().zip(addresses) {
            self.registers.write(self.common(low), address as u32);
            self.registers.write(self.common(high), (address >> 32) as u32);
        }
        self.registers.write(self.common(QUEUE_ENABLE), ENABLED);
    }

    fn generation(&self) -> u32 {
        self.registers.read(self.common(CONFIGURATION_GENERATION)).into()
    }

    /// Reads a field of the device's configuration; 0 if the configuration is too short for it.
    fn read_configuration<W: Width>(&self, offset: usize) -> W {
        let Place { offset: start, size } = self.structures.configuration;
        let is_there = offset.checked_add(size_of::<W>()).is_some_and(|end| end <= size as usize);
        if is_there { self.registers.load(start as usize + offset) } else { W::truncate(0) }
    }

    #[inline(always)]
    fn acknowledge(&self) {
        let causes: u8 = self.registers.load(self.structures.causes.offset as usize);
        if Causes::from_bits(causes.into()).has(Causes::CHANGE) {
            self.changed.set(true);
        }
    }

    #[inline(always)]
    fn was_told_of_change(&self) -> bool {
        self.changed.get()
    }

    fn has_changed(&self) -> bool {
        self.changed.take()
    }

    #[inline(always)]
    fn ring_doorbell(&self, queue: u32) {
        if let Some(doorbell) = self.doorbells.get(queue as usize).and_then(Cell::get) {
            self.registers.write(doorbell, queue as u16);
        }
    }
}
