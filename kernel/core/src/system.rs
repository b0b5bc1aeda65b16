//! What all cores share: the image's tables, and the state that is reached by atomics.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::mailbox::Mailbox;
use crate::word::Word;
use culm_abi::accounting::{CoreAccount, DomainAccount};
use culm_abi::start::SEED_WORDS;
use culm_abi::syscall::FaultReport;
use culm_abi::system::{CoreDescription, DomainDescription, EndDescription, InterruptRoute, NONE, end_kind};

/// What the logic needs of the machine. Numbers of interrupts are INTIDs, times are ticks of the system counter.
pub trait Hardware {
    /// The time.
    fn now(&self) -> u64;
    /// Asks for a timer interrupt at `time`; replaces what was asked for before.
    fn set_timer(&mut self, time: u64);
    /// Interrupts another core, so that it looks into its mailbox.
    fn interrupt_core(&mut self, core: u32);
    /// Lets an interrupt that was delivered come again.
    fn enable_interrupt(&mut self, number: u32);
    /// Random bits that nobody has seen; all zero where the machine has none to give.
    fn seed(&mut self) -> [u64; SEED_WORDS];
    /// Ends the system.
    fn halt(&mut self, status: u64) -> !;
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
    pub words: &'s [Word],
    /// Mailbox words of all cores.
    pub mailboxes: &'s [Mailbox],
    /// State of all domains that other cores may touch.
    pub shared: &'s [Shared],
    /// What each core has done.
    pub core_accounts: &'s [CoreAccount],
    /// What each domain has used.
    pub domain_accounts: &'s [DomainAccount],
}

/// The state of one domain that other cores may touch. All zero is its first state.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Shared {
    /// What its supervisor wants; see [`Command`].
    command: AtomicU32,
    /// Set while the domain is faulted; guards `fault`.
    faulted: AtomicU32,
    fault: [AtomicU64; 8],
}

/// What a supervisor wants of a domain.
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
    /// Leaves a command for the domain's core; a later command replaces an earlier one that was not taken yet.
    pub fn command(&self, command: Command) {
        self.command.swap(command as u32, Ordering::AcqRel);
    }

    /// Takes the command, if there is one.
    pub fn take_command(&self) -> Option<Command> {
        if self.command.load(Ordering::Relaxed) == 0 {
            return None;
        }
        match self.command.swap(0, Ordering::Acquire) {
            1 => Some(Command::Resume),
            2 => Some(Command::Restart),
            3 => Some(Command::Stop),
            _ => None,
        }
    }

    /// Publishes a fault.
    pub fn set_fault(&self, report: &FaultReport) {
        let words =
            [report.kind, report.syndrome, report.address, report.pc, report.sp, report.fp, report.lr, report.restarts];
        for (to, from) in self.fault.iter().zip(words) {
            to.store(from, Ordering::Relaxed);
        }
        self.faulted.store(1, Ordering::Release);
    }

    /// Withdraws the fault: the domain goes on, or is stopped for good.
    pub fn clear_fault(&self) {
        self.faulted.store(0, Ordering::Release);
    }

    /// The fault, or a report of kind "none".
    pub fn fault(&self) -> FaultReport {
        if self.faulted.load(Ordering::Acquire) == 0 {
            return FaultReport::default();
        }
        let word = |index: usize| self.fault[index].load(Ordering::Relaxed);
        FaultReport {
            kind: word(0),
            syndrome: word(1),
            address: word(2),
            pc: word(3),
            sp: word(4),
            fp: word(5),
            lr: word(6),
            restarts: word(7),
        }
    }
}

/// What is wrong with an image's tables ([`System::check`]): the table and the index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTable(pub &'static str, pub usize);

impl System<'_> {
    /// Checks once that every index in the tables is within the table that it points into.
    ///
    /// # Errors
    /// The first table and element that is wrong.
    pub fn check(&self) -> Result<(), BadTable> {
        let within = |first: u32, count: u32, length: usize| {
            first as usize <= length && count as usize <= length - first as usize
        };
        let signal = |word: u32, bit: u32| (word as usize) < self.words.len() && bit < 63;
        let mut next_domain = 0;
        for (index, core) in self.cores.iter().enumerate() {
            if core.first_domain != next_domain
                || !within(core.first_domain, core.domain_count, self.domains.len())
                || !within(core.first_mailbox_word, core.mailbox_words, self.mailboxes.len())
                || core.mailbox_words * 64 < core.domain_count
            {
                return Err(BadTable("cores", index));
            }
            next_domain += core.domain_count;
        }
        if next_domain as usize != self.domains.len()
            || self.shared.len() != self.domains.len()
            || self.domain_accounts.len() != self.domains.len()
            || self.core_accounts.len() != self.cores.len()
        {
            return Err(BadTable("domains", self.domains.len()));
        }
        for (index, domain) in self.domains.iter().enumerate() {
            let core_holds = self.cores.get(domain.core as usize).is_some_and(|core| {
                index as u32 >= core.first_domain && index as u32 - core.first_domain < core.domain_count
            });
            let supervised = domain.supervisor == NONE
                || ((domain.supervisor as usize) < self.domains.len()
                    && signal(domain.supervisor_word, domain.supervisor_bit));
            if !core_holds
                || !supervised
                || domain.priority > 255
                || domain.groups == 0
                || (domain.budget != 0 && domain.period < domain.budget)
                || !within(domain.first_end, domain.end_count, self.ends.len())
                || !within(domain.first_word, domain.groups, self.words.len())
            {
                return Err(BadTable("domains", index));
            }
        }
        for domain in self.domains {
            let first = domain.first_end as usize;
            for (index, end) in self.ends.iter().enumerate().skip(first).take(domain.end_count as usize) {
                let target = (end.target as usize) < self.domains.len();
                let callee = end.callee == NONE
                    || self.cores[domain.core as usize].first_domain.checked_add(end.callee) == Some(end.target);
                let good = match end.kind {
                    end_kind::PEER => target && callee && signal(end.word, end.bit),
                    end_kind::CHILD => target && end.callee == NONE && end.rights == 0,
                    end_kind::INTERRUPT => end.callee == NONE && end.rights == 0,
                    _ => false,
                };
                if !good {
                    return Err(BadTable("ends", index));
                }
            }
        }
        for (index, route) in self.routes.iter().enumerate() {
            if route.domain != NONE && ((route.domain as usize) >= self.domains.len() || !signal(route.word, route.bit))
            {
                return Err(BadTable("interrupts", index));
            }
        }
        Ok(())
    }
}
