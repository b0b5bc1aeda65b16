//! The native web server on a core of a guest that spins on all of its CPUs, and of one that waits:
//! what a request costs Culm's kernel and components, and how long the answer takes.
//!
//! Where many connections keep the server at work, it has the core nearly alone, since its priority
//! is above the guest's. Where one does, the guest spins while the client thinks, and each request
//! takes the core from it.

use super::guest::BENCH;
use super::web;
use crate::lab::{Lab, Setup, Subject};
use crate::linux::{READY, port};
use crate::results::{Results, Sample, Side};
use crate::systems::BESIDE;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

const CASES: &[web::Case] = &[
    web::Case { row: "beside-spinning-354", path: "/index.html", connections: 16, requests_per_connection: 0 },
    web::Case { row: "beside-spinning-354-c1", path: "/index.html", connections: 1, requests_per_connection: 0 },
];

/// Virtual CPUs of the guest: one beside the server, and one on another core.
const CPUS: u32 = 2;

/// The figure that is compared.
const COST: &str = "Culm's instructions/request";

/// The time that half of the answers take at most.
const TIME: &str = "p50 us";

/// What has Linux spin when it has booted.
const SPIN: &str = "culm.spin";

/// For Linux to boot.
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs the rows.
pub fn run(lab: &Lab, results: &mut Results) {
    let cases: Vec<_> = CASES.iter().filter(|case| lab.wants(BENCH, case.row)).collect();
    if cases.is_empty() {
        return;
    }
    lab.attempt(BENCH, "beside", || {
        let (waiting, spinning) = (measure(lab, "", &cases)?, measure(lab, SPIN, &cases)?);
        for (case, (waiting, spinning)) in cases.iter().zip(waiting.iter().zip(spinning)) {
            let sample = compare(spinning, waiting)?;
            let params = [("path".to_owned(), json!(case.path)), ("connections".to_owned(), json!(case.connections))];
            results.record(Side::Culm, BENCH, case.row, &params.into(), sample);
        }
        Ok(())
    });
}

/// Boots a guest with these words on its command line, and asks the web server beside it.
fn measure(lab: &Lab, words: &str, cases: &[&web::Case]) -> Result<Vec<Sample>> {
    let setup = Setup { cores: Some(CPUS), unpinned: true, random: true, beside: true, ..Setup::with_disk("disk0") };
    let (mut machine, image) = lab.start_guest(words, &setup)?;
    machine.wait_for(READY, PATIENCE)?;
    let mut subject: Subject = lab.wait_until_quiet(machine, Some(image))?;
    if !subject.machine.network.is_tap() {
        bail!("the card beside the guest's is reached over a TAP device only");
    }
    let server = SocketAddr::from((BESIDE, port::HTTP));
    cases.iter().map(|case| web::measure_at(lab, &mut subject, case, server)).collect()
}

/// What is told of the server beside a guest that spins. The guest's own instructions are not: they
/// go with the time that it has, so that there is nothing to take those of an idle machine from.
fn compare(mut spinning: Sample, waiting: &Sample) -> Result<Sample> {
    let figure = |sample: &Sample, unit: &str| {
        sample.figures.get(unit).copied().with_context(|| format!("{unit} was not measured"))
    };
    spinning.set("cost to a waiting guest's", figure(&spinning, COST)? / figure(waiting, COST)?);
    spinning.set("p50 us beside a waiting guest", figure(waiting, TIME)?);
    spinning.figures.remove("instructions/request");
    spinning.parts.retain(|(part, _)| part != "kernel" && part != "guest's programs");
    Ok(spinning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_of_the_server_and_not_of_the_guest() {
        let sample = |cost, time| {
            let mut sample = Sample::default();
            [(COST, cost), (TIME, time), ("instructions/request", 0.0)]
                .into_iter()
                .for_each(|(unit, figure)| sample.set(unit, figure));
            sample.parts = ["kernel", "guest's programs", "http"].map(|part| (part.to_owned(), 0.0)).into();
            sample
        };
        let told = compare(sample(6000.0, 900.0), &sample(5000.0, 700.0)).unwrap();
        let expected = [
            (COST, 6000.0),
            (TIME, 900.0),
            ("cost to a waiting guest's", 1.2),
            ("p50 us beside a waiting guest", 700.0),
        ];
        assert_eq!(told.figures, expected.map(|(unit, figure)| (unit.to_owned(), figure)).into());
        assert_eq!(told.parts, [("http".to_owned(), 0.0)]);
        assert!(compare(sample(6000.0, 900.0), &Sample::default()).is_err());
    }
}
