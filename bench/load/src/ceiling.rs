//! How much the load generator itself can do: an echo server in the same process, over the loopback
//! device.

use crate::engine::{Load, LoadSpec, Mode, Report};
use crate::far::FarEnd;
use anyhow::Result;
use std::time::Duration;

/// Runs the load against an echo server on `server_processor` for `time`: no measured system can
/// look faster than this.
pub fn ceiling(
    size: usize,
    mode: Mode,
    processor: Option<usize>,
    server_processor: Option<usize>,
    time: Duration,
) -> Result<Report> {
    let server = FarEnd::start(([127, 0, 0, 1], 0).into(), server_processor, true)?;
    let mut load = Load::start(&LoadSpec {
        targets: vec![server.address()],
        size,
        mode,
        patience: Duration::from_millis(200),
        processor,
    })?;
    std::thread::sleep(Duration::from_millis(300));
    load.record();
    std::thread::sleep(time);
    load.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_server_loses_nothing() {
        for mode in [Mode::Window(16), Mode::Rate(2000.0)] {
            // On a busy machine the server's thread may not get its turn for long; then more time
            // is taken.
            let times = [300, 1_000, 3_000, 10_000, 30_000].map(Duration::from_millis);
            let mut reports = times.into_iter().map(|time| ceiling(64, mode, None, None, time).unwrap());
            let enough = reports.find(|report| report.counts.answered > 100 && report.counts.lost == 0);
            let report = enough.expect("in some window everything is answered");
            assert_eq!((report.counts.corrupt, report.counts.duplicates), (0, 0));
            assert!(report.round_trip.p50 > 0 && report.round_trip.p50 <= report.round_trip.p99);
        }
    }

    #[test]
    fn a_plan_that_cannot_be_is_refused() {
        for (size, mode) in
            [(4, Mode::Window(1)), (64, Mode::Window(0)), (64, Mode::Rate(0.0)), (1473, Mode::Window(1))]
        {
            assert!(ceiling(size, mode, None, None, Duration::ZERO).is_err());
        }
    }
}
