//! A load on the echo servers of a subject: what the rows of several benchmarks share.

use crate::lab::{Lab, Subject};
use crate::results::Sample;
use anyhow::{Result, bail};
use culm_bench_load::{Load, Mode, Report};
use std::net::SocketAddr;
use std::time::Duration;

/// The packets that are sent, and where to.
#[derive(Clone, Debug)]
pub struct Pressure {
    /// The echo servers.
    pub targets: Vec<SocketAddr>,
    /// Bytes of a packet's payload.
    pub size: usize,
    /// The pace.
    pub mode: Mode,
}

/// Puts a load on the subject's echo servers and counts for one window. Every answer must be right.
pub fn measure(lab: &Lab, subject: &mut Subject, pressure: &Pressure) -> Result<Sample> {
    let (mut sample, report) = load(lab, subject, pressure)?;
    let counts = report.counts;
    if counts.answered == 0 {
        bail!("nothing was answered. The guest's console's last lines:\n{}", subject.machine.last_lines());
    }
    if counts.corrupt > 0 || counts.duplicates > 0 {
        bail!("{} answers were corrupt, {} came twice", counts.corrupt, counts.duplicates);
    }
    if counts.lost > 0 {
        let late = counts.late;
        sample
            .notes
            .push(format!("{} of {} packets were lost, or late: {late} came in the end", counts.lost, counts.sent));
    }
    sample.set("p50 us", report.round_trip.p50 as f64 / 1e3);
    sample.set("p99 us", report.round_trip.p99 as f64 / 1e3);
    sample.distribution = report.distribution;
    Ok(sample)
}

/// The same without a judgement: overload loses packets.
pub fn load(lab: &Lab, subject: &mut Subject, pressure: &Pressure) -> Result<(Sample, Report)> {
    let spec = culm_bench_load::LoadSpec {
        targets: pressure.targets.clone(),
        size: pressure.size,
        mode: pressure.mode,
        // Before a slow guest, and under overload, packets queue up and are answered late; that
        // they are answered is what counts.
        patience: Duration::from_secs(2),
        processor: lab.load_processor,
    };
    let mut load = subject.machine.network.within(|| Load::start(&spec))?;
    std::thread::sleep(lab.window / 3);
    load.record();
    let (window, before) = (subject.begin()?, load.counts());
    std::thread::sleep(lab.window);
    let answered = load.counts().answered - before.answered;
    // A side that answers nothing under overload has a figure too: what it does meanwhile.
    let sample = subject.end(window, (answered as f64).max(1.0), "packet")?;
    let report = load.finish()?;
    std::thread::sleep(Duration::from_millis(50));
    Ok((sample, report))
}
