//! The handshakes that were completed lately, so that none is completed twice.
//!
//! A cookie is good for a while ([`super::cookie`]), and the segment that brings it back is all
//! that a connection begins with. Where the connection is over and its place free, the network, or
//! who has listened to it, may bring that segment once more: a second connection would begin with
//! the same request. So each cookie that began a connection is kept here, in a place that its hash
//! chooses, until a later one whose hash chooses the same drives it out: the younger one is the one
//! that the network is likelier to bring again. Where connections begin seldom, a cookie is
//! outdated before that; where many do, the oldest that are still good are forgotten.
//!
//! A client that begins anew from the same port and with the same first number would be given the
//! same cookie: it is answered by one that has begun nothing yet.

use alloc::boxed::Box;
use alloc::vec;

/// Handshakes that are kept for each place of a connection.
const FOR_EACH: usize = 16;

/// Handshakes that were completed.
pub(super) struct SpentCookies {
    /// A tag for each; 0 where there is none. As many as a power of two.
    tags: Box<[u32]>,
}

impl SpentCookies {
    /// None was completed. There are so many places for connections.
    pub(super) fn new(places: usize) -> Self {
        let count = if places == 0 { 0 } else { (places * FOR_EACH).next_power_of_two() };
        Self { tags: vec![0; count].into_boxed_slice() }
    }

    /// Remembers the handshake of the connection whose key has the hash `hash`, by `cookie`.
    pub(super) fn remember(&mut self, hash: u64, cookie: u32) {
        let (place, tag) = self.place(hash, cookie);
        if let Some(place) = self.tags.get_mut(place) {
            *place = tag;
        }
    }

    /// Returns whether a handshake was remembered.
    pub(super) fn has(&self, hash: u64, cookie: u32) -> bool {
        let (place, tag) = self.place(hash, cookie);
        self.tags.get(place) == Some(&tag)
    }

    /// Returns the place of a handshake, and its tag. Both numbers are secret before they are used,
    /// so nobody can choose two that share a place.
    fn place(&self, hash: u64, cookie: u32) -> (usize, u32) {
        let mixed = (hash ^ u64::from(cookie)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> 32) as usize & self.tags.len().wrapping_sub(1);
        // The cookie proves the rest: two that are good differ in it, or in their key.
        (place, (cookie ^ hash as u32) | 1)
    }
}
