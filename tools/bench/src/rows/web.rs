//! HTTP: instructions per request by size and by requests per connection, and per MiB of a large file.

use crate::lab::{Lab, Setup, Subject};
use crate::linux::{Variant, port};
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use crate::site;
use crate::spawn::{Ties, run as run_command, tie};
use crate::systems::System;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

const BENCH: &str = "web";

/// What is asked for, and how.
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
        let mut subject = lab.boot_culm(&System::file("bench-web"), &Setup::default())?;
        side(lab, results, &mut subject, Side::Culm)?;
    }
    if lab.settings.peer() {
        let mut subject = lab.boot_linux(Variant::NoKaslr, &Setup::default())?;
        side(lab, results, &mut subject, Side::Peer("nginx-linux-nokaslr"))?;
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
    if lab.wants(BENCH, "33M") {
        large(results, subject, side, address)?;
    }
    Ok(())
}

/// Runs a client against the subject's web server and counts.
pub fn measure(lab: &Lab, subject: &mut Subject, case: &Case) -> Result<Sample> {
    let address = subject.machine.network.address(Port::Tcp(port::HTTP))?;
    let window = subject.begin()?;
    let network = &subject.machine.network;
    let done = network.within(|| {
        if case.requests_per_connection == 3 { httperf(lab, address, case) } else { wrk(lab, address, case) }
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

/// What a client counted.
#[derive(Default)]
struct Done {
    requests: f64,
    errors: f64,
    p50_us: Option<f64>,
}

fn wrk(lab: &Lab, address: SocketAddr, case: &Case) -> Result<Done> {
    let mut command = Command::new("wrk");
    let seconds = lab.window.as_secs().max(1);
    command.args(["-t1", "--latency", &format!("-c{}", case.connections), &format!("-d{seconds}s")]);
    if case.requests_per_connection == 1 {
        command.args(["-H", "Connection: close"]);
    }
    command.arg(format!("http://{address}{}", case.path));
    tie(&mut command, Ties { processor: lab.load_processor, inherit: None });
    parse_wrk(&run_command(&mut command)?, case.path == "/none")
}

fn parse_wrk(text: &str, expect_failures: bool) -> Result<Done> {
    let mut done = Done::default();
    for line in text.lines().map(str::trim) {
        if let Some((count, _)) = line.split_once(" requests in ") {
            done.requests = count.parse().with_context(|| format!("wrk printed: {line}"))?;
        } else if let Some(rest) = line.strip_prefix("50%") {
            done.p50_us = microseconds(rest.trim());
        } else if let Some(rest) = line.strip_prefix("Socket errors:") {
            // read errors count connections that the server closed, as it was asked to.
            let counts = rest.split(',').filter(|part| !part.trim_start().starts_with("read"));
            done.errors += counts.filter_map(|part| part.split_whitespace().last()?.parse::<f64>().ok()).sum::<f64>();
        } else if let (Some(rest), false) = (line.strip_prefix("Non-2xx or 3xx responses:"), expect_failures) {
            done.errors += rest.trim().parse::<f64>().unwrap_or(0.0);
        }
    }
    if done.requests == 0.0 {
        bail!("wrk got no answer:\n{text}");
    }
    Ok(done)
}

/// "1.25ms", "830.00us" or "1.00s" in microseconds.
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    units.iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
}

fn httperf(lab: &Lab, address: SocketAddr, case: &Case) -> Result<Done> {
    let connections = (lab.window.as_secs_f64() * 300.0) as usize;
    let mut command = Command::new("httperf");
    command.args(["--hog", "--server", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--uri", case.path, "--num-conns", &connections.to_string(), "--timeout", "5"]);
    command.args(["--num-calls", &case.requests_per_connection.to_string()]);
    tie(&mut command, Ties { processor: lab.load_processor, inherit: None });
    parse_httperf(&run_command(&mut command)?)
}

fn parse_httperf(text: &str) -> Result<Done> {
    let mut done = Done::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if line.starts_with("Total:") {
            let replies = line.split_whitespace().skip_while(|word| *word != "replies").nth(1);
            done.requests = replies.and_then(|count| count.parse().ok()).unwrap_or(0.0);
        } else if line.starts_with("Errors: total") {
            done.errors = words.nth(2).and_then(|count| count.parse().ok()).unwrap_or(0.0);
        }
    }
    if done.requests == 0.0 {
        bail!("httperf got no answer:\n{text}");
    }
    Ok(done)
}

/// Downloads the large file a few times, one connection each.
fn large(results: &mut Results, subject: &mut Subject, side: Side, address: SocketAddr) -> Result<()> {
    const DOWNLOADS: usize = 3;
    let window = subject.begin()?;
    let bytes = subject
        .machine
        .network
        .within(|| (0..DOWNLOADS).try_fold(0, |sum, _| Ok(sum + download(address, "/large.bin", site::LARGE)?)))?;
    let sample = subject.end(window, bytes as f64 / (1 << 20) as f64, "MiB")?;
    let params = [("bytes".to_owned(), json!(site::LARGE)), ("downloads".to_owned(), json!(DOWNLOADS))].into();
    results.record(side, BENCH, "33M", &params, sample);
    Ok(())
}

/// Fetches a file and returns its size, which must be `expected`.
fn download(address: SocketAddr, path: &str, expected: usize) -> Result<usize> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n").as_bytes())?;
    let (mut buffer, mut head, mut body) = (vec![0; 1 << 18], Vec::new(), None);
    loop {
        let count = stream.read(&mut buffer).context("the download stopped")?;
        if count == 0 {
            break;
        }
        match &mut body {
            Some(size) => *size += count,
            None => {
                head.extend_from_slice(&buffer[..count]);
                let end = head.windows(4).position(|window| window == b"\r\n\r\n");
                body = end.map(|end| head.len() - end - 4);
            }
        }
    }
    match body {
        Some(size) if size == expected => Ok(size),
        _ => bail!("{path}: {body:?} bytes arrived instead of {expected}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_clients_are_understood() {
        let text = "  Latency Distribution\n     50%  830.00us\n     99%    1.25ms\n  21084 requests in 2.10s, 12.00MB read\n\
                    Socket errors: connect 0, read 5, write 1, timeout 2\n  Non-2xx or 3xx responses: 7\n";
        let done = parse_wrk(text, false).unwrap();
        assert_eq!((done.requests, done.errors, done.p50_us), (21084.0, 10.0, Some(830.0)));
        assert_eq!(parse_wrk(text, true).unwrap().errors, 3.0);
        assert!(parse_wrk("unable to connect", false).is_err());
        let text = "Total: connections 600 requests 1800 replies 1799 test-duration 1.5 s\n\
                    Errors: total 1 client-timo 0 socket-timo 0 connrefused 0 connreset 1\n";
        let done = parse_httperf(text).unwrap();
        assert_eq!((done.requests, done.errors), (1799.0, 1.0));
        assert_eq!(microseconds("1.50ms"), Some(1500.0));
    }
}
