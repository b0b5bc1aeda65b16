//! A client's requests that are under way: each in a slot until it is answered.

use crate::{Error, Request, RequestEntry};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use culm::order;

/// Slots that only the client's own requests take. Without one, requests that all wait for a file
/// to be opened again would leave no slot for that, and wait for ever.
const OWN: u16 = 1;

/// In place of how many requests were sent before one: it has ended, and is not sent again.
const ENDED: u64 = u64::MAX;

/// The one whose request it is.
#[derive(Debug)]
pub enum Use<T> {
    /// The user of the client, who has this name for it.
    Request(T),
    /// The client itself.
    Own,
}

/// One request that is under way.
#[derive(Debug)]
struct Slot<T> {
    /// `None` if the slot is free.
    used: Option<Use<T>>,
    /// The request's name in the queues: the slot's number, with another number above it each time.
    /// Otherwise an answer that comes twice would answer the slot's next request.
    token: u16,
    /// How many requests were sent before it, or [`ENDED`].
    sent_before: u64,
    /// Whether the provider's present life can have seen it.
    is_sent: bool,
    /// Whether an earlier life of it can have seen it.
    is_repeated: bool,
    request: Request,
}

/// The slots.
#[derive(Debug)]
pub struct Slots<T> {
    slots: Box<[Slot<T>]>,
    /// Slots without a request.
    free: Vec<u16>,
    /// Slots whose requests are to be sent, in their order.
    waiting: VecDeque<u16>,
    /// Slots whose requests have ended without the provider, and why.
    ended: Vec<(u16, Error)>,
    /// The difference between one token of a slot and the next: a power of two, no less than the
    /// count of slots.
    stride: u16,
    /// How many requests were ever sent.
    sent: u64,
}

impl<T> Slots<T> {
    /// So many of them for requests of the user, and [`OWN`] besides.
    pub fn new(depth: u16) -> Self {
        let count = depth + OWN;
        let slot = |token| Slot {
            used: None,
            token,
            sent_before: 0,
            is_sent: false,
            is_repeated: false,
            request: Request { operation: crate::Operation::Close, file: 0, position: 0, place: 0, length: 0 },
        };
        Self {
            slots: (0..count).map(slot).collect(),
            free: (0..count).rev().collect(),
            waiting: VecDeque::with_capacity(count.into()),
            ended: Vec::with_capacity(count.into()),
            stride: count.next_power_of_two(),
            sent: 0,
        }
    }

    #[inline(always)]
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns how many more requests the user can send.
    #[inline(always)]
    pub fn space(&self) -> usize {
        self.free.len().saturating_sub(usize::from(OWN))
    }

    /// Returns whether the client itself can send one more.
    pub fn has_own_space(&self) -> bool {
        !self.free.is_empty()
    }

    #[inline(always)]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    #[inline(always)]
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Takes back what was sent, and gives up what the client itself asked for. What was asked for
    /// is sent again in its order.
    pub fn start_over(&mut self) {
        let slots = &mut self.slots;
        self.ended.retain(|(index, _)| {
            let slot = slots.get_mut(usize::from(*index)).filter(|slot| matches!(slot.used, Some(Use::Request(_))));
            slot.map(|slot| slot.sent_before = ENDED).is_some()
        });
        self.waiting.clear();
        for index in 0..self.slots.len() as u16 {
            let Some(slot) = self.slots.get_mut(usize::from(index)) else { continue };
            slot.is_repeated |= slot.is_sent;
            slot.is_sent = false;
            match slot.used {
                Some(Use::Own) => _ = self.release(index),
                Some(Use::Request(_)) if slot.sent_before != ENDED => self.waiting.push_back(index),
                _ => {}
            }
        }
        let slots = &self.slots;
        order::sort(self.waiting.make_contiguous(), |index| slots[usize::from(index)].sent_before);
    }

    /// Takes a slot for a request that is sent behind all others. There must be space.
    #[inline]
    pub fn send(&mut self, used: Use<T>, request: Request) {
        if let Some(index) = self.fill(used, request) {
            self.waiting.push_back(index);
        }
    }

    /// The same, before all others.
    pub fn send_first(&mut self, used: Use<T>, request: Request) {
        if let Some(index) = self.fill(used, request) {
            self.waiting.push_front(index);
        }
    }

    #[inline]
    fn fill(&mut self, used: Use<T>, request: Request) -> Option<u16> {
        let index = self.free.pop()?;
        let slot = self.slots.get_mut(usize::from(index))?;
        (slot.used, slot.request, slot.is_sent, slot.is_repeated) = (Some(used), request, false, false);
        slot.sent_before = self.sent;
        self.sent += 1;
        Some(index)
    }

    /// Ends those of the requests that wait that are meant.
    pub fn end_waiting(&mut self, error: Error, is_meant: impl Fn(&Request) -> bool) {
        let (slots, ended) = (&self.slots, &mut self.ended);
        self.waiting.retain(|index| {
            let is_ended = slots.get(usize::from(*index)).is_some_and(|slot| is_meant(&slot.request));
            if is_ended {
                ended.push((*index, error));
            }
            !is_ended
        });
    }

    /// Returns the next request that has ended without the provider.
    #[inline(always)]
    pub fn next_ended(&mut self) -> Option<(u16, Error)> {
        self.ended.pop()
    }

    /// Returns the slot to which a token belongs, if it belongs to one.
    #[inline(always)]
    pub fn index(&self, token: u16) -> u16 {
        token & (self.stride - 1)
    }

    /// Returns whether a request of this token is at the provider.
    #[inline(always)]
    pub fn is_sent(&self, token: u16) -> bool {
        let slot = self.slots.get(usize::from(self.index(token)));
        slot.is_some_and(|slot| slot.is_sent && slot.token == token)
    }

    /// Frees the slot of a request that is complete; returns whose it is, what it was, and whether
    /// it was sent more than once.
    #[inline]
    pub fn release(&mut self, index: u16) -> Option<(Use<T>, Request, bool)> {
        let slot = self.slots.get_mut(usize::from(index))?;
        let used = slot.used.take()?;
        slot.is_sent = false;
        slot.token = slot.token.wrapping_add(self.stride);
        self.free.push(index);
        Some((used, slot.request, slot.is_repeated))
    }

    /// Sends those of the requests that wait that `may` go, as long as `push` takes them. Returns
    /// whether it did not take one.
    #[inline]
    pub fn push_waiting(&mut self, may: impl Fn(&Request) -> bool, mut push: impl FnMut(RequestEntry) -> bool) -> bool {
        let (mut is_full, slots) = (false, &mut self.slots);
        self.waiting.retain(|index| {
            let Some(slot) = slots.get_mut(usize::from(*index)) else { return false };
            if is_full || !may(&slot.request) {
                return true;
            }
            is_full = !push(RequestEntry::new(&slot.request, slot.token));
            slot.is_sent = !is_full;
            is_full
        });
        is_full
    }
}
