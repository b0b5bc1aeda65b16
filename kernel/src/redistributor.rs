//! The search for a core's redistributor in a GICv3 (Arm IHI 0069, 12.11).
//!
//! Redistributors lie one behind the other, in one range of memory or in several; the last of a
//! range is marked. Each states the affinity of its core and its features, from which its length
//! follows.

/// `GICR_TYPER`: virtual LPIs, thus four frames instead of two; the last of its range; the
/// affinity's place.
const VIRTUAL: u64 = 1 << 1;
const LAST: u64 = 1 << 4;
const AFFINITY_SHIFT: u32 = 32;

/// Bytes of a frame.
const FRAME: usize = 0x1_0000;

/// Returns the address of the redistributor of the core with the affinity `mpidr`. `ranges` are
/// addresses and sizes; `kind` reads the `GICR_TYPER` of the redistributor at an address.
pub fn find(
    mpidr: u64,
    ranges: impl IntoIterator<Item = (usize, usize)>,
    kind: impl Fn(usize) -> u64,
) -> Option<usize> {
    let wanted = mpidr & 0xff_ffff | (mpidr >> 32 & 0xff) << 24;
    ranges.into_iter().find_map(|(first, size)| {
        let mut offset = 0;
        while size - offset >= 2 * FRAME {
            let kind = kind(first + offset);
            if kind >> AFFINITY_SHIFT == wanted {
                return Some(first + offset);
            }
            let frames = if kind & VIRTUAL != 0 { 4 } else { 2 };
            if kind & LAST != 0 || size - offset < frames * FRAME {
                return None;
            }
            offset += frames * FRAME;
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Finds `mpidr` among redistributors at these addresses; fails where anything else is read.
    fn search(mpidr: u64, ranges: &[(usize, usize)], there: &[(usize, u64)]) -> Option<usize> {
        let there: BTreeMap<usize, u64> = there.iter().copied().collect();
        find(mpidr, ranges.iter().copied(), |address| there[&address])
    }

    const fn affinity(value: u64) -> u64 {
        value << AFFINITY_SHIFT
    }

    #[test]
    fn nothing_behind_the_last_is_read() {
        let there = [(0x1000_0000, affinity(0)), (0x1002_0000, affinity(1) | LAST)];
        let ranges = [(0x1000_0000, 0xf6_0000)];
        assert_eq!(search(1, &ranges, &there), Some(0x1002_0000));
        assert_eq!(search(2, &ranges, &there), None);
    }

    #[test]
    fn all_ranges_are_looked_through_and_none_is_left() {
        let there =
            [(0x1000_0000, affinity(0) | LAST), (0x4000_0000, affinity(0x0100)), (0x4002_0000, affinity(0x0101))];
        let ranges = [(0x1000_0000, 0x10_0000), (0, 0), (0x4000_0000, 0x4_0000)];
        assert_eq!(search(0x0101, &ranges, &there), Some(0x4002_0000));
        assert_eq!(search(0x0102, &ranges, &there), None);
    }

    #[test]
    fn those_with_virtual_interrupts_are_longer() {
        let there = [(0x1000_0000, affinity(0) | VIRTUAL), (0x1004_0000, affinity(1) | VIRTUAL)];
        assert_eq!(search(1, &[(0x1000_0000, 0x8_0000)], &there), Some(0x1004_0000));
        assert_eq!(search(2, &[(0x1000_0000, 0x8_0000)], &there), None);
        assert_eq!(search(1, &[(0x1000_0000, 0x3_0000)], &there), None, "cut off");
    }

    #[test]
    fn the_highest_level_of_affinity_has_a_place_of_its_own() {
        let there = [(0x1000_0000, affinity(0x0200_0001) | LAST)];
        let ranges = [(0x1000_0000, 0x2_0000)];
        assert_eq!(search(0x02_8000_0001, &ranges, &there), Some(0x1000_0000), "bit 31 is no affinity");
        assert_eq!(search(0x0200_0001, &ranges, &there), None);
    }
}
