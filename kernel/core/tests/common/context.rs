//! The registers of a domain or virtual CPU, which remember what the kernel did with them.

use culm_abi::start::SEED_WORDS;
use culm_abi::syscall::{CallStatus, Event, FaultReport, MESSAGE_WORDS};
use culm_abi::system::DomainDescription;
use culm_kernel_core::system::Shared;
use culm_kernel_core::{Added, Context, Entry, Trap};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The content of a domain's registers when it goes on.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Seen {
    #[default]
    Nothing,
    Started,
    Notified(u32, u64),
    Called(u32, Vec<u64>),
    Replied(Vec<u64>),
    CalleeGone,
    Fault(u64),
    Exited(u64),
    Entered,
}

#[derive(Debug, Default)]
pub struct FakeContext {
    pub seen: Seen,
    pub seed: [u64; SEED_WORDS],
    kept: [u64; MESSAGE_WORDS],
    /// The page of a virtual CPU: whether the last exit is answered, and how it is to go on.
    pub is_answered: bool,
    pub entry: Entry,
    /// The outcome of the guest's next exception; none stands for an exit.
    pub trap: Option<Trap>,
    /// The interrupts that were generated for the guest.
    pub generated: u32,
    /// The outcome of taking interrupts that the monitor has added, once.
    pub added: Option<Added>,
    /// Whether the ends of its interrupts are none of its monitor's concern.
    pub maintains_itself: bool,
    /// The place of its vector registers.
    vectors: u64,
    /// Whether another has them: then a guest's way in takes them back.
    pub lacks_vectors: bool,
    /// Whether a domain's way in opens them without asking anybody.
    pub opens_vectors: bool,
}

thread_local! {
    /// The vector registers of the machine's cores, one word each, and how often one was stored or
    /// loaded.
    pub static VECTORS: RefCell<BTreeMap<u32, u64>> = const { RefCell::new(BTreeMap::new()) };
    pub static VECTOR_MOVES: Cell<u32> = const { Cell::new(0) };
}

/// A message that begins with these words.
pub fn message(words: &[u64]) -> [u64; MESSAGE_WORDS] {
    let mut message = [0; MESSAGE_WORDS];
    message[..words.len()].copy_from_slice(words);
    message
}

/// The words of a message up to the last that is not zero.
fn words(message: &[u64; MESSAGE_WORDS]) -> Vec<u64> {
    let length = message.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    message[..length].to_vec()
}

impl Context for FakeContext {
    fn new(_: &DomainDescription, _: &Shared, _: &DomainDescription) -> Self {
        Self::default()
    }
    fn start(&mut self, _: u64, _: u64, _: [u64; 2], seed: [u64; SEED_WORDS]) {
        *self = Self { seen: Seen::Started, seed, vectors: self.vectors, ..Self::default() };
    }
    fn trap(&mut self) -> Trap {
        self.trap.unwrap_or(Trap::Exits)
    }
    fn exit(&mut self, reason: u64) {
        self.seen = Seen::Exited(reason);
        self.is_answered = false;
    }
    fn is_answered(&self) -> bool {
        self.is_answered
    }
    fn enter(&mut self, generated: u32) -> Entry {
        self.seen = Seen::Entered;
        self.generated |= if self.entry == Entry::Forgets { 0 } else { generated };
        if self.entry == Entry::Waits && generated != 0 { Entry::Goes } else { self.entry }
    }
    fn take_added(&mut self) -> Added {
        self.added.take().unwrap_or(Added::Nothing)
    }
    fn generate(&mut self, generated: u32) {
        self.generated |= generated;
    }
    fn maintain(&mut self) -> bool {
        !self.maintains_itself
    }
    fn keep_vectors(&mut self, description: &DomainDescription) {
        VECTOR_MOVES.set(VECTOR_MOVES.get() + 1);
        (self.lacks_vectors, self.opens_vectors) = (true, false);
        self.vectors = VECTORS.with_borrow(|cores| cores.get(&description.core).copied().unwrap_or_default());
    }
    fn load_vectors(&mut self, description: &DomainDescription) {
        VECTOR_MOVES.set(VECTOR_MOVES.get() + 1);
        (self.lacks_vectors, self.opens_vectors) = (false, description.virtual_cpu == 0);
        VECTORS.with_borrow_mut(|cores| cores.insert(description.core, self.vectors));
    }
    fn clear_vectors(&mut self, description: &DomainDescription) {
        assert_ne!(description.vectors, 0, "it has no place");
        self.vectors = 0;
    }
    fn notified(&mut self, event: Event, set: u64) {
        assert!(!event.is_call());
        self.seen = Seen::Notified(event.source(), set);
    }
    fn called(&mut self, event: Event, message: &[u64; MESSAGE_WORDS]) {
        assert!(event.is_call());
        self.seen = Seen::Called(event.source(), words(message));
    }
    fn replied(&mut self, status: CallStatus, message: &[u64; MESSAGE_WORDS]) {
        self.seen = if status == CallStatus::Replied { Seen::Replied(words(message)) } else { Seen::CalleeGone };
    }
    fn keep(&mut self, words: &[u64; MESSAGE_WORDS]) {
        self.kept = *words;
    }
    fn kept(&self) -> [u64; MESSAGE_WORDS] {
        self.kept
    }
    fn place(&self) -> [u64; 4] {
        [1, 2, 3, 4]
    }
    fn fault(&mut self, report: &FaultReport) {
        self.seen = Seen::Fault(report.kind);
    }
    fn done(&mut self) {
        self.seen = Seen::Nothing;
    }
}
