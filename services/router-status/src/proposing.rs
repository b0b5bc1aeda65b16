//! Rules that are with the router: one set at a time, and who waits for its answer.

use core::sync::atomic::AtomicU64;
use culm::Channel;
use culm::time::Instant;
use culm_report::{Answer, Proposal, View};

/// The way to the router.
pub(crate) struct Proposing {
    proposal: Proposal<'static>,
    router: Channel,
    pending: Option<Pending>,
}

/// What is with the router.
struct Pending {
    number: u64,
    /// The connection that waits, if it still does.
    slot: Option<usize>,
    until: Instant,
}

impl Proposing {
    /// Proposals in this memory; `None` if it is too small. What a life before this one has
    /// proposed has nobody who waits for it: it is without its token from now on.
    pub(crate) fn new(words: &'static [AtomicU64], router: Channel) -> Option<Self> {
        let proposal = Proposal::new(words)?;
        proposal.forget_token();
        Some(Self { proposal, router, pending: None })
    }

    /// Returns how many bytes rules may have.
    pub(crate) fn room(&self) -> usize {
        self.proposal.room()
    }

    /// Returns whether the router has not answered yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns until when an answer is waited for.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.until)
    }

    /// Hands rules to the router, with the token of their sender; `slot` waits for the answer until
    /// then. Returns whether there is room for them.
    pub(crate) fn propose(&mut self, slot: usize, token: &str, rules: &str, until: Instant) -> bool {
        let Some(number) = self.proposal.propose(token, rules) else { return false };
        self.router.notify();
        self.pending = Some(Pending { number, slot: Some(slot), until });
        true
    }

    /// Records that a connection is gone. The answer is nobody's then.
    pub(crate) fn forget(&mut self, slot: usize) {
        if let Some(pending) = &mut self.pending {
            pending.slot = pending.slot.filter(|own| *own != slot);
        }
    }

    /// Returns who waits, and the router's answer: once it is there, or nothing if it has taken too
    /// long.
    pub(crate) fn answered(
        &mut self,
        view: Option<&View<'_>>,
        now: Instant,
    ) -> Option<(Option<usize>, Option<Answer>)> {
        let Pending { number, slot, until } = self.pending.as_ref()?;
        let answer = view.and_then(|view| view.answer(*number));
        if answer.is_none() && now < *until {
            return None;
        }
        let slot = *slot;
        self.pending = None;
        // The router reads it no more. Copies may lie elsewhere in this component's memory.
        self.proposal.forget_token();
        Some((slot, answer))
    }
}
