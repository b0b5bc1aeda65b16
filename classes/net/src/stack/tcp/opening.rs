//! How a connection begins: SYNs are answered by cookies, and what brings a cookie back makes a
//! connection.

use super::unmatched::UnmatchedSegment;
use super::{Tcp, Times};
use crate::client::Transmitter;
use crate::stack::cookie::Offer;
use crate::stack::frame::Route;
use crate::stack::syn_queue::Candidate;
use culm_tcp::{Algorithm, Sequence, Settings, Span, answer_to};

/// How often in a row something is sent again after a timeout; the next one ends the connection,
/// with a round trip of some milliseconds after three and a half minutes.
const ATTEMPTS: u8 = 10;

/// What connections between these ports are made with. `windows` are the bytes that are kept for
/// the application to read, at first and at most. The initial number, sizes of segments and the
/// offset of timestamps are still to be set.
pub(in crate::stack) fn settings(source: u16, destination: u16, windows: [u32; 2]) -> Settings {
    Settings {
        source,
        destination,
        initial: Sequence(0),
        segment: 0,
        usual_segment: 0,
        longest_train: 0,
        capacity: windows[1],
        first_capacity: windows[0],
        ecn: true,
        algorithm: Algorithm::Cubic,
        stamp_offset: 0,
        // Off unless the application asks for it (RFC 9293 §3.8.4).
        keep_alive: None,
        attempts: ATTEMPTS,
        // Never ends: the stack keeps a record in its place (`time_wait`).
        time_wait: Span(u32::MAX),
    }
}

impl Tcp {
    fn settings_for(&self, segment: &UnmatchedSegment, initial: Sequence, route: &Route) -> Settings {
        let settings = settings(segment.header.destination, segment.header.source, self.windows);
        let (segment, usual_segment) = (route.segment(), route.usual_segment());
        Settings { initial, segment, usual_segment, stamp_offset: self.stamp_offset, ..settings }
    }

    /// Begins the connection whose handshake the received segment completes. Its key has this hash.
    pub(super) fn complete(
        &mut self,
        last: &UnmatchedSegment,
        hash: u64,
        payload: &[u8],
        offer: Offer,
        transmitter: &mut Transmitter,
        times: Times,
    ) {
        self.promises.come(times.now);
        let Some(index) = self.place(transmitter, times) else {
            self.crowded += 1;
            return;
        };
        let route = last.route(&self.station);
        let settings = self.settings_for(last, last.header.acknowledgement - 1, &route);
        self.table.occupy(index, last.key, hash);
        let slot = &mut self.table[index];
        slot.connection.resume(settings, &offer.options(), &last.header, times.tcp);
        slot.connection.keep_up_to(self.windows[0]);
        slot.begin(route, last.header.destination, true, times.now);
        slot.receive_rarely(&last.header, payload, last.is_marked, times.tcp);
        self.opened += 1;
        self.syn_queue.begin(hash, times.now);
        self.spent_cookies.remember(hash, last.header.acknowledgement.0.wrapping_sub(1));
        self.mark_dirty(index);
        self.queue_event(index);
    }

    /// Answers a SYN at once if nobody who came before can lose by that, and else has it wait.
    pub(super) fn take_syn(
        &mut self,
        syn: &UnmatchedSegment,
        candidate: Candidate,
        transmitter: &mut Transmitter,
        times: Times,
    ) {
        if self.syn_budget == 0 || !self.syn_queue.is_empty() || !self.has_plenty(times.now) {
            return self.syn_queue.push(*syn, candidate);
        }
        self.answer(syn, candidate.hash, transmitter, times);
    }

    /// Answers SYNs that wait, as long as there are places and buffers. Returns whether some are
    /// left that could be answered. If only a buffer lacks, the client gets a turn when there is
    /// one.
    #[inline]
    pub(in crate::stack) fn answer_syns(&mut self, transmitter: &mut Transmitter, times: Times) -> bool {
        self.is_crowded = false;
        !self.syn_queue.is_empty() && self.answer_some_syns(transmitter, times)
    }

    #[cold]
    fn answer_some_syns(&mut self, transmitter: &mut Transmitter, times: Times) -> bool {
        while transmitter.becomes_ready() {
            self.is_crowded = !self.has_opening(times.now);
            if self.is_crowded {
                break;
            }
            if self.syn_budget == 0 {
                return !self.syn_queue.is_empty();
            }
            let Some((syn, hash)) = self.syn_queue.pop(times.now) else { break };
            self.answer(&syn, hash, transmitter, times);
        }
        false
    }

    /// Answers a SYN whose key has this hash, if there is a buffer to send in, and not each cookie
    /// for it has begun a connection already, from the same first number. Else its sender asks
    /// again, when there is another one.
    #[inline(never)]
    fn answer(&mut self, syn: &UnmatchedSegment, hash: u64, transmitter: &mut Transmitter, times: Times) {
        self.syn_budget -= 1;
        let mut cookies = self.cookies.make(hash, syn.header.sequence.0, syn.offer(), times.tcp);
        let Some(ours) = cookies.find(|cookie| !self.spent_cookies.has(hash, *cookie)) else {
            self.syn_queue.unanswered += 1;
            return;
        };
        let route = syn.route(&self.station);
        let settings = self.settings_for(syn, Sequence(ours), &route);
        if route.send_alone(transmitter, &answer_to(&settings, &syn.header, times.tcp)) {
            self.promises.tell(times.now);
        }
    }
}
