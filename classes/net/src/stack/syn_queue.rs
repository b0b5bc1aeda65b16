//! The queue of SYNs, in which they wait where they cannot be answered at once: because a round
//! has answered as many as it may, no place is free, or others wait already.
//!
//! Clients that have a connection come first: their segments end work that was begun, a SYN begins
//! more. So a round that does not get through all that was received answers few, under overload
//! what is begun is finished, and too many new clients cost only the receiving of their SYNs. A SYN
//! waits as a record of its few facts, its buffer goes back at once, and a client that waits
//! already is not queued again. Of a crowd all are equal: a SYN that finds the queue full is
//! dropped before it is read. Of a flood, a client that has asked before takes the place of one
//! that has not: the sender of a flood makes up a new address for each SYN, while a client that
//! wants a connection asks again (RFC 6298 §2). Which place that is, nobody outside can tell.

use super::recent_clients::{Generations, RecentClients};
use super::tcp::unmatched::UnmatchedSegment;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use culm::time::{Duration, Instant};

/// SYNs that wait at most: what is answered in some hundredths of a second.
const CAPACITY: usize = 256;

/// How long a SYN may wait: its sender asks again after that.
const MAX_WAIT: Duration = Duration::from_millis(900);

/// Tags by which waiting clients are known. Two clients that share a place and its tag are taken
/// for one: the second asks again. If they share the place alone, the first one's repetition may be
/// queued a second time.
const TAGS: usize = 1 << 12;

/// Bits for each place for a connection, by which clients are known that asked lately.
const ASKED_BITS: usize = 4096;

/// The same for those whose connection has begun since: they are fewer.
const BEGUN_BITS: usize = 512;

/// The same for those that are to speak first and have said nothing.
const SILENT_BITS: usize = 1024;

/// How long a generation of clients that asked lasts: longer than until the first repetition.
const ASKED: Duration = Duration::from_secs(2);

/// How long one of clients that are to speak first lasts: two are over when the shortest life of a
/// cookie is ([`super::cookie`]). Who comes later has to be told that he comes too late.
const SILENT: Duration = Duration::from_secs(16);

/// A SYN that may be queued: the facts that are known before it is read.
pub(super) struct Candidate {
    /// The keyed hash of its sender.
    pub(super) hash: u64,
    /// Whether its sender has asked before.
    again: bool,
    since: Instant,
}

/// A SYN in the queue.
struct Waiting {
    syn: UnmatchedSegment,
    candidate: Candidate,
}

/// The SYN queue of a stack.
pub(super) struct SynQueue {
    waiting: VecDeque<Waiting>,
    /// A tag for the hash of each client that waits; 0 in places of none.
    tags: Box<[u16]>,
    /// Clients that asked lately.
    asked: RecentClients,
    /// Of those, the clients whose connection has begun.
    begun: RecentClients,
    /// When both forget.
    generations: Generations,
    /// Clients that are to speak first and have said nothing since their handshake.
    silent: RecentClients,
    silences: Generations,
    /// SYNs that came.
    pub(super) attempts: u64,
    /// SYNs that were not answered.
    pub(super) unanswered: u64,
}

impl SynQueue {
    /// Creates the queue of a stack with so many places for connections.
    pub(super) fn new(places: usize) -> Self {
        let capacity = if places == 0 { 0 } else { CAPACITY };
        let tags = if places == 0 { 0 } else { TAGS };
        Self {
            waiting: VecDeque::with_capacity(capacity),
            tags: vec![0; tags].into_boxed_slice(),
            asked: RecentClients::new(places * ASKED_BITS),
            begun: RecentClients::new(places * BEGUN_BITS),
            generations: Generations::new(ASKED),
            silent: RecentClients::new(places * SILENT_BITS),
            silences: Generations::new(SILENT),
            attempts: 0,
            unanswered: 0,
        }
    }

    /// Drops a SYN that came, if the queue is full and there is no flood; returns whether it did.
    /// This is asked before anything else of the SYN is looked at: of a crowd all are equal.
    #[inline]
    pub(super) fn drop_unread(&mut self, is_flood: bool) -> bool {
        let is_dropped = self.waiting.len() >= CAPACITY && !is_flood;
        self.attempts += u64::from(is_dropped);
        self.unanswered += u64::from(is_dropped);
        is_dropped
    }

    /// Counts a SYN that [`Self::drop_unread`] did not drop, whose sender has this hash. Returns
    /// `None` if it is not worth reading: its sender waits already, or the queue is full and either
    /// its sender asks for the first time, or the one in the place that it would get does not.
    pub(super) fn consider(&mut self, hash: u64, now: Instant) -> Option<Candidate> {
        self.attempts += 1;
        self.forget_old(now);
        let candidate = Candidate { hash, again: self.asked.remember(hash), since: now };
        self.begun.forget(hash);
        if self.tags.get(hash as usize % TAGS) == Some(&tag(hash)) {
            return None;
        }
        let has_place =
            self.waiting.len() < CAPACITY || candidate.again && !self.waiting[contested_place(hash)].candidate.again;
        self.unanswered += u64::from(!has_place);
        has_place.then_some(candidate)
    }

    /// Queues a SYN that [`Self::consider`] returned.
    pub(super) fn push(&mut self, syn: UnmatchedSegment, candidate: Candidate) {
        let hash = candidate.hash;
        self.mark(hash, true);
        if self.waiting.len() < CAPACITY {
            return self.waiting.push_back(Waiting { syn, candidate });
        }
        self.unanswered += 1;
        let place = &mut self.waiting[contested_place(hash)];
        let driven_out = core::mem::replace(place, Waiting { syn, candidate });
        self.mark(driven_out.candidate.hash, false);
    }

    /// Records whether a client with this hash waits.
    fn mark(&mut self, hash: u64, waits: bool) {
        let Some(place) = self.tags.get_mut(hash as usize % TAGS) else { return };
        if waits {
            *place = tag(hash);
        } else if *place == tag(hash) {
            *place = 0;
        }
    }

    /// Records that the connection begins for which a client with this hash has asked.
    pub(super) fn begin(&mut self, hash: u64, now: Instant) {
        self.forget_old(now);
        self.begun.remember(hash);
        self.silent.forget(hash);
    }

    /// Takes the memory for clients that ask: there are going to be some, which speak first if the
    /// stack `awaits_requests`.
    pub(super) fn begin_listening(&mut self, awaits_requests: bool) {
        self.asked.take_memory();
        self.begun.take_memory();
        if awaits_requests {
            self.silent.take_memory();
        }
    }

    /// Records that a client with this hash, which is to speak first, has completed its handshake.
    pub(super) fn fall_silent(&mut self, hash: u64, now: Instant) {
        self.silences.advance(now, &mut [&mut self.silent]);
        self.silent.remember(hash);
    }

    /// Returns whether a client with this hash is to speak first and has said nothing yet.
    pub(super) fn is_silent(&mut self, hash: u64, now: Instant) -> bool {
        self.silences.advance(now, &mut [&mut self.silent]);
        self.silent.contains(hash)
    }

    /// Returns whether a client with this hash may be about to begin a connection: it has asked
    /// lately, and none has begun since.
    pub(super) fn may_begin(&mut self, hash: u64, now: Instant) -> bool {
        self.forget_old(now);
        self.asked.contains(hash) && !self.begun.contains(hash)
    }

    /// Returns whether a client with this hash has asked lately.
    pub(super) fn has_asked(&mut self, hash: u64, now: Instant) -> bool {
        self.forget_old(now);
        self.asked.contains(hash)
    }

    /// Forgets who did something too long ago.
    fn forget_old(&mut self, now: Instant) {
        self.generations.advance(now, &mut [&mut self.asked, &mut self.begun]);
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the SYN that has waited longest, without those that have waited too long; its sender's
    /// hash with it.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(UnmatchedSegment, u64)> {
        while let Some(Waiting { syn, candidate }) = self.waiting.pop_front() {
            self.mark(candidate.hash, false);
            if now < candidate.since + MAX_WAIT {
                return Some((syn, candidate.hash));
            }
            self.unanswered += 1;
        }
        None
    }
}

/// Returns the tag for a hash, which is not 0.
fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

/// Returns the place in a full queue that a client takes which has asked before.
fn contested_place(hash: u64) -> usize {
    (hash >> 32) as usize % CAPACITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::classify::Key;
    use culm_tcp::{Header, Sequence};

    fn syn(number: u32) -> UnmatchedSegment {
        let header = Header { sequence: Sequence(number), ..Header::default() };
        let (link, key, is_marked) = ([0; 6], Key::default(), false);
        UnmatchedSegment { link, key, is_version_4: true, header, length: 0, is_marked }
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::default() + Duration::from_millis(milliseconds)
    }

    /// Returns a hash that no other number has, nor its place or tag.
    fn hash(number: u32) -> u64 {
        let number = u64::from(number);
        number | number << 32 | number << 49
    }

    impl SynQueue {
        fn offer(&mut self, syn: UnmatchedSegment, hash: u64, now: Instant) {
            if let Some(candidate) = self.consider(hash, now) {
                self.push(syn, candidate);
            }
        }
    }

    #[test]
    fn a_client_that_asks_again_goes_before_one_that_asks_for_the_first_time() {
        let mut queue = SynQueue::new(64);
        // A client that is dropped, since so many came before.
        for number in 0..CAPACITY as u32 {
            queue.offer(syn(number), hash(number), at(0));
        }
        queue.offer(syn(1000), hash(1000), at(1));
        assert_eq!((queue.waiting.len(), queue.unanswered), (CAPACITY, 1));
        queue.offer(syn(1000), hash(1000), at(500));
        assert_eq!((queue.waiting.len(), queue.unanswered), (CAPACITY, 2));
        assert!(queue.waiting.iter().any(|waiting| waiting.syn.header.sequence.0 == 1000));
    }

    #[test]
    fn of_a_crowd_all_are_equal() {
        let mut queue = SynQueue::new(64);
        (0..CAPACITY as u32).for_each(|number| queue.offer(syn(number), hash(number), at(0)));
        assert!(queue.drop_unread(false));
        assert!(!queue.drop_unread(true));
        assert_eq!((queue.attempts, queue.unanswered), (CAPACITY as u64 + 1, 1));
        assert!(queue.pop(at(1)).is_some() && !queue.drop_unread(false), "there is a place");
    }

    #[test]
    fn clients_that_ask_again_do_not_drive_each_other_out() {
        let mut queue = SynQueue::new(64);
        for now in [0, 1000] {
            // So many that each place is taken, and no client waits twice.
            (0..2 * CAPACITY as u32).for_each(|number| queue.offer(syn(number), hash(number), at(now)));
            queue.waiting.retain(|_| now > 0);
            queue.tags.fill(0);
        }
        assert!(
            queue
                .waiting
                .iter()
                .all(|waiting| waiting.candidate.again && waiting.syn.header.sequence.0 < CAPACITY as u32)
        );
        assert!(queue.consider(hash(0), at(2000)).is_none(), "not worth reading");
        assert_eq!(queue.pop(at(1000)).map(|(syn, _)| syn.header.sequence.0), Some(0));
        assert!(queue.consider(hash(0), at(2000)).is_some(), "there is a place");
    }

    #[test]
    fn clients_that_share_a_place_both_wait() {
        let mut queue = SynQueue::new(64);
        let (first, second) = (7, 7 | 1 << 49);
        queue.offer(syn(1), first, at(0));
        queue.offer(syn(2), second, at(0));
        assert_eq!(queue.waiting.len(), 2);
        assert_eq!(queue.pop(at(1)).map(|(syn, _)| syn.header.sequence.0), Some(1));
        assert!(queue.consider(second, at(1)).is_none(), "it waits still");
    }

    #[test]
    fn a_client_that_repeats_itself_takes_one_place() {
        let mut queue = SynQueue::new(64);
        queue.offer(syn(1), 77, at(0));
        for _ in 0..10 * CAPACITY {
            queue.offer(syn(2), 78, at(1));
        }
        assert_eq!((queue.waiting.len(), queue.unanswered), (2, 0));
        assert_eq!(queue.pop(at(2)).map(|(syn, _)| syn.header.sequence.0), Some(1));
        assert_eq!(queue.pop(at(2)).map(|(syn, _)| syn.header.sequence.0), Some(2));
        queue.offer(syn(2), 78, at(3));
        assert_eq!(queue.waiting.len(), 1, "a client that was answered may ask again");
    }

    #[test]
    fn a_syn_that_has_waited_too_long_is_dropped() {
        let mut queue = SynQueue::new(64);
        queue.offer(syn(1), 1, at(0));
        queue.offer(syn(2), 2, at(500));
        assert_eq!(queue.pop(at(1000)).map(|(syn, _)| syn.header.sequence.0), Some(2));
        assert!(queue.pop(at(1000)).is_none() && queue.is_empty());
        assert_eq!(queue.unanswered, 1);
    }

    /// A client that asked is not remembered for longer than that its connection has begun since,
    /// whenever the two are looked up.
    #[test]
    fn a_connection_that_began_is_remembered_as_long_as_that_it_was_asked_for() {
        for asked in (0..4000).step_by(100) {
            for look in (100..4000).step_by(100) {
                let mut queue = SynQueue::new(64);
                // Others came before.
                queue.offer(syn(1), 1, at(0));
                queue.begin(1, at(1900));
                queue.offer(syn(2), hash(2), at(asked + 2000));
                queue.begin(hash(2), at(asked + 2050));
                for now in (0..10).map(|step| at(asked + 2050 + step * look)) {
                    assert!(!queue.may_begin(hash(2), now), "asked {asked}, looked each {look} ms: {now:?}");
                }
            }
        }
    }
}
