//! The saved registers of a protection domain, or of the way into a guest ([`super::guest`]).

use super::boot::no_table;
use super::{guest, vectors};
use culm_abi::start::SEED_WORDS;
use culm_abi::syscall::{CallStatus, Event, FaultReport, MESSAGE_WORDS};
use culm_abi::system::DomainDescription;
use culm_kernel_core::system::Shared;
use culm_kernel_core::{Added, Context, Entry, Trap};

/// How a domain left the core, which decides how its registers are loaded. The entry code uses
/// these numbers.
pub mod resume {
    /// After a system call: only `x8` and `x9` carry a result.
    pub const EVENT: u64 = 0;
    /// After a system call: `x0`–`x9` carry a result.
    pub const MESSAGE: u64 = 1;
    /// After an interrupt or a fault, or never yet: all registers.
    pub const ALL: u64 = 2;
}

/// General registers, and the state for the exception return, in the order in which the entry code
/// stores and loads them by pairs. A system call keeps `x19` to `pc`.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Registers {
    /// `x0`–`x29`. After a system call only `x0`–`x9` and `x19`–`x29` mean something.
    pub x: [u64; 30],
    /// `SP_EL0`.
    pub sp: u64,
    /// The program counter.
    pub pc: u64,
    /// `TTBR0`: the address space, an empty one for a domain that may use vector registers.
    pub table: u64,
    /// `x30`.
    pub link: u64,
    /// `SPSR`; after a system call it is not kept, and zero (EL0, nothing masked) is loaded.
    pub pstate: u64,
    /// One of [`resume`].
    pub resume: u64,
    /// The domain's own address space while the core's vector registers have its content, or else
    /// zero. The entry code opens both to it.
    pub open: u64,
}

impl Registers {
    /// Returns the registers of a domain with this address space, all others zero.
    fn of(table: u64) -> Self {
        Self { x: [0; 30], sp: 0, pc: 0, table, link: 0, pstate: 0, resume: resume::ALL, open: 0 }
    }

    fn set_message(&mut self, x8: u64, words: &[u64; MESSAGE_WORDS]) {
        self.keep(words);
        self.x[8] = x8;
        self.x[9] = 0;
        self.resume = resume::MESSAGE;
    }
}

impl Context for Registers {
    fn new(description: &DomainDescription, shared: &Shared, first: &DomainDescription) -> Self {
        match (description.virtual_cpu, description.vectors) {
            (0, 0) => Self::of(description.table),
            (0, _) => Self::of(no_table()),
            _ => guest::registers(description, shared, first),
        }
    }

    fn start(&mut self, entry: u64, stack: u64, arguments: [u64; 2], seed: [u64; SEED_WORDS]) {
        *self = Self { sp: stack, pc: entry, ..Self::of(self.table) };
        self.x[..2].copy_from_slice(&arguments);
        self.x[2..2 + SEED_WORDS].copy_from_slice(&seed);
    }

    fn trap(&mut self) -> Trap {
        guest::trap(self)
    }

    fn exit(&mut self, reason: u64) {
        guest::exit(self, reason);
    }

    fn is_answered(&self) -> bool {
        guest::is_answered(self)
    }

    fn enter(&mut self, generated: u32) -> Entry {
        guest::enter(self, generated)
    }

    fn take_added(&mut self) -> Added {
        guest::take_added(self)
    }

    fn generate(&mut self, generated: u32) {
        guest::generate(self, generated);
    }

    fn maintain(&mut self) -> bool {
        guest::maintain(self)
    }

    fn keep_vectors(&mut self, description: &DomainDescription) {
        vectors::keep(description);
        self.open = 0;
        if description.virtual_cpu != 0 {
            self.pc = guest::way_in(false);
        }
    }

    fn load_vectors(&mut self, description: &DomainDescription) {
        vectors::load(description);
        match description.virtual_cpu {
            0 => self.open = description.table,
            _ => self.pc = guest::way_in(true),
        }
    }

    fn clear_vectors(&mut self, description: &DomainDescription) {
        vectors::clear(description);
    }

    #[inline(always)]
    fn notified(&mut self, event: Event, set: u64) {
        self.x[8] = event.0;
        self.x[9] = set;
        self.resume = resume::EVENT;
    }

    #[inline]
    fn called(&mut self, event: Event, words: &[u64; MESSAGE_WORDS]) {
        self.set_message(event.0, words);
    }

    #[inline]
    fn replied(&mut self, status: CallStatus, words: &[u64; MESSAGE_WORDS]) {
        self.set_message(status as u64, words);
    }

    #[inline]
    fn keep(&mut self, words: &[u64; MESSAGE_WORDS]) {
        self.x[..MESSAGE_WORDS].copy_from_slice(words);
    }

    #[inline]
    fn kept(&self) -> [u64; MESSAGE_WORDS] {
        let mut words = [0; MESSAGE_WORDS];
        words.copy_from_slice(&self.x[..MESSAGE_WORDS]);
        words
    }

    fn place(&self) -> [u64; 4] {
        let link = if self.resume == resume::ALL { self.link } else { 0 };
        [self.pc, self.sp, self.x[29], link]
    }

    fn fault(&mut self, report: &FaultReport) {
        let words =
            [report.kind, report.syndrome, report.address, report.pc, report.sp, report.fp, report.lr, report.restarts];
        self.set_message(0, &words);
    }

    #[inline(always)]
    fn done(&mut self) {
        self.notified(Event(0), 0);
    }
}
