//! Cost against work: what an operation costs as there are more of those who ask for it, or more
//! who have nothing to do with it.
//!
//! Each series names its operation's cost at every size, and at the largest what that is to the
//! cost at the smallest.

use super::echo::{Pressure, measure};
use super::sharing;
use super::web::{self, Case};
use crate::lab::{Lab, Setup};
use crate::linux::{Variant, port};
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use crate::systems::{Echo, System, client_address};
use anyhow::Result;
use culm_bench_load::Mode;
use culm_bench_load::turns::{Turns, TurnsSpec};
use serde_json::json;
use std::time::Duration;

const BENCH: &str = "growth";
const CLIENTS: &[u8] = &[1, 2, 8, 16];
const COMPONENTS: &[u16] = &[10, 50, 200];
const CONNECTIONS: &[usize] = &[1, 16, 64, 256, 1024];
/// Connections that take turns, of which [`WINDOW`] ask at a time. Twice as many at least: else the
/// acknowledgement of an answer and the next request would come on the same connection and be dealt
/// with together, which costs less.
const TAKING_TURNS: &[usize] = &[2 * WINDOW, 100, 1000, 10_000];

/// Packets that each client of the card, or the one client among many components, has under way,
/// and requests of connections that take turns.
const WINDOW: usize = 16;
/// Domains of the echo system itself: driver, two virtualisers, copier, echo server, two for the
/// serial line, supervisor.
const OWN_COMPONENTS: u16 = 8;

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    lab.attempt(BENCH, "clients", || clients(lab, results));
    lab.attempt(BENCH, "components", || components(lab, results, "components", None));
    lab.attempt(BENCH, "ticking-components", || components(lab, results, "ticking-components", Some("50ms")));
    lab.attempt(BENCH, "connections", || connections(lab, results));
    lab.attempt(BENCH, "turns", || turns(lab, results));
    lab.attempt(BENCH, "disk-clients", || sharing::clients(lab, results));
    lab.attempt(BENCH, "disk-partitions", || sharing::partitions(lab, results));
    Ok(())
}

/// Rows of one series on one side, of which each is compared with the first.
pub(super) struct Series<'a> {
    name: &'a str,
    what: &'a str,
    side: Side,
    unit: &'a str,
    first: Option<f64>,
}

impl<'a> Series<'a> {
    /// Culm's series of rows with this name, each with more of `what`.
    pub(super) fn culm(name: &'a str, what: &'a str, unit: &'a str) -> Series<'a> {
        Series { name, what, side: Side::Culm, unit, first: None }
    }

    /// Keeps the measurement with so many of them.
    pub(super) fn record(&mut self, results: &mut Results, size: usize, mut sample: Sample) {
        if let Some(cost) = sample.figures.get(self.unit).copied() {
            let first = *self.first.get_or_insert(cost);
            sample.set("cost to the smallest's", cost / first);
        }
        let params: Params = [(self.what.to_owned(), json!(size))].into();
        results.record(self.side, BENCH, &format!("{}-{size}", self.name), &params, sample);
    }
}

/// Whether the caller wants any row of a series. All are measured then, since one alone says
/// nothing.
pub(super) fn wants(lab: &Lab, name: &str, sizes: impl Iterator<Item = usize>) -> bool {
    sizes.into_iter().any(|size| lab.wants(BENCH, &format!("{name}-{size}")))
}

/// Echo servers that share a network card, each with packets of its own under way.
fn clients(lab: &Lab, results: &mut Results) -> Result<()> {
    let name = "clients";
    if !lab.settings.culm() || !wants(lab, name, CLIENTS.iter().map(|count| usize::from(*count))) {
        return Ok(());
    }
    let mut series = Series::culm(name, "clients", "instructions/packet");
    for &count in CLIENTS {
        let system = Echo { clients: count, ..Echo::default() }.system(&format!("bench-clients-{count}"));
        let mut subject = lab.boot_culm(&system, &Setup::default())?;
        let Some(targets) = client_targets(lab, &subject.machine.network, count)? else { return Ok(()) };
        let mode = Mode::Window(WINDOW * usize::from(count));
        let sample = measure(lab, &mut subject, &Pressure { targets, size: 64, mode })?;
        series.record(results, count.into(), sample);
    }
    Ok(())
}

/// The echo servers of so many clients, where the network reaches them.
pub fn client_targets(
    lab: &Lab,
    network: &crate::network::Network,
    count: u8,
) -> Result<Option<Vec<std::net::SocketAddr>>> {
    if count == 1 {
        return Ok(Some(vec![network.address(Port::Udp(port::ECHO))?]));
    }
    if !network.is_tap() {
        lab.note("rows with several clients of the network card need a TAP device and are left out");
        return Ok(None);
    }
    Ok(Some((0..count).map(|client| (client_address(client), port::ECHO).into()).collect()))
}

/// One echo server among components that sleep, or tick.
fn components(lab: &Lab, results: &mut Results, name: &str, tick: Option<&'static str>) -> Result<()> {
    if !lab.settings.culm() || !wants(lab, name, COMPONENTS.iter().map(|count| usize::from(*count))) {
        return Ok(());
    }
    let mut series = Series::culm(name, "components", "instructions/packet");
    for &count in COMPONENTS {
        let echo = Echo { bystanders: count - OWN_COMPONENTS, tick, ..Echo::default() };
        let mut subject = lab.boot_culm(&echo.system(&format!("bench-{name}-{count}")), &Setup::default())?;
        let targets = vec![subject.machine.network.address(Port::Udp(port::ECHO))?];
        let sample = measure(lab, &mut subject, &Pressure { targets, size: 64, mode: Mode::Window(WINDOW) })?;
        series.record(results, count.into(), sample);
    }
    Ok(())
}

/// Connections to the web server, each with one request under way.
fn connections(lab: &Lab, results: &mut Results) -> Result<()> {
    let name = "connections";
    if !wants(lab, name, CONNECTIONS.iter().copied()) {
        return Ok(());
    }
    let mut sides = Vec::new();
    if lab.settings.culm() {
        sides.push(Side::Culm);
    }
    if lab.settings.peer() {
        sides.push(Side::Peer("nginx-linux-nokaslr"));
    }
    for side in sides {
        let setup = Setup::default();
        let mut subject = match side {
            Side::Culm => lab.boot_culm(&System::web_file("bench-web-many"), &setup)?,
            Side::Peer(_) => lab.boot_linux(Variant::NoKaslr, &setup)?,
        };
        let mut series = Series { name, what: "connections", side, unit: "instructions/request", first: None };
        for &count in CONNECTIONS {
            let case = Case { row: "", path: "/index.html", connections: count, requests_per_connection: 0 };
            series.record(results, count, web::measure(lab, &mut subject, &case)?);
        }
    }
    Ok(())
}

/// Connections to the web server that are all established and take turns: as many requests are
/// under way in each row, so what differs is what a connection costs the others by being there.
fn turns(lab: &Lab, results: &mut Results) -> Result<()> {
    /// For all to be open.
    const PATIENCE: Duration = Duration::from_secs(120);
    /// For an answer.
    const ANSWER: Duration = Duration::from_secs(10);
    let name = "turns";
    if !lab.settings.culm() || !wants(lab, name, TAKING_TURNS.iter().copied()) {
        return Ok(());
    }
    let mut subject = lab.boot_culm(&System::web_file("bench-web-10000"), &Setup::default())?;
    if !subject.machine.network.is_tap() {
        lab.note("rows with connections that take turns need a TAP device and are left out");
        return Ok(());
    }
    let target = subject.machine.network.address(Port::Tcp(port::HTTP))?;
    let mut series = Series::culm(name, "connections", "instructions/request");
    for &connections in TAKING_TURNS {
        let spec = TurnsSpec {
            target,
            path: "/index.html".to_owned(),
            connections,
            under_way: WINDOW,
            patience: ANSWER,
            processor: lab.load_processor,
        };
        let mut load = subject.machine.network.within(|| Turns::start(&spec))?;
        load.wait_until_open(PATIENCE)?;
        std::thread::sleep(lab.window / 2);
        let (window, before) = (subject.begin()?, load.answered());
        std::thread::sleep(lab.window);
        let answered = load.answered() - before;
        let sample = subject.end(window, answered as f64, "request")?;
        load.finish()?;
        series.record(results, connections, sample);
        // The server hears of the ends of all of them.
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
