//! Decisions of a moment ago: frames of one station to another come in numbers, and what was
//! decided on the first is right for all that follow, as long as nothing has changed that it
//! depends on.
//!
//! That is the port, the beginning of the frame, the second in which the table is asked, and what
//! the table has ([`Table::changes`](crate::table::Table::changes)). So a decision is kept with
//! these, and found only where all are the same. Only decisions on frames for a station that is
//! known are kept: frames for many are held to a rate, each by itself.
//!
//! Whoever chooses addresses so that two decisions drive each other out has his frames decided on
//! one by one, as they would be without this.

use crate::HEAD;
use crate::bridge::Forwarding;
use alloc::boxed::Box;
use alloc::vec;

/// Decisions that are kept: a power of two.
const PLACES: usize = 64;

/// What a decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The addresses, in words.
    addresses: (u64, u32),
    /// What follows them, where tags mean something; else 0.
    rest: (u32, u16),
    from: u8,
    second: u32,
    changes: u32,
}

impl Question {
    /// The question about a frame that comes by a port and begins so, with what the table says of
    /// itself. `None` if it is cut short, or the port is no port.
    #[inline(always)]
    pub fn new(head: &[u8], from: usize, second: u32, changes: u32, is_transparent: bool) -> Option<Self> {
        let head: &[u8; HEAD] = head.first_chunk()?;
        let (first, rest) = head.split_first_chunk()?;
        let (second_word, rest) = rest.split_first_chunk()?;
        let addresses = (u64::from_le_bytes(*first), u32::from_le_bytes(*second_word));
        let rest = if is_transparent {
            (0, 0)
        } else {
            let (tag, kind) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*tag), u16::from_le_bytes(*kind.first_chunk()?))
        };
        Some(Self { addresses, rest, from: u8::try_from(from).ok()?, second, changes })
    }

    /// Returns where its decision is kept: by the last bytes of both addresses, in which stations
    /// of one network differ.
    #[inline(always)]
    fn place(&self) -> usize {
        let (first, last) = self.addresses;
        let (to, source) = ((first >> 40) as usize, (last >> 24) as usize);
        (to ^ source << 3 ^ source >> 3) & (PLACES - 1)
    }
}

/// A decision.
#[derive(Clone, Copy, Debug)]
struct Decision {
    question: Question,
    forwarding: Forwarding,
    /// The port to which alone the frame goes as it came, and nobody else sees it.
    alone: Option<u8>,
}

/// The decisions.
#[derive(Clone, Debug)]
pub struct Recent(Box<[Option<Decision>]>);

impl Default for Recent {
    fn default() -> Self {
        Self(vec![None; PLACES].into_boxed_slice())
    }
}

impl Recent {
    /// Returns what was decided on the same question.
    #[inline(always)]
    pub fn find(&self, question: &Question) -> Option<Forwarding> {
        self.decision(question).map(|decision| decision.forwarding)
    }

    /// Returns the port to which alone the frame goes as it came, if that was decided on the same
    /// question.
    #[inline(always)]
    pub fn find_alone(&self, question: &Question) -> Option<usize> {
        self.decision(question)?.alone.map(usize::from)
    }

    #[inline(always)]
    fn decision(&self, question: &Question) -> Option<&Decision> {
        self.0.get(question.place())?.as_ref().filter(|decision| decision.question == *question)
    }

    /// Keeps a decision, in the place of another one; `alone` is a port to which alone the frame
    /// goes as it came.
    pub fn keep(&mut self, question: Question, forwarding: Forwarding, alone: Option<usize>) {
        let alone = alone.and_then(|port| u8::try_from(port).ok());
        if let Some(place) = self.0.get_mut(question.place()) {
            *place = Some(Decision { question, forwarding, alone });
        }
    }
}
