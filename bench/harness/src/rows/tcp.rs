//! Bulk TCP: instructions per MiB in, out and both ways, over one connection and over sixteen, with
//! and without offloads of the network device.
//!
//! Both sides run a server that drops what it is sent (port 9) and one that sends without end (port
//! 19); Linux runs iperf3 besides, to show that the servers are not what is measured.

use crate::culm::record_text;
use crate::lab::{Lab, Setup, Subject};
use crate::linux::{Variant, port};
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use crate::spawn::{Ties, run as run_command, tie};
use crate::systems::System;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const BENCH: &str = "tcp";
const CHUNK: usize = 128 * 1024;
const MIB: f64 = (1 << 20) as f64;

/// Connections on which bytes move.
pub struct Case {
    /// The row.
    pub row: &'static str,
    /// Connections that send to the guest.
    pub into: usize,
    /// Connections that the guest sends to.
    pub out: usize,
}

const CASES: &[Case] = &[
    Case { row: "out-1", into: 0, out: 1 },
    Case { row: "in-1", into: 1, out: 0 },
    Case { row: "both-1", into: 1, out: 1 },
    Case { row: "out-16", into: 0, out: 16 },
    Case { row: "in-16", into: 16, out: 0 },
    Case { row: "both-16", into: 16, out: 16 },
];

/// The ending of the names of rows for which the network device has no offloads.
const BARE: &str = "-no-offloads";

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let bare = Setup { without_offloads: true, ..Setup::default() };
    if lab.settings.culm() {
        let mut subject = lab.boot_culm(&System::file("bench-tcp"), &Setup::default())?;
        side(lab, results, &mut subject, Side::Culm, "")?;
        drop(subject);
        let mut subject = lab.boot_culm(&System::file("bench-tcp"), &bare)?;
        side(lab, results, &mut subject, Side::Culm, BARE)?;
        drop(subject);
        record_text(lab, results, BENCH, &System::file("bench-tcp"), "tcp-bulk")?;
    }
    if lab.settings.peer() {
        let peer = Side::Peer(Variant::NoKaslr.name());
        let mut subject = lab.boot_linux(Variant::NoKaslr, &Setup::default())?;
        side(lab, results, &mut subject, peer, "")?;
        iperf_side(lab, results, &mut subject)?;
        drop(subject);
        let mut subject = lab.boot_linux(Variant::NoKaslr, &bare)?;
        side(lab, results, &mut subject, peer, BARE)?;
    }
    Ok(())
}

/// The parameters of a row.
pub fn params(case: &Case) -> Params {
    [("connections in".to_owned(), json!(case.into)), ("connections out".to_owned(), json!(case.out))].into()
}

/// Runs the rows whose names end in `ending`.
fn side(lab: &Lab, results: &mut Results, subject: &mut Subject, side: Side, ending: &str) -> Result<()> {
    for case in CASES {
        let row = format!("{}{ending}", case.row);
        if !lab.wants(BENCH, &row) {
            continue;
        }
        lab.attempt(BENCH, &row, || {
            let sample = measure(lab, subject, case)?;
            results.record(side, BENCH, &row, &params(case), sample);
            Ok(())
        });
    }
    Ok(())
}

/// Moves bytes to and from a subject and counts for one window.
pub fn measure(lab: &Lab, subject: &mut Subject, case: &Case) -> Result<Sample> {
    count(lab, subject, Transfers::start(lab, subject, case)?)
}

/// Moves bytes between the ends of a connection through a subject, and counts those that arrive for
/// one window.
pub(super) fn carry(lab: &Lab, subject: &mut Subject, from: TcpStream, to: TcpStream) -> Result<Sample> {
    let mut transfers = Transfers::default();
    for (stream, send) in [(from, true), (to, false)] {
        set_patience(&stream)?;
        // A byte is counted once, as it arrives.
        let bytes = if send { Arc::default() } else { transfers.bytes.clone() };
        transfers.add(lab, stream, send, bytes);
    }
    count(lab, subject, transfers)
}

fn count(lab: &Lab, subject: &mut Subject, transfers: Transfers) -> Result<Sample> {
    std::thread::sleep(lab.window / 2);
    let (window, before) = (subject.begin()?, transfers.bytes());
    std::thread::sleep(lab.window);
    let moved = transfers.bytes() - before;
    let sample = subject.end(window, moved as f64 / MIB, "MiB")?;
    transfers.stop();
    std::thread::sleep(Duration::from_millis(300));
    Ok(sample)
}

/// Connections on which bytes move. Dropping them ends them.
#[derive(Default)]
struct Transfers {
    bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Transfers {
    fn start(lab: &Lab, subject: &Subject, case: &Case) -> Result<Transfers> {
        let network = &subject.machine.network;
        let mut transfers = Transfers::default();
        let directions = [(case.into, port::DISCARD, true), (case.out, port::SOURCE, false)];
        for (count, port, send) in directions {
            let address = network.address(Port::Tcp(port))?;
            for _ in 0..count {
                let stream = network.within(|| connect(address))?;
                transfers.add(lab, stream, send, transfers.bytes.clone());
            }
        }
        Ok(transfers)
    }

    /// Moves bytes on a connection from now on, and counts them in `bytes`.
    fn add(&mut self, lab: &Lab, stream: TcpStream, send: bool, bytes: Arc<AtomicU64>) {
        let (stop, processor) = (self.stop.clone(), lab.load_processor);
        self.threads.push(std::thread::spawn(move || {
            crate::spawn::pin(processor);
            transfer(stream, send, &bytes, &stop);
        }));
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn stop(self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
        .with_context(|| format!("no connection to the guest's port {}", address.port()))?;
    set_patience(&stream)?;
    Ok(stream)
}

/// Has whoever moves bytes look now and then whether to stop.
fn set_patience(stream: &TcpStream) -> Result<()> {
    let patience = Some(Duration::from_millis(100));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    Ok(())
}

fn transfer(mut stream: TcpStream, send: bool, bytes: &AtomicU64, stop: &AtomicBool) {
    let mut chunk = vec![b'c'; CHUNK];
    while !stop.load(Relaxed) {
        let moved = if send { stream.write(&chunk) } else { stream.read(&mut chunk) };
        match moved {
            Ok(0) => return,
            Ok(count) => drop(bytes.fetch_add(count as u64, Relaxed)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

/// The same with the standard tool, for one connection.
fn iperf_side(lab: &Lab, results: &mut Results, subject: &mut Subject) -> Result<()> {
    for (case, reverse) in [(&CASES[0], true), (&CASES[1], false)] {
        if !lab.wants(BENCH, case.row) {
            continue;
        }
        let address = subject.machine.network.address(Port::Tcp(port::IPERF))?;
        let window = subject.begin()?;
        let bytes = subject.machine.network.within(|| patient_iperf(lab, address, reverse))?;
        let sample = subject.end(window, bytes / MIB, "MiB")?;
        results.record(Side::Peer("linux-iperf3"), BENCH, case.row, &params(case), sample);
    }
    Ok(())
}

/// The server needs a moment after each client before it listens again, or keeps a connection that
/// it has accepted.
fn patient_iperf(lab: &Lab, address: SocketAddr, reverse: bool) -> Result<f64> {
    for _ in 0..20 {
        match iperf(lab, address, reverse) {
            Err(error) if is_turned_away(&error) => std::thread::sleep(Duration::from_millis(250)),
            result => return result,
        }
    }
    iperf(lab, address, reverse)
}

fn is_turned_away(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    ["refused", "reset by peer"].iter().any(|word| text.contains(word))
}

fn iperf(lab: &Lab, address: SocketAddr, reverse: bool) -> Result<f64> {
    let mut command = Command::new("iperf3");
    command.args(["--json", "--client", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--time", &lab.window.as_secs().max(1).to_string()]);
    if reverse {
        command.arg("--reverse");
    }
    tie(&mut command, Ties { processor: lab.load_processor, ..Ties::default() });
    parse_iperf(&run_command(&mut command)?)
}

fn parse_iperf(text: &str) -> Result<f64> {
    let report: Value = serde_json::from_str(text).context("iperf3 printed no report")?;
    match report["end"]["sum_received"]["bytes"].as_f64() {
        Some(bytes) if bytes > 0.0 => Ok(bytes),
        _ => bail!("iperf3 moved nothing: {}", report["error"].as_str().unwrap_or("it does not say why")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_iperf3_are_understood() {
        assert_eq!(parse_iperf(r#"{"end":{"sum_received":{"bytes":1048576}}}"#).unwrap(), MIB);
        assert!(parse_iperf(r#"{"error":"unable to connect"}"#).unwrap_err().to_string().contains("unable"));
        assert!(parse_iperf("").is_err());
    }
}
