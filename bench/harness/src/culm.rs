//! Culm's side: systems built by the tool's own command, and the report that it writes beside each
//! image.

use crate::lab::{BOARD, Lab};
use crate::results::{Results, Sample, Side};
use crate::spawn::run;
use crate::systems::System;
use anyhow::{Context, Result};
use culm_tool::image::report::Report;
use culm_tool::layout::translation::bits::ADDRESS;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Builds a system.
pub fn build(lab: &Lab, system: &System) -> Result<Report> {
    let description = system.description(&lab.root)?;
    let tool = std::env::var_os(culm_tool::bench::TOOL).map_or_else(|| lab.root.join("culm"), PathBuf::from);
    let mut command = Command::new(tool);
    command.current_dir(&lab.root).args(["build", "--release"]).arg(&description);
    // Where the image is looked for.
    command.env("CULM_BUILD", lab.root.join("build")).env_remove("CULM_WORKSPACE");
    run(&mut command).with_context(|| format!("cannot build the system '{}'", system.name))?;
    let folder = lab.root.join("build").join(format!("{}-{BOARD}", system.name));
    Ok(Report::read(&folder.join("report.json"))?)
}

/// The row with the size of a server, and its unit.
const TEXT: &str = "text";
const BYTES_OF_TEXT: &str = "bytes of text";

/// Builds a system, and records how many bytes of instructions `component` has.
pub fn record_text(
    lab: &Lab,
    results: &mut Results,
    bench: &'static str,
    system: &System,
    component: &str,
) -> Result<()> {
    if !lab.wants(bench, TEXT) {
        return Ok(());
    }
    lab.site()?;
    let report = build(lab, system)?;
    let sizes = report.components.iter().find(|known| known.name == component).map(|known| known.sizes.text);
    let mut sample = Sample::default();
    sample.set(BYTES_OF_TEXT, sizes.with_context(|| format!("the system has no `{component}`"))? as f64);
    results.record(Side::Culm, bench, TEXT, &[("component".to_owned(), json!(component))].into(), sample);
    Ok(())
}

/// The protection domain whose translation table is at `table`, an address or a value of TTBR0.
pub fn domain_of(report: &Report, table: u64) -> String {
    match report.domains.iter().find(|domain| domain.table == table & ADDRESS) {
        Some(domain) => domain.name.clone(),
        None if table == 0 => "start".to_owned(),
        // The tables of its own programs.
        None if has_guest(report) => "guest's programs".to_owned(),
        None => format!("table {table:#x}"),
    }
}

/// Returns whether a system has a guest.
pub fn has_guest(report: &Report) -> bool {
    report.components.iter().any(|component| component.name == "vmm")
}

/// Instructions of Culm's kernel and components beside a guest, of which the programs have address
/// spaces that no domain has.
pub fn without_guest(report: &Report, kernel: f64, spaces: &BTreeMap<u64, f64>) -> f64 {
    let is_domain = |table: u64| report.domains.iter().any(|domain| domain.table == table & ADDRESS);
    kernel + spaces.iter().filter(|(table, _)| is_domain(**table)).map(|(_, own)| own).sum::<f64>()
}

/// Own instructions of each protection domain for each of so many operations, without those that do
/// nearly nothing.
pub fn parts(report: &Report, spaces: &BTreeMap<u64, f64>, operations: f64) -> Vec<(String, f64)> {
    let mut parts: Vec<(String, f64)> = Vec::new();
    for (table, own) in spaces {
        let (name, own) = (domain_of(report, *table), own / operations);
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += own,
            None => parts.push((name, own)),
        }
    }
    parts.retain(|(_, own)| *own >= 0.05);
    parts
}
