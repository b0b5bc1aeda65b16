//! Guests: the page by which the kernel and a guest's monitor (VMM) share a virtual CPU, and the
//! machine that a guest finds.
//!
//! The page is the one memory of a domain's that the kernel reads and writes while it runs. What
//! would let a monitor reach the kernel is not in it: the processor state of the guest (`PSTATE`)
//! and its system registers stay with the kernel.

use core::sync::atomic::AtomicU64;

/// List registers of the virtual interrupt controller that a monitor may fill. One more, the first
/// of the processor's, is the virtual timer's.
pub const LIST_REGISTERS: usize = 3;

/// A virtual CPU, as kernel and monitor share it. The monitor reads and writes it while the virtual
/// CPU is stopped after an exit; from `resume` to the next exit it is the kernel's.
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct VirtualCpu {
    /// `x0`–`x30`.
    pub x: [AtomicU64; 31],
    /// The program counter.
    pub pc: AtomicU64,
    /// Why the guest left the core: one of [`exit`]. The monitor writes [`exit::NONE`] when it has
    /// dealt with it.
    pub exit: AtomicU64,
    /// Syndrome of an exception (`ESR_EL2`).
    pub syndrome: AtomicU64,
    /// Virtual address of a fault (`FAR_EL2`).
    pub address: AtomicU64,
    /// Page of a stage 2 fault (`HPFAR_EL2`).
    pub page: AtomicU64,
    /// `ICH_LR1_EL2` and those that follow, as the guest left them or shall find them.
    pub interrupts: [AtomicU64; LIST_REGISTERS],
    /// Not zero if the virtual timer's interrupt waits for the guest. The kernel alone writes it,
    /// while the virtual CPU is stopped too.
    pub timer: AtomicU64,
}

/// Values of [`VirtualCpu::exit`].
pub mod exit {
    /// No exit that has not been dealt with.
    pub const NONE: u64 = 0;
    /// An exception that the guest took to EL2.
    pub const EXCEPTION: u64 = 1;
    /// The interrupt controller's maintenance interrupt: the guest has ended an interrupt that its
    /// monitor is to be told of.
    pub const MAINTENANCE: u64 = 2;
    /// The monitor stopped it.
    pub const STOPPED: u64 = 3;
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
