//! UDP echo: instructions per packet by size and window, round trips at a low rate, and what overload does.

use crate::lab::{Lab, SHARE, Subject};
use crate::linux::{Variant, port};
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use anyhow::{Result, bail};
use culm_load::{Load, Mode, Report};
use serde_json::json;
use std::time::Duration;

const BENCH: &str = "net";
const SYSTEM: &str = "bench-echo";

/// Sizes and windows of the closed loops.
const FULL_SIZES: &[usize] = &[64, 128, 256, 512, 1024, 1450, 1472];
const FULL_WINDOWS: &[usize] = &[1, 4, 16, 64, 256];

/// One closed or open loop.
struct Case {
    row: String,
    params: Params,
    size: usize,
    mode: Mode,
}

impl Case {
    fn closed(size: usize, window: usize) -> Case {
        let params = [("size".to_owned(), json!(size)), ("window".to_owned(), json!(window))];
        Case { row: format!("udp-{size}-w{window}"), params: params.into(), size, mode: Mode::Window(window) }
    }

    fn open(size: usize, rate: f64) -> Case {
        let params = [("size".to_owned(), json!(size)), ("rate".to_owned(), json!(rate))];
        Case { row: format!("udp-{size}-r{rate}"), params: params.into(), size, mode: Mode::Rate(rate) }
    }
}

/// Every size at window 64, every window at 64 bytes; with `full`, every pair.
fn cases(lab: &Lab) -> Vec<Case> {
    let mut cases = Vec::new();
    for &size in FULL_SIZES {
        for &window in FULL_WINDOWS {
            if lab.settings.full || size == 64 || window == 64 {
                cases.push(Case::closed(size, window));
            }
        }
    }
    cases.push(Case::open(64, 1000.0));
    cases.retain(|case| lab.wants(BENCH, &case.row));
    cases
}

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let cases = cases(lab);
    if lab.settings.culm() {
        let mut subject = lab.boot_culm(SYSTEM, true)?;
        side(lab, results, &mut subject, Side::Culm, port::ECHO, &cases, true)?;
    }
    if lab.settings.peer() {
        let mut subject = lab.boot_linux(Variant::NoKaslr)?;
        let peer = Side::Peer(Variant::NoKaslr.name());
        side(lab, results, &mut subject, peer, port::ECHO, &cases, true)?;
        side(lab, results, &mut subject, Side::Peer("linux-recvmmsg"), port::ECHO_BATCH, &cases, false)?;
        drop(subject);
        variants(lab, results, &cases)?;
    }
    ceiling(lab, results, &cases)?;
    compare_round_trips(lab, results);
    Ok(())
}

/// The one row that shows what the other ways to start Linux cost.
fn variants(lab: &Lab, results: &mut Results, cases: &[Case]) -> Result<()> {
    let shown: Vec<&Case> = cases.iter().filter(|case| case.row == "udp-64-w256").collect();
    for variant in Variant::ALL.into_iter().filter(|variant| *variant != Variant::NoKaslr && !shown.is_empty()) {
        let mut subject = lab.boot_linux(variant)?;
        for case in &shown {
            let sample = measure(lab, &mut subject, port::ECHO, case)?;
            results.record(Side::Peer(variant.name()), BENCH, &case.row, &case.params, sample);
        }
    }
    Ok(())
}

fn side(
    lab: &Lab,
    results: &mut Results,
    subject: &mut Subject,
    side: Side,
    port: u16,
    cases: &[Case],
    overload: bool,
) -> Result<()> {
    for case in cases.iter().filter(|case| lab.wants(BENCH, &case.row)) {
        let sample = measure(lab, subject, port, case)?;
        results.record(side, BENCH, &case.row, &case.params, sample);
    }
    if overload && lab.wants(BENCH, "udp-64-overload") {
        overload_row(lab, results, subject, side, port)?;
    }
    Ok(())
}

/// Puts a load on the subject's echo server and counts for one window.
fn measure(lab: &Lab, subject: &mut Subject, port: u16, case: &Case) -> Result<Sample> {
    let (mut sample, report) = load(lab, subject, port, case.size, case.mode)?;
    let counts = report.counts;
    if counts.corrupt > 0 || counts.duplicates > 0 {
        bail!("{}: {} answers were corrupt, {} came twice", case.row, counts.corrupt, counts.duplicates);
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

fn load(lab: &Lab, subject: &mut Subject, port: u16, size: usize, mode: Mode) -> Result<(Sample, Report)> {
    let plan = culm_load::Plan {
        target: subject.machine.network.address(Port::Udp(port))?,
        size,
        mode,
        // Under overload packets queue up before the guest, and are answered late; that they are answered is what counts.
        patience: Duration::from_millis(if matches!(mode, Mode::Rate(_)) { 2000 } else { 200 }),
        processor: lab.load_processor,
    };
    let mut load = subject.machine.network.within(|| Load::start(&plan))?;
    std::thread::sleep(lab.window / 3);
    load.record();
    let (window, before) = (subject.begin()?, load.counts());
    std::thread::sleep(lab.window);
    let answered = load.counts().answered - before.answered;
    let sample = subject.end(window, answered as f64, "packet")?;
    let report = load.finish()?;
    std::thread::sleep(Duration::from_millis(50));
    Ok((sample, report))
}

/// Answers per second at rates up to four times what a closed loop reaches.
fn overload_row(lab: &Lab, results: &mut Results, subject: &mut Subject, side: Side, port: u16) -> Result<()> {
    let (_, saturated) = load(lab, subject, port, 64, Mode::Window(256))?;
    let saturation = saturated.counts.answered as f64 / saturated.seconds;
    let (mut most, mut last, mut curve) = (0f64, 0.0, Sample::default());
    for factor in [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0] {
        let (sample, report) = load(lab, subject, port, 64, Mode::Rate(saturation * factor))?;
        last = report.counts.answered as f64 / report.seconds;
        most = most.max(last);
        curve.set(&format!("answers/s at {factor}x"), last);
        curve.set(&format!("sent/s at {factor}x"), report.counts.sent as f64 / report.seconds);
        for (unit, name) in [("instructions/packet", "instructions/answer"), ("wfi/s", "wfi/s"), (SHARE, SHARE)] {
            if let Some(value) = sample.figures.get(unit) {
                curve.set(&format!("{name} at {factor}x"), *value);
            }
        }
        // What still stands in queues is answered before the next load begins.
        std::thread::sleep(Duration::from_millis(700));
    }
    curve.set("answers at 4x to most", last / most);
    results.record(side, BENCH, "udp-64-overload", &[("size".to_owned(), json!(64))].into(), curve);
    Ok(())
}

/// What the load generator could measure at most, in the same run.
fn ceiling(lab: &Lab, results: &mut Results, cases: &[Case]) -> Result<()> {
    for case in cases.iter().filter(|case| lab.wants(BENCH, &case.row)) {
        let time = lab.window / 2;
        let report = culm_load::ceiling(case.size, case.mode, lab.load_processor, lab.guest_processor, time)?;
        let mut sample = Sample::default();
        sample.set("packets/s", report.counts.answered as f64 / report.seconds);
        sample.set("p50 us", report.round_trip.p50 as f64 / 1e3);
        results.record(Side::Peer("load-generator"), BENCH, &case.row, &case.params, sample);
    }
    Ok(())
}

/// Culm's round trips as a share of Linux's in the same run.
fn compare_round_trips(lab: &Lab, results: &mut Results) {
    let row = "udp-64-r1000";
    let strict = Side::Peer(Variant::NoKaslr.name());
    let (Some(ours), Some(theirs)) = (results.sample(Side::Culm, BENCH, row), results.sample(strict, BENCH, row))
    else {
        return;
    };
    let ratio = |unit: &str| Some(ours.figures.get(unit)? / theirs.figures.get(unit)?);
    let (p50, p99) = (ratio("p50 us"), ratio("p99 us"));
    for (unit, value) in [("p50 to peer", p50), ("p99 to peer", p99)] {
        if let Some(value) = value {
            results.amend(Side::Culm, BENCH, row, unit, value);
        } else {
            lab.note("round trips could not be compared: a side was not measured");
        }
    }
}
