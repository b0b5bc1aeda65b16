//! How large a packet may be to get to a destination whole (RFC 1191, RFC 8201), bounded in what
//! it remembers and careful about whom it believes.
//!
//! Whoever can send a packet can send one that says that another was too big. So a message counts
//! only if the owner of the flow that it quotes says that this flow has sent such a packet lately
//! (RFC 5927 §7): of TCP, that the quoted sequence number is in flight. It can only make packets
//! smaller, and never smaller than every path carries. After ten minutes it is forgotten, so that
//! a better path is found again (RFC 8201 §5.3).

use crate::{Instant, Key, ipv4, ipv6};
use core::net::IpAddr;
use core::time::Duration;

/// How long a message about a path counts (RFC 1191 §6.3, RFC 8201 §5.3).
pub const AGE: Duration = Duration::from_secs(600);

/// Destinations in the set in which each has its place.
const WAYS: usize = 4;

/// Sizes that links of IPv4 have, for messages of routers that do not say theirs (RFC 1191 §7.1),
/// in bytes.
const PLATEAUS: [u16; 9] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 576, 508];

/// What packets to a destination may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of a packet, its IP header included.
    pub mtu: u16,
    /// Whether routers on the way have to be allowed to divide packets of IPv4 even of this size:
    /// one of them carries less than 576 bytes.
    pub may_fragment: bool,
}

/// What a message says that a packet was too big.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// Where the packet was to go.
    pub destination: IpAddr,
    /// How many bytes it had, by its header, which the message quotes.
    pub length: u16,
    /// How many bytes would have got through; 0 if the router does not say it (RFC 1191 §5).
    pub mtu: u32,
}

/// A place for a destination to which the path is narrower than the link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    destination: Option<IpAddr>,
    limit: Option<Limit>,
    until: Instant,
}

/// The paths that are narrower than the link. See the [module](self).
#[derive(Debug)]
pub struct Paths<'a> {
    paths: &'a mut [Path],
    key: Key,
    /// What the link carries.
    link: u16,
}

impl<'a> Paths<'a> {
    /// Paths from a link that carries `link` bytes of an IP packet, 1,280 at least; with a place in
    /// `paths` for each that is narrower, which are all free from now on.
    pub fn new(paths: &'a mut [Path], key: Key, link: u16) -> Self {
        paths.fill(Path::default());
        Self { paths, key, link: link.max(ipv6::MINIMUM_MTU) }
    }

    /// Returns how large a packet to `destination` may be.
    pub fn limit(&self, destination: IpAddr, now: Instant) -> Limit {
        let widest = Limit { mtu: self.link, may_fragment: false };
        let set = self.paths.get(self.set(destination)).unwrap_or_default();
        let known = set.iter().find(|path| path.destination == Some(destination) && now < path.until);
        known.and_then(|path| path.limit).unwrap_or(widest)
    }

    /// Takes a message that a packet was too big. `is_own` says whether the flow that the message
    /// quotes is this host's, and has sent that packet lately; it is asked last. Returns the limit
    /// if it is lower than it was.
    pub fn too_big(&mut self, told: TooBig, now: Instant, is_own: impl FnOnce() -> bool) -> Option<Limit> {
        let before = self.limit(told.destination, now);
        let limit = told.limit()?;
        let is_lower = limit.mtu < before.mtu || limit.mtu == before.mtu && limit.may_fragment && !before.may_fragment;
        // A packet that would have got through was not too big (RFC 5927 §7.2).
        let is_consistent = u32::from(told.length) > told.mtu;
        if !is_lower || !is_consistent || !is_own() {
            return None;
        }
        let set = self.set(told.destination);
        let set = self.paths.get_mut(set).unwrap_or_default();
        // Its own place, else one that is free or over, else that of the oldest message.
        let rank = |path: &Path| match path.destination {
            Some(destination) if destination == told.destination => (0, Instant::default()),
            None => (1, Instant::default()),
            Some(_) => (2, path.until),
        };
        let place = set.iter_mut().min_by_key(|path| rank(path))?;
        *place = Path { destination: Some(told.destination), limit: Some(limit), until: now + AGE };
        Some(limit)
    }

    fn set(&self, destination: IpAddr) -> core::ops::Range<usize> {
        let sets = (self.paths.len() / WAYS).max(1) as u64;
        let set = ((u64::from(self.key.hash(destination)) * sets) >> 32) as usize;
        set * WAYS..(set * WAYS + WAYS).min(self.paths.len())
    }
}

impl TooBig {
    /// Returns what the message makes of the path, if it is true; `None` if it cannot be.
    pub fn limit(&self) -> Option<Limit> {
        match self.destination {
            // Every link carries that much, by itself or by fragments of its own (RFC 8201 §4).
            IpAddr::V6(_) if self.mtu < ipv6::MINIMUM_MTU.into() => None,
            IpAddr::V4(_) if self.mtu == 0 => {
                let mtu = PLATEAUS.into_iter().find(|plateau| *plateau < self.length)?;
                Some(Limit { mtu: mtu.max(ipv4::MINIMUM_MTU), may_fragment: mtu < ipv4::MINIMUM_MTU })
            }
            IpAddr::V4(_) if self.mtu < ipv4::MINIMUM_MTU.into() => {
                Some(Limit { mtu: ipv4::MINIMUM_MTU, may_fragment: true })
            }
            // What is more than a packet can have was not too little for one.
            IpAddr::V4(_) | IpAddr::V6(_) => Some(Limit { mtu: u16::try_from(self.mtu).ok()?, may_fragment: false }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use std::vec;

    const KEY: Key = Key([0x1234_5678_9abc_def1, 3, 0xdead_beef_dead_beef, 7, 0x0123_4567_89ab_cdef]);

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    fn told(destination: IpAddr, length: u16, mtu: u32) -> TooBig {
        TooBig { destination, length, mtu }
    }

    fn of(mtu: u16) -> Limit {
        Limit { mtu, may_fragment: false }
    }

    fn after(seconds: u64) -> Instant {
        Instant(1_000_000 * seconds)
    }

    #[test]
    fn a_message_counts_for_ten_minutes() {
        let mut places = [Path::default(); 16];
        let mut paths = Paths::new(&mut places, KEY, 1500);
        assert_eq!(paths.limit(host(1), after(0)), of(1500));
        assert_eq!(paths.too_big(told(host(1), 1500, 1280), after(0), || true), Some(of(1280)));
        assert_eq!(paths.limit(host(1), after(599)), of(1280));
        assert_eq!(paths.limit(host(2), after(599)), of(1500), "another path");
        assert_eq!(paths.limit(host(1), after(600)), of(1500));
        assert_eq!(paths.too_big(told(host(1), 1500, 1400), after(600), || true), Some(of(1400)));
    }

    #[test]
    fn only_what_can_be_true_counts() {
        let mut places = [Path::default(); 16];
        let mut paths = Paths::new(&mut places, KEY, 1500);
        let peer: IpAddr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
        let unasked = || panic!("nobody need be asked");
        assert_eq!(paths.too_big(told(host(1), 1500, 1400), after(0), || false), None, "a flow of nobody's");
        assert_eq!(paths.too_big(told(host(1), 1500, 1500), after(0), unasked), None);
        assert_eq!(paths.too_big(told(host(1), 1500, 9000), after(0), unasked), None);
        assert_eq!(paths.too_big(told(host(1), 1500, 1 << 16), after(0), unasked), None);
        assert_eq!(paths.too_big(told(host(1), 1300, 1400), after(0), unasked), None, "it would have got through");
        assert_eq!(paths.too_big(told(peer, 1500, 1279), after(0), unasked), None);
        assert_eq!(paths.too_big(told(peer, 1500, 0), after(0), unasked), None);
        assert_eq!(paths.limit(peer, after(0)), of(1500));
        assert_eq!(paths.too_big(told(peer, 1500, 1280), after(0), || true), Some(of(1280)));
        assert_eq!(paths.too_big(told(peer, 1500, 1400), after(0), unasked), None, "it never makes a path wider");
    }

    #[test]
    fn a_narrow_path_of_ipv4_may_divide_packets() {
        let mut places = [Path::default(); 16];
        let mut paths = Paths::new(&mut places, KEY, 1500);
        let narrow = Limit { mtu: 576, may_fragment: true };
        assert_eq!(paths.too_big(told(host(1), 1500, 576), after(0), || true), Some(of(576)));
        assert_eq!(paths.too_big(told(host(1), 576, 68), after(0), || true), Some(narrow));
        assert_eq!(paths.too_big(told(host(1), 576, 68), after(0), || true), None, "there is nothing to add");
        assert_eq!(paths.limit(host(1), after(1)), narrow);
    }

    /// RFC 1191 §7.1.
    #[test]
    fn a_router_that_says_no_size_means_the_next_lower_one() {
        for (length, mtu) in [(1500, 1492), (1492, 1006), (1006, 576), (40_000, 1492)] {
            let mut places = [Path::default(); 16];
            let mut paths = Paths::new(&mut places, KEY, 1500);
            let found = paths.too_big(told(host(1), length, 0), after(0), || true);
            assert_eq!(found, (length <= 1500).then(|| of(mtu)), "{length}");
        }
        let mut places = [Path::default(); 16];
        let mut paths = Paths::new(&mut places, KEY, 1500);
        let narrow = Limit { mtu: 576, may_fragment: true };
        assert_eq!(paths.too_big(told(host(1), 576, 0), after(0), || true), Some(narrow));
        assert_eq!(paths.too_big(told(host(2), 508, 0), after(0), || true), None);
    }

    #[test]
    fn without_places_nothing_is_remembered() {
        let mut paths = Paths::new(&mut [], KEY, 1500);
        assert_eq!(paths.too_big(told(host(1), 1500, 1400), after(0), || true), None);
        assert_eq!(paths.limit(host(1), after(0)), of(1500));
    }

    proptest! {
        #[test]
        fn a_limit_lies_between_what_every_path_and_what_the_link_carries(
            messages in prop::collection::vec((0_u32..40, any::<u16>(), 0_u32..3000, 0_u64..300), 0..300),
            count in 0_usize..20,
        ) {
            let mut places = vec![Path::default(); count];
            let mut paths = Paths::new(&mut places, KEY, 1500);
            let mut now = 0;
            for (number, length, mtu, passed) in messages {
                now += passed;
                let before = paths.limit(host(number), after(now));
                let limit = paths.too_big(told(host(number), length, mtu), after(now), || true);
                let known = paths.limit(host(number), after(now));
                prop_assert_eq!(known, limit.unwrap_or(before));
                prop_assert!((576..=1500).contains(&known.mtu) && known.mtu <= before.mtu);
            }
        }
    }
}
