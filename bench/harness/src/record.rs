//! The figures of the last accepted run, `bench/results/BENCH.json`, and what has changed against
//! them.

use crate::results::{Row, number};
use crate::spawn::run;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A figure that is worse by more than this is named. Repeated runs of the same image differ by
/// less.
const TOLERANCE: f64 = 0.03;

/// Units whose figures are counts of what the guest did: those can be compared across runs, less is
/// better.
const COUNTS: &[&str] =
    &["instructions", "entries", "system calls", "switches", "device accesses", "image bytes", "bytes of text"];

/// One benchmark's recorded results.
#[derive(Serialize, Deserialize)]
pub struct Record {
    /// The commit that was measured; ends in `+` where files were changed since.
    pub commit: String,
    /// The command.
    pub command: String,
    /// QEMU's version.
    pub qemu: String,
    /// Remarks about the run.
    pub notes: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
}

/// Git's pathspecs of all files but those that recording writes: they do not change what is
/// measured.
const WRITTEN: [&str; 3] = [":!README.md", ":!bench/results", ":!docs"];

/// Returns the command that a person types to run this program with these arguments, of which the
/// first is its name.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let words = ["./culm".to_owned(), "bench".to_owned()].into_iter().chain(arguments.skip(1));
    words.collect::<Vec<_>>().join(" ")
}

fn path(root: &Path, bench: &str) -> PathBuf {
    root.join("bench/results").join(format!("{bench}.json"))
}

/// Returns the record of a benchmark.
pub fn read(root: &Path, bench: &str) -> Result<Option<Record>> {
    let Ok(text) = std::fs::read_to_string(path(root, bench)) else { return Ok(None) };
    serde_json::from_str(&text).map(Some).with_context(|| format!("the record of {bench} is damaged"))
}

/// Records `rows`, a file for each benchmark.
pub fn write(root: &Path, rows: &[Row], notes: &[String]) -> Result<()> {
    let git = |arguments: &[&str]| run(Command::new("git").current_dir(root).args(arguments));
    let status = [&["status", "--porcelain", "--untracked-files=no", "--", "."], &WRITTEN[..]].concat();
    let changed = git(&status).is_ok_and(|text| !text.trim().is_empty());
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|_| "unknown".to_owned());
    let commit = format!("{}{}", commit.trim(), if changed { "+" } else { "" });
    let qemu = run(Command::new("qemu-system-aarch64").arg("--version"))?;
    let qemu = qemu.lines().next().unwrap_or_default().to_owned();
    let mut benches: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in rows {
        benches.entry(&row.bench).or_default().push(row.clone());
    }
    for (bench, rows) in benches {
        let record = Record {
            commit: commit.clone(),
            command: command(std::env::args()),
            qemu: qemu.clone(),
            notes: notes.to_vec(),
            rows,
        };
        let path = path(root, bench);
        std::fs::create_dir_all(path.parent().unwrap_or(root))?;
        let text = serde_json::to_string_pretty(&record)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("bench: recorded {}", path.display());
    }
    Ok(())
}

/// Compares Culm's counts with the recorded ones: a line for each that moved by more than the
/// tolerance, and whether none moved for the worse.
pub fn compare(root: &Path, rows: &[Row]) -> Result<(Vec<String>, bool)> {
    let mut records: BTreeMap<&str, Option<Record>> = BTreeMap::new();
    for row in rows {
        if !records.contains_key(row.bench.as_str()) {
            records.insert(&row.bench, read(root, &row.bench)?);
        }
    }
    let (mut lines, mut fine) = (Vec::new(), true);
    for (bench, record) in &records {
        let Some(record) = record else {
            lines.push(format!("{bench}: nothing is recorded yet"));
            continue;
        };
        for (line, worse) in changes(&record.rows, rows.iter().filter(|row| row.bench == *bench)) {
            lines.push(format!("{line} (recorded at {})", record.commit));
            fine &= !worse;
        }
    }
    Ok((lines, fine))
}

fn changes<'a>(old: &'a [Row], new: impl Iterator<Item = &'a Row>) -> Vec<(String, bool)> {
    let mut seen = Vec::new();
    let mut changes = Vec::new();
    for row in new {
        // A figure stands once for each peer; Culm's is the same in all.
        let key = (&row.row, &row.unit);
        if seen.contains(&key) || !COUNTS.iter().any(|count| row.unit.starts_with(count)) {
            continue;
        }
        seen.push(key);
        let before = old.iter().find(|known| known.row == row.row && known.unit == row.unit);
        let Some((before, now)) = before.and_then(|known| known.culm).zip(row.culm) else { continue };
        let change = now / before - 1.0;
        if change.abs() > TOLERANCE && (now - before).abs() > 0.05 {
            let verdict = if change > 0.0 { "WORSE" } else { "better" };
            let (before, now) = (number(Some(before)), number(Some(now)));
            let percent = change * 100.0;
            changes.push((
                format!("{verdict}: {} {} {}: {before} -> {now} ({percent:+.1} %)", row.bench, row.row, row.unit),
                change > 0.0,
            ));
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_command_that_was_typed() {
        let arguments = ["target/debug/culm-bench", "--record", "--full", "steps"];
        assert_eq!(command(arguments.map(str::to_owned).into_iter()), "./culm bench --record --full steps");
        assert_eq!(command(["culm-bench".to_owned()].into_iter()), "./culm bench");
    }

    fn row(unit: &str, culm: f64) -> Row {
        Row {
            bench: "net".into(),
            row: "a".into(),
            params: BTreeMap::new(),
            unit: unit.into(),
            culm: Some(culm),
            peer: None,
            peer_name: None,
            target: None,
            ok: None,
        }
    }

    #[test]
    fn only_counts_that_moved_are_named() {
        let old = [row("instructions/packet", 1000.0), row("packets/s", 10.0), row("entries/packet", 1.0)];
        let new = [row("instructions/packet", 1031.0), row("packets/s", 5.0), row("entries/packet", 1.02)];
        let changed = changes(&old, new.iter());
        assert_eq!(changed.len(), 1);
        assert!(changed[0].1 && changed[0].0.starts_with("WORSE: net a instructions/packet: 1,000 -> 1,031"));
        let better = [row("instructions/packet", 900.0)];
        assert!(!changes(&old, better.iter())[0].1);
    }
}
