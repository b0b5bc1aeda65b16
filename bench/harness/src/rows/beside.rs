//! The native web server on the core of a guest that spins on all of its CPUs, and of one that
//! waits: what a request costs Culm's kernel and components.

use super::guest::BENCH;
use super::web;
use crate::lab::{Lab, Setup};
use crate::linux::{READY, port};
use crate::results::{Results, Sample, Side};
use crate::systems::BESIDE;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

const CASE: web::Case =
    web::Case { row: "beside-spinning-354", path: "/index.html", connections: 16, requests_per_connection: 0 };

/// The figure that is compared.
const COST: &str = "Culm's instructions/request";

/// What has Linux spin when it has booted.
const SPIN: &str = "culm.spin";

/// For Linux to boot.
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs the row.
pub fn run(lab: &Lab, results: &mut Results) {
    lab.attempt(BENCH, CASE.row, || {
        if !lab.wants(BENCH, CASE.row) {
            return Ok(());
        }
        let (waiting, mut spinning) = (measure(lab, "")?, measure(lab, SPIN)?);
        let cost = |sample: &Sample| sample.figures.get(COST).copied().context("the system has no guest");
        spinning.set("cost to a waiting guest's", cost(&spinning)? / cost(&waiting)?);
        let params = [("path".to_owned(), json!(CASE.path)), ("connections".to_owned(), json!(CASE.connections))];
        results.record(Side::Culm, BENCH, CASE.row, &params.into(), spinning);
        Ok(())
    });
}

/// Boots a guest with these words on its command line, and asks the web server beside it.
fn measure(lab: &Lab, words: &str) -> Result<Sample> {
    let setup = Setup { random: true, beside: true, ..Setup::with_disk("disk0") };
    let (mut machine, image) = lab.start_guest(words, &setup)?;
    machine.wait_for(READY, PATIENCE)?;
    let mut subject = lab.wait_until_quiet(machine, Some(image))?;
    if !subject.machine.network.is_tap() {
        bail!("the card beside the guest's is reached over a TAP device only");
    }
    web::measure_at(lab, &mut subject, &CASE, SocketAddr::from((BESIDE, port::HTTP)))
}
