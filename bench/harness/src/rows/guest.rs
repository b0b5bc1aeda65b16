//! A Linux in a virtual machine beside the same Linux with the machine to itself: the same kernel,
//! the same initial RAM disk, as much memory, the same card and disk.
//!
//! Several of them at a time are in [`guests`], a native neighbour of one in [`beside`].
//!
//! One boot of each side does for all rows: on the way to its servers Linux does what its command
//! line asks for, between marks. Why the guest leaves its core is told by its monitor's counters,
//! on the status page of a web server beside it; how often, by the plugin, from exceptions that are
//! taken to the vectors that the kernel has while a guest runs.

use super::beside;
use super::echo::{self, Pressure};
use super::guests;
use super::http::counters;
use super::marks::{END, between, profile, wait};
use super::tcp;
use super::web;
use crate::counters::Mark;
use crate::culm;
use crate::lab::{Lab, Setup, Subject};
use crate::linux::{self, Variant, port};
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use crate::systems::{BESIDE, GUEST_MEMORY};
use anyhow::Result;
use culm_bench_guest::disk::{BLOCK, GUEST, Operation};
use culm_bench_guest::ipc::IPC;
use culm_bench_guest::work::{BOOT, WORK};
use culm_bench_load::Mode;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) const BENCH: &str = "guest";

const PEER: Side = Side::Peer("linux-nokaslr");

/// The row of a boot, up to the first program that is not one of the boot's own.
const BOOTED: &str = "boot";

/// The domain that runs the guest.
const MONITOR: &str = "monitor";

/// How the names of its counters of exits begin, one for each cause.
const CAUSE: &str = "exits_";

/// How the names of its counters begin that say what the guest did without an exit to the monitor:
/// frames that were received, sent, lost or refused, doorbells, and waits of which it was told.
const WITHOUT: [&str; 3] = ["frames_", "doorbells", "waits"];

/// For Linux to say that its servers run, after the last mark.
const PATIENCE: Duration = Duration::from_secs(60);

/// UDP echo: the row, bytes of a packet, packets under way.
const ECHOES: &[(&str, usize, usize)] =
    &[("udp-64-w1", 64, 1), ("udp-64-w64", 64, 64), ("udp-64-w256", 64, 256), ("udp-1472-w64", 1472, 64)];

const TRANSFERS: &[tcp::Case] =
    &[tcp::Case { row: "tcp-in-1", into: 1, out: 0 }, tcp::Case { row: "tcp-out-1", into: 0, out: 1 }];

const PAGES: &[web::Case] = &[
    web::Case { row: "nginx-354", path: "/index.html", connections: 16, requests_per_connection: 0 },
    web::Case { row: "nginx-404", path: "/none", connections: 16, requests_per_connection: 0 },
    web::Case { row: "nginx-10240", path: "/10K.html", connections: 16, requests_per_connection: 0 },
    web::Case { row: "nginx-354-close", path: "/index.html", connections: 16, requests_per_connection: 1 },
];

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let is_wanted = rows().any(|row| wants(lab, &row));
    if lab.settings.culm() && is_wanted {
        lab.attempt(BENCH, "culm", || side(lab, results, Side::Culm));
    }
    if lab.settings.peer() && is_wanted {
        lab.attempt(BENCH, "peer", || side(lab, results, PEER));
    }
    compare(results);
    if lab.settings.culm() {
        guests::run(lab, results);
        beside::run(lab, results);
    }
    Ok(())
}

/// The rows of one guest, and of the same Linux without Culm.
fn rows() -> impl Iterator<Item = String> {
    let work = WORK.iter().map(|work| work.row).chain(IPC.iter().map(|(_, row)| *row));
    let network = ECHOES.iter().map(|(row, ..)| *row).chain(TRANSFERS.iter().map(|case| case.row));
    let names = [BOOTED].into_iter().chain(work).chain(network).chain(PAGES.iter().map(|case| case.row));
    names.map(str::to_owned).chain(GUEST.iter().map(disk_row))
}

fn wants(lab: &Lab, row: &str) -> bool {
    lab.wants(BENCH, row)
}

/// The row of a request to the disk.
fn disk_row(row: &culm_bench_guest::disk::Row) -> String {
    format!("disk-{row}")
}

/// Boots Linux, and measures all rows that are wanted.
fn side(lab: &Lab, results: &mut Results, side: Side) -> Result<()> {
    let beside = side == Side::Culm;
    let setup = Setup { random: true, beside, ..Setup::with_disk("disk0") };
    let wants_work = WORK.iter().any(|work| wants(lab, work.row));
    let wants_disk = GUEST.iter().any(|row| wants(lab, &disk_row(row)));
    let parts = [
        ("culm.booted", 1, true),
        ("culm.work", WORK.len(), wants_work),
        ("culm.ipc", IPC.len(), IPC.iter().any(|(_, row)| wants(lab, row))),
        ("culm.disk-of-guest", GUEST.len(), wants_disk),
    ];
    let words: Vec<&str> = parts.iter().filter(|(.., wanted)| *wanted).map(|(word, ..)| *word).collect();
    let rows = parts.iter().filter(|(.., wanted)| *wanted).map(|(_, rows, _)| rows).sum();
    let (mut machine, image) = match side {
        Side::Culm => {
            let (machine, image) = lab.start_guest(&words.join(" "), &setup)?;
            (machine, Some(image))
        }
        Side::Peer(_) => {
            let words = format!("mem={GUEST_MEMORY}M {}", words.join(" "));
            (lab.start_linux(Variant::NoKaslr, &words, &setup)?, None)
        }
    };
    let marks = wait(&mut machine, rows)?;
    machine.wait_for(linux::READY, PATIENCE)?;
    let mut subject = lab.wait_until_quiet(machine, image)?;
    boot(lab, results, side, &marks);
    work(lab, results, side, &subject, &marks);
    disk(lab, results, side, &subject, &marks);
    network(lab, results, side, &mut subject)
}

/// From QEMU's start to the first program.
fn boot(lab: &Lab, results: &mut Results, side: Side, marks: &[Mark]) {
    let Some(mark) = marks.iter().find(|mark| mark.number == END && mark.x0 == BOOT) else { return };
    if wants(lab, BOOTED) {
        let mut sample = Sample::default();
        sample.set("instructions", (mark.counters.kernel + mark.counters.user) as f64);
        results.record(side, BENCH, BOOTED, &Params::new(), sample);
    }
}

/// Rows between marks: what they cost, with the exits of a guest.
pub(super) fn marked(subject: &Subject, marks: &[Mark], number: u64, what: &str) -> Option<(Sample, Params)> {
    let (mut sample, params) = between(marks, number, what, subject.image.as_ref())?;
    sample.profile = profile(subject, marks, number, what);
    if let (Some(table), Some(image)) = (subject.exits, &subject.image) {
        let of = |kind| marks.iter().find(|mark| mark.number == kind && mark.x0 == number);
        let (begin, end) = (of(super::marks::BEGIN)?, of(END)?);
        let rounds = begin.x1.max(1) as f64;
        let exits = end.counters.taken(table) - begin.counters.taken(table);
        sample.set(&format!("exits/{what}"), exits as f64 / rounds);
        let kernel = (end.counters.own - begin.counters.own) as f64;
        sample.set(
            &format!("Culm's instructions/{what}"),
            culm::without_guest(image, kernel, &end.spaces_since(begin)) / rounds,
        );
    }
    Some((sample, params))
}

fn work(lab: &Lab, results: &mut Results, side: Side, subject: &Subject, marks: &[Mark]) {
    for work in WORK.iter().filter(|work| wants(lab, work.row)) {
        if let Some((sample, params)) = marked(subject, marks, work.number, "run") {
            results.record(side, BENCH, work.row, &params, sample);
        }
    }
    for (number, row) in IPC.iter().filter(|(_, row)| wants(lab, row)) {
        if let Some((sample, params)) = marked(subject, marks, *number, "round") {
            results.record(side, BENCH, row, &params, sample);
        }
    }
}

fn disk(lab: &Lab, results: &mut Results, side: Side, subject: &Subject, marks: &[Mark]) {
    for (number, row) in (0..).zip(&GUEST) {
        let name = disk_row(row);
        let Some((mut sample, mut params)) = marked(subject, marks, number, "request").filter(|_| wants(lab, &name))
        else {
            continue;
        };
        let bytes = f64::from(row.blocks * BLOCK);
        if row.operation != Operation::WriteFlush
            && let Some(time) = sample.figures.get("ns/request").copied()
        {
            sample.set("MiB/s", bytes / f64::from(1 << 20) / (time / 1e9));
        }
        params.extend([("size".to_owned(), json!(bytes)), ("depth".to_owned(), json!(row.depth))]);
        results.record(side, BENCH, &name, &params, sample);
    }
}

fn network(lab: &Lab, results: &mut Results, side: Side, subject: &mut Subject) -> Result<()> {
    for (row, size, window) in ECHOES.iter().filter(|(row, ..)| wants(lab, row)) {
        lab.attempt(BENCH, row, || {
            let targets = vec![subject.machine.network.address(Port::Udp(port::ECHO))?];
            let pressure = Pressure { targets, size: *size, mode: Mode::Window(*window) };
            let sample = by_cause(subject, "packet", |subject| echo::measure(lab, subject, &pressure))?;
            let params = [("size".to_owned(), json!(size)), ("window".to_owned(), json!(window))].into();
            results.record(side, BENCH, row, &params, sample);
            Ok(())
        });
    }
    for case in TRANSFERS.iter().filter(|case| wants(lab, case.row)) {
        lab.attempt(BENCH, case.row, || {
            let sample = by_cause(subject, "MiB", |subject| tcp::measure(lab, subject, case))?;
            results.record(side, BENCH, case.row, &tcp::params(case), sample);
            Ok(())
        });
    }
    for case in PAGES.iter().filter(|case| wants(lab, case.row)) {
        lab.attempt(BENCH, case.row, || {
            let sample = by_cause(subject, "request", |subject| web::measure(lab, subject, case))?;
            let params =
                [("path".to_owned(), json!(case.path)), ("connections".to_owned(), json!(case.connections))].into();
            results.record(side, BENCH, case.row, &params, sample);
            Ok(())
        });
    }
    Ok(())
}

/// Measures, and shares the exits for each operation out among their causes.
fn by_cause(subject: &mut Subject, what: &str, measure: impl FnOnce(&mut Subject) -> Result<Sample>) -> Result<Sample> {
    let before = causes(subject)?;
    let mut sample = measure(subject)?;
    let after = causes(subject)?;
    if let (Some(before), Some(after)) = (before, after) {
        share_out(&mut sample, what, &before, &after);
    }
    Ok(sample)
}

/// Shares the exits for each operation out among their causes. Those of which the monitor learns
/// nothing are the kernel's: interrupts, waits for one, and doorbells. The monitor counts several
/// doorbells as one if it finds them together.
fn share_out(sample: &mut Sample, what: &str, before: &Exits, after: &Exits) {
    let exits = sample.figures.get(&format!("exits/{what}")).copied().unwrap_or(0.0);
    let all = (after.taken - before.taken).max(1.0);
    let mut known = 0.0;
    for (counter, count) in &after.counters {
        // What was counted for each exit, since it was counted for longer than was measured.
        let share = (count - before.counters.get(counter).unwrap_or(&0.0)) / all;
        if WITHOUT.iter().any(|name| counter.starts_with(name)) {
            sample.set(&format!("{}/{what}", counter.replace('_', " ")), exits * share);
        }
        let Some(name) = counter.strip_prefix(CAUSE) else { continue };
        known += share;
        sample.set(&format!("exits for {}/{what}", name.replace('_', " ")), exits * share);
    }
    sample.set(&format!("exits for the kernel/{what}"), exits * (1.0 - known).max(0.0));
}

/// What is known of a guest's exits at a moment.
struct Exits {
    /// The counters of its monitor.
    counters: BTreeMap<String, f64>,
    /// All exits.
    taken: f64,
}

/// Asks for exits, where there is a guest and its neighbour is reached.
fn causes(subject: &mut Subject) -> Result<Option<Exits>> {
    let Some(table) = subject.exits.filter(|_| subject.machine.network.is_tap()) else { return Ok(None) };
    let page = SocketAddr::from((BESIDE, port::HTTP));
    let counters = subject.machine.network.within(|| counters(page, MONITOR))?;
    let snapshot = subject.machine.snapshot()?;
    let taken = snapshot.processors.iter().map(|processor| processor.counters.taken(table)).sum::<u64>() as f64;
    Ok(Some(Exits { counters, taken }))
}

/// Adds what one side alone does not tell.
fn compare(results: &mut Results) {
    let rows: Vec<String> =
        results.entries().iter().filter(|entry| entry.bench == BENCH).map(|entry| entry.row.clone()).collect();
    for row in &rows {
        for unit in ["", "/run", "/round", "/request", "/packet", "/MiB"] {
            let cost = format!("instructions{unit}");
            results.compare(PEER, BENCH, row, &cost, |culm, peer| ("cost to peer", culm / peer));
            let time = format!("ns{unit}");
            results.compare(PEER, BENCH, row, &time, |culm, peer| ("throughput to peer", peer / culm));
        }
        for unit in ["packets/s", "MiBs/s", "requests/s"] {
            results.compare(PEER, BENCH, row, unit, |culm, peer| ("throughput to peer", culm / peer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_shared_out_among_what_the_monitor_has_counted() {
        let exits = |taken, counts: [f64; 5]| {
            let names = ["exits_net", "doorbells", "waits", "frames_sent", "received"].map(str::to_owned);
            Exits { counters: names.into_iter().zip(counts).collect(), taken }
        };
        let mut sample = Sample::default();
        // Counted for twice as long as was measured.
        sample.set("exits/packet", 2.0);
        let (before, after) = (exits(1000.0, [7.0; 5]), exits(1400.0, [107.0, 47.0, 27.0, 207.0, 99.0]));
        share_out(&mut sample, "packet", &before, &after);
        let expected = [
            ("doorbells/packet", 0.2),
            ("exits for net/packet", 0.5),
            ("exits for the kernel/packet", 1.5),
            ("exits/packet", 2.0),
            ("frames sent/packet", 1.0),
            ("waits/packet", 0.1),
        ];
        assert_eq!(sample.figures, expected.map(|(unit, figure)| (unit.to_owned(), figure)).into());
    }
}
