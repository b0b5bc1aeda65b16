//! The answer of a side that looks for more to do before it sleeps.

use core::ops::{BitAnd, BitAndAssign};

/// The findings of a side when it announced that it sleeps: the answer of every function that does,
/// and of a round that ends with it.
///
/// Two of them are joined by `&`, which evaluates both: each announcement must be made, whatever
/// the other found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a side that sleeps although there is more to do may never be woken"]
pub enum Progress {
    /// There is nothing to do, and whoever has something later notifies: end the turn.
    Asleep,
    /// There is more to do already, and perhaps nobody notifies: begin another round.
    More,
}

impl Progress {
    /// Returns [`Self::Asleep`] if `asleep`.
    #[inline(always)]
    pub const fn asleep_if(asleep: bool) -> Self {
        if asleep { Self::Asleep } else { Self::More }
    }

    /// Returns [`Self::More`] if `more`.
    #[inline(always)]
    pub const fn more_if(more: bool) -> Self {
        Self::asleep_if(!more)
    }

    /// Returns whether this is [`Self::Asleep`].
    #[inline(always)]
    pub const fn is_asleep(self) -> bool {
        matches!(self, Self::Asleep)
    }

    /// Returns whether this is [`Self::More`].
    #[inline(always)]
    pub const fn is_more(self) -> bool {
        matches!(self, Self::More)
    }
}

/// Asleep if both are.
impl BitAnd for Progress {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self::asleep_if(self.is_asleep() & other.is_asleep())
    }
}

/// Asleep if both are.
impl BitAndAssign for Progress {
    #[inline(always)]
    fn bitand_assign(&mut self, other: Self) {
        *self = *self & other;
    }
}
