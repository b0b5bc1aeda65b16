//! HTTP: instructions per request by size and by requests per connection, and per MiB of a large
//! file; answers from a tenth to three times of what saturates a server; memory over many requests.

use super::http::{Calls, counter, download, httperf, wrk};
use super::overload;
use crate::culm::record_text;
use crate::lab::{Lab, Setup, Subject};
use crate::linux::{Variant, port};
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use crate::site;
use crate::systems::System;
use anyhow::Result;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) const BENCH: &str = "web";

/// The rows of the large file, over IPv4 and over IPv6.
const LARGE: &str = "33M";
const LARGE_6: &str = "33M-ipv6";

/// The requests of a row, and how they are made.
pub struct Case {
    /// The row.
    pub row: &'static str,
    /// The file.
    pub path: &'static str,
    /// Connections at a time.
    pub connections: usize,
    /// 0: as many as the connection bears.
    pub requests_per_connection: usize,
}

const CASES: &[Case] = &[
    Case { row: "354-keep-alive", path: "/index.html", connections: 16, requests_per_connection: 0 },
    Case { row: "404-keep-alive", path: "/none", connections: 16, requests_per_connection: 0 },
    Case { row: "10240-keep-alive", path: "/10K.html", connections: 16, requests_per_connection: 0 },
    Case { row: "354-keep-alive-c1", path: "/index.html", connections: 1, requests_per_connection: 0 },
    Case { row: "354-keep-alive-c64", path: "/index.html", connections: 64, requests_per_connection: 0 },
    Case { row: "354-keep-alive-c256", path: "/index.html", connections: 256, requests_per_connection: 0 },
    Case { row: "354-close", path: "/index.html", connections: 16, requests_per_connection: 1 },
    Case { row: "354-3", path: "/index.html", connections: 1, requests_per_connection: 3 },
    // Connections that have ended must not burden those that live.
    Case { row: "354-keep-alive-after", path: "/index.html", connections: 16, requests_per_connection: 0 },
];

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    if lab.settings.culm() {
        lab.attempt(BENCH, "culm", || {
            let mut subject = lab.boot_culm(&System::web_file("bench-web"), &Setup::default())?;
            side(lab, results, &mut subject, Side::Culm)
        });
        lab.attempt(BENCH, "memory", || memory(lab, results));
        lab.attempt(BENCH, "text", || record_text(lab, results, BENCH, &System::web_file("bench-web"), "http"));
    }
    if lab.settings.peer() {
        lab.attempt(BENCH, "peer", || {
            let mut subject = lab.boot_linux(Variant::NoKaslr, &Setup::default())?;
            side(lab, results, &mut subject, Side::Peer("nginx-linux-nokaslr"))
        });
    }
    Ok(())
}

fn side(lab: &Lab, results: &mut Results, subject: &mut Subject, side: Side) -> Result<()> {
    let address = subject.machine.network.address(Port::Tcp(port::HTTP))?;
    for case in CASES.iter().filter(|case| lab.wants(BENCH, case.row)) {
        let mut sample = None;
        lab.attempt(BENCH, case.row, || {
            sample = Some(measure(lab, subject, case)?);
            Ok(())
        });
        let Some(sample) = sample else { continue };
        let params: Params = [
            ("path".to_owned(), json!(case.path)),
            ("connections".to_owned(), json!(case.connections)),
            ("requests per connection".to_owned(), json!(case.requests_per_connection)),
        ]
        .into();
        results.record(side, BENCH, case.row, &params, sample);
    }
    if lab.wants(BENCH, LARGE) {
        lab.attempt(BENCH, LARGE, || large(results, subject, side, LARGE, address));
    }
    if side == Side::Culm && lab.wants(BENCH, LARGE_6) {
        lab.attempt(BENCH, LARGE_6, || match subject.machine.network.link_local(port::HTTP)? {
            Some(address) => large(results, subject, side, LARGE_6, address),
            None => {
                lab.note("rows over IPv6 need a TAP device and are left out");
                Ok(())
            }
        });
    }
    overload::sweep(lab, results, subject, side, address)?;
    overload::floods(lab, results, subject, side, address)
}

/// Bytes that the server has allocated, before and after many requests. A million of them where the
/// row is asked for by name.
fn memory(lab: &Lab, results: &mut Results) -> Result<()> {
    const ROW: &str = "memory";
    const WARM_UP: u32 = 6;
    if !lab.wants(BENCH, ROW) {
        return Ok(());
    }
    let named = lab.settings.names.iter().any(|name| *name == format!("{BENCH}/{ROW}"));
    let requests = if named { 1e6 } else { 1e5 };
    let mut subject = lab.boot_culm(&System::web_file("bench-web-many"), &Setup::default())?;
    let address = subject.machine.network.address(Port::Tcp(port::HTTP))?;
    let window = subject.begin()?;
    let (asked, lost) = subject.machine.network.within(|| {
        let round = || -> Result<(f64, f64)> {
            wrk(lab, address, "/index.html", 64, false)?;
            wrk(lab, address, "/index.html", 16, true)?;
            wrk(lab, address, "/none", 16, false)?;
            std::thread::sleep(Duration::from_millis(500));
            // The page itself is made anew at each visit; it is as long as its numbers.
            counter(address, "heap_used")?;
            std::thread::sleep(Duration::from_millis(300));
            Ok((counter(address, "requests")?, counter(address, "heap_used")?))
        };
        // Memory that is kept is taken in the beginning, and the room for the status page by steps
        // as its numbers get longer.
        let (mut first, mut before) = round()?;
        for _ in 0..WARM_UP {
            let (requests, used) = round()?;
            let settled = used <= before;
            (first, before) = (requests, used);
            if settled {
                break;
            }
        }
        loop {
            crate::spawn::go_on()?;
            let (last, after) = round()?;
            if last >= first + requests {
                return Ok((last - first, (after - before).max(0.0)));
            }
        }
    })?;
    let mut sample = subject.end(window, asked, "request")?;
    sample.parts.clear();
    sample.figures.retain(|unit, _| unit == "instructions/request");
    sample.set("requests", asked);
    sample.set("bytes lost/million requests", lost / asked * 1e6);
    results.record(Side::Culm, BENCH, ROW, &Params::new(), sample);
    Ok(())
}

/// Runs a client against the subject's web server and counts.
pub fn measure(lab: &Lab, subject: &mut Subject, case: &Case) -> Result<Sample> {
    let address = subject.machine.network.address(Port::Tcp(port::HTTP))?;
    measure_at(lab, subject, case, address)
}

/// Does what [`measure`] does, with the web server at this address.
pub fn measure_at(lab: &Lab, subject: &mut Subject, case: &Case, address: SocketAddr) -> Result<Sample> {
    let window = subject.begin()?;
    let network = &subject.machine.network;
    let done = network.within(|| {
        if case.requests_per_connection == 3 {
            let connections = (lab.window.as_secs_f64() * 300.0) as usize;
            httperf(lab, address, case.path, &Calls { connections, each: 3, rate: None })
        } else {
            wrk(lab, address, case.path, case.connections, case.requests_per_connection == 1)
        }
    })?;
    let mut sample = subject.end(window, done.requests, "request")?;
    if done.errors > 0.0 {
        sample.notes.push(format!("{} errors in {} requests", done.errors, done.requests));
    }
    sample.set("errors", done.errors);
    if let Some(latency) = done.p50_us {
        sample.set("p50 us", latency);
    }
    std::thread::sleep(Duration::from_millis(300));
    Ok(sample)
}

/// Downloads the large file a few times, one connection each.
fn large(results: &mut Results, subject: &mut Subject, side: Side, row: &str, address: SocketAddr) -> Result<()> {
    const DOWNLOADS: usize = 3;
    let window = subject.begin()?;
    let bytes = subject
        .machine
        .network
        .within(|| (0..DOWNLOADS).try_fold(0, |sum, _| Ok(sum + download(address, "/large.bin", site::LARGE)?)))?;
    let sample = subject.end(window, bytes as f64 / (1 << 20) as f64, "MiB")?;
    let params = [("bytes".to_owned(), json!(site::LARGE)), ("downloads".to_owned(), json!(DOWNLOADS))].into();
    results.record(side, BENCH, row, &params, sample);
    Ok(())
}
