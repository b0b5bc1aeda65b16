//! Who may change files: whoever sends the token of which the system file has the SHA-256.
//!
//! The token is a secret made by a machine (`openssl rand -hex 24`), too long to be guessed; so its
//! plain hash can stand in an image that others may read. Without TLS whoever can listen on the
//! network can read it on its way.
//!
//! A host whose tokens are wrong again and again must wait: its attempts fill a bucket that drains
//! by one in [`PAUSE`]. There is a bucket for each of many groups of hosts, so that one that
//! guesses shuts out few others.

use culm_http::files::Permission;
use sha2::{Digest, Sha256};

/// Groups of hosts.
const GROUPS: usize = 256;

/// Wrong tokens that a group may send at once.
const ATTEMPTS: u64 = 10;

/// The time after which a group may send another one.
pub const PAUSE: culm::time::Duration = culm::time::Duration::from_secs(6);

/// The hash of a token.
pub type Hash = [u8; 32];

/// Knows the token's hash, and who has guessed.
pub struct Guard {
    hash: Hash,
    /// Ticks of [`PAUSE`].
    pause: u64,
    /// For each group the time at which its bucket will be empty.
    empty_at: [u64; GROUPS],
}

impl Guard {
    /// For the token with this hash. `pause` is [`PAUSE`] in the unit of the times given later.
    pub fn new(hash: Hash, pause: u64) -> Self {
        Self { hash, pause: pause.max(1), empty_at: [0; GROUPS] }
    }

    /// Whether the host `peer` may change files. A request without a token is no attempt.
    pub fn permit(&mut self, token: Option<&[u8]>, peer: u64, now: u64) -> Permission {
        let Some(token) = token else { return Permission::Denied };
        let empty_at = &mut self.empty_at[peer as usize % GROUPS];
        if empty_at.saturating_sub(now) > self.pause.saturating_mul(ATTEMPTS - 1) {
            return Permission::Later;
        }
        if is_same(&Sha256::digest(token).into(), &self.hash) {
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
        Guard::new(read_hash(HASH).expect("a hash"), 100)
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

    #[test]
    fn hashes() {
        assert_eq!(read_hash(HASH).map(|hash| hash[..2].to_vec()), Some(std::vec![0xd7, 0xec]));
        assert_eq!(read_hash(&HASH.to_uppercase()), read_hash(HASH));
        for bad in ["", "d7", &HASH[1..], &HASH.replace('d', "g"), &HASH.replacen("d7", "+7", 1)] {
            assert_eq!(read_hash(bad), None, "{bad}");
        }
    }
}
