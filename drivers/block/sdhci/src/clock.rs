//! The divider of the card's clock (Clock Control).

/// The clock during the initialisation: 400 kHz at most (SD Physical Layer 9.10 §4.2.1).
pub const SLOW: u32 = 400_000;

/// The clock at default speed.
pub const DEFAULT: u32 = 25_000_000;

/// The clock at high speed.
pub const HIGH: u32 = 50_000_000;

/// A divider, as the register has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divider {
    /// The value for the register.
    pub value: u16,
    /// The clock that comes of it.
    pub hertz: u32,
}

/// Returns the divider with which a clock of `base` Hz gives `target` Hz, or as little less as is
/// possible. With `is_fine`, the divider is any even number to 2046, from version 3 of the
/// specification on; otherwise it is a power of two to 256. A base clock beyond that gives a faster
/// one than asked for.
pub const fn divider(base: u32, target: u32, is_fine: bool) -> Divider {
    if base <= target {
        return Divider { value: 0, hertz: base };
    }
    // Half the divisor is written.
    let half = base.div_ceil(target).div_ceil(2);
    let (half, most) = if is_fine { (half, 1023) } else { (half.next_power_of_two(), 128) };
    let half = if half > most { most } else { half };
    Divider { value: half as u16, hertz: base / (2 * half) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_clock_is_faster_than_asked_for(base in 1..=255_000_000_u32, target in SLOW..=HIGH, is_fine: bool) {
            // The slowest of version 2, with a base clock that it can tell.
            let base = if is_fine { base } else { base % 63_000_000 + 1 };
            let Divider { value, hertz } = divider(base, target, is_fine);
            prop_assert!(hertz <= target);
            let divisor = if value == 0 { 1 } else { 2 * u32::from(value) };
            prop_assert_eq!(hertz, base / divisor);
            let fits = if is_fine { value < 1024 } else { value == 0 || value <= 128 && value.is_power_of_two() };
            prop_assert!(fits);
            // The next faster one would be too fast.
            let faster = match value {
                0 => return Ok(()),
                1 => base,
                _ if is_fine => base / (2 * (u32::from(value) - 1)),
                _ => base / u32::from(value),
            };
            prop_assert!(faster >= target);
        }
    }

    #[test]
    fn dividers_are_as_the_register_has_them() {
        for (base, target, is_fine, value, hertz) in [
            (52_000_000, SLOW, false, 128, 203_125),
            (52_000_000, DEFAULT, false, 2, 13_000_000),
            (52_000_000, HIGH, false, 1, 26_000_000),
            (50_000_000, HIGH, false, 0, 50_000_000),
            (50_000_000, DEFAULT, false, 1, 25_000_000),
            (200_000_000, SLOW, true, 250, 400_000),
            (200_000_000, HIGH, true, 2, 50_000_000),
            (255_000_000, HIGH, true, 3, 42_500_000),
            (63_000_000, SLOW, false, 128, 246_093),
        ] {
            assert_eq!(divider(base, target, is_fine), Divider { value, hertz }, "{base} {target}");
        }
    }
}
