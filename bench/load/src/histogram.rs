//! A histogram of durations with a bounded relative error, so that percentiles cost neither memory
//! nor accuracy.
//!
//! Values fall into buckets whose width is 1/128 of the power of two below them, so a percentile is
//! exact to 0.8 %.

use serde::Serialize;

const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;
const POWERS: usize = 64 - SUB_BITS as usize + 1;

/// Counts of durations in nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    largest: u64,
}

/// Percentiles of a [`Histogram`], in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many durations were counted.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Half of them are no longer than this.
    pub p50: u64,
    /// 90 of 100 are no longer than this.
    pub p90: u64,
    /// 99 of 100 are no longer than this.
    pub p99: u64,
    /// 999 of 1000 are no longer than this.
    pub p999: u64,
    /// The longest.
    pub largest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; SUB * POWERS], count: 0, sum: 0, largest: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, nanoseconds: u64) {
        self.buckets[bucket(nanoseconds)] += 1;
        self.count += 1;
        self.sum += u128::from(nanoseconds);
        self.largest = self.largest.max(nanoseconds);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.largest) = (0, 0, 0);
    }

    /// The smallest duration that at least `fraction` of all durations do not exceed, 0 where there
    /// are none.
    pub fn quantile(&self, fraction: f64) -> u64 {
        let rank = ((fraction * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_bound(index).min(self.largest);
            }
        }
        self.largest
    }

    /// The percentiles that reports quote.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            count: self.count,
            mean: if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 },
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            largest: self.largest,
        }
    }

    /// The distribution as (duration, share of durations up to it), one point per bucket in use;
    /// for plots.
    pub fn distribution(&self) -> Vec<(u64, f64)> {
        let mut seen = 0;
        let used = self.buckets.iter().enumerate().filter(|(_, count)| **count != 0);
        used.map(|(index, count)| {
            seen += count;
            (upper_bound(index), seen as f64 / self.count as f64)
        })
        .collect()
    }
}

fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let power = value.ilog2() - SUB_BITS;
    ((power as usize + 1) << SUB_BITS) + (value >> power) as usize - SUB
}

fn upper_bound(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let power = (bucket >> SUB_BITS) - 1;
    let low = ((bucket & (SUB - 1)) + SUB) as u64;
    (low << power) + ((1u64 << power) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_tight() {
        for value in (0..1000).chain([4095, 4096, 123_456_789, u64::MAX / 3, u64::MAX]) {
            let bound = upper_bound(bucket(value));
            assert!(bound >= value && bound - value <= value / 128, "{value} fell into a bucket up to {bound}");
        }
    }

    #[test]
    fn percentiles_of_known_values() {
        let mut histogram = Histogram::default();
        (1..=100_000u64).for_each(|value| histogram.record(value));
        let percentiles = histogram.percentiles();
        assert!((percentiles.p50 as f64 / 50_000.0 - 1.0).abs() < 0.01);
        assert!((percentiles.p99 as f64 / 99_000.0 - 1.0).abs() < 0.01);
        assert_eq!((percentiles.largest, percentiles.count), (100_000, 100_000));
        assert_eq!(histogram.distribution().last().map(|point| point.1), Some(1.0));
    }

    #[test]
    fn an_empty_histogram_answers() {
        assert_eq!(Histogram::default().percentiles(), Percentiles::default());
    }
}
