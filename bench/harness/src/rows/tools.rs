//! The requests of dd and fio on Linux, in the rows of our own program's (`bench/peer`).

use super::marks::{beyond, wait};
use crate::lab::{Lab, Setup};
use crate::linux::Variant;
use crate::linux::tools::{Target, runs};
use crate::results::{Results, Side};
use anyhow::Result;
use culm_bench_guest::disk::BLOCK;
use serde_json::json;

/// Measures the tools on a disk, if any of their rows is wanted. The benchmark has the target's
/// name.
pub fn run(lab: &Lab, results: &mut Results, variant: Variant, target: &Target, setup: &Setup) -> Result<()> {
    let bench = target.name;
    let runs = runs(target.rows);
    if !runs.iter().any(|run| lab.wants(bench, &run.row.to_string())) {
        return Ok(());
    }
    let mut machine = lab.start_linux_with_tools(variant, target, setup)?;
    let marks = wait(&mut machine, 2 * runs.len())?;
    for run in runs {
        let (name, bytes) = (run.row.to_string(), f64::from(run.row.blocks * BLOCK));
        let requests = run.long - run.short;
        let found = beyond(&marks, run.lengths(), "request");
        let Some(mut sample) = found.filter(|_| lab.wants(bench, &name)) else { continue };
        if let Some(time) = sample.figures.get("ns/request").copied() {
            sample.set("MiB/s", bytes / f64::from(1 << 20) / (time / 1e9));
        }
        let params = [("size", json!(bytes)), ("depth", json!(run.row.depth)), ("requests", json!(requests))];
        let params = params.map(|(name, value)| (name.to_owned(), value)).into();
        results.record(Side::Peer(run.tool.peer()), bench, &name, &params, sample);
    }
    Ok(())
}
