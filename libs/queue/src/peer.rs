//! The other side, as publication and release find it.

use core::ops::{BitOr, BitOrAssign};

/// Whether the peer waits for what was just published or released: the answer of every function
/// that shows it something.
///
/// Two of them are joined by `|`, which evaluates both: one notification serves both queues of a
/// link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a peer that sleeps waits for a notification"]
pub enum Peer {
    /// It finds what is new by itself: do not notify it.
    Awake,
    /// It sleeps until this: notify it.
    Asleep,
}

impl Peer {
    /// Returns [`Self::Asleep`] if `asleep`.
    #[inline(always)]
    pub const fn asleep_if(asleep: bool) -> Self {
        if asleep { Self::Asleep } else { Self::Awake }
    }

    /// Returns whether this is [`Self::Asleep`]: then notify the peer.
    #[inline(always)]
    pub const fn is_asleep(self) -> bool {
        matches!(self, Self::Asleep)
    }
}

/// Asleep if it waits for one of the two.
impl BitOr for Peer {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self::asleep_if(self.is_asleep() | other.is_asleep())
    }
}

/// Asleep if it waits for one of the two.
impl BitOrAssign for Peer {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}
