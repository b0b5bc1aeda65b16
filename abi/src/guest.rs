//! Guests: the page by which the kernel and a guest's monitor (VMM) share a virtual CPU, and the
//! machine that a guest finds.
//!
//! The page is the one memory of a domain's that the kernel reads and writes while it runs. What
//! would let a monitor reach the kernel is not in it: the processor state of the guest (`PSTATE`)
//! and its system registers stay with the kernel.

use core::sync::atomic::AtomicU64;

/// Most virtual CPUs of a guest.
pub const MAX_CPUS: usize = 1;

/// List registers of the virtual interrupt controller that a monitor may fill. One more, the first
/// of the processor's, is the virtual timer's.
pub const LIST_REGISTERS: usize = 3;

/// A virtual CPU, as kernel and monitor share it, which may be on different cores.
///
/// The page is the monitor's from an exit of the guest until the monitor *answers* it: it writes
/// what it has to, then [`VirtualCpu::answered`], then gives the command `resume`. The kernel takes
/// a `resume` for the answer to the last exit only, and stops a virtual CPU whose last exit is
/// answered, even if it has not gone on yet, by another exit. So a `stop` that overtakes a
/// `resume`, or is overtaken by one, loses no exit, and nobody writes while the other reads.
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct VirtualCpu {
    /// `x0`–`x30`.
    pub x: [AtomicU64; 31],
    /// The program counter.
    pub pc: AtomicU64,
    /// How often the guest has left the core. The kernel writes it last of all at an exit.
    pub exits: AtomicU64,
    /// How many of its exits the monitor has answered.
    pub answered: AtomicU64,
    /// How the guest is to go on: one of [`entry`]. The kernel takes it, and puts
    /// [`entry::CONTINUE`] there.
    pub entry: AtomicU64,
    /// Why the guest left the core: one of [`exit`].
    pub exit: AtomicU64,
    /// Syndrome of an exception (`ESR_EL2`).
    pub syndrome: AtomicU64,
    /// Virtual address of a fault (`FAR_EL2`).
    pub address: AtomicU64,
    /// Page of a stage 2 fault (`HPFAR_EL2`).
    pub page: AtomicU64,
    /// `ICH_LR1_EL2` and those that follow, as the guest left them or shall find them.
    pub interrupts: [AtomicU64; LIST_REGISTERS],
}

/// Values of [`VirtualCpu::exit`].
pub mod exit {
    /// An exception that the guest took to EL2.
    pub const EXCEPTION: u64 = 1;
    /// The interrupt controller's maintenance interrupt: the guest has ended an interrupt that its
    /// monitor is to be told of.
    pub const MAINTENANCE: u64 = 2;
    /// The monitor stopped it, or it has never run.
    pub const STOPPED: u64 = 3;
    /// The monitor stopped it before it could go on: the page is as the monitor has left it.
    pub const RETURNED: u64 = 4;
}

/// Values of [`VirtualCpu::entry`].
pub mod entry {
    /// Where it was.
    pub const CONTINUE: u64 = 0;
    /// Where it was, as soon as there is an interrupt for it.
    pub const WAIT: u64 = 1;
    /// From its beginning: with the page's registers and program counter, translation off, no
    /// interrupt pending or active.
    pub const RESET: u64 = 2;
}

/// A range of guest-physical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestRange {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl GuestRange {
    /// Offset of `address`, if it is within.
    pub const fn offset(self, address: u64) -> Option<u64> {
        match address.checked_sub(self.address) {
            Some(offset) if offset < self.size => Some(offset),
            _ => None,
        }
    }
}

/// The distributor of the guest's interrupt controller, a GICv3.
pub const DISTRIBUTOR: GuestRange = GuestRange { address: 0x0800_0000, size: 0x1_0000 };

/// Its one redistributor.
pub const REDISTRIBUTOR: GuestRange = GuestRange { address: 0x080a_0000, size: 0x2_0000 };

/// The guest's serial port, a PL011.
pub const SERIAL: GuestRange = GuestRange { address: 0x0900_0000, size: 0x1000 };

/// The serial port's interrupt, a level.
pub const SERIAL_INTERRUPT: u32 = 33;

/// A virtio device on MMIO (VIRTIO 1.2 §4.2), which is there if the guest's monitor has a
/// connection for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtioSlot(u32);

impl VirtioSlot {
    /// Bytes of the registers of each.
    const SIZE: u64 = 0x1000;

    /// The device that a client of this class is for the guest of its monitor.
    pub fn of_class(class: &str) -> Option<Self> {
        match class {
            "net" => Some(VIRTIO_NET),
            "block" => Some(VIRTIO_BLOCK),
            "entropy" => Some(VIRTIO_ENTROPY),
            _ => None,
        }
    }

    /// Its registers.
    pub const fn registers(self) -> GuestRange {
        GuestRange { address: 0x0a00_0000 + self.0 as u64 * Self::SIZE, size: Self::SIZE }
    }

    /// Its interrupt, an edge.
    pub const fn interrupt(self) -> u32 {
        34 + self.0
    }
}

/// The guest's network card.
pub const VIRTIO_NET: VirtioSlot = VirtioSlot(0);

/// The guest's disk.
pub const VIRTIO_BLOCK: VirtioSlot = VirtioSlot(1);

/// The guest's source of random bytes.
pub const VIRTIO_ENTROPY: VirtioSlot = VirtioSlot(2);

/// The virtual timer's interrupt, private to each CPU.
pub const TIMER_INTERRUPT: u32 = 27;

/// The other interrupts of a processor's timers, which a device tree names although the guest has
/// the virtual one only.
pub const SECURE_TIMER_INTERRUPT: u32 = 29;
/// See [`SECURE_TIMER_INTERRUPT`].
pub const PHYSICAL_TIMER_INTERRUPT: u32 = 30;
/// See [`SECURE_TIMER_INTERRUPT`].
pub const HYPERVISOR_TIMER_INTERRUPT: u32 = 26;

/// Where a guest's memory begins. Its kernel is there; its device tree and its initial RAM disk are
/// at the end.
pub const MEMORY: u64 = 0x4000_0000;

/// Frequency that the guest believes its serial port's clock to have.
pub const SERIAL_CLOCK: u32 = 24_000_000;

const _: () = assert!(size_of::<VirtualCpu>() == 4096);
