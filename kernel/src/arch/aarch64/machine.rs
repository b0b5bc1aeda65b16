//! The machine as the logic sees it: clock, timer, interrupts, other cores, power.

use super::gic::{self, FIRST_PRIVATE, FIRST_SPECIAL, GUEST_MAINTENANCE, GUEST_TIMER, Gic, IPI_STOP};
use super::system_register::{read_register, write_register};
use super::{boot, console, guest, psci, random};
use crate::seeds::Seeds;
use culm_abi::start::SEED_WORDS;
use culm_abi::syscall::FaultReport;
use culm_abi::system::{AFFINITY, ASID_SHIFT, CoreDescription, FIRST_INTERRUPT};
use culm_kernel_core::{Hardware, Interrupt, System};

/// The virtual timer, as it reaches EL1 (PPI 11) and, with VHE, EL2 (PPI 12: `CNTHV`).
const TIMER_EL1: u32 = 27;
const TIMER_EL2: u32 = 28;

/// Waits until an interrupt is pending; interrupts are masked, so nothing is entered.
pub fn wait_for_interrupt() {
    // SAFETY: [K7] WFI only waits. DSB lets all that was written be seen first; ISB lets what was
    // written to system registers take effect, without which the processor may sleep on the timer's
    // old comparison (Arm ARM D13.1.2).
    unsafe { core::arch::asm!("dsb sy", "isb", "wfi", options(nostack, preserves_flags)) }
}

/// Makes later instructions see the effect of earlier register writes.
pub fn synchronise() {
    // SAFETY: [K7] ISB has no effect on memory or registers.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) }
}

/// Makes earlier writes visible to other cores before anything that follows.
pub fn barrier() {
    // SAFETY: [K7] DSB has no effect on memory or registers.
    unsafe { core::arch::asm!("dsb ishst", options(nostack, preserves_flags)) }
}

/// One core's clock, timer and interrupt controller, and the way to other cores.
#[derive(Debug)]
pub struct CoreHardware {
    gic: Gic,
    timer: u32,
    cores: &'static [CoreDescription],
    seeds: Seeds,
}

impl CoreHardware {
    /// Sets up this core's interrupts and timer. The core that boots also sets up the parts that
    /// all cores share.
    pub fn new(index: u32, system: &System<'static>, boots: bool) -> Self {
        let description = &boot::system_header().gic;
        if boots {
            Gic::set_up_distributor(description, system);
        }
        let timer = if read_register!("CurrentEL") == 2 << 2 { TIMER_EL2 } else { TIMER_EL1 };
        let virtual_cpu = system.domains.iter().find(|domain| domain.core == index && domain.virtual_cpu != 0);
        let of_guest = virtual_cpu.map_or(0, |_| 1 << GUEST_TIMER | 1 << GUEST_MAINTENANCE);
        let gic = Gic::new(description, index, &system.cores[index as usize], 1 << timer | of_guest);
        if let Some(virtual_cpu) = virtual_cpu {
            guest::set_up(virtual_cpu, description.version);
        }
        write_register!("cntv_cval_el0", u64::MAX);
        write_register!("cntv_ctl_el0", 1);
        Self { gic, timer, cores: system.cores, seeds: Seeds::new(random::take_first(index)) }
    }

    /// Enables the interrupts of this core's devices. Call it when its domains exist.
    pub fn enable_devices(&self, system: &System, index: u32) {
        self.gic.enable_devices(system, index);
    }

    /// Deals with an interrupt of this core's own that was acknowledged.
    #[inline(never)]
    fn take_private(&mut self, number: u32) -> Option<Interrupt> {
        if number == self.timer {
            self.gic.deactivate(number);
            Some(Interrupt::Timer)
        } else if number == GUEST_TIMER {
            // It stays active: the guest deactivates it when it ends the virtual one.
            guest::timer_has_gone_off();
            Some(Interrupt::GuestTimer)
        } else if number == GUEST_MAINTENANCE {
            guest::end_maintenance();
            self.gic.deactivate(number);
            Some(Interrupt::GuestMaintenance)
        } else if number < FIRST_PRIVATE {
            if number == IPI_STOP {
                stop();
            }
            Some(Interrupt::Ipi)
        } else {
            Some(Interrupt::Device(number))
        }
    }

    /// Starts another core, with a seed of its own.
    pub fn start_core(&mut self, index: u32) {
        random::hand_over(index, self.seed());
        let core = &self.cores[index as usize];
        if let Err(error) = psci::start_core(core.mpidr, boot::secondary_start(), u64::from(index)) {
            panic!(
                "core {index} does not start (PSCI error {error}): has the machine as many cores as the image wants?"
            );
        }
    }
}

impl Hardware for CoreHardware {
    #[inline(always)]
    fn now(&self) -> u64 {
        read_register!("cntvct_el0")
    }

    #[inline]
    fn set_timer(&mut self, time: u64) {
        write_register!("cntv_cval_el0", time);
    }

    fn send_ipi(&mut self, core: u32) {
        self.gic.send_ipi(core, &self.cores[core as usize]);
    }

    #[inline(always)]
    fn take_interrupt(&mut self) -> Option<Interrupt> {
        match self.gic.acknowledge() {
            FIRST_SPECIAL.. => None,
            number @ FIRST_INTERRUPT.. => Some(Interrupt::Device(number)),
            number => self.take_private(number),
        }
    }

    #[inline(always)]
    fn enable_interrupt(&mut self, number: u32) {
        self.gic.deactivate(number);
    }

    fn seed(&mut self) -> [u64; SEED_WORDS] {
        self.seeds.next(random::fresh()).unwrap_or_default()
    }

    #[cold]
    fn given_up(&mut self, domain: u32, fault: &FaultReport) {
        if domain != boot::system_header().console_driver {
            return;
        }
        let FaultReport { kind, syndrome, address, pc, .. } = fault;
        console::println!(
            "\r\nculm: the driver of this console faulted and stays stopped: the log is not seen from here on \
             (fault of kind {kind}, syndrome {syndrome:#x}, address {address:#x}, pc {pc:#x})"
        );
    }

    fn halt(&mut self, status: u64) -> ! {
        stop_others();
        console::println!("\r\nculm: halt, status {status}");
        psci::power_off()
    }
}

/// Returns the ticks of the system counter per second.
pub fn counter_frequency() -> u64 {
    read_register!("cntfrq_el0")
}

/// Stops this core for good.
fn stop() -> ! {
    loop {
        wait_for_interrupt();
    }
}

/// Stops all other cores for good, as soon as they leave the kernel.
pub fn stop_others() {
    gic::stop_others(&boot::system_header().gic);
}

/// Checks that the processor can tell all domains' address-space identifiers apart: one with 8 bits
/// (`ID_AA64MMFR0_EL1.ASIDBits`) would take two domains for one.
pub fn check_address_spaces(system: &System) {
    let bits = if read_register!("id_aa64mmfr0_el1") >> 4 & 0xf == 2 { 16 } else { 8 };
    for domain in system.domains {
        let identifier = domain.table >> ASID_SHIFT;
        assert!(
            identifier != 0 && identifier >> bits == 0,
            "the processor has address-space identifiers of {bits} bits, too few for {} protection domains: \
             say `asid_bits` in the board's file",
            system.domains.len(),
        );
    }
}

/// Returns the affinity of this core.
pub fn affinity() -> u64 {
    read_register!("mpidr_el1") & AFFINITY
}

/// Tells the entry code where this core's state is.
pub fn set_processor(processor: &crate::processor::Processor) {
    write_register!("tpidr_el1", core::ptr::from_ref(processor) as u64);
}
