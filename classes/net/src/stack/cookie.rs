//! SYN cookies: half-open connections that cost no memory (RFC 4987 §3.6).
//!
//! The initial sequence number that answers a SYN is a keyed hash of who asked and when, and says
//! what the peer offered. The peer's next segment acknowledges it, and so brings back all that is
//! needed to begin the connection: it proves that the peer has received the answer, that is, that
//! its address is reached through the station that asked. Until then nothing is kept, so a flood of
//! SYNs takes no place from anybody. As RFC 6528 asks, nobody else can guess the number.
//!
//! Who asked is told by the hash by which the table finds connections ([`super::key_hash`]), itself
//! keyed: who does not know its key can find no two askers of one hash, and with different hashes
//! their numbers have nothing in common.
//!
//! Of its 32 bits 7 say what was offered, hidden by the hash; the upper 24, of the hash multiplied
//! by a number for that offer, prove it; the lowest is that of the epoch. Who was given a cookie
//! can compute that for another offer in a few guesses, for which it could have asked as well;
//! nobody else can.

use super::siphash::SipHash;
use culm_tcp::{Instant, Options, SMALLEST_SEGMENT, Span};

/// How long an epoch lasts. A cookie is good until the end of the next one.
const EPOCH: Span = Span::from_seconds(32);

/// How long a cookie has to be good still to be of use to a client.
const SHORTEST_LIFE: Span = Span::from_seconds(4);

/// Sizes of segments that a cookie can tell: the smallest that a connection uses, and those that
/// links in use lead to. What is between is rounded down.
const SEGMENTS: [u16; 8] = [SMALLEST_SEGMENT, 536, 1220, 1240, 1360, 1440, 1452, 1460];

/// Window scales that a cookie can tell. What is between is rounded down: then the peer's window is
/// taken for smaller than it is.
const SCALES: [Option<u8>; 8] = [None, Some(0), Some(2), Some(5), Some(6), Some(7), Some(8), Some(10)];

/// The bits of an epoch's number that are hashed: they repeat after 17 years.
const EPOCH_BITS: u64 = (1 << 24) - 1;

/// The bits of an encoded offer.
const OFFERS: u32 = 0x7f;

/// A peer's offer in its SYN, as far as a cookie can tell: the places in [`SEGMENTS`] and in
/// [`SCALES`], three bits each, and whether it understands selective acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offer(u8);

impl Offer {
    /// Returns the offer of a SYN with these options.
    pub(super) fn new(segment: u16, scale: Option<u8>, is_selective: bool) -> Self {
        let segment = SEGMENTS.iter().rposition(|known| *known <= segment).unwrap_or(0);
        let scale = SCALES.iter().rposition(|known| *known <= scale).unwrap_or(0);
        Self((segment << 4 | scale << 1) as u8 | u8::from(is_selective))
    }

    /// Returns it as options of a SYN.
    pub(super) fn options(self) -> Options {
        let code = usize::from(self.0);
        let (mss, window_scale) = (Some(SEGMENTS[code >> 4 & 7]), SCALES[code >> 1 & 7]);
        Options { mss, window_scale, sack_permitted: code & 1 != 0, ..Options::default() }
    }
}

/// Makes cookies and knows them again.
pub(super) struct Cookies {
    secret: SipHash,
}

impl Cookies {
    pub(super) fn new(secret: [u64; 2]) -> Self {
        Self { secret: SipHash::new(secret) }
    }

    /// The initial sequence numbers for a SYN with the sequence number `theirs`, whose key has the
    /// hash `key`: that of this epoch, and that of the one before, if it is good for a while still.
    pub(super) fn make(&self, key: u64, theirs: u32, offer: Offer, now: Instant) -> impl Iterator<Item = u32> {
        let last = epoch(now);
        let first = last.saturating_sub(u64::from(epoch(now + SHORTEST_LIFE) == last));
        (first..=last).rev().map(move |epoch| {
            let hash = self.hash(key, theirs, epoch);
            let code = u32::from(offer.0);
            (tag(hash, code) << 8) | ((code ^ mask(hash)) << 1) | (epoch as u32 & 1)
        })
    }

    /// Returns the offer, if `ours` is a cookie for `theirs` and the key with this hash.
    pub(super) fn check(&self, key: u64, theirs: u32, ours: u32, now: Instant) -> Option<Offer> {
        let epoch = epoch(now);
        let then = epoch.checked_sub((epoch ^ u64::from(ours)) & 1)?;
        let hash = self.hash(key, theirs, then);
        let code = ((ours >> 1) & OFFERS) ^ mask(hash);
        (tag(hash, code) == ours >> 8).then_some(Offer(code as u8))
    }

    /// Returns a number for a connection that this side opens, whose key has this hash, which
    /// nobody else can guess: the hash of RFC 6528, §3.
    pub(super) fn number(&self, key: u64) -> u32 {
        // Of another length than what a cookie is made of, so that neither tells of the other.
        self.secret.hash(&[key, 0], 0) as u32
    }

    #[inline]
    fn hash(&self, key: u64, theirs: u32, epoch: u64) -> u64 {
        self.secret.hash(&[key], u64::from(theirs) | (epoch & EPOCH_BITS) << 32)
    }
}

/// The 24 bits that prove the 7 of `code`: a number that nobody else knows, multiplied by an odd
/// one for each.
fn tag(hash: u64, code: u32) -> u32 {
    (hash.wrapping_mul(u64::from(code) << 1 | 1) >> 40) as u32
}

/// Returns the mask that hides the 7 bits of an offer.
fn mask(hash: u64) -> u32 {
    hash as u32 & OFFERS
}

fn epoch(now: Instant) -> u64 {
    now.0 / u64::from(EPOCH.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000)
    }

    proptest! {
        #[test]
        fn what_was_offered_comes_back(segment: u16, scale in 0_u8..20, selective: bool, key: u64, theirs: u32) {
            let cookies = Cookies::new([1, 2]);
            let offer = Offer::new(segment, (scale < 15).then_some(scale), selective);
            let options = offer.options();
            prop_assert!(options.mss <= Some(segment.max(SMALLEST_SEGMENT)) && options.sack_permitted == selective);
            prop_assert!(options.window_scale <= Some(scale));
            let made: std::vec::Vec<_> = cookies.make(key, theirs, offer, at(100)).collect();
            let [ours, other] = made[..] else { panic!("{made:?}") };
            prop_assert_eq!(cookies.check(key, theirs, other, at(127)), Some(offer));
            prop_assert_eq!(cookies.check(key, theirs, other, at(128)), None);
            prop_assert_eq!(cookies.make(key, theirs, offer, at(124)).count(), 1);
            prop_assert_eq!(cookies.check(key, theirs, ours, at(100)), Some(offer));
            prop_assert_eq!(cookies.check(key, theirs, ours, at(127)), Some(offer));
            prop_assert_eq!(cookies.check(key, theirs.wrapping_add(1), ours, at(100)), None);
            prop_assert_eq!(cookies.check(key, theirs, ours ^ 0x100, at(100)), None);
        }
    }

    #[test]
    fn cookies_get_old() {
        let cookies = Cookies::new([1, 2]);
        let offer = Offer::new(536, None, false);
        assert_eq!((offer.options().mss, offer.options().window_scale), (Some(536), None));
        let ours = cookies.make(1, 5, offer, at(3)).next().expect("a cookie");
        for (seconds, good) in [(3, true), (63, true), (64, false), (70, false), (130, false), (4000, false)] {
            assert_eq!(cookies.check(1, 5, ours, at(seconds)).is_some(), good, "{seconds}");
        }
    }

    #[test]
    fn numbers_of_different_peers_and_secrets_have_nothing_in_common() {
        let offer = Offer::new(1460, Some(7), true);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..1000 {
            for secret in [[1, 2], [1, 3]] {
                seen.insert(Cookies::new(secret).make(number, 1, offer, at(0)).next().expect("a cookie") >> 8);
            }
        }
        assert!(seen.len() > 1990, "{}", seen.len());
    }

    #[test]
    fn numbers_beside_a_cookie_are_none() {
        let cookies = Cookies::new([1, 2]);
        let offer = Offer::new(1460, Some(7), true);
        for number in 0..8 {
            let ours = cookies.make(number, 5, offer, at(100)).next().expect("a cookie");
            let is_cookie = |more: &u32| cookies.check(number, 5, ours.wrapping_add(*more), at(100)).is_some();
            assert_eq!((1..2000).filter(is_cookie).count(), 0, "{number}");
        }
    }
}
