//! A filter of clients that did something lately.
//!
//! There are three. The first has those that asked for a connection, and serves two decisions. A
//! flood of SYNs has a new forged sender in each, while a client that wants a connection asks again
//! after a second (RFC 6298 §2): so if there are too many, those that ask again come first. And a
//! segment of a client that has asked lately may be of a connection that could not begin yet: it is
//! not answered by a reset.
//!
//! The second has those whose connection has begun since they asked. A segment of such a connection
//! that nobody knows is of one that is over.
//!
//! The third has those who are to speak first, have completed their handshake, and have said
//! nothing yet. Nothing else is known of them; what they send besides their first words, a
//! repetition or a question whether this side is there, must not be answered by a reset.
//!
//! A filter keeps a bit for each client, by hash, in two generations: the older one is forgotten
//! when the younger one ends, in the first two filters at once ([`Generations`]). If each of these
//! had its own time for that, the second could forget a client that the first still knows: a
//! segment of a connection that is over would be taken for one of a connection that is to begin.
//! Strangers that share a bit are taken for one; there are bits enough that few do.

use alloc::vec::Vec;
use culm::time::{Duration, Instant};

/// The time at which filters forget.
pub(super) struct Generations {
    /// How long a generation lasts: so a client is remembered for this long at least.
    length: Duration,
    ends: Instant,
}

impl Generations {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, ends: Instant::default() }
    }

    /// Begins a new generation of all `filters` if the current one is over. Call this before they
    /// are asked or told anything.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant, filters: &mut [&mut RecentClients]) {
        if now >= self.ends {
            let are_both_over = now >= self.ends + self.length;
            self.ends = if are_both_over { now } else { self.ends } + self.length;
            filters.iter_mut().for_each(|filter| filter.begin_generation(are_both_over));
        }
    }
}

/// The clients that did something lately.
pub(super) struct RecentClients {
    /// The bits, some of both generations side by side; empty while there is no memory.
    lines: Vec<Line>,
    /// Which of the two generations is the current one.
    current: bool,
    /// How many lines there are to be, a power of two.
    length: usize,
}

/// Bits of one generation beside those of the other.
type Line = [[u64; WORDS]; 2];

/// Words of a generation in a line.
const WORDS: usize = 8;

impl RecentClients {
    /// Creates an empty filter with at least so many bits.
    pub(super) fn new(bits: usize) -> Self {
        Self { lines: Vec::new(), current: false, length: bits.div_ceil(64 * WORDS).next_power_of_two() }
    }

    /// Remembers the client with this hash; returns whether it was known.
    #[cold]
    pub(super) fn remember(&mut self, hash: u64) -> bool {
        let (line, word, bit) = self.place(hash);
        // Where there is no memory to remember clients in, all count as known.
        let Some(line) = self.lines.get_mut(line) else { return true };
        let is_known = (line[0][word] | line[1][word]) & bit != 0;
        line[usize::from(self.current)][word] |= bit;
        is_known
    }

    /// Forgets the client with this hash, and those that share its bit.
    #[cold]
    pub(super) fn forget(&mut self, hash: u64) {
        let (line, word, bit) = self.place(hash);
        if let Some([first, second]) = self.lines.get_mut(line) {
            first[word] &= !bit;
            second[word] &= !bit;
        }
    }

    /// Returns whether the client with this hash is known.
    #[cold]
    pub(super) fn contains(&self, hash: u64) -> bool {
        let (line, word, bit) = self.place(hash);
        self.lines.get(line).is_some_and(|[first, second]| (first[word] | second[word]) & bit != 0)
    }

    /// Returns the line for a hash, the word in it and the bit in that.
    fn place(&self, hash: u64) -> (usize, usize, u64) {
        let word = (hash / 64) as usize;
        ((word / WORDS) & (self.length - 1), word % WORDS, 1 << (hash % 64))
    }

    /// Takes the memory, which else is taken for the first client.
    #[cold]
    pub(super) fn take_memory(&mut self) {
        if self.lines.is_empty() && self.lines.try_reserve_exact(self.length).is_ok() {
            self.lines.resize(self.length, Line::default());
        }
    }

    /// Begins a new generation, and forgets the one before the current one; if `are_both_over`, the
    /// current one too.
    #[cold]
    fn begin_generation(&mut self, are_both_over: bool) {
        self.take_memory();
        self.current = !self.current;
        let (current, before) = (usize::from(self.current), usize::from(!self.current));
        for line in &mut self.lines {
            line[current] = [0; WORDS];
            if are_both_over {
                line[before] = [0; WORDS];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_again_for_a_while() {
        let (mut recent, mut other) = (RecentClients::new(16_384), RecentClients::new(64));
        let mut generations = Generations::new(Duration::from_secs(2));
        let at = |milliseconds| Instant::default() + Duration::from_millis(milliseconds);
        for (now, again) in [(0, false), (1000, true), (2900, true), (4700, true), (20_000, false), (21_000, true)] {
            generations.advance(at(now), &mut [&mut recent, &mut other]);
            assert_eq!(recent.contains(77), again, "{now}");
            assert_eq!(recent.remember(77), again, "{now}");
            assert!(recent.contains(77) && !other.contains(77));
        }
        assert!(!recent.remember(78));
        recent.forget(77);
        assert!(recent.contains(78) && !recent.contains(77));
    }

    /// However seldom somebody asks.
    #[test]
    fn nobody_is_known_after_two_generations() {
        let mut generations = Generations::new(Duration::from_secs(16));
        let mut recent = RecentClients::new(64);
        let mut is_known = |seconds| {
            let now = Instant::default() + Duration::from_secs(seconds);
            generations.advance(now, &mut [&mut recent]);
            let is_known = recent.contains(77);
            recent.remember(if seconds == 100 { 77 } else { 78 });
            is_known
        };
        assert_eq!([100, 115, 131, 132].map(&mut is_known), [false, true, true, false]);
        assert_eq!([200, 300].map(is_known), [false, false]);
    }

    #[test]
    fn few_are_taken_for_others() {
        let mut recent = RecentClients::new(64 * 4096);
        recent.take_memory();
        let mut hash = 1_u64;
        let mistaken = (0..20_000).filter(|_| {
            hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            recent.remember(hash >> 20)
        });
        assert!(mistaken.count() < 2000);
    }
}
