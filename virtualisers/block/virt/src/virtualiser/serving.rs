//! Sending the clients' requests to the driver, in the order of their turns (`turns`).

use super::{Owner, Tag, Virtualiser};
use crate::counters;
use crate::turns::WINDOW;
use crate::unflushed::Flush;
use culm_block::driver::Driver;
use culm_block::{Error, Taken};

/// The outcome of the attempt to send a client's next request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The driver has it, or it was answered.
    Done,
    /// There is none, or it waits for another client's flush.
    Nothing,
    /// It may not be sent before its client's turn, or its next one.
    NoRight,
    /// It has to wait for others to end.
    Blocked,
}

/// The requests that the driver was given in a round.
#[derive(Default)]
struct Sent {
    requests: u64,
    blocks: u64,
}

impl<D: Driver<Tag>> Virtualiser<D> {
    /// Sends requests to the driver, as many as may be under way.
    #[inline(always)]
    pub(super) fn serve(&mut self) {
        if self.next_placements.is_some() {
            return;
        }
        let mut sent = Sent::default();
        self.take_turns(&mut sent);
        if sent.requests > 0 {
            counters::REQUESTS.behind(D::COUNTERS_BEFORE).add(sent.requests);
            counters::BLOCKS.behind(D::COUNTERS_BEFORE).add(sent.blocks);
        }
    }

    /// Lets the clients have their turns, until none can send anything more.
    #[inline(always)]
    fn take_turns(&mut self, sent: &mut Sent) {
        // First each client may pass the others once, in the order of their turns from the present
        // one on. Then they take turns.
        let mut passing = self.ready;
        loop {
            let passes = !passing.is_empty();
            let Some(number) = (if passes { passing } else { self.ready }).next_from(self.turn) else { return };
            if passes {
                passing.remove(number);
            } else if number != self.turn {
                self.begin_turn(number);
            }
            self.active.insert(number);
            loop {
                match self.try_next(number, passes, sent) {
                    // It goes on while it can: the turn is still its own.
                    (Attempt::Done, true) if !passes => continue,
                    (Attempt::Blocked, _) if !passes => return,
                    // It has the credit after a few turns, since a request's cost is bounded.
                    (Attempt::NoRight, _) if !passes => self.pass_on(),
                    _ => {}
                }
                break;
            }
        }
    }

    /// Tries to send the next request of a client, in its turn or past the others. Returns besides
    /// whether it may have a further one. One that has none must notify of the next, also while
    /// another one's turn is blocked.
    #[inline(always)]
    fn try_next(&mut self, number: usize, passes: bool, sent: &mut Sent) -> (Attempt, bool) {
        let (attempt, has_more) = self.send(number, passes, sent);
        if !has_more {
            self.rest(number);
        }
        (attempt, has_more)
    }

    /// Records that a client has no request that could be sent.
    #[inline(always)]
    fn rest(&mut self, number: usize) {
        self.ready.remove(number);
        if let [client] = self.clients.as_mut_slice() {
            // There is nobody to whom it could owe anything.
            client.share.forgive();
        }
        if let Some(client) = self.clients.get_mut(number) {
            client.share.rest();
        }
    }

    /// Lets the next client have its turn.
    fn pass_on(&mut self) {
        if let Some(next) = self.ready.next_from(self.turn + 1) {
            self.begin_turn(next);
        }
    }

    /// Lets a client have its turn.
    fn begin_turn(&mut self, number: usize) {
        if number <= self.turn {
            // Each client had a turn. Those that had no use for it owe nothing any more.
            let ready = self.ready;
            for (number, client) in self.clients.iter_mut().enumerate() {
                if !ready.contains(number) {
                    client.share.forgive();
                }
            }
        }
        self.turn = number;
        if let Some(client) = self.clients.get_mut(number) {
            client.share.begin_turn();
        }
    }

    /// Does what [`Self::try_next`] does, but leaves the client ready.
    #[inline(always)]
    fn send(&mut self, number: usize, passes: bool, sent: &mut Sent) -> (Attempt, bool) {
        let idle = self.clients.len() - self.busy;
        let Some(client) = self.clients.get_mut(number) else { return (Attempt::Nothing, false) };
        let next = client.next();
        if client.allowance.is_spent() && self.paused.pause(number, &mut client.allowance) {
            return (Attempt::Nothing, false);
        }
        let Some((operation, cost)) = next else { return (Attempt::Nothing, false) };
        if operation.is_flush() {
            match client.unflushed.flush(self.is_flushing) {
                Flush::Answered(result) => {
                    client.answer_held(result);
                    return (Attempt::Done, client.has_more());
                }
                Flush::Waits => {
                    self.flushing.insert(number);
                    return (Attempt::Nothing, false);
                }
                Flush::Sent => {}
            }
        }
        let (share, was_idle) = (client.share, client.share.is_idle());
        if !(if passes { share.may_pass(cost) } else { share.affords(cost) }) {
            return (Attempt::NoRight, true);
        }
        // A place in the driver's queue is kept for each of the others that may pass, as far as
        // half of the queue reaches.
        let space = self.driver.space();
        let others = idle - usize::from(was_idle);
        let kept = if others == 0 { 0 } else { others.min((space + self.driver.under_way()) / 2) };
        let is_full = if passes { space == 0 } else { space <= kept || self.under_way + cost > WINDOW };
        if is_full {
            return (Attempt::Blocked, true);
        }
        let Some((Taken { token, request }, shift)) = client.take() else { return (Attempt::Nothing, false) };
        let (token, blocks, failed_flushes) = (*token, request.blocks, self.failed_flushes);
        let owner = Owner::Client { number: number as u16, token, cost, operation, failed_flushes };
        if self.driver.forward(request, shift, Tag(owner)).is_err() {
            // There was space, as just seen.
            client.refuse(token, Error::Failed);
            return (Attempt::Done, client.has_more());
        }
        client.share.send(cost);
        let has_more = client.has_more();
        self.busy += usize::from(was_idle);
        self.under_way += cost;
        if operation.is_flush() {
            self.is_flushing = true;
            self.clients.iter_mut().for_each(|client| client.unflushed.cover());
        }
        sent.requests += 1;
        sent.blocks += u64::from(blocks);
        (Attempt::Done, has_more)
    }
}
