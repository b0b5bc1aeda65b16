//! UDP echo: instructions per packet by size and window, round trips at a low rate, and what
//! overload does.

use super::curve::{Curve, Point};
use super::echo::{Pressure, load, measure};
use super::growth::client_targets;
use crate::lab::{Lab, SHARE, Setup, Subject};
use crate::linux::{Variant, port};
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use crate::systems::{Echo, System};
use anyhow::{Context, Result};
use culm_bench_load::Mode;
use serde_json::json;
use std::time::Duration;

const BENCH: &str = "net";
const OVERLOAD: &str = "udp-64-overload";

/// The rates of the open loop that overloads, in multiples of the one that saturates a server.
const MULTIPLES_OF_SATURATION: [f64; 9] = [0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0];

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

    /// Puts this load on the subject's echo server at `port`.
    fn measure(&self, lab: &Lab, subject: &mut Subject, port: u16) -> Result<Sample> {
        let targets = vec![subject.machine.network.address(Port::Udp(port))?];
        let pressure = Pressure { targets, size: self.size, mode: self.mode };
        measure(lab, subject, &pressure).with_context(|| self.row.clone())
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
    // From next to nothing to more than any side answers; `udp-64-overload` goes on from there.
    for rate in [100.0, 1000.0, 4000.0, 16000.0] {
        cases.push(Case::open(64, rate));
    }
    cases.retain(|case| lab.wants(BENCH, &case.row));
    cases
}

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let cases = cases(lab);
    let system = System::echo_file("bench-echo");
    let strict = Side::Peer(Variant::NoKaslr.name());
    let overload = lab.wants(BENCH, OVERLOAD);
    let usual = overload || !cases.is_empty();
    if lab.settings.culm() && usual {
        lab.attempt(BENCH, "culm", || {
            let mut subject = lab.boot_culm(&system, &Setup::default())?;
            side(lab, results, &mut subject, (Side::Culm, port::ECHO), &cases);
            overload_row(lab, results, &mut subject, Side::Culm, port::ECHO)
        });
    }
    if lab.settings.peer() && usual {
        lab.attempt(BENCH, "peer", || {
            let mut subject = lab.boot_linux(Variant::NoKaslr, &Setup::default())?;
            side(lab, results, &mut subject, (strict, port::ECHO), &cases);
            overload_row(lab, results, &mut subject, strict, port::ECHO)?;
            side(lab, results, &mut subject, (Side::Peer("linux-recvmmsg"), port::ECHO_BATCH), &cases);
            Ok(())
        });
        lab.attempt(BENCH, "variants", || variants(lab, results, &cases));
    }
    ceiling(lab, results, &cases)?;
    compare_round_trips(lab, results);
    lab.attempt(BENCH, "devices", || devices(lab, results));
    lab.attempt(BENCH, "cores2", || cores(lab, results));
    lab.attempt(BENCH, "clients8", || clients(lab, results));
    Ok(())
}

/// The one row that shows what the other ways to start Linux cost.
fn variants(lab: &Lab, results: &mut Results, cases: &[Case]) -> Result<()> {
    let shown: Vec<&Case> = cases.iter().filter(|case| case.row == "udp-64-w256").collect();
    for variant in Variant::ALL.into_iter().filter(|variant| *variant != Variant::NoKaslr && !shown.is_empty()) {
        let mut subject = lab.boot_linux(variant, &Setup::default())?;
        for case in &shown {
            let sample = case.measure(lab, &mut subject, port::ECHO)?;
            results.record(Side::Peer(variant.name()), BENCH, &case.row, &case.params, sample);
        }
    }
    Ok(())
}

fn side(lab: &Lab, results: &mut Results, subject: &mut Subject, (side, port): (Side, u16), cases: &[Case]) {
    for case in cases.iter().filter(|case| lab.wants(BENCH, &case.row)) {
        lab.attempt(BENCH, &case.row, || {
            results.record(side, BENCH, &case.row, &case.params, case.measure(lab, subject, port)?);
            Ok(())
        });
    }
}

/// The cases of `windows` that the caller wants, each row's name with `ending`.
fn special(lab: &Lab, windows: &[usize], ending: &str) -> Vec<Case> {
    let case = |window: &usize| {
        let case = Case::closed(64, *window);
        Case { row: format!("{}-{ending}", case.row), ..case }
    };
    windows.iter().map(case).filter(|case| lab.wants(BENCH, &case.row)).collect()
}

/// Accesses to the registers of devices, which counting makes slow: rows of their own.
fn devices(lab: &Lab, results: &mut Results) -> Result<()> {
    let setup = Setup { devices: true, ..Setup::default() };
    let cases = special(lab, &[1, 64], "devices");
    both_sides(lab, results, &cases, &System::echo_file("bench-echo"), &setup)
}

/// Two cores: the card on one, the echo server on the other; Linux does as it likes.
fn cores(lab: &Lab, results: &mut Results) -> Result<()> {
    let setup = Setup { cores: Some(2), unpinned: true, ..Setup::default() };
    let system = Echo { core: 1, ..Echo::default() }.system("bench-echo-cores");
    both_sides(lab, results, &special(lab, &[1, 64, 256], "cores2"), &system, &setup)
}

fn both_sides(lab: &Lab, results: &mut Results, cases: &[Case], system: &System, setup: &Setup) -> Result<()> {
    if cases.is_empty() {
        return Ok(());
    }
    if lab.settings.culm() {
        side(lab, results, &mut lab.boot_culm(system, setup)?, (Side::Culm, port::ECHO), cases);
    }
    if lab.settings.peer() {
        let strict = Variant::NoKaslr;
        let mut subject = lab.boot_linux(strict, setup)?;
        side(lab, results, &mut subject, (Side::Peer(strict.name()), port::ECHO), cases);
    }
    Ok(())
}

/// Eight echo servers that share the card, and the window.
fn clients(lab: &Lab, results: &mut Results) -> Result<()> {
    const CLIENTS: u8 = 8;
    let cases = special(lab, &[64, 256], "clients8");
    if !lab.settings.culm() || cases.is_empty() {
        return Ok(());
    }
    let system = Echo { clients: CLIENTS, ..Echo::default() }.system("bench-clients-8");
    let mut subject = lab.boot_culm(&system, &Setup::default())?;
    let Some(targets) = client_targets(lab, &subject.machine.network, CLIENTS)? else { return Ok(()) };
    for case in &cases {
        let pressure = Pressure { targets: targets.clone(), size: case.size, mode: case.mode };
        let sample = measure(lab, &mut subject, &pressure).with_context(|| case.row.clone())?;
        results.record(Side::Culm, BENCH, &case.row, &case.params, sample);
    }
    Ok(())
}

/// Answers, and what each costs, at rates up to four times what a closed loop reaches.
fn overload_row(lab: &Lab, results: &mut Results, subject: &mut Subject, side: Side, port: u16) -> Result<()> {
    if !lab.wants(BENCH, OVERLOAD) {
        return Ok(());
    }
    let targets = vec![subject.machine.network.address(Port::Udp(port))?];
    let pressure = |mode| Pressure { targets: targets.clone(), size: 64, mode };
    let (_, saturated) = load(lab, subject, &pressure(Mode::Window(256)))?;
    let saturation = saturated.counts.answered as f64 / saturated.seconds;
    let (mut curve, mut all) = (Curve::default(), Sample::default());
    for factor in MULTIPLES_OF_SATURATION {
        let (sample, report) = load(lab, subject, &pressure(Mode::Rate(saturation * factor)))?;
        let rate = report.counts.answered as f64 / report.seconds;
        let instructions = sample.figures.get("instructions/packet").copied().unwrap_or(f64::NAN);
        curve.add(Point { factor, rate, instructions });
        all.set(&format!("answers/s at {factor}x"), rate);
        all.set(&format!("sent/s at {factor}x"), report.counts.sent as f64 / report.seconds);
        for (unit, name) in [("instructions/packet", "instructions/answer"), ("wfi/s", "wfi/s"), (SHARE, SHARE)] {
            if let Some(value) = sample.figures.get(unit) {
                all.set(&format!("{name} at {factor}x"), *value);
            }
        }
        // Packets that still stand in queues are answered before the next load begins.
        std::thread::sleep(Duration::from_millis(700));
    }
    curve.compare(&mut all, "answers", 4.0);
    results.record(side, BENCH, OVERLOAD, &[("size".to_owned(), json!(64))].into(), all);
    Ok(())
}

/// Measures the load generator's own ceiling, in the same run.
fn ceiling(lab: &Lab, results: &mut Results, cases: &[Case]) -> Result<()> {
    for case in cases.iter().filter(|case| lab.wants(BENCH, &case.row)) {
        let time = lab.window / 2;
        let report = culm_bench_load::ceiling(case.size, case.mode, lab.load_processor, lab.guest_processor, time)?;
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
    let units = [("p50 us", "p50 to peer"), ("p99 us", "p99 to peer")];
    let compared = units.map(|(of, to)| results.compare(strict, BENCH, row, of, |culm, peer| (to, culm / peer)));
    if compared.contains(&false) {
        lab.note("round trips could not be compared: a side was not measured");
    }
}
