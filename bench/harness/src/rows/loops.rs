//! Loops over instructions and over memory, the same instructions on both sides (`bench/guest`).
//!
//! There is nothing to win here: the machine does the same work for whoever asks. So the count per
//! round must be what the source says, and a ratio off 1 points to something that gets in the way:
//! a kernel that is entered while the loop runs, in the count; in the time, an emulator that treats
//! a place in memory or a page's size differently.

use super::marks::{between, wait};
use crate::lab::{Lab, Setup};
use crate::linux::Variant;
use crate::results::{Results, Side};
use crate::systems;
use anyhow::Result;
use culm_bench_guest::loops::{ALIGNMENTS, KIND, MEMORY, OPERATION, OPERATIONS, SIZES, SPIN};
use serde_json::json;

const CPU: &str = "cpu";
const MEM: &str = "mem";

/// Kinds of memory, in the order of their rows.
const KINDS: &[&str] = &["cached", "uncached"];

/// The peer's name.
const PEER: &str = "linux-nokaslr";

/// Runs the loops over instructions.
pub fn cpu(lab: &Lab, results: &mut Results) -> Result<()> {
    let rounds = (lab.settings.instructions / 4).max(1);
    let mut names: Vec<_> = ALIGNMENTS.iter().map(|alignment| format!("align-{alignment}")).collect();
    names.push("across-pages".to_owned());
    let rows = (SPIN..).zip(names).map(|(number, name)| Row::new(CPU, number, name, "round")).collect();
    both(lab, results, rows, rounds, false)
}

/// Runs the loops over memory.
pub fn mem(lab: &Lab, results: &mut Results) -> Result<()> {
    let mut rows = Vec::new();
    for (kind_number, kind) in (0..).zip(KINDS) {
        for (operation_number, operation) in (0..).zip(OPERATIONS) {
            for (size_number, size) in (0..).zip(SIZES) {
                let number = MEMORY + kind_number * KIND + operation_number * OPERATION + size_number;
                let row = Row::new(MEM, number, format!("{operation}-{size}-{kind}"), "KiB");
                rows.push(Row { bytes: Some(size), ..row });
            }
        }
    }
    both(lab, results, rows, 1, true)
}

struct Row {
    bench: &'static str,
    number: u64,
    name: String,
    what: &'static str,
    bytes: Option<usize>,
}

impl Row {
    fn new(bench: &'static str, number: u64, name: String, what: &'static str) -> Row {
        Row { bench, number, name, what, bytes: None }
    }
}

fn both(lab: &Lab, results: &mut Results, rows: Vec<Row>, rounds: u64, memory: bool) -> Result<()> {
    let rows: Vec<Row> = rows.into_iter().filter(|row| lab.wants(row.bench, &row.name)).collect();
    let Some(last) = rows.iter().map(|row| row.number).max() else { return Ok(()) };
    let setup = Setup::default();
    if lab.settings.culm() {
        let name = if memory { "bench-mem" } else { "bench-cpu" };
        let (mut machine, _) = lab.start_culm(&systems::loops(name, rounds, memory), &setup)?;
        record(results, &rows, Side::Culm, &wait(&mut machine, position(last, KINDS.len()))?);
    }
    if lab.settings.peer() {
        let mut machine = lab.start_linux(Variant::NoKaslr, &format!("culm.loops={rounds}"), &setup)?;
        // Linux has memory of one kind.
        let last = last.min(MEMORY + KIND - 1);
        record(results, &rows, Side::Peer(PEER), &wait(&mut machine, position(last, 1))?);
    }
    compare(results, &rows);
    Ok(())
}

/// How many rows have ended when the one of this number has, on a side with so many kinds of
/// memory.
fn position(row: u64, kinds: usize) -> usize {
    if row < MEMORY {
        return (row - SPIN) as usize + 1;
    }
    let per_kind = OPERATIONS.len() * SIZES.len();
    let kind = ((row - MEMORY) / KIND) as usize;
    let within = (row - MEMORY) % KIND;
    let row = (within / OPERATION) as usize * SIZES.len() + (within % OPERATION) as usize + 1;
    ALIGNMENTS.len() + 1 + (kind * per_kind + row.min(per_kind)).min(kinds * per_kind)
}

fn record(results: &mut Results, rows: &[Row], side: Side, marks: &[crate::counters::Mark]) {
    for row in rows {
        if let Some((sample, mut params)) = between(marks, row.number, row.what, None) {
            if let Some(bytes) = row.bytes {
                params.insert("bytes".to_owned(), json!(bytes));
            }
            results.record(side, row.bench, &row.name, &params, sample);
        }
    }
}

/// Culm's count and time as a share of Linux's.
fn compare(results: &mut Results, rows: &[Row]) {
    for row in rows {
        for (figure, ratio) in [("instructions", "count to peer"), ("ns", "time to peer")] {
            let unit = format!("{figure}/{}", row.what);
            let of = |side| results.sample(side, row.bench, &row.name)?.figures.get(&unit).copied();
            if let (Some(ours), Some(theirs)) = (of(Side::Culm), of(Side::Peer(PEER))) {
                results.amend(Side::Culm, row.bench, &row.name, ratio, ours / theirs);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_in_the_order_of_their_numbers() {
        assert_eq!((position(200, 2), position(207, 2), position(300, 2)), (1, 8, 9));
        assert_eq!((position(353, 2), position(400, 2), position(453, 2)), (32, 33, 56));
        assert_eq!(position(MEMORY + KIND - 1, 1), 32);
    }
}
