//! A large file over a wire with faults (`tools/wire`): what a server gets through at a round trip
//! of 20 ms, with loss, reordering and duplicates, and over a link that carries less than a full
//! packet; Linux with CUBIC, which Culm has too, and with Reno.
//!
//! Faults befall what the server sends, the delay both ways. They decide the throughput; the
//! emulator's speed decides it in the rows without loss. So it counts as a ratio to the peer's
//! within one run.

use super::http::download_for;
use crate::lab::{Lab, Setup, Subject};
use crate::linux::{Variant, port};
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use crate::systems::System;
use anyhow::{Result, bail};
use culm_wire::Faults;
use serde_json::json;
use std::time::{Duration, Instant};

const BENCH: &str = "wire";

/// The unit of what is compared.
const RATE: &str = "MB/s";

/// Linux with the algorithm that Culm has, whom targets are about, and with the other one.
const CUBIC: Side = Side::Peer("nginx-linux-cubic");
const RENO: Side = Side::Peer("nginx-linux-reno");

/// Each way.
const DELAY: Duration = Duration::from_millis(10);

/// What is lost is drawn, so one connection has more luck than another: the sum of several over a
/// long time is what repeats.
const CONNECTIONS: usize = 8;

/// The windows of the lab for which a row lasts.
const WINDOWS: u32 = 8;

/// A row.
struct Case {
    row: &'static str,
    faults: Faults,
}

const NONE: Faults = Faults { delay: DELAY, loses: 0, duplicates: 0, reorders: 0, carries: 0 };

const CASES: &[Case] = &[
    Case { row: "delay-20ms", faults: NONE },
    Case { row: "loss-1", faults: Faults { loses: 10, ..NONE } },
    Case { row: "loss-5", faults: Faults { loses: 50, ..NONE } },
    Case { row: "reorder-5", faults: Faults { reorders: 50, ..NONE } },
    Case { row: "duplicate-10", faults: Faults { duplicates: 100, ..NONE } },
    Case { row: "mtu-1280", faults: Faults { carries: 1280, ..NONE } },
];

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    if lab.settings.user_networking {
        bail!("a wire with faults needs a TAP device: run it as root, without --user-networking");
    }
    let setup = Setup { faulty: true, ..Setup::default() };
    if lab.settings.culm() {
        lab.attempt(BENCH, "culm", || {
            let mut subject = lab.boot_culm(&System::web_file("bench-web"), &setup)?;
            side(lab, results, &mut subject, Side::Culm)
        });
    }
    if lab.settings.peer() {
        for (peer, algorithm) in [(CUBIC, "cubic"), (RENO, "reno")] {
            lab.attempt(BENCH, algorithm, || {
                let word = format!("culm.congestion={algorithm}");
                let mut subject = lab.boot_linux_with(Variant::NoKaslr, &word, &setup)?;
                side(lab, results, &mut subject, peer)
            });
        }
    }
    for case in CASES {
        for (peer, unit) in [(CUBIC, "throughput to peer"), (RENO, "throughput to Reno's")] {
            results.compare(peer, BENCH, case.row, RATE, |culm, theirs| (unit, culm / theirs));
        }
    }
    Ok(())
}

fn side(lab: &Lab, results: &mut Results, subject: &mut Subject, side: Side) -> Result<()> {
    for case in CASES.iter().filter(|case| lab.wants(BENCH, case.row)) {
        lab.attempt(BENCH, case.row, || {
            let mut sample = Sample::default();
            sample.set(RATE, measure(lab, subject, case.faults)?);
            results.record(side, BENCH, case.row, &params(case), sample);
            Ok(())
        });
    }
    Ok(())
}

fn params(case: &Case) -> Params {
    let Faults { delay, loses, duplicates, reorders, carries } = case.faults;
    let faults = [
        ("lost per mille", loses),
        ("twice per mille", duplicates),
        ("overtaking per mille", reorders),
        ("longest packet", carries.into()),
    ];
    let faults =
        faults.into_iter().filter(|(_, value)| *value > 0).map(|(name, value)| (name.to_owned(), json!(value)));
    let all = [("round trip ms", json!(2 * delay.as_millis())), ("connections", json!(CONNECTIONS))];
    faults.chain(all.map(|(name, value)| (name.to_owned(), value))).collect()
}

/// Returns the bytes, in millions a second, that come to clients over a wire with these faults.
fn measure(lab: &Lab, subject: &Subject, faults: Faults) -> Result<f64> {
    let network = &subject.machine.network;
    let address = network.address(Port::Tcp(port::HTTP))?;
    network.set_faults(faults)?;
    let begin = Instant::now();
    let bytes: usize = network.within(|| {
        let one = || {
            crate::spawn::pin(lab.load_processor);
            download_for(address, "/large.bin", lab.window * WINDOWS)
        };
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(one)).collect();
            clients.into_iter().map(|client| client.join().unwrap_or_else(|_| bail!("a client panicked"))).sum()
        })
    })?;
    let rate = bytes as f64 / begin.elapsed().as_secs_f64() / 1e6;
    network.set_faults(Faults::default())?;
    // What is under way, and connections whose clients have gone, do not reach into the next row.
    std::thread::sleep(Duration::from_secs(2));
    if bytes == 0 {
        bail!("nothing arrived");
    }
    Ok(rate)
}
