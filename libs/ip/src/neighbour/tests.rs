//! Tests by subject, and what they share.

mod cache;
mod claim;
mod model;
mod protocol;
mod router;

use super::{Action, Cache, Entry};
use crate::{Instant, Key, LinkAddress};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::vec::Vec;

type Neighbours<'a> = Cache<'a, u32, 3>;

fn entries(count: usize) -> Vec<Entry<u32, 3>> {
    (0..count).map(|_| Entry::default()).collect()
}

fn key(seed: u64) -> Key {
    Key(core::array::from_fn(|index| (seed + index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
}

fn host(number: u32) -> IpAddr {
    Ipv4Addr::from(0x0a00_0000 + number).into()
}

fn station(number: u8) -> LinkAddress {
    LinkAddress([2, 0, 0, 0, 0, number])
}

fn seconds(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000)
}

fn milliseconds(milliseconds: u64) -> Instant {
    Instant::default() + Duration::from_millis(milliseconds)
}

/// Everything that is to be done by `now`.
fn due(cache: &mut Neighbours<'_>, now: Instant) -> Vec<Action<u32>> {
    core::iter::from_fn(|| cache.poll(now)).collect()
}
