//! A board, as its file describes it.

use culm_manifest::{DeviceClass, Trigger};

/// A board.
#[derive(Clone, Debug)]
pub struct Board {
    /// Its name.
    pub name: String,
    /// Its description, one sentence.
    pub description: String,
    /// Affinity fields of each core's `MPIDR_EL1`; the count is that of the cores.
    pub mpidr: Vec<u64>,
    /// Main memory.
    pub memory: PhysicalRange,
    /// Bits of an address-space identifier (ASID): each protection domain has one, none has 0.
    pub asid_bits: u32,
    /// Devices see the caches' content.
    pub coherent_dma: bool,
    /// The device on which the kernel prints while booting.
    pub console: Option<String>,
    /// The interrupt controller.
    pub gic: Gic,
    /// How QEMU emulates it, if it does.
    pub qemu: Option<Qemu>,
    /// The devices, in the order of the file.
    pub devices: Vec<BoardDevice>,
}

impl Board {
    /// How many protection domains the processor can tell apart: ASID 0 is the kernel's, for
    /// booting.
    pub fn address_spaces(&self) -> usize {
        (1 << self.asid_bits) - 1
    }

    /// The device of this name.
    pub fn device(&self, name: &str) -> Option<&BoardDevice> {
        self.devices.iter().find(|device| device.name == name)
    }
}

/// A range of physical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalRange {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl PhysicalRange {
    /// First address behind the range.
    pub fn end(self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// Whether the two have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.address < other.end() && other.address < self.end()
    }

    /// Whether `other` lies within.
    pub fn contains(self, other: Self) -> bool {
        self.address <= other.address && other.end() <= self.end()
    }

    /// The whole pages around the range.
    pub fn pages(self) -> Self {
        let page = culm_abi::memory::PAGE_SIZE;
        let address = self.address / page * page;
        Self { address, size: self.end().div_ceil(page).saturating_mul(page).saturating_sub(address) }
    }
}

/// The interrupt controller.
#[derive(Clone, Debug)]
pub struct Gic {
    /// 2 or 3.
    pub version: u32,
    /// The distributor's registers.
    pub distributor: PhysicalRange,
    /// GICv2: the CPU interface. GICv3: the redistributors, in one range or several.
    pub interfaces: Vec<PhysicalRange>,
}

/// How QEMU emulates a board.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// Value of `-machine`.
    pub machine: String,
    /// Value of `-cpu`.
    pub cpu: String,
    /// Further arguments.
    pub arguments: Vec<String>,
}

/// A device of a board.
#[derive(Clone, Debug)]
pub struct BoardDevice {
    /// Its name.
    pub name: String,
    /// The classes that it provides by its driver; none where only a component can own it.
    pub classes: Vec<DeviceClass>,
    /// The text by which its driver is found: a driver's manifest lists the same.
    pub compatible: String,
    /// Its registers.
    pub registers: PhysicalRange,
    /// Its interrupts.
    pub interrupts: Vec<Interrupt>,
    /// Bytes of DMA memory that its driver needs for structures of its own, a multiple of a page.
    pub dma: u64,
    /// Arguments by which QEMU has this device; `{name}` and `{mac}` stand for its name and
    /// hardware address.
    pub qemu: Vec<String>,
    /// The slot of a bridge in which it sits, where its address is not fixed by the board.
    pub slot: Option<Slot>,
    /// The ranges for devices behind it, if it is a bridge.
    pub bridge: Option<Bridge>,
}

/// The slot of a bridge in which a device sits, and what is expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Name of the bridge's device.
    pub bridge: String,
    /// Number of the slot.
    pub number: u32,
    /// The device's vendor.
    pub vendor: u16,
    /// The device's number among its vendor's.
    pub product: u16,
    /// Which of its base address registers is for the registers of its driver.
    pub bar: u32,
}

/// A bridge's resources for the devices behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Addresses that it passes on.
    pub window: PhysicalRange,
    /// Those among them at which memory of devices is put that no driver uses.
    pub aside: PhysicalRange,
    /// Its interrupt lines: that of a device is the one at the number of its slot, divided by
    /// their count.
    pub interrupts: Vec<Interrupt>,
}

impl BoardDevice {
    /// Whether it provides a class.
    pub fn is_of(&self, class: DeviceClass) -> bool {
        self.classes.contains(&class)
    }

    /// The names of its classes, for messages.
    pub fn class_names(&self) -> String {
        let names: Vec<&str> = self.classes.iter().map(|class| class.name()).collect();
        names.join("` and `")
    }
}

/// An interrupt line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number (INTID).
    pub number: u32,
    /// Its trigger.
    pub trigger: Trigger,
}
