//! The last partition of a disk, if it has what the others leave.

use super::{Volume, fat};
use std::iter::successors;

/// Such a partition, and the disk around it, in sectors.
pub struct Rest {
    /// Where it begins.
    pub first: u64,
    /// Sectors behind it that the table needs.
    pub tail: u64,
    /// Its end is a multiple of this.
    pub align: u64,
    /// The most that a disk can have.
    pub most: u64,
    /// Disks have a power of two.
    pub is_card: bool,
    /// What is to be on it.
    pub volume: Option<Volume>,
}

impl Rest {
    /// Returns the partition's sectors on a disk of so many.
    pub fn on(&self, disk: u64) -> u64 {
        let end = disk.saturating_sub(self.tail);
        (end - end % self.align.min(end.max(1))).saturating_sub(self.first)
    }

    /// Returns the sectors of the least disk that has room for it, if there is one.
    pub fn least(&self) -> Option<u64> {
        let mut powers = successors(Some(1_u64), |power| power.checked_mul(2)).take_while(|power| *power <= self.most);
        let enough = powers.find(|power| self.is_enough(*power))?;
        if self.is_card {
            return Some(enough);
        }
        let (mut less, mut enough) = (enough / 2 / self.align, enough.div_ceil(self.align));
        while less + 1 < enough {
            let middle = less.midpoint(enough);
            if self.is_enough(middle * self.align) {
                enough = middle;
            } else {
                less = middle;
            }
        }
        Some(enough * self.align)
    }

    /// Whether a disk of so many sectors has room for the partition. What cannot be read needs
    /// none: that is a mistake of its own.
    pub fn is_enough(&self, disk: u64) -> bool {
        let sectors = self.on(disk);
        let Some(volume) = &self.volume else { return sectors > 0 };
        let (least, most) = fat::bounds(volume.kind);
        if !(least..=most).contains(&sectors) {
            return false;
        }
        let Some(room) = fat::capacity(volume, sectors) else { return false };
        volume.content().map_or(true, |content| room.reason_against(volume, &content).is_none())
    }
}
