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
    use crate::engine::Counts;
    use std::time::Instant;

    /// How long the test waits for anything: a busy machine may give no thread its turn for long.
    const PATIENCE: Duration = Duration::from_secs(180);

    fn wait_until(load: &Load, is_so: impl Fn(Counts) -> bool) {
        let begin = Instant::now();
        while !is_so(load.counts()) {
            assert!(begin.elapsed() < PATIENCE, "{:?}", load.counts());
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_perfect_server_loses_nothing() {
        // Of an open loop so few that those of many seconds have room in the buffers.
        for (mode, enough) in [(Mode::Window(16), 10_000), (Mode::Rate(200.0), 200)] {
            let server = FarEnd::start(([127, 0, 0, 1], 0).into(), None, true).unwrap();
            let (targets, patience) = (vec![server.address()], 2 * PATIENCE);
            let mut load = Load::start(&LoadSpec { targets, size: 64, mode, patience, processor: None }).unwrap();
            load.record();
            // What were lost would keep its place in the window, or the counts apart, for ever.
            match mode {
                Mode::Window(_) => wait_until(&load, |counts| counts.answered > enough),
                Mode::Rate(_) => wait_until(&load, |counts| counts.answered > enough && counts.answered == counts.sent),
            }
            let report = load.finish().unwrap();
            let Counts { lost, late, duplicates, corrupt, .. } = report.counts;
            assert_eq!([lost, late, duplicates, corrupt], [0; 4]);
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
