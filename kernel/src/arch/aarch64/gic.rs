//! The interrupt controller: GICv3 (Arm IHI 0069) by system registers, or GICv2 (Arm IHI 0048) by memory.
//!
//! Completing an interrupt is split in two (`EOImode` 1): at delivery the kernel only drops the running priority, so
//! the interrupt stays *active* and cannot come again; when its owner signals that it is ready for the next, the
//! kernel deactivates it. So masking and unmasking cost one register write each, and on GICv3 no device access.

use super::system_register::{read_register, write_register};
use culm_abi::system::{CoreDescription, END_INTERRUPT, FIRST_INTERRUPT, GicDescription, NONE, interrupt_flags};
use culm_kernel_core::System;

/// The software-generated interrupt by which cores call each other.
pub const CALL_INTERRUPT: u32 = 0;
/// What acknowledging answers when there is nothing, and above (special INTIDs).
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
mod redistributor {
    pub const TYPER: usize = 0x0008;
    pub const WAKER: usize = 0x0014;
    pub const PRIVATE: usize = 0x1_0000;
    pub const FRAMES: usize = 0x2_0000;
}

const PRIORITY: u32 = 0xa0a0_a0a0;

/// One core's view of the interrupt controller.
#[derive(Debug)]
pub struct Gic {
    version: u32,
    distributor: usize,
    interface: usize,
    /// Delivered and not yet deactivated: deactivating anything else is not allowed.
    active: [u64; 16],
}

fn read(address: usize) -> u32 {
    // SAFETY: all callers pass the address of a 32-bit register within the controller's mapped memory.
    unsafe { (address as *const u32).read_volatile() }
}

fn write(address: usize, value: u32) {
    // SAFETY: as for `read`.
    unsafe { (address as *mut u32).write_volatile(value) }
}

impl Gic {
    /// Sets up the shared part of the controller: once, by the first core.
    pub fn set_up_distributor(description: &GicDescription, system: &System) {
        let base = description.distributor as usize;
        let v3 = description.version == 3;
        write(base + distributor::CTLR, 0);
        for number in (FIRST_INTERRUPT..END_INTERRUPT).step_by(32) {
            let offset = number as usize / 8;
            write(base + distributor::ICENABLER + offset, u32::MAX);
            write(base + distributor::ICACTIVER + offset, u32::MAX);
            if v3 {
                write(base + distributor::IGROUPR + offset, u32::MAX);
            }
        }
        // ARE_NS and group 1 on GICv3; on GICv2 the group that is ours.
        write(base + distributor::CTLR, if v3 { 1 << 4 | 1 << 1 } else { 1 });
        for (index, route) in system.routes.iter().enumerate() {
            if route.domain == NONE {
                continue;
            }
            let number = FIRST_INTERRUPT as usize + index;
            let core = &system.cores[system.domains[route.domain as usize].core as usize];
            write(base + distributor::IPRIORITYR + number / 4 * 4, PRIORITY);
            if v3 {
                write(base + distributor::IROUTER + number * 8, core.mpidr as u32);
                write(base + distributor::IROUTER + number * 8 + 4, (core.mpidr >> 32) as u32);
            } else {
                let address = base + distributor::ITARGETSR + number / 4 * 4;
                let shift = number % 4 * 8;
                write(address, read(address) & !(0xff << shift) | 1 << (core.mpidr & 7) << shift);
            }
            let address = base + distributor::ICFGR + number / 16 * 4;
            let edge = 0b10 << (number % 16 * 2);
            let others = read(address) & !edge;
            write(address, if route.flags & interrupt_flags::EDGE != 0 { others | edge } else { others });
            write(base + distributor::ISENABLER + number / 32 * 4, 1 << (number % 32));
        }
    }

    /// Sets up this core's part, with its private `timer` interrupt.
    pub fn new(description: &GicDescription, core: &CoreDescription, timer: u32) -> Self {
        let gic = Self {
            version: description.version,
            distributor: description.distributor as usize,
            interface: description.interface as usize,
            active: [0; 16],
        };
        let private = if gic.version == 3 {
            let frame = redistributor_of(core, gic.interface, description.interface_size as usize);
            write(frame + redistributor::WAKER, read(frame + redistributor::WAKER) & !2);
            while read(frame + redistributor::WAKER) & 4 != 0 {}
            write(frame + redistributor::PRIVATE + distributor::IGROUPR, u32::MAX);
            frame + redistributor::PRIVATE
        } else {
            gic.distributor
        };
        write(private + distributor::ICENABLER, u32::MAX);
        write(private + distributor::ICACTIVER, u32::MAX);
        for number in (0..32).step_by(4) {
            write(private + distributor::IPRIORITYR + number, PRIORITY);
        }
        write(private + distributor::ISENABLER, 1 << timer | 1 << CALL_INTERRUPT);
        if gic.version == 3 {
            write_register!("S3_0_C12_C12_5", read_register!("S3_0_C12_C12_5") | 1); // ICC_SRE_EL1: system registers
            super::machine::synchronise();
            write_register!("S3_0_C4_C6_0", 0xf0); // ICC_PMR_EL1
            write_register!("S3_0_C12_C12_4", 1 << 1); // ICC_CTLR_EL1: EOImode
            write_register!("S3_0_C12_C12_7", 1); // ICC_IGRPEN1_EL1
            super::machine::synchronise();
        } else {
            write(gic.interface + interface::PMR, 0xf0);
            write(gic.interface + interface::CTLR, 1 << 9 | 1); // EOImode, enable
        }
        gic
    }

    /// Takes the most urgent pending interrupt; numbers from [`FIRST_SPECIAL`] mean that there is none. It is active
    /// afterwards.
    pub fn acknowledge(&mut self) -> u32 {
        let number = if self.version == 3 {
            read_register!("S3_0_C12_C12_0") as u32 & 0xff_ffff // ICC_IAR1_EL1
        } else {
            let answer = read(self.interface + interface::IAR);
            if answer & 0x3ff < 16 {
                // The sender's number must be given back with a software-generated interrupt: complete it here.
                write(self.interface + interface::EOIR, answer & 0x1fff);
                write(self.interface + interface::DIR, answer & 0x1fff);
            }
            answer & 0x3ff
        };
        if number < FIRST_SPECIAL && (self.version == 3 || number >= 16) {
            if self.version == 3 {
                write_register!("S3_0_C12_C12_1", u64::from(number)); // ICC_EOIR1_EL1: drops the priority
            } else {
                write(self.interface + interface::EOIR, number);
            }
            self.active[(number as usize / 64) & 15] |= 1 << (number % 64);
        }
        number
    }

    /// Deactivates an interrupt, so that it can come again. Nothing happens where it is not active.
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

    /// Sends [`CALL_INTERRUPT`] to another core.
    pub fn call_core(&self, core: &CoreDescription) {
        let affinity = |level: u64| (core.mpidr >> (8 * level)) & 0xff;
        // What the other core is to see must be there before the interrupt.
        super::machine::barrier();
        if self.version == 3 {
            let value = ((core.mpidr >> 32) & 0xff) << 48
                | (affinity(2) << 32)
                | (affinity(1) << 16)
                | ((affinity(0) >> 4) << 44)
                | (1 << (affinity(0) & 15))
                | (u64::from(CALL_INTERRUPT) << 24);
            write_register!("S3_0_C12_C11_5", value); // ICC_SGI1R_EL1
            super::machine::synchronise();
        } else {
            write(self.distributor + distributor::SGIR, 1 << (16 + (affinity(0) & 7)) | CALL_INTERRUPT);
        }
    }
}

/// Finds a core's redistributor: frames follow each other, each tells its affinity (GICR_TYPER bits 32-63).
fn redistributor_of(core: &CoreDescription, first: usize, size: usize) -> usize {
    let wanted = (core.mpidr & 0xff_ffff) as u32 | ((core.mpidr >> 32 & 0xff) as u32) << 24;
    let mut frame = first;
    while frame + redistributor::FRAMES <= first + size {
        if read(frame + redistributor::TYPER + 4) == wanted {
            return frame;
        }
        frame += redistributor::FRAMES;
    }
    panic!("the interrupt controller knows no core with affinity {:#x}", core.mpidr);
}
