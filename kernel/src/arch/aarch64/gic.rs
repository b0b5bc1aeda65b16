//! The interrupt controller: GICv3 (Arm IHI 0069) by system registers, or GICv2 (Arm IHI 0048) by
//! memory.
//!
//! Completion of an interrupt has two steps (`EOImode` 1). At delivery the kernel only drops the
//! running priority, so the interrupt stays *active* and cannot come again. When its owner signals
//! that it is ready for the next, the kernel deactivates it. So masking and unmasking cost one
//! register write each, and on GICv3 no device access.

use super::system_register::{read_register, write_register};
use crate::poll_limit::PollLimit;
use crate::redistributor;
use core::sync::atomic::{AtomicU8, Ordering};
use culm_abi::system::{
    CoreDescription, END_INTERRUPT, FIRST_INTERRUPT, GICV2_CORES, GicDescription, InterruptRoute, NONE, interrupt_flags,
};
use culm_kernel_core::System;

/// The inter-processor interrupt (IPI), a software-generated one, by which one core tells another
/// to look at its pending domains.
pub const IPI_WAKE: u32 = 0;
/// The inter-processor interrupt that stops a core for good.
pub const IPI_STOP: u32 = 1;
/// The interrupts of a core's guest (Arm BSA B_PPI_00): the maintenance of its list registers, and
/// its virtual timer. With the kernel at EL2 the latter is not the kernel's own.
pub const GUEST_MAINTENANCE: u32 = 25;
/// See [`GUEST_MAINTENANCE`].
pub const GUEST_TIMER: u32 = 27;
/// The first interrupt that is no software-generated one.
pub const FIRST_PRIVATE: u32 = 16;
/// The first of the special INTIDs, which an acknowledgement returns if no interrupt is pending.
pub const FIRST_SPECIAL: u32 = 1020;

/// Distributor registers.
mod distributor {
    pub const CTLR: usize = 0x000;
    pub const IGROUPR: usize = 0x080;
    pub const ISENABLER: usize = 0x100;
    pub const ICENABLER: usize = 0x180;
    pub const ICACTIVER: usize = 0x380;
    pub const IPRIORITYR: usize = 0x400;
    pub const ITARGETSR: usize = 0x800;
    pub const ICFGR: usize = 0xc00;
    pub const SGIR: usize = 0xf00;
    pub const IROUTER: usize = 0x6000;
    /// `GICD_PIDR2`: at the end of the first page of a GICv2 (IHI 0048, 4.3.17), of the first 64
    /// KiB of a GICv3 (IHI 0069, 12.1.5), where a GICv2 may have nothing.
    pub const PIDR2_OF_V2: usize = 0x0fe8;
    pub const PIDR2_OF_V3: usize = 0xffe8;
}

/// CPU interface registers of GICv2.
mod interface {
    pub const CTLR: usize = 0x0000;
    pub const PMR: usize = 0x0004;
    pub const IAR: usize = 0x000c;
    pub const EOIR: usize = 0x0010;
    pub const DIR: usize = 0x1000;
}

/// Redistributor registers of GICv3: two 64 KiB frames per core, the second for private interrupts.
mod redistribution {
    pub const CTLR: usize = 0x0000;
    pub const TYPER: usize = 0x0008;
    pub const WAKER: usize = 0x0014;
    pub const PRIVATE: usize = 0x1_0000;
}

/// `GICD_CTLR.RWP` and `GICR_CTLR.RWP` (IHI 0069, 12.9.4 and 12.11.2): a write that disables
/// interrupts, or to the distributor's control register, has not taken effect everywhere yet.
const DISTRIBUTOR_BUSY: u32 = 1 << 31;
const REDISTRIBUTOR_BUSY: u32 = 1 << 3;
/// `GICR_WAKER`: that the processor sleeps, and that its redistributor does.
const PROCESSOR_SLEEP: u32 = 1 << 1;
const CHILDREN_ASLEEP: u32 = 1 << 2;

const PRIORITY: u32 = 0xa0a0_a0a0;

/// `GICD_SGIR` (GICv2): to all cores but the one that asks, instead of to a list.
const TO_OTHERS: u32 = 0b01 << 24;

/// Each core's bit in a GICv2's lists of targets, 0 until the core is ready to be interrupted. No
/// register tells which bit another core has, and it need not be that of its affinity (IHI 0048,
/// 4.3.12).
static TARGETS: [AtomicU8; GICV2_CORES] = [const { AtomicU8::new(0) }; GICV2_CORES];

/// Returns the bit of core `index`; none on a machine with one core, which has no lists.
fn target(index: u32) -> u8 {
    TARGETS.get(index as usize).map_or(0, |target| target.load(Ordering::Relaxed))
}

/// One core's view of the interrupt controller.
#[derive(Debug)]
pub struct Gic {
    version: u32,
    distributor: usize,
    interface: usize,
    /// Interrupts delivered and not yet deactivated. To deactivate any other is not allowed.
    active: [u64; 16],
}

fn read(address: usize) -> u32 {
    // SAFETY: [K6] all callers pass the address of a 32-bit register within the controller's mapped
    // memory.
    unsafe { (address as *const u32).read_volatile() }
}

fn write(address: usize, value: u32) {
    // SAFETY: [K6] as for `read`.
    unsafe { (address as *mut u32).write_volatile(value) }
}

/// Writes one byte of a register that can be accessed by bytes (IHI 0048, 4.1.4).
fn write_byte(address: usize, value: u8) {
    // SAFETY: [K6] as for `read`.
    unsafe { (address as *mut u8).write_volatile(value) }
}

/// Waits until `bit` of the register at `address` is 0.
///
/// # Panics
/// If it stays 1: then the board's file is wrong about the controller, and the kernel would lose
/// interrupts, or get some that were disabled.
fn wait_for_zero(address: usize, bit: u32, name: &str) {
    let answers = PollLimit::new().wait(|| read(address) & bit != 0);
    assert!(
        answers,
        "the interrupt controller's {name} ({address:#x}) keeps bit {bit:#x} set: is the board's `gic` right?"
    );
}

/// Returns whether this core has the system registers of a GICv3 or later (`ID_AA64PFR0_EL1.GIC`,
/// Arm ARM D24.2.68).
fn has_system_registers() -> bool {
    read_register!("id_aa64pfr0_el1") >> 24 & 0xf != 0
}

/// Checks that the controller is of the version in the board's file. With a wrong one the kernel
/// would run without an error and without interrupts: registers that a controller does not have
/// read as zero and ignore writes.
///
/// # Panics
/// If it is of another version.
fn check_version(description: &GicDescription) {
    let wanted = description.version;
    assert!(
        wanted == 2 || has_system_registers(),
        "the board's file says `gic.version = {wanted}`, but this processor has no interface to a GICv3: is it 2?"
    );
    let (offset, others) =
        if wanted == 2 { (distributor::PIDR2_OF_V2, 2..=2) } else { (distributor::PIDR2_OF_V3, 3..=4) };
    let address = description.distributor as usize + offset;
    // ArchRev. A GICv4 is a GICv3 with more.
    let found = read(address) >> 4 & 0xf;
    let instead = if wanted == 2 { 3 } else { 2 };
    assert!(
        others.contains(&found),
        "the board's file says `gic.version = {wanted}`, but GICD_PIDR2 ({address:#x}) tells of architecture {found}: \
         is the version {instead}, or the distributor elsewhere?"
    );
}

impl Gic {
    /// Sets up the shared part of the controller, with no interrupt enabled: once, by the core that
    /// boots, before others run.
    pub fn set_up_distributor(description: &GicDescription, system: &System) {
        check_version(description);
        let base = description.distributor as usize;
        let v3 = description.version == 3;
        let settle = || {
            if v3 {
                wait_for_zero(base + distributor::CTLR, DISTRIBUTOR_BUSY, "GICD_CTLR");
            }
        };
        write(base + distributor::CTLR, 0);
        settle();
        for number in (FIRST_INTERRUPT..END_INTERRUPT).step_by(32) {
            let offset = number as usize / 8;
            write(base + distributor::ICENABLER + offset, u32::MAX);
            write(base + distributor::ICACTIVER + offset, u32::MAX);
            if v3 {
                write(base + distributor::IGROUPR + offset, u32::MAX);
            }
        }
        settle();
        // Enable ARE_NS and group 1 on GICv3; on GICv2 the kernel's own group.
        write(base + distributor::CTLR, if v3 { 1 << 4 | 1 << 1 } else { 1 });
        settle();
        for (number, route) in routes(system) {
            write(base + distributor::IPRIORITYR + number / 4 * 4, PRIORITY);
            let address = base + distributor::ICFGR + number / 16 * 4;
            let edge = 0b10 << (number % 16 * 2);
            let others = read(address) & !edge;
            write(address, if route.flags & interrupt_flags::EDGE != 0 { others | edge } else { others });
        }
    }

    /// Sets up this core's part, with these private interrupts, a set of bits.
    pub fn new(description: &GicDescription, index: u32, core: &CoreDescription, interrupts: u32) -> Self {
        let gic = Self {
            version: description.version,
            distributor: description.distributor as usize,
            interface: description.interfaces[0].address as usize,
            active: [0; 16],
        };
        let redistributor = (gic.version == 3).then(|| wake_redistributor(description, core));
        let private = redistributor.map_or(gic.distributor, |frame| frame + redistribution::PRIVATE);
        write(private + distributor::ICENABLER, u32::MAX);
        if let Some(frame) = redistributor {
            wait_for_zero(frame + redistribution::CTLR, REDISTRIBUTOR_BUSY, "GICR_CTLR");
        }
        write(private + distributor::ICACTIVER, u32::MAX);
        for number in (0..32).step_by(4) {
            write(private + distributor::IPRIORITYR + number, PRIORITY);
        }
        write(private + distributor::ISENABLER, interrupts | 1 << IPI_WAKE | 1 << IPI_STOP);
        if gic.version == 3 {
            write_register!("S3_0_C4_C6_0", 0xf0); // ICC_PMR_EL1
            write_register!("S3_0_C12_C12_4", 1 << 1); // ICC_CTLR_EL1: EOImode
            write_register!("S3_0_C12_C12_7", 1); // ICC_IGRPEN1_EL1
            super::machine::synchronise();
        } else {
            write(gic.interface + interface::PMR, 0xf0);
            write(gic.interface + interface::CTLR, 1 << 9 | 1); // EOImode, enable
            gic.announce(index);
        }
        // Before `Core::new` looks at what other cores have posted: whoever posts after that look
        // can interrupt this core.
        super::machine::barrier();
        gic
    }

    /// Lets other cores interrupt this core of a GICv2. Its bit is read from the targets of its
    /// private interrupts.
    fn announce(&self, index: u32) {
        let fold = |targets: u32, word: usize| targets | read(self.distributor + distributor::ITARGETSR + word * 4);
        let targets = (0..8).fold(0, fold);
        let bit = targets.to_le_bytes().into_iter().fold(0, |bits, byte| bits | byte);
        if let Some(place) = TARGETS.get(index as usize) {
            place.store(bit, Ordering::Relaxed);
        }
    }

    /// Enables the interrupts of this core's devices, whose domains exist now. It writes registers
    /// of this core's interrupts only, since other cores do the same at the same time.
    pub fn enable_devices(&self, system: &System, index: u32) {
        let core = &system.cores[index as usize];
        for (number, route) in routes(system) {
            if system.domains[route.domain as usize].core != index {
                continue;
            }
            if self.version == 3 {
                let address = self.distributor + distributor::IROUTER + number * 8;
                write(address, core.mpidr as u32);
                write(address + 4, (core.mpidr >> 32) as u32);
            } else {
                write_byte(self.distributor + distributor::ITARGETSR + number, target(index));
            }
            write(self.distributor + distributor::ISENABLER + number / 32 * 4, 1 << (number % 32));
        }
    }

    /// Takes the most urgent pending interrupt, which is active afterwards. Numbers from
    /// [`FIRST_SPECIAL`] on mean that there is none.
    #[inline(always)]
    pub fn acknowledge(&mut self) -> u32 {
        let number = if self.version == 3 {
            read_register!("S3_0_C12_C12_0") as u32 & 0xff_ffff // ICC_IAR1_EL1
        } else {
            let answer = read(self.interface + interface::IAR);
            if answer & 0x3ff < FIRST_PRIVATE {
                // A software-generated interrupt must be completed with its sender's number, which
                // only this value has: complete it here.
                write(self.interface + interface::EOIR, answer & 0x1fff);
                write(self.interface + interface::DIR, answer & 0x1fff);
            }
            answer & 0x3ff
        };
        if number < FIRST_PRIVATE {
            // Complete it at once: it cannot come again before it is handled, since interrupts are
            // masked in the kernel.
            if self.version == 3 {
                write_register!("S3_0_C12_C12_1", u64::from(number)); // ICC_EOIR1_EL1
                write_register!("S3_0_C12_C11_1", u64::from(number)); // ICC_DIR_EL1
            }
        } else if number < FIRST_SPECIAL {
            if self.version == 3 {
                write_register!("S3_0_C12_C12_1", u64::from(number)); // ICC_EOIR1_EL1: drops the priority
            } else {
                write(self.interface + interface::EOIR, number);
            }
            self.active[(number as usize / 64) & 15] |= 1 << (number % 64);
        }
        number
    }

    /// Deactivates an interrupt, so that it can come again. Does nothing if it is not active.
    #[inline(always)]
    pub fn deactivate(&mut self, number: u32) {
        let bit = 1 << (number % 64);
        let word = &mut self.active[(number as usize / 64) & 15];
        if *word & bit == 0 {
            return;
        }
        *word &= !bit;
        if self.version == 3 {
            write_register!("S3_0_C12_C11_1", u64::from(number)); // ICC_DIR_EL1
        } else {
            write(self.interface + interface::DIR, number);
        }
    }

    /// Sends [`IPI_WAKE`] to core `index`.
    pub fn send_ipi(&self, index: u32, core: &CoreDescription) {
        let affinity = |level: u64| (core.mpidr >> (8 * level)) & 0xff;
        // Make the posted domain visible to the other core before the interrupt arrives.
        super::machine::barrier();
        if self.version == 3 {
            let value = ((core.mpidr >> 32) & 0xff) << 48
                | (affinity(2) << 32)
                | (affinity(1) << 16)
                | ((affinity(0) >> 4) << 44)
                | (1 << (affinity(0) & 15))
                | (u64::from(IPI_WAKE) << 24);
            write_register!("S3_0_C12_C11_5", value); // ICC_SGI1R_EL1
            super::machine::synchronise();
        } else {
            write(self.distributor + distributor::SGIR, u32::from(target(index)) << 16 | IPI_WAKE);
        }
    }
}

/// Stops all other cores, at the end of the system. It works in any state of this core.
pub fn stop_others(description: &GicDescription) {
    if description.version == 2 {
        write(description.distributor as usize + distributor::SGIR, TO_OTHERS | IPI_STOP);
    } else if has_system_registers() && read_register!("S3_0_C12_C12_5") & 1 != 0 {
        // ICC_SGI1R_EL1, IRM: to all but this one. Before ICC_SRE_EL1.SRE is set there are no
        // others yet.
        write_register!("S3_0_C12_C11_5", 1 << 40 | u64::from(IPI_STOP) << 24);
        super::machine::synchronise();
    }
}

/// Returns the interrupts that have a route: number and route.
fn routes<'a>(system: &'a System) -> impl Iterator<Item = (usize, &'a InterruptRoute)> {
    let all = system.routes.iter().enumerate().map(|(index, route)| (FIRST_INTERRUPT as usize + index, route));
    all.filter(|(_, route)| route.domain != NONE)
}

/// Wakes the redistributor of a core of a GICv3 and enables the system registers; returns its
/// address.
fn wake_redistributor(description: &GicDescription, core: &CoreDescription) -> usize {
    write_register!("S3_0_C12_C12_5", read_register!("S3_0_C12_C12_5") | 1); // ICC_SRE_EL1: system registers
    super::machine::synchronise();
    let ranges = description.interfaces.iter().map(|range| (range.address as usize, range.size as usize));
    let kind = |frame: usize| {
        let low = u64::from(read(frame + redistribution::TYPER));
        low | u64::from(read(frame + redistribution::TYPER + 4)) << 32
    };
    let Some(frame) = redistributor::find(core.mpidr, ranges, kind) else {
        panic!("the interrupt controller knows no core with affinity {:#x}", core.mpidr);
    };
    write(frame + redistribution::WAKER, read(frame + redistribution::WAKER) & !PROCESSOR_SLEEP);
    wait_for_zero(frame + redistribution::WAKER, CHILDREN_ASLEEP, "GICR_WAKER");
    write(frame + redistribution::PRIVATE + distributor::IGROUPR, u32::MAX);
    frame
}
