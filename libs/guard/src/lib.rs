//! Who may change something over HTTP: whoever sends the token of which the system file has the
//! SHA-256.
//!
//! The token is a secret made by a machine (`openssl rand -hex 24`), too long to be guessed; so its
//! plain hash can stand in an image that others may read. Without TLS whoever can listen on the
//! network can read it on its way.
//!
//! A host whose tokens are wrong again and again must wait: its attempts fill a bucket that drains
//! by one in [`PAUSE`]. There is a bucket for each of many groups of hosts, so that one that
//! guesses shuts out few others. Nobody can tell which ones: a secret of this start decides which
//! hosts are in a group. A host whose token was right lately has a bucket for itself, so that not
//! even one who guesses from very many addresses shuts it out.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

use alloc::vec::Vec;
use culm_http::files::Permission;
use sha2::{Digest, Sha256};

/// Groups of hosts: as many as a byte tells apart.
const GROUPS: usize = 256;

/// Hosts that are remembered since their token was right.
const KNOWN: usize = 8;

/// Wrong tokens that a group may send at once.
const ATTEMPTS: u64 = 10;

/// The time after which a group may send another one.
pub const PAUSE: core::time::Duration = core::time::Duration::from_secs(6);

/// The hash of a token.
pub type Hash = [u8; 32];

/// A secret of this start, of random words.
pub type Seed = [u64; 4];

/// Knows the token's hash, and who has guessed.
pub struct Guard {
    hash: Hash,
    /// Ticks of [`PAUSE`].
    pause: u64,
    /// Decides which hosts are in a group. Without a secret, who wants to shut out a host would
    /// look for an address in its group.
    seed: Seed,
    /// For each group the time at which its bucket will be empty.
    empty_at: [u64; GROUPS],
    /// The hosts whose token was right, the latest first, and when their buckets will be empty.
    known: Vec<(u64, u64)>,
}

impl Guard {
    /// For the token with this hash. `pause` is [`PAUSE`] in the unit of the times given later.
    pub fn new(hash: Hash, pause: u64, seed: Seed) -> Self {
        Self { hash, pause: pause.max(1), seed, empty_at: [0; GROUPS], known: Vec::with_capacity(KNOWN) }
    }

    /// Returns the group of a host.
    fn group(&self, peer: u64) -> usize {
        let mut hash = Sha256::new();
        for word in self.seed.into_iter().chain([peer]) {
            hash.update(word.to_le_bytes());
        }
        hash.finalize().first().copied().unwrap_or(0).into()
    }

    /// Whether the host `peer`, which has sent this token, may do what it guards. A request without
    /// a token is no attempt.
    pub fn permit(&mut self, token: Option<&[u8]>, peer: u64, now: u64) -> Permission {
        let Some(token) = token else { return Permission::Denied };
        let known = self.known.iter().position(|(host, _)| *host == peer);
        let group = self.group(peer);
        let empty_at = match known.and_then(|place| self.known.get_mut(place)) {
            Some((_, empty_at)) => empty_at,
            None => &mut self.empty_at[group],
        };
        if empty_at.saturating_sub(now) > self.pause.saturating_mul(ATTEMPTS - 1) {
            return Permission::Later;
        }
        if is_same(&Sha256::digest(token).into(), &self.hash) {
            let entry = (peer, *empty_at);
            match known {
                Some(place) => {
                    self.known.remove(place);
                }
                None => self.known.truncate(KNOWN - 1),
            }
            self.known.insert(0, entry);
            return Permission::Granted;
        }
        *empty_at = (*empty_at).max(now).saturating_add(self.pause);
        Permission::Denied
    }
}

/// Compares all bytes, whatever they are: the time that it takes tells nothing.
fn is_same(one: &Hash, other: &Hash) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other));
    core::hint::black_box(difference) == 0
}

/// Reads a hash in hexadecimal.
pub fn read_hash(text: &str) -> Option<Hash> {
    let digits = text.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        for &digit in pair {
            *byte = *byte << 4 | char::from(digit).to_digit(16)? as u8;
        }
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of "open-sesame", by sha256sum.
    const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";

    fn guard() -> Guard {
        Guard::new(read_hash(HASH).expect("a hash"), 100, [1, 2, 3, 4])
    }

    /// Has a host guess until it must wait.
    fn guess(guard: &mut Guard, peer: u64, now: u64) {
        while guard.permit(Some(b"guess"), peer, now) != Permission::Later {}
    }

    #[test]
    fn the_token_opens() {
        let mut guard = guard();
        assert_eq!(guard.permit(Some(b"open-sesame"), 1, 0), Permission::Granted);
        for wrong in [&b""[..], b"open-sesam", b"open-sesame ", b"Open-sesame"] {
            assert_eq!(guard.permit(Some(wrong), 1, 0), Permission::Denied);
        }
        assert_eq!(guard.permit(None, 1, 0), Permission::Denied);
    }

    #[test]
    fn one_that_guesses_must_wait_and_others_need_not() {
        let mut guard = guard();
        for _ in 0..ATTEMPTS {
            assert_eq!(guard.permit(Some(b"guess"), 7, 1000), Permission::Denied);
        }
        assert_eq!(guard.permit(Some(b"guess"), 7, 1000), Permission::Later);
        assert_eq!(guard.permit(Some(b"open-sesame"), 7, 1000), Permission::Later);
        assert_eq!(guard.permit(None, 7, 1000), Permission::Denied, "no attempt");
        assert_eq!(guard.permit(Some(b"open-sesame"), 8, 1000), Permission::Granted);
        assert_eq!(guard.permit(Some(b"guess"), 7, 1100), Permission::Denied);
        assert_eq!(guard.permit(Some(b"guess"), 7, 1100), Permission::Later);
        assert_eq!(guard.permit(Some(b"open-sesame"), 7, 1200), Permission::Granted);
        assert_eq!(guard.permit(Some(b"guess"), 7, u64::MAX), Permission::Denied);
    }

    /// Tests that another seed makes other groups, so that nobody can look for a host that shares
    /// another one's.
    #[test]
    fn nobody_knows_who_is_in_a_group() {
        let together = |seed: Seed| {
            let guard = Guard::new(read_hash(HASH).expect("a hash"), 100, seed);
            (1..100_000).filter(|peer| guard.group(*peer) == guard.group(0)).collect::<Vec<u64>>()
        };
        let (one, other) = (together([1, 2, 3, 4]), together([1, 2, 3, 5]));
        assert!((200..600).contains(&one.len()), "{}", one.len());
        let both = one.iter().filter(|peer| other.contains(peer)).count();
        assert!(both < 20, "{both} of {}", one.len());
    }

    #[test]
    fn a_host_whose_token_was_right_is_not_shut_out_by_others() {
        let mut guard = guard();
        assert_eq!(guard.permit(Some(b"open-sesame"), 7, 1000), Permission::Granted);
        for peer in 100..5000 {
            guess(&mut guard, peer, 1000);
        }
        assert_eq!(guard.permit(Some(b"open-sesame"), 8, 1000), Permission::Later);
        assert_eq!(guard.permit(Some(b"open-sesame"), 7, 1000), Permission::Granted);
        // Its own wrong tokens count.
        guess(&mut guard, 7, 1000);
        assert_eq!(guard.permit(Some(b"open-sesame"), 7, 1000), Permission::Later);
        assert_eq!(guard.permit(Some(b"open-sesame"), 7, 2000), Permission::Granted);
    }

    #[test]
    fn the_hosts_whose_token_was_right_last_are_remembered() {
        let mut guard = guard();
        for peer in 1..=KNOWN as u64 + 1 {
            assert_eq!(guard.permit(Some(b"open-sesame"), peer, 1000), Permission::Granted);
            assert_eq!(guard.permit(Some(b"open-sesame"), 1, 1000), Permission::Granted);
        }
        for peer in 100..5000 {
            guess(&mut guard, peer, 1000);
        }
        assert_eq!(guard.known.len(), KNOWN);
        assert_eq!(guard.permit(Some(b"open-sesame"), 1, 1000), Permission::Granted);
        assert_eq!(guard.permit(Some(b"open-sesame"), 2, 1000), Permission::Later);
        assert_eq!(guard.permit(Some(b"open-sesame"), 3, 1000), Permission::Granted);
    }

    #[test]
    fn hashes() {
        assert_eq!(read_hash(HASH).map(|hash| hash[..2].to_vec()), Some(std::vec![0xd7, 0xec]));
        assert_eq!(read_hash(&HASH.to_uppercase()), read_hash(HASH));
        for bad in ["", "d7", &HASH[1..], &HASH.replace('d', "g"), &HASH.replacen("d7", "+7", 1)] {
            assert_eq!(read_hash(bad), None, "{bad}");
        }
    }
}
