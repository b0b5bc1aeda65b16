//! Channels: the ends that a component was given, sets of them, and interrupts.

use crate::arch::syscall;
use crate::message::{CalleeGone, Message};
use crate::turn;
use culm_abi::syscall::GROUP;

/// This component's end of a channel.
///
/// Numbers are dense and chosen by the build tool; a component gets its channels from its
/// connections and seldom sees one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel(u32);

impl Channel {
    /// Returns the end with this number. The use of a number that was not given is a fault of this
    /// component and harms no other.
    #[inline(always)]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the end's number.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Notifies the peer at the end of this turn, together with whatever else the turn has to say,
    /// at no extra cost.
    #[inline(always)]
    pub fn notify(self) {
        turn::signal(self);
    }

    /// Notifies the peer at once, by a system call of its own: for work that should overlap with
    /// the rest of a long turn.
    #[inline]
    pub fn notify_now(self) {
        let (group, bit) = self.position();
        syscall::signal(group, 1 << bit);
    }

    /// Calls the peer and waits for its reply. The description must declare this end as the caller.
    #[inline(always)]
    pub fn call(self, message: impl Into<Message>) -> Result<Message, CalleeGone> {
        syscall::call(self.0, &message.into())
    }

    /// Returns group and bit of this channel in notification words.
    #[inline(always)]
    pub(crate) const fn position(self) -> (u32, u32) {
        if self.0 < GROUP { (0, self.0) } else { (self.0 / GROUP, self.0 % GROUP) }
    }
}

/// The channels that were notified: a set.
///
/// Notifications are one bit each: a channel that was notified five times is here once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    group: u32,
    bits: u64,
}

impl Channels {
    /// No channel: a deadline passed.
    pub const NONE: Self = Self { group: 0, bits: 0 };

    /// Returns the channels of `group` whose bits are set.
    #[inline(always)]
    pub(crate) const fn new(group: u32, bits: u64) -> Self {
        Self { group, bits }
    }

    /// Returns whether no channel was notified, which means that the deadline passed.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Returns those of the first 63 channels whose bits are set.
    #[inline(always)]
    pub const fn near(bits: u64) -> Self {
        Self::new(0, bits)
    }

    /// Returns the channels as bits, if they are of the first 63.
    #[inline(always)]
    pub const fn near_bits(self) -> Option<u64> {
        if self.group == 0 { Some(self.bits) } else { None }
    }

    /// Returns the others than `channel`.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, channel: Channel) -> Self {
        match self.bit(channel) {
            Some(bit) => Self { bits: self.bits & !(1 << bit), ..self },
            None => self,
        }
    }

    /// Returns whether `channel` was notified.
    #[inline(always)]
    pub const fn contains(self, channel: Channel) -> bool {
        matches!(self.bit(channel), Some(bit) if self.bits >> bit & 1 != 0)
    }

    /// Returns the bit of `channel`, if it is of this group: without [`Channel::position`], which
    /// divides.
    #[inline(always)]
    const fn bit(self, channel: Channel) -> Option<u32> {
        let bit = channel.0.wrapping_sub(self.group * GROUP);
        if bit < GROUP { Some(bit) } else { None }
    }
}

impl From<Channel> for Channels {
    fn from(channel: Channel) -> Self {
        let (group, bit) = channel.position();
        Self::new(group, 1 << bit)
    }
}

/// Lowest number first.
impl Iterator for Channels {
    type Item = Channel;

    #[inline(always)]
    fn next(&mut self) -> Option<Channel> {
        if self.bits == 0 {
            return None;
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(Channel::new(self.group * GROUP + bit))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.bits.count_ones() as usize;
        (count, Some(count))
    }
}

impl ExactSizeIterator for Channels {}

/// An interrupt of a device that this component owns.
///
/// The kernel masks an interrupt when it delivers it as a notification of [`Interrupt::channel`];
/// [`Interrupt::enable`] unmasks it at the end of the turn. At start it is masked; after
/// [`Component::init`](crate::Component::init) the runtime enables all interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt(Channel);

impl Interrupt {
    /// Returns the interrupt that is delivered over `channel`.
    #[inline(always)]
    pub const fn new(channel: Channel) -> Self {
        Self(channel)
    }

    /// Returns the channel whose notification means that the interrupt happened.
    #[inline(always)]
    pub const fn channel(self) -> Channel {
        self.0
    }

    /// Lets the interrupt happen again, from the end of this turn on.
    #[inline(always)]
    pub fn enable(self) {
        self.0.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_lists_its_channels_in_order() {
        let channels = Channels::new(1, 1 << 62 | 1 << 3 | 1);
        assert_eq!(channels.len(), 3);
        assert_eq!(channels.map(Channel::number).collect::<Vec<_>>(), [63, 66, 125]);
    }

    #[test]
    fn the_first_channels_are_bits() {
        assert!(Channels::near(1 << 4 | 1).map(Channel::number).eq([0, 4]));
        assert_eq!(Channels::from(Channel::new(4)).near_bits(), Some(1 << 4));
        assert_eq!(Channels::from(Channel::new(64)).near_bits(), None);
    }

    #[test]
    fn membership_goes_by_group_and_bit() {
        let channels = Channels::from(Channel::new(66));
        assert!(channels.contains(Channel::new(66)));
        assert!(!channels.contains(Channel::new(3)));
        assert!(!channels.contains(Channel::new(67)));
        assert!(channels.without(Channel::new(66)).is_empty());
        assert_eq!(channels.without(Channel::new(3)), channels);
        assert!(Channels::NONE.is_empty());
    }
}
