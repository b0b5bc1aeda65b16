//! Requests to a disk or card: loops in the guest between marks, which the counting plugin records,
//! the same on both sides (`bench/components/block-bench`, `bench/peer/src/disk.rs`). Which they
//! are is in `bench/guest/src/disk.rs`.

use super::marks::{between, profile, wait};
use super::tools;
use crate::lab::{Lab, Setup};
use crate::linux::Variant;
use crate::linux::tools::Target;
use crate::results::{Params, Results, Sample, Side};
use crate::systems::System;
use anyhow::Result;
use culm_bench_guest::disk::{BLOCK, MAX_DEPTH, Operation, Row};
use serde_json::json;
use std::collections::BTreeMap;

/// The rows of a kind of disk.
pub struct Disks {
    /// The benchmark.
    pub bench: &'static str,
    /// The device of the board.
    pub device: &'static str,
    /// The rows.
    pub rows: &'static [Row],
    /// Systems in which Culm has them; the peer is compared with the first one.
    pub systems: &'static [Way],
    /// How often the first system and the peer are measured, in turn: the faster time counts.
    pub rounds: u32,
    /// The peer's kernel.
    pub peer: Variant,
    /// The word of the peer kernel's command line by which it runs the rows.
    pub word: &'static str,
    /// The peer's device, which dd and fio read and write, too.
    pub path: &'static str,
}

/// A way in which Culm can have a disk.
pub struct Way {
    /// The system.
    pub system: &'static str,
    /// The text before its rows' names.
    pub prefix: &'static str,
    /// Its name in pictures.
    pub name: &'static str,
}

/// The rows of what holds for all sizes, and how many requests those have under way.
const EVERY_SIZE: [(&str, u32); 2] = [("every-size", 1), ("every-size-d32", MAX_DEPTH)];

/// The row of writes that are made durable one by one.
const WRITE_FLUSH: &str = "write-flush-4k-d1";

/// The unit of a flush's cost.
const FLUSH: &str = "instructions/flush";

/// The unit of how much more Culm moves in the same time.
const THROUGHPUT: &str = "throughput to peer";

/// The unit of a request's time.
const TIME: &str = "ns/request";

/// The costs of rows: by the index of the system, which behind the last one is the peer, and by
/// that of the row.
type Costs = BTreeMap<(usize, usize), (Sample, Params)>;

/// Keeps a row's cost, unless an earlier one took less time.
fn keep(costs: &mut Costs, row: (usize, usize), cost: (Sample, Params)) {
    let time = |(sample, _): &(Sample, Params)| sample.figures.get(TIME).copied().unwrap_or(f64::INFINITY);
    if costs.get(&row).is_none_or(|before| time(&cost) < time(before)) {
        costs.insert(row, cost);
    }
}

impl Disks {
    /// Measures all rows that are wanted, on both sides.
    pub fn run(&self, lab: &Lab, results: &mut Results) -> Result<()> {
        let mut costs = Costs::new();
        let outcome = self.measure(lab, &mut costs);
        for ((way, number), cost) in costs {
            let way = self.systems.get(way);
            let side = way.map_or(self.side(), |_| Side::Culm);
            self.record(lab, results, side, way, &self.rows[number], cost);
        }
        self.compare(results);
        if lab.settings.peer() {
            let target = Target { name: self.bench, device: self.path, rows: self.rows };
            lab.attempt(self.bench, "dd and fio", || {
                tools::run(lab, results, self.peer, &target, &Setup::with_disk(self.device))
            });
        }
        outcome
    }

    /// Measures both sides in turn, so often that neither has the host's better moments alone.
    fn measure(&self, lab: &Lab, costs: &mut Costs) -> Result<()> {
        let setup = Setup::with_disk(self.device);
        let has_peer = lab.settings.peer() && self.wants(lab, "");
        let rounds = if lab.settings.culm() && has_peer { self.rounds } else { 1 };
        for round in 0..rounds {
            // Of the systems, the first one is compared with the peer.
            let systems = if round == 0 { self.systems } else { &self.systems[..1] };
            for (index, way) in systems.iter().enumerate() {
                if lab.settings.culm() && self.wants(lab, way.prefix) {
                    lab.attempt(self.bench, way.system, || self.measure_system(lab, &setup, (index, way), costs));
                }
            }
            if has_peer {
                self.measure_peer(lab, &setup, costs)?;
            }
        }
        Ok(())
    }

    fn measure_system(&self, lab: &Lab, setup: &Setup, (index, way): (usize, &Way), costs: &mut Costs) -> Result<()> {
        let mut subject = lab.boot_culm(&System::file(way.system), setup)?;
        let marks = wait(&mut subject.machine, self.rows.len())?;
        for (number, row) in (0..).zip(0..self.rows.len()) {
            if let Some((mut sample, params)) = between(&marks, number, "request", subject.image.as_ref()) {
                sample.profile = profile(&subject, &marks, number, "request");
                keep(costs, (index, row), (sample, params));
            }
        }
        Ok(())
    }

    fn measure_peer(&self, lab: &Lab, setup: &Setup, costs: &mut Costs) -> Result<()> {
        let mut machine = lab.start_linux(self.peer, self.word, setup)?;
        let marks = wait(&mut machine, self.rows.len())?;
        for (number, row) in (0..).zip(0..self.rows.len()) {
            if let Some(cost) = between(&marks, number, "request", None) {
                keep(costs, (self.systems.len(), row), cost);
            }
        }
        Ok(())
    }

    fn side(&self) -> Side {
        Side::Peer(self.peer.name())
    }

    fn wants(&self, lab: &Lab, prefix: &str) -> bool {
        self.is_compared(lab, prefix) || self.rows.iter().any(|row| lab.wants(self.bench, &format!("{prefix}{row}")))
    }

    /// Returns whether a way's rows, of any size, are to be compared with the peer's.
    fn is_compared(&self, lab: &Lab, prefix: &str) -> bool {
        prefix.is_empty() && EVERY_SIZE.iter().any(|(row, _)| lab.wants(self.bench, row))
    }

    fn record(
        &self,
        lab: &Lab,
        results: &mut Results,
        side: Side,
        way: Option<&Way>,
        row: &Row,
        (mut sample, mut params): (Sample, Params),
    ) {
        let name = format!("{}{row}", way.map_or("", |way| way.prefix));
        if !self.is_compared(lab, way.map_or("", |way| way.prefix)) && !lab.wants(self.bench, &name) {
            return;
        }
        let bytes = f64::from(row.blocks * BLOCK);
        if let (Some(time), true) = (sample.figures.get(TIME).copied(), row.operation != Operation::WriteFlush) {
            sample.set("MiB/s", bytes / f64::from(1 << 20) / (time / 1e9));
        }
        params.insert("size".to_owned(), json!(bytes));
        params.insert("depth".to_owned(), json!(row.depth));
        params.insert("operation".to_owned(), json!(format!("{:?}", row.operation).to_lowercase()));
        params.insert("way".to_owned(), json!(way.map_or("", |way| way.name)));
        results.record(side, self.bench, &name, &params, sample);
    }

    /// Adds what one side alone does not tell: how much the first system moves in the time in which
    /// the peer moves one, and what a flush costs beside the write before it.
    fn compare(&self, results: &mut Results) {
        for row in self.rows {
            let name = row.to_string();
            results.compare(self.side(), self.bench, &name, TIME, |culm, peer| (THROUGHPUT, peer / culm));
        }
        for (name, depth) in EVERY_SIZE {
            let rows = self.rows.iter().filter(|row| row.depth == depth);
            let figures = rows
                .filter_map(|row| Some((results.figure(Side::Culm, self.bench, &row.to_string(), THROUGHPUT)?, row)));
            let Some((value, row)) = figures.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            let mut sample = Sample { notes: vec![format!("the least is that of {row}")], ..Sample::default() };
            sample.set(&format!("least {THROUGHPUT}"), value);
            results.record(Side::Culm, self.bench, name, &Params::new(), sample);
        }
        let ways = self.systems.iter().map(|way| (Side::Culm, way.prefix)).chain([(self.side(), "")]);
        for (side, prefix) in ways {
            let (both, write) = (format!("{prefix}{WRITE_FLUSH}"), format!("{prefix}write-4k-d1"));
            let cost = |row: &str| results.figure(side, self.bench, row, "instructions/request");
            if let Some((both_cost, write_cost)) = cost(&both).zip(cost(&write)) {
                results.amend(side, self.bench, &both, FLUSH, 2.0 * both_cost - write_cost);
            }
        }
        results
            .compare(self.side(), self.bench, WRITE_FLUSH, FLUSH, |culm, peer| ("flush's cost to peer", culm / peer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_time_of_a_row_counts() {
        let mut costs = Costs::new();
        for time in [300.0, 200.0, 250.0] {
            let mut sample = Sample::default();
            sample.set(TIME, time);
            keep(&mut costs, (1, 4), (sample, Params::new()));
        }
        keep(&mut costs, (0, 4), (Sample::default(), Params::new()));
        assert_eq!(costs[&(1, 4)].0.figures[TIME], 200.0);
        assert_eq!(costs.len(), 2);
    }
}
