//! A learning bridge (IEEE 802.1Q-2018 clause 8), without input or output: from which port a frame
//! comes and how it begins decides to which ports it goes, and whether it has a VLAN tag there.
//!
//! Stations are hostile: they send from as many addresses as they like, claim those of others,
//! flood and tag. So everything here is bounded. The table of addresses has a fixed size, of which
//! each port has an equal part; the addresses that the description gives to ports are theirs,
//! whoever else claims them; each port's frames for many are held to a rate. A decision takes a
//! bounded number of steps, and nothing is allocated after construction.
//!
//! * [`bridge`]: the decision.
//! * [`table`]: which station is behind which port.
//! * [`vlan`]: tags, and the VLANs of a port.
//! * [`storm`]: the rate of frames for many.
//! * [`options`]: the options of a port, as a description writes them.
//! * [`counts`]: what was counted at each port, for who shows it.
//!
//! It does not run a spanning tree protocol: where bridges are joined in a loop, frames for all go
//! round until a rate stops them.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bridge;
pub mod counts;
pub mod options;
mod recent;
pub mod storm;
pub mod table;
pub mod vlan;

#[cfg(test)]
mod tests;

pub use bridge::{Bridge, Cause, Forwarding, Verdict};
pub use options::PortOptions;
pub use vlan::Edit;

/// The most ports of a bridge.
pub const MAX_PORTS: usize = 64;

/// Bytes at the beginning of a frame that a decision needs, where the frame has them: addresses, a
/// VLAN tag, and the type behind it.
pub const HEAD: usize = 18;

/// The address of a station, in the order in which its bytes are sent.
pub type Address = [u8; 6];

/// A set of ports, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSet(u64);

impl PortSet {
    /// All ports that there can be.
    pub const ALL: Self = Self(u64::MAX);

    /// Returns the set of this port alone; none if it is no port.
    pub const fn of(port: usize) -> Self {
        if port < MAX_PORTS { Self(1 << port) } else { Self(0) }
    }

    /// Returns whether a port is in it.
    pub const fn contains(self, port: usize) -> bool {
        self.0 & Self::of(port).0 != 0
    }

    /// Returns whether no port is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the ports that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the ports that are in this one and not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Adds a port.
    pub const fn add(&mut self, port: usize) {
        self.0 |= Self::of(port).0;
    }

    /// Returns the ports in it, lowest first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let port = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(port)
        })
    }
}
