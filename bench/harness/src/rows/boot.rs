//! From the start of QEMU to the first answer: instructions, time and bytes of the image.

use crate::counters::{Delta, Snapshot};
use crate::lab::{Lab, Setup, first_echo, first_http};
use crate::linux::Variant;
use crate::machine::BootedMachine;
use crate::results::{Params, Results, Sample, Side};
use crate::systems::System;
use anyhow::Result;
use std::time::Duration;

const BENCH: &str = "boot";
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let strict = Variant::NoKaslr;
    if lab.wants(BENCH, "first-echo") {
        if lab.settings.culm() {
            let (mut machine, image) = lab.start_culm(&System::file("bench-echo"), &Setup::default())?;
            let mut sample = until_echo(&mut machine)?;
            sample.set("image bytes", std::fs::metadata(&image.image.path)?.len() as f64);
            results.record(Side::Culm, BENCH, "first-echo", &Params::new(), sample);
        }
        if lab.settings.peer() {
            let sample = until_echo(&mut lab.start_linux(strict, "", &Setup::default())?)?;
            results.record(Side::Peer(strict.name()), BENCH, "first-echo", &Params::new(), sample);
        }
    }
    if lab.wants(BENCH, "first-http") {
        if lab.settings.culm() {
            let (mut machine, image) = lab.start_culm(&System::file("bench-web"), &Setup::default())?;
            let mut sample = until_http(&mut machine)?;
            sample.set("image bytes", std::fs::metadata(&image.image.path)?.len() as f64);
            results.record(Side::Culm, BENCH, "first-http", &Params::new(), sample);
        }
        if lab.settings.peer() {
            let sample = until_http(&mut lab.start_linux(strict, "", &Setup::default())?)?;
            results.record(Side::Peer(strict.name()), BENCH, "first-http", &Params::new(), sample);
        }
    }
    Ok(())
}

fn sample(machine: &BootedMachine, snapshot: &Snapshot) -> Sample {
    let delta = Delta::between(&Snapshot { time: snapshot.time, ..Snapshot::default() }, snapshot);
    let mut sample = Sample::default();
    sample.set("instructions", delta.instructions());
    sample.set("milliseconds", machine.started.elapsed().as_secs_f64() * 1e3);
    sample
}

fn until_echo(machine: &mut BootedMachine) -> Result<Sample> {
    let snapshot = first_echo(machine, PATIENCE)?;
    Ok(sample(machine, &snapshot))
}

fn until_http(machine: &mut BootedMachine) -> Result<Sample> {
    let snapshot = first_http(machine, PATIENCE)?;
    Ok(sample(machine, &snapshot))
}
