//! Who may change something: whoever sends the token of which the system file has the
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
//!
//! Who guesses has all addresses of an IPv6 network (RFC 4291 §2.5.1: 64 bits of a host), so a
//! group has whole networks. A host whose token was right is known by its whole address: otherwise
//! its neighbours would fill its bucket.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
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

/// Who sent a token has sent too many wrong ones, and must wait ([`PAUSE`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// Knows the token's hash, and who has guessed.
pub struct Guard {
    hash: Hash,
    /// Ticks of [`PAUSE`].
    pause: u64,
    /// Decides which hosts are in a group. Without a secret, who wants to shut out a host would
    /// look for an address in its group.
    seed: Seed,
    /// For each group the time at which its bucket will be empty.
    empty_at: Box<[u64]>,
    /// The hosts whose token was right, the latest first, and when their buckets will be empty.
    known: Vec<(IpAddr, u64)>,
}

impl Guard {
    /// For the token with this hash. `pause` is [`PAUSE`] in the unit of the times given later.
    pub fn new(hash: Hash, pause: u64, seed: Seed) -> Self {
        Self { hash, pause: pause.max(1), seed, empty_at: vec![0; GROUPS].into(), known: Vec::with_capacity(KNOWN) }
    }

    /// Returns the group of a host: that of its network, if it has an address of IPv6.
    fn group(&self, peer: Option<IpAddr>) -> usize {
        let (kind, network) = match peer {
            None => (0, 0),
            Some(IpAddr::V4(address)) => (4, u64::from(address.to_bits())),
            Some(IpAddr::V6(address)) => (6, (address.to_bits() >> 64) as u64),
        };
        let mut hash = Sha256::new();
        for word in self.seed.into_iter().chain([kind, network]) {
            hash.update(word.to_le_bytes());
        }
        hash.finalize().first().copied().unwrap_or(0).into()
    }

    /// Returns whether the host `peer`, which has sent this token, may do what it guards. A request
    /// without a token is no attempt. A host without an address is in a group, and is never known.
    ///
    /// # Errors
    ///
    /// If wrong tokens came from there too often; then this one is not looked at.
    pub fn permit(&mut self, token: Option<&[u8]>, peer: Option<IpAddr>, now: u64) -> Result<bool, TooMany> {
        let Some(token) = token else { return Ok(false) };
        let known = self.known.iter().position(|(host, _)| Some(*host) == peer);
        let group = self.group(peer);
        let empty_at = match known.and_then(|place| self.known.get_mut(place)) {
            Some((_, empty_at)) => empty_at,
            None => &mut self.empty_at[group],
        };
        if empty_at.saturating_sub(now) > self.pause.saturating_mul(ATTEMPTS - 1) {
            return Err(TooMany);
        }
        if !is_same(&Sha256::digest(token).into(), &self.hash) {
            *empty_at = (*empty_at).max(now).saturating_add(self.pause);
            return Ok(false);
        }
        let empty_at = *empty_at;
        let Some(peer) = peer else { return Ok(true) };
        match known {
            Some(place) => {
                self.known.remove(place);
            }
            None => self.known.truncate(KNOWN - 1),
        }
        self.known.insert(0, (peer, empty_at));
        Ok(true)
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
    use core::net::{Ipv4Addr, Ipv6Addr};

    /// The hash of "open-sesame", by sha256sum.
    const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";

    fn guard() -> Guard {
        Guard::new(read_hash(HASH).expect("a hash"), 100, [1, 2, 3, 4])
    }

    /// A host of IPv4.
    fn host(number: u64) -> Option<IpAddr> {
        Some(Ipv4Addr::from_bits(number as u32).into())
    }

    /// Has a host guess until it must wait.
    fn guess(guard: &mut Guard, peer: u64, now: u64) {
        while guard.permit(Some(b"guess"), host(peer), now) != Err(TooMany) {}
    }

    #[test]
    fn neighbours_in_a_network_of_ipv6_are_one_group_and_do_not_shut_out_who_is_known() {
        let host = |network: u16, own: u16| Some(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, network, 0, 0, 0, own)));
        let mut guard = guard();
        assert_eq!(guard.permit(Some(b"open-sesame"), host(0, 1), 1000), Ok(true));
        // One who guesses takes another address each time.
        let guesses = (2..100).filter(|own| guard.permit(Some(b"guess"), host(0, *own), 1000) == Ok(false));
        assert_eq!(guesses.count() as u64, ATTEMPTS);
        assert_eq!(guard.permit(Some(b"open-sesame"), host(0, 1), 1000), Ok(true));
        assert_eq!(guard.permit(Some(b"open-sesame"), host(0, 200), 1000), Err(TooMany));
        assert_eq!(guard.permit(Some(b"open-sesame"), host(1, 200), 1000), Ok(true));
    }

    #[test]
    fn a_host_without_an_address_is_not_remembered() {
        let mut guard = guard();
        assert_eq!(guard.permit(Some(b"open-sesame"), None, 1000), Ok(true));
        while guard.permit(Some(b"guess"), None, 1000) != Err(TooMany) {}
        assert_eq!((guard.permit(Some(b"open-sesame"), None, 1000), guard.known.len()), (Err(TooMany), 0));
    }

    #[test]
    fn the_token_opens() {
        let mut guard = guard();
        assert_eq!(guard.permit(Some(b"open-sesame"), host(1), 0), Ok(true));
        for wrong in [&b""[..], b"open-sesam", b"open-sesame ", b"Open-sesame"] {
            assert_eq!(guard.permit(Some(wrong), host(1), 0), Ok(false));
        }
        assert_eq!(guard.permit(None, host(1), 0), Ok(false));
    }

    #[test]
    fn one_that_guesses_must_wait_and_others_need_not() {
        let mut guard = guard();
        for _ in 0..ATTEMPTS {
            assert_eq!(guard.permit(Some(b"guess"), host(7), 1000), Ok(false));
        }
        assert_eq!(guard.permit(Some(b"guess"), host(7), 1000), Err(TooMany));
        assert_eq!(guard.permit(Some(b"open-sesame"), host(7), 1000), Err(TooMany));
        assert_eq!(guard.permit(None, host(7), 1000), Ok(false), "no attempt");
        assert_eq!(guard.permit(Some(b"open-sesame"), host(8), 1000), Ok(true));
        assert_eq!(guard.permit(Some(b"guess"), host(7), 1100), Ok(false));
        assert_eq!(guard.permit(Some(b"guess"), host(7), 1100), Err(TooMany));
        assert_eq!(guard.permit(Some(b"open-sesame"), host(7), 1200), Ok(true));
        assert_eq!(guard.permit(Some(b"guess"), host(7), u64::MAX), Ok(false));
    }

    /// Tests that another seed makes other groups, so that nobody can look for a host that shares
    /// another one's.
    #[test]
    fn nobody_knows_who_is_in_a_group() {
        let together = |seed: Seed| {
            let guard = Guard::new(read_hash(HASH).expect("a hash"), 100, seed);
            (1..100_000).filter(|peer| guard.group(host(*peer)) == guard.group(host(0))).collect::<Vec<u64>>()
        };
        let (one, other) = (together([1, 2, 3, 4]), together([1, 2, 3, 5]));
        assert!((200..600).contains(&one.len()), "{}", one.len());
        let both = one.iter().filter(|peer| other.contains(peer)).count();
        assert!(both < 20, "{both} of {}", one.len());
    }

    #[test]
    fn a_host_whose_token_was_right_is_not_shut_out_by_others() {
        let mut guard = guard();
        assert_eq!(guard.permit(Some(b"open-sesame"), host(7), 1000), Ok(true));
        for peer in 100..5000 {
            guess(&mut guard, peer, 1000);
        }
        assert_eq!(guard.permit(Some(b"open-sesame"), host(8), 1000), Err(TooMany));
        assert_eq!(guard.permit(Some(b"open-sesame"), host(7), 1000), Ok(true));
        // Its own wrong tokens count.
        guess(&mut guard, 7, 1000);
        assert_eq!(guard.permit(Some(b"open-sesame"), host(7), 1000), Err(TooMany));
        assert_eq!(guard.permit(Some(b"open-sesame"), host(7), 2000), Ok(true));
    }

    #[test]
    fn the_hosts_whose_token_was_right_last_are_remembered() {
        let mut guard = guard();
        for peer in 1..=KNOWN as u64 + 1 {
            assert_eq!(guard.permit(Some(b"open-sesame"), host(peer), 1000), Ok(true));
            assert_eq!(guard.permit(Some(b"open-sesame"), host(1), 1000), Ok(true));
        }
        for peer in 100..5000 {
            guess(&mut guard, peer, 1000);
        }
        assert_eq!(guard.known.len(), KNOWN);
        assert_eq!(guard.permit(Some(b"open-sesame"), host(1), 1000), Ok(true));
        assert_eq!(guard.permit(Some(b"open-sesame"), host(2), 1000), Err(TooMany));
        assert_eq!(guard.permit(Some(b"open-sesame"), host(3), 1000), Ok(true));
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
