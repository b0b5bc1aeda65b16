//! Clients of web servers: wrk, httperf, and one of our own for what those do not tell.

use crate::lab::Lab;
use crate::spawn::{Ties, run, tie};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// The counts of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Requests that were answered.
    pub requests: f64,
    /// Requests that failed.
    pub errors: f64,
    /// The median of the time to an answer, in microseconds.
    pub p50_us: Option<f64>,
    /// The mean of the time to an answer, in milliseconds.
    pub response_ms: Option<f64>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// Asks for `path` over so many connections, each again as soon as it has its answer; over a new
/// connection each time where `close`.
pub fn wrk(lab: &Lab, address: SocketAddr, path: &str, connections: usize, close: bool) -> Result<Done> {
    let mut command = Command::new("wrk");
    let seconds = lab.window.as_secs().max(1);
    command.args(["-t1", "--latency", &format!("-c{connections}"), &format!("-d{seconds}s")]);
    if close {
        command.args(["-H", "Connection: close"]);
    }
    command.arg(format!("http://{address}{path}"));
    tie(&mut command, Ties { processor: lab.load_processor, ..Ties::default() });
    parse_wrk(&run(&mut command)?, path == "/none")
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

/// The requests that [`httperf`] sends.
pub struct Calls {
    /// Connections in all.
    pub connections: usize,
    /// Requests in each.
    pub each: usize,
    /// Connections opened per second, whatever comes back; without one, each after the one before.
    pub rate: Option<f64>,
}

/// Asks for `path` by httperf.
pub fn httperf(lab: &Lab, address: SocketAddr, path: &str, calls: &Calls) -> Result<Done> {
    let mut command = Command::new("httperf");
    command.args(["--hog", "--server", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--uri", path, "--num-conns", &calls.connections.to_string(), "--timeout", "2"]);
    command.args(["--num-calls", &calls.each.to_string()]);
    if calls.each == 1 {
        // The server ends the connection, so that the client's ports are free again at once.
        command.args(["--add-header", "Connection: close\\n"]);
    }
    if let Some(rate) = calls.rate {
        command.args(["--rate", &format!("{rate:.0}")]);
    }
    tie(&mut command, Ties { processor: lab.load_processor, ..Ties::default() });
    parse_httperf(&run(&mut command)?)
}

fn parse_httperf(text: &str) -> Result<Done> {
    let mut done = Done::default();
    for line in text.lines() {
        let after = |word: &str| line.split_whitespace().skip_while(|other| *other != word).nth(1)?.parse::<f64>().ok();
        if line.starts_with("Total:") {
            done.requests = after("replies").unwrap_or(0.0);
            done.seconds = after("test-duration").unwrap_or(0.0);
        } else if line.starts_with("Reply time") {
            done.response_ms = after("response");
        } else if line.starts_with("Errors: total") {
            done.errors = after("total").unwrap_or(0.0);
        }
    }
    if done.requests == 0.0 {
        bail!("httperf got no answer:\n{text}");
    }
    Ok(done)
}

/// Fetches a file and returns its size, which must be `expected`.
pub fn download(address: SocketAddr, path: &str, expected: usize) -> Result<usize> {
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

/// Downloads a file over and over, on one connection after the other, for so long. Returns the
/// bytes that have come.
pub fn download_for(address: SocketAddr, path: &str, time: Duration) -> Result<usize> {
    let (begin, mut buffer, mut bytes) = (Instant::now(), vec![0; 1 << 18], 0);
    while begin.elapsed() < time {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(30))?;
        stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n").as_bytes())?;
        while begin.elapsed() < time {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => bytes += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error).context("the download stopped"),
            }
        }
    }
    Ok(bytes)
}

/// A counter of Culm's web server, as its status page has it.
pub fn counter(address: SocketAddr, name: &str) -> Result<f64> {
    let counter = counters(address, "http")?.get(name).copied();
    counter.with_context(|| format!("the status page has no counter {name}"))
}

/// The counters of a protection domain, as the status page at `address` has them.
pub fn counters(address: SocketAddr, domain: &str) -> Result<BTreeMap<String, f64>> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /_status.json HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("the status page did not come")?;
    let body = answer.split_once("\r\n\r\n").context("the status page has no body")?.1;
    counters_in(body, domain).with_context(|| format!("the status page has no counters of {domain}:\n{body}"))
}

fn counters_in(status: &str, domain: &str) -> Option<BTreeMap<String, f64>> {
    let status: serde_json::Value = serde_json::from_str(status).ok()?;
    let components = status["components"].as_array()?;
    let counters = &components.iter().find(|component| component["name"] == domain)?["counters"];
    Some(counters.as_object()?.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect())
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
                    Reply time [ms]: response 0.7 transfer 0.1\n\
                    Errors: total 1 client-timo 0 socket-timo 0 connrefused 0 connreset 1\n";
        let done = parse_httperf(text).unwrap();
        assert_eq!((done.requests, done.errors, done.seconds), (1799.0, 1.0, 1.5));
        assert_eq!(done.response_ms, Some(0.7));
        let status = r#"{"components":[{"name":"x"},{"name":"http","counters":{"requests":5}}]}"#;
        assert_eq!(counters_in(status, "http").unwrap()["requests"], 5.0);
        assert!(counters_in(status, "y").is_none());
        assert_eq!(microseconds("1.50ms"), Some(1500.0));
    }
}
