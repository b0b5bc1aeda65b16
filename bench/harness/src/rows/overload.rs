//! HTTP beyond what the server can do: answers from a tenth to three times of what saturates it, a
//! connection for each request, and clients that mean well while a flood of SYNs goes on.

use super::curve::{Curve, Point};
use super::http::wrk;
use super::web::BENCH;
use crate::lab::{Lab, Subject};
use crate::results::{Params, Results, Sample, Side};
use crate::spawn::{Ties, run, tie};
use anyhow::{Context, Result};
use culm_bench_load::web::{WebLoad, WebLoadSpec, WebReport};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATH: &str = "/index.html";

/// The rates of requests, in multiples of the one that saturates a server.
const MULTIPLES_OF_SATURATION: &[f64] = &[0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0];

/// The row that says whether the answers stay at their most.
const OVERLOAD: &str = "overload";

/// How often a saturated server is measured for that row.
const ROUNDS: usize = 3;

/// How long a client waits for its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the rate stands before it is recorded.
const WARM_UP: Duration = Duration::from_millis(500);

fn row(factor: f64) -> String {
    format!("sweep-{factor}x")
}

/// Connections with one request each at rates up to three times of what the server can do.
pub fn sweep(lab: &Lab, results: &mut Results, subject: &mut Subject, side: Side, address: SocketAddr) -> Result<()> {
    let overload = lab.wants(BENCH, OVERLOAD);
    if !overload && !MULTIPLES_OF_SATURATION.iter().any(|factor| lab.wants(BENCH, &row(*factor))) {
        return Ok(());
    }
    let saturation = saturation(lab, subject, address)?;
    let mut answers = Answers::default();
    for &factor in MULTIPLES_OF_SATURATION.iter().filter(|factor| overload || lab.wants(BENCH, &row(**factor))) {
        lab.attempt(BENCH, &row(factor), || {
            let rate = (saturation * factor).max(1.0);
            let (mut sample, report) = measure(lab, subject, address, rate)?;
            answers.add(factor, &sample, &report);
            describe(&mut sample, &report);
            let params: Params =
                [("of saturation".to_owned(), json!(factor)), ("rate".to_owned(), json!(rate.round()))].into();
            results.record(side, BENCH, &row(factor), &params, sample);
            // Connections that were given up vanish before the next load begins.
            std::thread::sleep(PATIENCE);
            Ok(())
        });
    }
    if overload {
        for &factor in (1..ROUNDS).flat_map(|_| MULTIPLES_OF_SATURATION).filter(|factor| **factor >= 1.0) {
            lab.attempt(BENCH, OVERLOAD, || {
                let (sample, report) = measure(lab, subject, address, saturation * factor)?;
                answers.add(factor, &sample, &report);
                std::thread::sleep(PATIENCE);
                Ok(())
            });
        }
        results.record(side, BENCH, OVERLOAD, &Params::new(), answers.sample());
    }
    Ok(())
}

/// Answers per second where more questions bring no more answers.
///
/// Clients that wait for each other's answers never ask too much, so what they get is only where to
/// begin.
fn saturation(lab: &Lab, subject: &mut Subject, address: SocketAddr) -> Result<f64> {
    const STEP: f64 = 1.25;
    const STEPS: usize = 8;
    let window = subject.begin()?;
    let closed = subject.machine.network.within(|| wrk(lab, address, PATH, 16, true))?;
    let closed = subject.end(window, closed.requests, "request")?;
    let mut most: f64 = closed.figures.get("requests/s").copied().unwrap_or(0.0);
    let mut rate = most.max(1.0);
    for _ in 0..STEPS {
        let (_, report) = measure(lab, subject, address, rate)?;
        let answers = report.counts.answered as f64 / report.seconds;
        most = most.max(answers);
        std::thread::sleep(PATIENCE);
        if answers < 0.95 * rate {
            break;
        }
        rate *= STEP;
    }
    Ok(most)
}

/// Asks at a rate for the time of a window.
fn measure(lab: &Lab, subject: &mut Subject, address: SocketAddr, rate: f64) -> Result<(Sample, WebReport)> {
    let spec =
        WebLoadSpec { target: address, path: PATH.to_owned(), rate, patience: PATIENCE, processor: lab.load_processor };
    let mut load = subject.machine.network.within(|| WebLoad::start(&spec))?;
    std::thread::sleep(WARM_UP);
    let window = subject.begin()?;
    load.record();
    std::thread::sleep(lab.window);
    let answered = load.recorded().answered;
    let sample = subject.end(window, answered as f64, "request")?;
    Ok((sample, load.finish()?))
}

/// Adds what the clients saw.
fn describe(sample: &mut Sample, report: &WebReport) {
    let counts = report.counts;
    let per_second = |count: u64| count as f64 / report.seconds;
    sample.set("asked/s", per_second(counts.asked));
    sample.set("replies/s", per_second(counts.answered));
    sample.set("resets/s", per_second(counts.reset));
    sample.set("given up/s", per_second(counts.timed_out));
    sample.set("fd-unavail/s", per_second(counts.unavailable));
    sample.set("p50 us", report.response.p50 as f64 / 1e3);
    sample.set("p99 us", report.response.p99 as f64 / 1e3);
    sample.set("generator late us", report.latest_us as f64);
    if report.latest_us > 20_000 {
        sample.notes.push(format!("the load generator was up to {} ms late", report.latest_us / 1000));
    }
}

/// Answers and their cost by the rate of questions, and connections that were reset.
#[derive(Default)]
struct Answers {
    curve: Curve,
    resets: f64,
}

impl Answers {
    fn add(&mut self, factor: f64, sample: &Sample, report: &WebReport) {
        let rate = report.counts.answered as f64 / report.seconds;
        let instructions = sample.figures.get("instructions/request").copied().unwrap_or(f64::NAN);
        self.curve.add(Point { factor, rate, instructions });
        self.resets += report.counts.reset as f64;
    }

    fn sample(&self) -> Sample {
        let mut sample = Sample::default();
        for Point { factor, rate, .. } in &self.curve.points {
            sample.set(&format!("answers/s at {factor}x"), *rate);
            if *factor >= 1.0 {
                self.curve.compare(&mut sample, "answers", *factor);
            }
        }
        sample.set("resets", self.resets);
        sample
    }
}

/// A flood: its row, and from whom its SYNs seem to come: nobody, or the client that is measured.
const FLOODS: &[(&str, &[&str])] = &[("flood", &["-a", "198.18.0.99"]), ("flood-own", &[])];

/// Good clients, each on a connection of its own, while SYNs come as fast as a tool can make them.
pub fn floods(lab: &Lab, results: &mut Results, subject: &mut Subject, side: Side, address: SocketAddr) -> Result<()> {
    for (row, sender) in FLOODS.iter().filter(|(row, _)| lab.wants(BENCH, row)) {
        if !subject.machine.network.is_tap() {
            lab.note("floods need a TAP device");
            return Ok(());
        }
        lab.attempt(BENCH, row, || {
            let sample = subject.machine.network.within(|| beside_a_flood(lab, sender, address))?;
            results.record(side, BENCH, row, &Params::new(), sample);
            std::thread::sleep(PATIENCE);
            Ok(())
        });
    }
    Ok(())
}

/// Clients that are let in one after the other while a flood goes on.
fn beside_a_flood(lab: &Lab, sender: &[&str], address: SocketAddr) -> Result<Sample> {
    const CLIENTS: usize = 8;
    // A client asks again after one second, and for the third time after two more (RFC 6298 §2).
    const SECOND_TRY: Duration = Duration::from_millis(2900);
    let flood = Flood::start(lab, sender, address)?;
    let (mut by_second_try, mut served, mut longest) = (0, 0, Duration::ZERO);
    for _ in 0..CLIENTS {
        crate::spawn::go_on()?;
        let started = Instant::now();
        let connected = TcpStream::connect_timeout(&address, Duration::from_secs(20));
        let taken = started.elapsed();
        by_second_try += usize::from(connected.is_ok() && taken < SECOND_TRY);
        served += usize::from(connected.and_then(ask).is_ok());
        longest = longest.max(started.elapsed());
    }
    drop(flood);
    let mut sample = Sample::default();
    sample.set("clients in by second try", by_second_try as f64 / CLIENTS as f64);
    sample.set("clients served", served as f64 / CLIENTS as f64);
    sample.set("longest s", longest.as_secs_f64());
    Ok(sample)
}

/// Asks for the page and reads all of the answer.
fn ask(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(format!("GET {PATH} HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let is_good = answer.starts_with(b"HTTP/1.1 200 ");
    if is_good { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

/// A flood of SYNs. Dropping it ends it.
struct Flood(Child);

impl Flood {
    fn start(lab: &Lab, sender: &[&str], address: SocketAddr) -> Result<Self> {
        // So that a missing program is told by its name.
        run(Command::new("hping3").arg("--version"))
            .context("a flood needs hping3: `./culm setup --tests` installs it")?;
        let mut command = Command::new("hping3");
        command.args(["-q", "-S", "--flood", "-p", &address.port().to_string()]).args(sender);
        command.arg(address.ip().to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        tie(&mut command, Ties { processor: lab.load_processor, ..Ties::default() });
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
