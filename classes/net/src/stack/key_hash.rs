//! A hash of connections' keys whose values peers cannot choose.
//!
//! It finds a connection's slot and a client's bit, for every segment: so it is three
//! multiplications, not a cryptographic hash. Each part of a key meets a secret word, or what was
//! made with one, before it is multiplied by another: otherwise changes of two words could cancel
//! each other whatever the secret, and a peer could make as many keys of one hash as it likes.

use super::classify::Key;

/// The hash: words that peers do not know.
#[derive(Clone, Copy)]
pub(super) struct KeyHash {
    secrets: [u64; 4],
}

impl KeyHash {
    pub(super) const fn new(secrets: [u64; 4]) -> Self {
        Self { secrets }
    }

    /// Returns the hash of a key.
    #[inline]
    pub(super) fn hash(&self, key: &Key) -> u64 {
        let [high, low, local, ports] = self.secrets;
        let remote = multiply(key.remote[0] ^ high, key.remote[1] ^ low);
        let addresses = multiply(remote ^ key.local[0], key.local[1] ^ local);
        multiply(addresses, u64::from(key.ports) ^ ports)
    }
}

/// Returns the exclusive or of both halves of a product: each bit of it depends on both factors.
#[inline]
fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns numbers without a pattern, and secrets of them.
    fn numbers() -> impl FnMut() -> u64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        }
    }

    fn hashes() -> impl Iterator<Item = KeyHash> {
        let mut number = numbers();
        (0..1000).map(move |_| KeyHash::new([number(), number(), number(), number()]))
    }

    /// Changes of any two bits of a key, those of a /64 among them, cancel under few secrets.
    #[test]
    fn no_change_cancels_another_whatever_the_secret() {
        let key = |high: u64, low: u64, local: [u64; 2], ports: u32| Key {
            remote: [0xb8_0d_01_20 ^ high, 7 ^ low],
            local: [5 ^ local[0], local[1]],
            ports: 80 << 16 | 4000 ^ ports,
        };
        let pairs = [
            key(1 << 63, 1 << 63 ^ 1 << 34, [0, 0], 0),
            key(1 << 63, 1 << 63, [0, 0], 0),
            key(0, 1 << 63, [1 << 63, 0], 0),
            key(0, 0, [1 << 63, 0], 1 << 31),
            key(0, 0, [1 << 63, 1 << 63], 0),
            key(0, 0, [2, 2], 0),
            key(0, 0, [0, 1 << 31], 1 << 31),
            key(1 << 63, 0, [0, 0], 0),
            key(0, 0, [0, 0], 1 << 31),
            key(0, 0, [0, 0], 1 << 16),
        ];
        for other in pairs {
            let usual = key(0, 0, [0, 0], 0);
            let equal = hashes().filter(|it| it.hash(&usual) & 0xffff == it.hash(&other) & 0xffff).count();
            assert!(equal < 5, "{other:?} has the same hash under {equal} of 1000 secrets");
        }
    }

    /// Ports and addresses that follow each other spread over buckets as random numbers do.
    #[test]
    fn keys_in_a_row_spread() {
        for it in hashes().take(20) {
            let of = |client: u64, port: u32| {
                it.hash(&Key { remote: [0, 0x0a00_0000 + client], local: [0, 1], ports: port | 80 << 16 })
            };
            let buckets: BTreeSet<u64> = (0..1024).map(|n| of(n / 32, 40_000 + n as u32 % 32) & 2047).collect();
            // Of 1,024 balls, 806 bins of 2,048 are expected to have one at least.
            assert!(buckets.len() > 700, "{} of 2048 buckets", buckets.len());
        }
    }
}
