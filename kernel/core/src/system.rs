//! State that all cores share: the image's tables, and memory that is accessed by atomics.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::generated::GeneratedInterrupts;
use crate::notification::NotificationWord;
use crate::pending::PendingDomains;
use culm_abi::accounting::{CoreAccount, DomainAccount};
use culm_abi::start::SEED_WORDS;
use culm_abi::syscall::FaultReport;
use culm_abi::system::{CoreDescription, DomainDescription, EndDescription, InterruptRoute};

/// The machine, as the logic needs it. Numbers of interrupts are INTIDs, times are ticks of the
/// system counter.
pub trait Hardware {
    /// Returns the time.
    fn now(&self) -> u64;
    /// Asks for a timer interrupt at `time`, in place of the one asked for before.
    fn set_timer(&mut self, time: u64);
    /// Sends an inter-processor interrupt (IPI) to another core, so that it looks at its pending
    /// domains.
    fn send_ipi(&mut self, core: u32);
    /// Takes an interrupt that is pending, if there is one. A device's does not come again before
    /// [`Self::enable_interrupt`].
    fn take_interrupt(&mut self) -> Option<Interrupt>;
    /// Lets an interrupt that was delivered come again.
    fn enable_interrupt(&mut self, number: u32);
    /// Returns random bits that were given to nobody else; all zero if no source of the machine has
    /// ever given any.
    fn seed(&mut self) -> [u64; SEED_WORDS];
    /// Reports that a domain stays stopped after this fault: its supervisor has given it up.
    fn given_up(&mut self, domain: u32, fault: &FaultReport);
    /// Ends the system.
    fn halt(&mut self, status: u64) -> !;
}

/// An interrupt, as the logic tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The timer.
    Timer,
    /// An inter-processor interrupt: another core has made a domain of this one pending.
    Ipi,
    /// A device.
    Device(u32),
    /// The virtual timer of this core's guest, which the machine has made pending for the guest.
    GuestTimer,
    /// The guest has ended an interrupt that its monitor is to be told of. It does not come again
    /// before the guest is resumed.
    GuestMaintenance,
}

/// The tables of a system.
#[derive(Clone, Copy, Debug)]
pub struct System<'s> {
    /// Cores.
    pub cores: &'s [CoreDescription],
    /// Protection domains, sorted by core.
    pub domains: &'s [DomainDescription],
    /// Channel ends of all domains.
    pub ends: &'s [EndDescription],
    /// Routes of the shared peripheral interrupts, from INTID 32.
    pub routes: &'s [InterruptRoute],
    /// Notification words of all domains.
    pub words: &'s [NotificationWord],
    /// Words of pending domains of all cores.
    pub pending_domains: &'s [PendingDomains],
    /// State of all domains that other cores may touch.
    pub shared: &'s [Shared],
    /// Accounts of all cores.
    pub core_accounts: &'s [CoreAccount],
    /// Accounts of all domains.
    pub domain_accounts: &'s [DomainAccount],
}

/// The state of one domain that other cores may touch. All zero is its first state.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Shared {
    /// The supervisor's command that waits to be taken, 0 for none; see [`Command`].
    command: AtomicU32,
    /// Odd while the domain is faulted; guards `fault`, which is written while this is even.
    faulted: AtomicU32,
    fault: [AtomicU64; 8],
    /// Of a virtual CPU: interrupts that others of its guest have sent it.
    pub generated: GeneratedInterrupts,
}

/// A supervisor's command for a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Command {
    /// Go on where it faulted.
    Resume = 1,
    /// Go back to the entry point.
    Restart = 2,
    /// Stop.
    Stop = 3,
}

impl Shared {
    /// Leaves a command for the domain's core; a later command replaces an earlier one that was not
    /// taken yet.
    pub fn command(&self, command: Command) {
        self.command.swap(command as u32, Ordering::AcqRel);
    }

    /// Returns whether there is a command.
    pub fn has_command(&self) -> bool {
        self.command.load(Ordering::Relaxed) != 0
    }

    /// Takes the command, if there is one.
    pub fn take_command(&self) -> Option<Command> {
        if !self.has_command() {
            return None;
        }
        match self.command.swap(0, Ordering::Acquire) {
            1 => Some(Command::Resume),
            2 => Some(Command::Restart),
            3 => Some(Command::Stop),
            _ => None,
        }
    }

    /// Publishes a fault. Called by the domain's own core, for a domain that has none.
    pub fn set_fault(&self, report: &FaultReport) {
        let words =
            [report.kind, report.syndrome, report.address, report.pc, report.sp, report.fp, report.lr, report.restarts];
        // Release before the words: a reader that sees one word of this report also sees that the
        // previous report was withdrawn. Otherwise it could return a mix of two reports.
        fence(Ordering::Release);
        for (to, from) in self.fault.iter().zip(words) {
            to.store(from, Ordering::Relaxed);
        }
        self.faulted.store(self.faulted.load(Ordering::Relaxed) | 1, Ordering::Release);
    }

    /// Withdraws the fault, if there is one: the domain goes on, or is stopped for good. Called by
    /// its own core.
    pub fn clear_fault(&self) {
        let faulted = self.faulted.load(Ordering::Relaxed);
        self.faulted.store(faulted.wrapping_add(faulted & 1), Ordering::Release);
    }

    /// Returns the fault, or a report of kind "none" if there is none or it is withdrawn at this
    /// moment. (If the domain faults again, its supervisor is signalled again.)
    pub fn fault(&self) -> FaultReport {
        let faulted = self.faulted.load(Ordering::Acquire);
        let words: [u64; 8] = core::array::from_fn(|index| self.fault[index].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if faulted & 1 == 0 || self.faulted.load(Ordering::Relaxed) != faulted {
            return FaultReport::default();
        }
        let [kind, syndrome, address, pc, sp, fp, lr, restarts] = words;
        FaultReport { kind, syndrome, address, pc, sp, fp, lr, restarts }
    }
}
