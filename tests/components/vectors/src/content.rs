//! What the registers are filled with, and the comparison.

#![cfg_attr(not(target_os = "none"), allow(dead_code, reason = "it looks on the target only"))]

use crate::counters;

/// `FPCR.RMode`, `FZ` and `DN`, and `FPSR`'s cumulative bits: all that every processor has.
const CONTROL: u64 = 0b1111 << 22;
const STATUS: u64 = 1 << 27 | 0b1_1111;

/// All registers, in the order in which the assembly stores and loads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Content {
    /// `V0` to `V31`.
    pub vectors: [u128; 32],
    /// `FPCR`.
    pub control: u64,
    /// `FPSR`.
    pub status: u64,
}

impl Content {
    /// Content that no other owner and no other round has.
    pub fn of(owner: u64, round: u64) -> Self {
        let vector = |number: usize| u128::from(owner) << 96 | u128::from(round) << 32 | (number as u128 + 1);
        // The owner in the low bits of both halves: neighbours differ in each register.
        Self {
            vectors: core::array::from_fn(|number| vector(number) ^ vector(number).rotate_left(64)),
            control: (round ^ owner) << 22 & CONTROL,
            status: (round.wrapping_mul(7) ^ owner) & STATUS,
        }
    }

    /// Compares with what the registers held afterwards, and reports each that differs.
    pub fn compare(&self, after: &Self, when: &str) {
        counters::LOOKS.add(1);
        for (number, (before, after)) in self.vectors.iter().zip(&after.vectors).enumerate() {
            if before != after {
                counters::FINDINGS.add(1);
                culm::error!("lost: V{number} over {when}: {before:#x} has become {after:#x}");
            }
        }
        if (self.control, self.status) != (after.control, after.status) {
            counters::FINDINGS.add(1);
            culm::error!(
                "lost: FPCR {:#x} over {when} has become {:#x}, FPSR {:#x} {:#x}",
                self.control,
                after.control,
                self.status,
                after.status
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_register_is_like_another_or_like_that_of_another_owner_or_round() {
        let mut seen = std::collections::BTreeSet::new();
        for (owner, round) in [(100, 0), (100, 1), (110, 0), (110, 1)] {
            for vector in Content::of(owner, round).vectors {
                assert!(vector != 0 && seen.insert(vector as u64), "{vector:#x}");
                assert!(seen.insert((vector >> 64) as u64 ^ u64::MAX), "{vector:#x}");
            }
        }
    }
}
