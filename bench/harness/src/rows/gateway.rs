//! Packets that go through the machine, from one network card to another: what each costs, and what
//! becomes of them where more come than can pass.
//!
//! The load is in one namespace, the far end in another, and the only way between them is the
//! machine. In a closed loop the far end sends each packet back, so that two pass for each answer.
//! Beyond saturation nobody answers, so that answers are not in the way of questions, and what is
//! counted is what the far end's device has received.

use crate::lab::{Lab, Setup, Subject};
use crate::linux::Variant;
use crate::linux::gateway::Way;
use crate::network::{DEVICE_BESIDE, FAR};
use crate::results::{Params, Results, Sample, Side};
use crate::systems::System;
use anyhow::{Context, Result, bail};
use culm_bench_load::{FarEnd, Load, LoadSpec, Mode};
use culm_wire::Namespace;
use serde_json::json;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const BENCH: &str = "gateway";

/// Bytes of payload of the closed loops.
const SIZES: [usize; 2] = [64, 1472];

/// Packets under way in them.
const WINDOW: usize = 64;

/// Shares of what passes in a closed loop that are sent beyond it.
const SHARES: [f64; 5] = [0.5, 1.0, 2.0, 3.0, 4.0];

/// How long the load goes on before it is counted.
const WARM_UP: Duration = Duration::from_millis(500);

/// Something between two networks, and Linux in its place.
struct Gateway {
    /// How names of its rows begin.
    name: &'static str,
    system: System,
    linux: Way,
}

impl Gateway {
    fn row(&self, size: usize) -> String {
        format!("{}-{size}-w{WINDOW}", self.name)
    }

    fn overload(&self) -> String {
        format!("{}-64-overload", self.name)
    }

    fn is_wanted(&self, lab: &Lab) -> bool {
        SIZES.iter().any(|size| lab.wants(BENCH, &self.row(*size))) || lab.wants(BENCH, &self.overload())
    }
}

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let switch = Gateway { name: "switch", system: System::file("bench-switch"), linux: Way::Bridge };
    for gateway in [switch].iter().filter(|gateway| gateway.is_wanted(lab)) {
        both_sides(lab, results, gateway);
    }
    Ok(())
}

fn both_sides(lab: &Lab, results: &mut Results, gateway: &Gateway) {
    let strict = Variant::NoKaslr;
    if lab.settings.culm() {
        lab.attempt(BENCH, "culm", || {
            let setup = Setup { beside: true, ..Setup::default() };
            rows(lab, results, gateway, &mut lab.boot_culm(&gateway.system, &setup)?, Side::Culm)
        });
    }
    if lab.settings.peer() {
        lab.attempt(BENCH, "peer", || {
            let mut subject = lab.boot_gateway(strict, gateway.linux)?;
            rows(lab, results, gateway, &mut subject, Side::Peer(strict.name()))
        });
    }
    for size in SIZES {
        let unit = "instructions/packet";
        let ratio = |culm: f64, peer: f64| ("cost to peer", culm / peer);
        results.compare(Side::Peer(strict.name()), BENCH, &gateway.row(size), unit, ratio);
    }
}

fn rows(lab: &Lab, results: &mut Results, gateway: &Gateway, subject: &mut Subject, side: Side) -> Result<()> {
    if !subject.machine.network.is_tap() {
        bail!("a way through the machine needs two TAP devices, and there are none");
    }
    let far = subject.machine.network.far()?;
    for size in SIZES.into_iter().filter(|size| lab.wants(BENCH, &gateway.row(*size))) {
        lab.attempt(BENCH, &gateway.row(size), || {
            let params: Params = [("size".to_owned(), json!(size)), ("window".to_owned(), json!(WINDOW))].into();
            results.record(side, BENCH, &gateway.row(size), &params, closed_loop(lab, subject, &far, size)?);
            Ok(())
        });
    }
    if lab.wants(BENCH, &gateway.overload()) {
        lab.attempt(BENCH, &gateway.overload(), || {
            let params: Params = [("size".to_owned(), json!(64))].into();
            results.record(side, BENCH, &gateway.overload(), &params, overload(lab, subject, &far)?);
            Ok(())
        });
    }
    Ok(())
}

/// Starts a load, and lets it go on for a while.
fn start(lab: &Lab, subject: &Subject, target: SocketAddr, size: usize, mode: Mode) -> Result<Load> {
    let patience = Duration::from_secs(2);
    let spec = LoadSpec { targets: vec![target], size, mode, patience, processor: lab.load_processor };
    let load = subject.machine.network.within(|| Load::start(&spec))?;
    std::thread::sleep(WARM_UP);
    Ok(load)
}

/// Packets that the far end's device has received.
fn received(far: &Namespace) -> Result<u64> {
    let table =
        far.within(|| std::fs::read_to_string("/proc/thread-self/net/dev").context("the namespace has no devices"))?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(DEVICE_BESIDE)?.strip_prefix(':'));
    let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    packets.with_context(|| format!("no count of {DEVICE_BESIDE}"))
}

/// Counts while so many packets are under way, there and back.
fn closed_loop(lab: &Lab, subject: &mut Subject, far: &Namespace, size: usize) -> Result<Sample> {
    // It shares its processor with the load, which spins: QEMU has the other one. A port of its own
    // keeps it from late packets of another load.
    let end = far.within(|| FarEnd::start((FAR, 0).into(), lab.load_processor, false))?;
    let mut load = start(lab, subject, end.address(), size, Mode::Window(WINDOW))?;
    load.record();
    let (window, before) = (subject.begin()?, load.counts());
    std::thread::sleep(lab.window);
    let counts = load.counts() - before;
    let mut sample = subject.end(window, 2.0 * counts.answered as f64, "packet")?;
    let report = load.finish()?;
    if counts.corrupt > 0 || counts.duplicates > 0 {
        bail!("{} packets were corrupt, {} came twice", counts.corrupt, counts.duplicates);
    }
    if counts.lost > 0 {
        sample.notes.push(format!("{} of {} packets were lost", counts.lost, counts.sent));
    }
    sample.set("p50 us", report.round_trip.p50 as f64 / 1e3);
    sample.set("p99 us", report.round_trip.p99 as f64 / 1e3);
    Ok(sample)
}

/// Counts what passes one way at rates up to four times of what can.
fn overload(lab: &Lab, subject: &mut Subject, far: &Namespace) -> Result<Sample> {
    let mut curve = Sample::default();
    // What finds no room in it is lost without an answer.
    let end = far.within(|| Ok(UdpSocket::bind((FAR, 0))?))?;
    let target = end.local_addr()?;
    let mut one_way = |rate: f64| -> Result<Passed> {
        let load = start(lab, subject, target, 64, Mode::Rate(rate))?;
        let (window, before, sent) = (subject.begin()?, received(far)?, load.counts().sent);
        std::thread::sleep(lab.window);
        let (received, sent) = (received(far)? - before, load.counts().sent - sent);
        let sample = subject.end(window, (received as f64).max(1.0), "packet")?;
        drop(load);
        // What still stands in queues passes before the next load begins.
        std::thread::sleep(WARM_UP);
        let figure = |unit: &str| sample.figures.get(unit).copied().unwrap_or(0.0);
        let (rate, instructions) = (figure("packets/s"), figure("instructions/packet"));
        Ok(Passed { rate, sent: rate * sent as f64 / (received as f64).max(1.0), instructions })
    };
    let saturation = saturation(&mut one_way)?;
    let (mut most, mut last) = (0_f64, 0.0);
    for share in SHARES {
        let passed = one_way(saturation * share)?;
        (most, last) = (most.max(passed.rate), passed.rate);
        curve.set(&format!("packets/s at {share}x"), passed.rate);
        curve.set(&format!("sent/s at {share}x"), passed.sent);
        curve.set(&format!("instructions/packet at {share}x"), passed.instructions);
    }
    curve.set("packets at 4x to most", last / most);
    Ok(curve)
}

/// What one rate has come to.
struct Passed {
    /// Packets per second that arrived.
    rate: f64,
    /// Packets per second that were sent.
    sent: f64,
    /// Instructions for each that arrived.
    instructions: f64,
}

/// Packets per second at which more no longer bring more.
fn saturation(one_way: &mut impl FnMut(f64) -> Result<Passed>) -> Result<f64> {
    const STEPS: usize = 8;
    const STEP: f64 = 1.6;
    let (mut most, mut rate) = (0_f64, 10_000.0);
    for _ in 0..STEPS {
        let passed = one_way(rate)?.rate;
        most = most.max(passed);
        if passed < 0.9 * rate {
            break;
        }
        rate *= STEP;
    }
    Ok(most)
}
