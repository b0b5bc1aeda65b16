//! Clients that share a disk: what a request costs as there are more of them, or more partitions,
//! and whether large writes of one hold up small reads of another.
//!
//! Each client (`bench/components/block-load`) sends requests without end, and marks how many are
//! done. The harness counts between two marks of any of them.

use super::growth::Series;
use crate::counters::Mark;
use crate::culm;
use crate::lab::{Lab, Setup};
use crate::results::{Params, Results, Sample, Side};
use crate::systems::{DiskClient, System, disk_clients};
use anyhow::{Result, bail};
use culm_bench_guest::disk::BLOCK;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The number of a client's marks.
const BEAT: u64 = 99;

/// Marks of each client that are waited for.
const BEATS: usize = 12;

const PATIENCE: Duration = Duration::from_secs(120);

const CLIENTS: &[usize] = &[1, 2, 8, 16];
const PARTITIONS: &[usize] = &[1, 16, 64, 256];

/// The most clients that a disk can have.
const MAX_READERS: usize = 63;

/// A client of the series: reads of 4 KiB, 8 under way.
const READER: DiskClient = DiskClient { writes: false, blocks: 8, depth: 8, beat: 500, part: String::new() };

/// Measures clients of one disk.
pub fn clients(lab: &Lab, results: &mut Results) -> Result<()> {
    let name = "disk-clients";
    if !lab.settings.culm() || !super::growth::wants(lab, name, CLIENTS.iter().copied()) {
        return Ok(());
    }
    let mut series = Series::culm(name, "clients", "instructions/request");
    for &count in CLIENTS {
        let part = |index: usize| format!("offset = \"{index}MiB\", size = \"1MiB\", ");
        let clients: Vec<_> = (0..count).map(|index| DiskClient { part: part(index), ..READER }).collect();
        let system = disk_clients(&format!("bench-disk-clients-{count}"), None, &clients);
        series.record(results, count, measure(lab, &system, None, &clients)?.of_all());
    }
    Ok(())
}

/// Measures clients of disks with more and more partitions, each of which reads one of its own.
/// Where a disk has more partitions than it can have clients, those that they read are spread over
/// the table.
pub fn partitions(lab: &Lab, results: &mut Results) -> Result<()> {
    let name = "disk-partitions";
    if !lab.settings.culm() || !super::growth::wants(lab, name, PARTITIONS.iter().copied()) {
        return Ok(());
    }
    let mut series = Series::culm(name, "partitions", "instructions/request");
    for &count in PARTITIONS {
        let image = lab.partitions(count)?;
        let readers = count.min(MAX_READERS);
        let part = |index: usize| format!("partition = {}, read_only = true, ", index * count / readers + 1);
        let clients: Vec<_> = (0..readers).map(|index| DiskClient { part: part(index), ..READER }).collect();
        let system = disk_clients(&format!("bench-{name}-{count}"), Some(&image), &clients);
        series.record(results, count, measure(lab, &system, Some(image), &clients)?.of_all());
    }
    Ok(())
}

/// Measures a client's reads beside nobody, and beside writes of 1 MiB of which 8 are under way;
/// and those writes beside nobody.
pub fn fairness(lab: &Lab, results: &mut Results, bench: &'static str) -> Result<()> {
    let part = |offset: u32| format!("offset = \"{offset}MiB\", size = \"32MiB\", ");
    let one = DiskClient { depth: 1, beat: 100, part: part(0), ..READER };
    let many = DiskClient { depth: 32, ..one.clone() };
    // Twice what the driver has of all clients at a time: some always wait for their turn.
    let large = DiskClient { blocks: 256, ..many.clone() };
    let writer = DiskClient { writes: true, blocks: 2048, depth: 8, beat: 8, part: part(32) };
    let mut share = |row: &str, clients: &[DiskClient]| -> Result<()> {
        if !lab.settings.culm() || !lab.wants(bench, row) {
            return Ok(());
        }
        let counts = measure(lab, &disk_clients(&format!("bench-{row}"), None, clients), None, clients)?;
        let what = if clients[0].writes { "write" } else { "read" };
        let mut sample = counts.sample(what, counts.requests[0]);
        if let [reads, writes] = *counts.requests {
            let (read, written) = (reads * f64::from(clients[0].blocks), writes * f64::from(clients[1].blocks));
            sample.set("MiB written/read", written * f64::from(BLOCK) / f64::from(1 << 20) / reads);
            sample.set("reads' share of the bytes", read / (read + written));
        }
        let size = f64::from(clients[0].blocks * BLOCK);
        let params: Params = [("size".to_owned(), json!(size)), ("depth".to_owned(), json!(clients[0].depth))].into();
        results.record(Side::Culm, bench, row, &params, sample);
        Ok(())
    };
    let readers = [("4k-d1", one), ("4k-d32", many), ("128k-d32", large)];
    for (name, reader) in &readers {
        share(&format!("fair-read-{name}-alone"), std::slice::from_ref(reader))?;
        share(&format!("fair-read-{name}-beside-writes"), &[reader.clone(), writer.clone()])?;
    }
    share("fair-write-1m-d8-alone", std::slice::from_ref(&writer))?;
    for (name, _) in &readers {
        let beside = format!("fair-read-{name}-beside-writes");
        let figure = |row: &str, unit: &str| results.figure(Side::Culm, bench, row, unit);
        let ratio = |unit: &str| Some(figure(&beside, unit)? / figure(&format!("fair-read-{name}-alone"), unit)?);
        let (cost, time) = (ratio("instructions/read"), ratio("ns/read"));
        for (unit, value) in [("cost to a read alone", cost), ("time to a read alone", time)] {
            if let Some(value) = value {
                results.amend(Side::Culm, bench, &beside, unit, value);
            }
        }
    }
    Ok(())
}

/// The counts between two marks.
struct Counts {
    /// Requests of each client.
    requests: Vec<f64>,
    /// Instructions in all.
    instructions: f64,
    /// Exceptions.
    entries: f64,
    /// Time.
    nanoseconds: f64,
    /// The kernel's instructions.
    kernel: f64,
    /// Those of each component.
    parts: Vec<(String, f64)>,
}

impl Counts {
    /// Returns the figures for each request of all clients together.
    fn of_all(&self) -> Sample {
        self.sample("request", self.requests.iter().sum())
    }

    /// Returns the figures for each of so many operations.
    fn sample(&self, what: &str, operations: f64) -> Sample {
        let mut sample = Sample::default();
        sample.set(&format!("instructions/{what}"), self.instructions / operations);
        sample.set(&format!("entries/{what}"), self.entries / operations);
        sample.set(&format!("ns/{what}"), self.nanoseconds / operations);
        sample.parts = vec![("kernel".to_owned(), self.kernel / operations)];
        sample.parts.extend(self.parts.iter().map(|(name, own)| (name.clone(), own / operations)));
        sample
    }
}

/// Boots a system and counts while all its clients are at work.
fn measure(lab: &Lab, system: &System, image: Option<PathBuf>, clients: &[DiskClient]) -> Result<Counts> {
    let setup = Setup { image, ..Setup::with_disk("disk0") };
    let (mut machine, report) = lab.start_culm(system, &setup)?;
    let since = Instant::now();
    loop {
        crate::spawn::go_on()?;
        let marks = machine.control().marks()?;
        if let Some((begin, end, requests)) = window(&marks, clients.len()) {
            let count = |of: fn(&Mark) -> u64| (of(end) - of(begin)) as f64;
            return Ok(Counts {
                requests,
                instructions: count(|mark| mark.counters.kernel + mark.counters.user),
                entries: count(|mark| mark.counters.vectors.iter().sum()),
                nanoseconds: count(|mark| mark.time),
                kernel: count(|mark| mark.counters.kernel),
                parts: culm::parts(&report, &end.spaces_since(begin), 1.0),
            });
        }
        if since.elapsed() > PATIENCE {
            bail!("not all clients are served. The guest's console's last lines:\n{}", machine.last_lines());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the marks between which each of so many clients has at least one before and one behind,
/// and how many requests of each were done between the two; none before each has [`BEATS`].
fn window(marks: &[Mark], clients: usize) -> Option<(&Mark, &Mark, Vec<f64>)> {
    let beats: Vec<Vec<&Mark>> = (0..clients as u64)
        .map(|client| marks.iter().filter(|mark| mark.number == BEAT && mark.x0 == client).collect())
        .collect();
    if beats.iter().any(|beats| beats.len() < BEATS) {
        return None;
    }
    let begin = *beats.iter().map(|beats| &beats[1]).max_by_key(|mark| mark.time)?;
    let end = *beats.iter().filter_map(|beats| beats.last()).min_by_key(|mark| mark.time)?;
    if begin.time >= end.time {
        return None;
    }
    let requests = beats.iter().map(|beats| done(beats, end.time) - done(beats, begin.time)).collect();
    Some((begin, end, requests))
}

/// The requests that a client had done at a time within its marks: between two of them, as many as
/// if they came evenly.
fn done(beats: &[&Mark], time: u64) -> f64 {
    let after = beats.partition_point(|mark| mark.time < time).clamp(1, beats.len() - 1);
    let (before, after) = (beats[after - 1], beats[after]);
    let share = (time - before.time) as f64 / (after.time - before.time).max(1) as f64;
    before.x1 as f64 + (after.x1 - before.x1) as f64 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_while_every_client_is_at_work() {
        let beat = |client, done, time| Mark { number: BEAT, x0: client, x1: done, time, ..Mark::default() };
        let mut marks: Vec<Mark> = (1..=20).map(|index| beat(0, 10 * index, 100 * index)).collect();
        assert!(window(&marks, 2).is_none(), "one of the two has done nothing");
        marks.extend((1..=12).map(|index| beat(1, index, 1000 + 75 * index)));
        marks.sort_by_key(|mark| mark.time);
        let (begin, end, requests) = window(&marks, 2).expect("both are at work");
        // From the second mark of the one that began later to the last of the one that ended first.
        assert_eq!((begin.time, end.time), (1150, 1900));
        assert_eq!(requests, [75.0, 10.0]);
    }
}
