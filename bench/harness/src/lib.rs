//! The benchmark harness behind `./culm bench`: guest instructions per operation on Culm and on
//! Linux, in the same emulated machine, with the same devices and the same load.
//!
//! Why instructions: an emulator's seconds are not a machine's, and shared machines are noisy, but
//! the count of what the guest executes is exact. Throughput and round trips are printed beside it,
//! and only as a comparison within one run.
//!
//! [`counters`] asks the counting plugin, [`machine`] runs QEMU, [`network`] is the wire, [`linux`]
//! and [`culm`] (with [`systems`]) are the two sides, [`lab`] brings them together, [`rows`] has a
//! file for each benchmark, [`starved`] refuses rows for which the host had no time, [`results`],
//! [`table`], [`targets`], [`record`], [`page`], [`figures`], [`plot`] and [`profile`] say what
//! came out.

mod awake;
pub mod counters;
pub mod culm;
pub mod figures;
pub mod lab;
pub mod linux;
pub mod machine;
mod names;
pub mod network;
pub mod page;
pub mod plot;
pub mod profile;
pub mod record;
pub mod results;
pub mod rows;
pub mod site;
pub mod spawn;
pub mod starved;
pub mod systems;
pub mod table;
pub mod targets;

use anyhow::{Result, bail};
use culm_tool::bench::Options;
use lab::Lab;
use results::Results;
use std::path::{Path, PathBuf};
use targets::Targets;

/// Where cargo and the harness put what they make.
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs the benchmarks. Returns whether all went well: every row ran and, with `--check`, every
/// target holds.
pub fn run(root: &Path, settings: &Options) -> Result<bool> {
    let targets = Targets::read(root)?;
    if settings.list {
        print!("{}", names::list(root, &targets)?);
        return Ok(true);
    }
    names::check(root, &targets, settings)?;
    if let (true, Some(row)) = (settings.record, settings.names.iter().find(|name| name.contains('/'))) {
        bail!("--record records whole benchmarks, and '{row}' is a row: leave out the row, or --record");
    }
    let mut settings = settings.clone();
    if settings.check && settings.names.is_empty() {
        settings.names = targets.iter().map(|target| format!("{}/{}", target.bench, target.row)).collect();
    }
    spawn::catch_interrupts();
    let lab = Lab::new(root, settings)?;
    let mut results = Results::default();
    let mut failed = Vec::new();
    for (name, _, run) in rows::ALL.iter().filter(|(name, _, _)| lab.wants_bench(name)) {
        // One benchmark that fails does not take the results of the others with it.
        lab.attempt(name, "all", || run(&lab, &mut results));
        if spawn::interrupted() || lab.failed().iter().any(|bench| bench == name) {
            failed.push(*name);
        }
    }
    for name in lab.settings.names.iter().filter(|_| failed.is_empty()) {
        if let Some((bench, row)) = name.split_once('/')
            && !results.entries().iter().any(|entry| entry.bench == bench && entry.row == row)
        {
            bail!("nothing was measured for '{name}': `./culm bench {bench}` shows the rows that there are");
        }
    }
    report(&lab, &results, &targets, &failed)
}

fn report(lab: &Lab, results: &Results, targets: &Targets, failed: &[&str]) -> Result<bool> {
    let rows = results.rows(targets);
    let profiles = target_folder(&lab.root).join("bench/profiles");
    match results.write_profiles(&profiles)? {
        0 => {}
        count => eprintln!("bench: {count} profiles by function are in {}", profiles.display()),
    }
    if lab.settings.json {
        for row in &rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else {
        print!("{}", table::table(results, targets));
        lab.notes().iter().for_each(|note| println!("note: {note}"));
    }
    let missed: Vec<_> = rows.iter().filter(|row| row.ok == Some(false)).collect();
    for row in &missed {
        let (culm, target) = (results::number(row.culm), results::number(row.target));
        eprintln!("bench: missed: {} {} {}: {culm}, target {target}", row.bench, row.row, row.unit);
    }
    if !failed.is_empty() {
        let why = if spawn::interrupted() { "interrupted; " } else { "" };
        eprintln!("bench: {why}results are partial: {} did not run to the end", failed.join(", "));
    }
    let mut fine = failed.is_empty() && (missed.is_empty() || !lab.settings.check);
    if lab.settings.compare {
        let (lines, no_worse) = record::compare(&lab.root, &rows)?;
        lines.iter().for_each(|line| eprintln!("bench: {line}"));
        fine &= no_worse;
    }
    if lab.settings.record {
        let whole = |bench: &str| !failed.contains(&bench);
        let rows: Vec<_> = rows.into_iter().filter(|row| whole(&row.bench)).collect();
        record::write(&lab.root, &rows, &lab.notes())?;
        plot::write(&lab.root.join(page::PICTURES), results, whole)?;
        let benches: Vec<_> = rows::ALL.iter().map(|(name, what, _)| (*name, *what)).collect();
        page::write(&lab.root, &benches)?;
        figures::write(&lab.root)?;
    }
    Ok(fine)
}
