//! Components' seeds, made of everything that the machine's source of randomness has given so far:
//! they cannot be guessed even if the source runs dry.

use culm_random::{Generator, Seed};

/// The state from which one core makes seeds.
#[derive(Debug)]
pub struct Seeds {
    generator: Option<Generator>,
}

impl Seeds {
    /// Starts with `first`, a seed that nobody else has; `None` if the source has never given
    /// anything.
    pub fn new(first: Option<Seed>) -> Self {
        Self { generator: first.map(Generator::new) }
    }

    /// Returns a seed for the domain that starts now. `fresh` is what the source gives at this
    /// moment, if it gives anything. Returns `None` until the source has given something for the
    /// first time.
    pub fn next(&mut self, fresh: Option<Seed>) -> Option<Seed> {
        match (&mut self.generator, fresh) {
            (Some(generator), Some(fresh)) => generator.add(fresh),
            (generator @ None, Some(fresh)) => *generator = Some(Generator::new(fresh)),
            (_, None) => {}
        }
        self.generator.as_mut().map(Generator::words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const FRESH: Seed = [1, 2, 3, 4];

    #[test]
    fn a_source_that_runs_dry_leaves_seeds_that_are_all_different() {
        let mut seeds = Seeds::new(None);
        let mut seen = BTreeSet::from([FRESH]);
        for fresh in [Some(FRESH), None, None, Some(FRESH), None] {
            let seed = seeds.next(fresh).expect("the source has given something");
            assert!(seen.insert(seed), "{seed:?} was given before");
        }
    }

    #[test]
    fn before_the_source_gives_anything_there_is_no_seed() {
        let mut seeds = Seeds::new(None);
        assert_eq!(seeds.next(None), None);
        assert!(seeds.next(Some(FRESH)).is_some());
        assert!(Seeds::new(Some(FRESH)).next(None).is_some(), "one that another core handed over");
    }

    #[test]
    fn what_the_source_gives_later_changes_what_follows() {
        let (mut one, mut other) = (Seeds::new(Some(FRESH)), Seeds::new(Some(FRESH)));
        assert_eq!(one.next(None), other.next(None));
        assert_ne!(one.next(Some([5; 4])), other.next(Some([6; 4])));
        assert_ne!(one.next(None), other.next(None));
    }
}
