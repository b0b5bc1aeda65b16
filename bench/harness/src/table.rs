//! The results as a table for people: a row's sides below each other, its usual figures in columns,
//! the rest in words.

use crate::results::{Entry, Results, Sample, Side, number};
use crate::targets::Targets;
use std::fmt::Write;

/// A column: its heading, and whether a unit belongs into it.
type Column = (&'static str, fn(&str) -> bool);

const COLUMNS: &[Column] = &[
    ("instructions", |unit| unit.starts_with("instructions")),
    ("entries", |unit| unit.starts_with("entries/")),
    ("calls", |unit| unit.starts_with("system calls/")),
    ("switches", |unit| unit.starts_with("switches/")),
    ("per second", |unit| unit.ends_with("s/s") && !unit.starts_with("answers")),
    ("p50 µs", |unit| unit == "p50 us"),
    ("p99 µs", |unit| unit == "p99 us"),
    ("wfi/s", |unit| unit == "wfi/s"),
    ("core", |unit| unit == crate::lab::SHARE),
];

/// The table.
pub fn table(results: &Results, targets: &Targets) -> String {
    let mut text = String::new();
    let mut bench = "";
    for entry in results.entries() {
        if entry.bench != bench {
            bench = entry.bench;
            let _ = write!(text, "\n{:<24}", bench.to_uppercase());
            for (heading, _) in COLUMNS {
                let _ = write!(text, " {heading:>13}");
            }
            text.push('\n');
        }
        let operation = entry.samples.iter().find_map(|(_, sample)| operation(sample));
        let _ = writeln!(text, "{}{}", entry.row, operation.map_or(String::new(), |name| format!(" (per {name})")));
        for (side, sample) in &entry.samples {
            side_lines(&mut text, entry, *side, sample, targets);
        }
    }
    text
}

/// Returns the operation by which the row's figures are divided.
fn operation(sample: &Sample) -> Option<&str> {
    sample.figures.keys().find_map(|unit| unit.strip_prefix("instructions/"))
}

fn side_lines(text: &mut String, entry: &Entry, side: Side, sample: &Sample, targets: &Targets) {
    let _ = write!(text, "  {:<22}", side.name());
    for (_, belongs) in COLUMNS {
        let figure = sample.figures.iter().find(|(unit, _)| belongs(unit));
        let _ = write!(text, " {:>13}", figure.map_or(String::new(), |(_, value)| number(Some(*value))));
    }
    text.push('\n');
    let mut words = Vec::new();
    for (unit, value) in &sample.figures {
        let target = targets.find(entry.bench, &entry.row, unit).filter(|_| side == Side::Culm);
        let verdict = target.map(|target| {
            let verdict = if target.holds(*value) { "ok" } else { "MISSED" };
            format!("target {} {}: {verdict}", target.bound.sign(), number(Some(target.limit())))
        });
        let shown = COLUMNS.iter().any(|(_, belongs)| belongs(unit));
        match (shown, verdict) {
            (true, None) => {}
            (true, Some(verdict)) => words.push(format!("{unit} {verdict}")),
            (false, None) => words.push(format!("{unit} {}", number(Some(*value)))),
            (false, Some(verdict)) => words.push(format!("{unit} {}, {verdict}", number(Some(*value)))),
        }
    }
    if !sample.parts.is_empty() {
        let parts = sample.parts.iter().map(|(name, value)| format!("{name} {}", number(Some(*value))));
        words.push(parts.collect::<Vec<_>>().join(" + "));
    }
    words.extend(sample.notes.iter().cloned());
    for line in words {
        let _ = writeln!(text, "      {line}");
    }
}
