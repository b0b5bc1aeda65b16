//! The report: the rules in use with their counters, and the answer to what was proposed.
//!
//! ```text
//! word  0  signature            6  number of the proposal that was answered last
//!       1  generation           7  verdict
//!       2  rules                8  bytes of what was said
//!       3  the text in use      9  flows that ended with it
//!                              16  line and count of each rule, the default's last
//!                                  then what was said, then two texts, each:
//!       0  bytes                1  how they came
//!       2  when, in ms          4  the text of the rules
//! ```
//!
//! Other rules are written where those in use are not, and are in use by one store, of word 3: a
//! router that ends at any moment leaves either, whole.
//!
//! The generation is odd while lines and that word are written, so that a reader sees both of one
//! set of rules or asks again. Counts change all the time: each is a word by itself.
//!
//! The verdict does the same for the answer: it is 0 while the answer is written, and is stored
//! last. A reader loads verdict and number again when it has read the rest, and asks again if they
//! are others.

use crate::text;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

/// Rules that a report has room for, the default not counted.
pub const RULES: usize = 4096;

/// Bytes that an answer has at most; the rest is left out.
pub const LONGEST_ANSWER: usize = 8192;

const HEADER: usize = 16;
const COUNTS: usize = 2 * (RULES + 1);
const SAID: usize = LONGEST_ANSWER / 8;
const TEXT_HEADER: usize = 4;

/// First word of memory of this layout.
const SIGNATURE: u64 = u64::from_be_bytes(*b"culmrep2");

/// How often a reader tries to see rules that are not just being exchanged.
const TRIES: usize = 4;

/// Returns how many words a report with rules of so many bytes needs.
pub const fn report_words(text: usize) -> usize {
    HEADER + COUNTS + SAID + 2 * (TEXT_HEADER + text.div_ceil(8))
}

/// How the rules in use came, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// Whether they were proposed while the router ran; otherwise they are those of the system.
    pub is_proposed: bool,
    /// Milliseconds since the machine was switched on.
    pub time: u64,
}

/// What has become of rules that were proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The router is at it.
    Begun,
    /// They are in use.
    Taken,
    /// Those before them stay in use.
    Refused,
    /// The same, since they came without the token; nobody has looked at them.
    Forbidden,
}

/// The answer to a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The proposal's number.
    pub number: u64,
    /// What has become of it.
    pub verdict: Verdict,
    /// Why, in lines for people.
    pub said: String,
    /// Flows that ended since the new rules do not let them be.
    pub ended: u64,
}

/// Counts of rules, as the router keeps them. Without a report there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts<'a>(&'a [[AtomicU64; 2]]);

impl Counts<'_> {
    /// Records how many packets a rule was about.
    #[inline]
    pub fn set(&self, rule: usize, count: u64) {
        if let Some([_, word]) = self.0.get(rule) {
            word.store(count, Relaxed);
        }
    }
}

/// A place for the text of rules.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    header: &'a [AtomicU64; TEXT_HEADER],
    text: &'a [AtomicU64],
}

impl<'a> Place<'a> {
    fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (header, text) = words.split_first_chunk()?;
        Some(Self { header, text })
    }

    fn write(&self, rules: &str, since: Since) {
        let [length, proposed, time, _] = self.header;
        length.store(text::write(self.text, rules) as u64, Relaxed);
        proposed.store(u64::from(since.is_proposed), Relaxed);
        time.store(since.time, Relaxed);
    }

    fn read(&self) -> Option<(String, Since)> {
        let [length, proposed, time, _] = self.header;
        let since = Since { is_proposed: proposed.load(Relaxed) == 1, time: time.load(Relaxed) };
        Some((text::read(self.text, length.load(Relaxed))?, since))
    }
}

/// The memory, divided.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    header: &'a [AtomicU64; HEADER],
    counts: &'a [[AtomicU64; 2]],
    said: &'a [AtomicU64],
    places: [Place<'a>; 2],
}

impl<'a> Parts<'a> {
    fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (header, rest) = words.split_first_chunk()?;
        let (counts, rest) = rest.split_at_checked(COUNTS)?;
        let (said, rest) = rest.split_at_checked(SAID)?;
        let (first, second) = rest.split_at(rest.len() / 2);
        let places = [Place::new(first)?, Place::new(second)?];
        Some(Self { header, counts: counts.as_chunks().0, said, places })
    }

    /// Returns how many bytes rules may have.
    fn room(&self) -> usize {
        // The second place has a word more, if one has.
        self.places[0].text.len() * 8
    }

    /// Returns which of the two texts is in use.
    fn in_use(&self) -> usize {
        (self.header[3].load(Acquire) & 1) as usize
    }

    /// Returns the answer that is there. `None`: there is none, or another one is just written.
    fn answer(&self) -> Option<Answer> {
        (0..TRIES).find_map(|_| self.try_answer())
    }

    fn try_answer(&self) -> Option<Answer> {
        let [_, _, _, _, _, _, number, verdict, length, ended, ..] = self.header;
        // The verdict is stored last: with it all before it is there.
        let whole = || (verdict.load(Acquire), number.load(Relaxed));
        let before = whole();
        let verdict = match before.0 {
            1 => Verdict::Begun,
            2 => Verdict::Taken,
            3 => Verdict::Refused,
            4 => Verdict::Forbidden,
            _ => return None,
        };
        let said = text::read(self.said, length.load(Relaxed))?;
        let ended = ended.load(Relaxed);
        // Whoever has seen a word of the next answer sees that this one's verdict is gone.
        fence(Acquire);
        (whole() == before).then_some(Answer { number: before.1, verdict, said, ended })
    }
}

/// The router's side of its report.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    parts: Parts<'a>,
}

impl<'a> Report<'a> {
    /// The report in this memory, with what a previous life has left there. `None`: the memory is
    /// too small.
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let parts = Parts::new(words)?;
        if parts.header[0].load(Relaxed) != SIGNATURE {
            parts.header.iter().for_each(|word| word.store(0, Relaxed));
            parts.header[0].store(SIGNATURE, Release);
        }
        Some(Self { parts })
    }

    /// Returns how many bytes rules may have.
    pub fn room(&self) -> usize {
        self.parts.room()
    }

    /// Returns the rules that a previous life was given while it ran, and when that was. `None`:
    /// there was none, or it had those of the system.
    pub fn left(&self) -> Option<(String, Since)> {
        // Of no life that has shown any rules.
        if self.parts.header[1].load(Relaxed) == 0 {
            return None;
        }
        self.parts.places[self.parts.in_use()].read().filter(|(_, since)| since.is_proposed)
    }

    /// Shows rules: their text, and of each the line where it stands. All counts become zero.
    /// Returns whether there is room; without, nothing is shown.
    pub fn show(&self, rules: &str, lines: impl ExactSizeIterator<Item = u32>, since: Since) -> bool {
        let Parts { header, counts, places, .. } = self.parts;
        let [_, generation, count, in_use, ..] = header;
        let has_room = rules.len() <= self.room() && lines.len() <= RULES;
        // A reader of this text, which was in use before, sees that the generation is another.
        fence(Release);
        let other = 1 - self.parts.in_use();
        match has_room {
            true => places[other].write(rules, since),
            false => places[other].write("", Since { is_proposed: false, ..since }),
        }
        // A life that died in between has left an odd one.
        let odd = generation.load(Relaxed) | 1;
        generation.store(odd, Relaxed);
        fence(Release);
        in_use.store(other as u64, Release);
        count.store(if has_room { lines.len() as u64 } else { 0 }, Relaxed);
        // The default stands behind the last rule.
        let lines = lines.take(if has_room { RULES } else { 0 });
        for (words, line) in counts.iter().zip(lines.chain([0])) {
            words[0].store(line.into(), Relaxed);
            words[1].store(0, Relaxed);
        }
        generation.store(odd.wrapping_add(1), Release);
        has_room
    }

    /// Returns where rules are counted.
    pub fn counts(&self) -> Counts<'a> {
        Counts(self.parts.counts)
    }

    /// Returns the answer that was given last, in this life or in a previous one.
    pub fn answered(&self) -> Option<Answer> {
        self.parts.answer()
    }

    /// Answers a proposal.
    pub fn answer(&self, answer: &Answer) {
        let [_, _, _, _, _, _, number, verdict, length, ended, ..] = self.parts.header;
        // A reader that comes in between finds no verdict.
        verdict.store(0, Relaxed);
        fence(Release);
        length.store(text::write(self.parts.said, &answer.said) as u64, Relaxed);
        ended.store(answer.ended, Relaxed);
        number.store(answer.number, Relaxed);
        let value = match answer.verdict {
            Verdict::Begun => 1,
            Verdict::Taken => 2,
            Verdict::Refused => 3,
            Verdict::Forbidden => 4,
        };
        verdict.store(value, Release);
    }
}

/// Rules as they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Their text.
    pub text: String,
    /// How they came, and when.
    pub since: Since,
    /// Of each rule the line where it stands and how many packets it was about; the default's line
    /// is 0.
    pub counts: Vec<(u32, u64)>,
}

/// The other side of a report.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    parts: Parts<'a>,
}

impl<'a> View<'a> {
    /// The report in this memory. `None`: the memory is too small.
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        Some(Self { parts: Parts::new(words)? })
    }

    /// Returns how many bytes rules may have.
    pub fn room(&self) -> usize {
        self.parts.room()
    }

    /// Returns the rules in use. `None`: the router has not said yet, or others just take their
    /// place.
    pub fn rules(&self) -> Option<Shown> {
        (0..TRIES).find_map(|_| self.try_rules())
    }

    fn try_rules(&self) -> Option<Shown> {
        let Parts { header, counts, places, .. } = self.parts;
        let [signature, generation, count, ..] = header;
        let before = generation.load(Acquire);
        if signature.load(Relaxed) != SIGNATURE || before == 0 || !before.is_multiple_of(2) {
            return None;
        }
        let count = usize::try_from(count.load(Relaxed)).ok()?.min(RULES);
        let counts = counts.iter().take(count + 1);
        let counts = counts.map(|[line, count]| (line.load(Relaxed) as u32, count.load(Relaxed))).collect();
        let (text, since) = places[self.parts.in_use()].read()?;
        fence(Acquire);
        (generation.load(Relaxed) == before).then_some(Shown { text, since, counts })
    }

    /// Returns the answer to the proposal `number`, once there is one.
    pub fn answer(&self, number: u64) -> Option<Answer> {
        self.parts.answer().filter(|answer| answer.number == number && answer.verdict != Verdict::Begun)
    }
}
