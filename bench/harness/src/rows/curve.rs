//! What overload does to what is done: how much of it, and at which cost each, by the rate at which
//! it is asked for.

use crate::results::Sample;

/// What was measured, by the share of what saturates. Of several rounds, the one in which most was
/// done counts: what else a host does only makes it less.
#[derive(Default)]
pub struct Curve {
    /// In the order in which they were measured.
    pub points: Vec<Point>,
}

/// One rate.
pub struct Point {
    /// The share of what saturates.
    pub factor: f64,
    /// How much is done in a second.
    pub rate: f64,
    /// Instructions for each.
    pub instructions: f64,
}

impl Curve {
    /// Adds what was measured.
    pub fn add(&mut self, point: Point) {
        match self.points.iter_mut().find(|known| known.factor == point.factor) {
            Some(known) if known.rate < point.rate => *known = point,
            Some(_) => {}
            None => self.points.push(point),
        }
    }

    /// Adds how the point of a share compares with the best of all, if it was measured: how much of
    /// `what` is done, which changes with the host's speed, and at which cost, which does not.
    pub fn compare(&self, sample: &mut Sample, what: &str, factor: f64) {
        let most = self.points.iter().map(|point| point.rate).fold(0.0, f64::max);
        let least = self.points.iter().map(|point| point.instructions).fold(f64::INFINITY, f64::min);
        if let Some(point) = self.points.iter().find(|point| point.factor == factor) {
            sample.set(&format!("{what} at {factor}x to most"), point.rate / most);
            sample.set(&format!("cost at {factor}x to least"), point.instructions / least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_compared_with_the_best_of_all() {
        let mut curve = Curve::default();
        for (factor, rate, instructions) in
            [(0.5, 50.0, 2000.0), (1.0, 100.0, 1000.0), (4.0, 60.0, 1500.0), (4.0, 80.0, 1100.0), (4.0, 70.0, 900.0)]
        {
            curve.add(Point { factor, rate, instructions });
        }
        let mut sample = Sample::default();
        curve.compare(&mut sample, "answers", 4.0);
        curve.compare(&mut sample, "answers", 3.0);
        let figures: Vec<_> = sample.figures.iter().map(|(unit, figure)| (unit.as_str(), *figure)).collect();
        assert_eq!(figures, [("answers at 4x to most", 0.8), ("cost at 4x to least", 1.1)]);
    }
}
