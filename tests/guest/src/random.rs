//! Random numbers that are the same again for the same seed.

/// A source of random numbers (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed from which it goes on.
    pub const fn seed(self) -> u64 {
        self.0
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.number() >> 8) % end
    }

    /// Whether something happens that does once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// One of them, or any value.
    pub fn value_or(&mut self, all: &[u64]) -> u64 {
        let index = self.below(all.len() as u64 + 1) as usize;
        all.get(index).copied().unwrap_or_else(|| self.value())
    }

    /// A value of the kinds that find mistakes: small, large, a bit or a few, or any.
    pub fn value(&mut self) -> u64 {
        let number = self.number();
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << (number & 63),
            3 => !(1 << (number & 63)),
            4 => number & 0xff,
            5 => number & 0xffff_ffff,
            6 => number & self.number() & self.number(),
            _ => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut first, mut second) = (Random::new(7), Random::new(7));
        for _ in 0..100 {
            assert_eq!(first.value(), second.value());
        }
        let mut third = Random::new(first.seed());
        assert_eq!(first.number(), third.number(), "it goes on from its seed");
        assert!((0..1000).all(|_| first.below(3) < 3));
    }
}
