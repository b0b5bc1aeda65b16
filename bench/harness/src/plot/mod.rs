//! Pictures of the results: which plots there are. `chart` draws them.

mod chart;

use crate::results::{Entry, Results, Side};
use anyhow::{Context, Result};
use chart::{Bar, Lines, Scale, Series, Stacked};
use std::path::Path;

/// Titles of what requests to disks cost.
const VIRTIO: &str = "Requests to a virtio disk, one at a time: guest instructions";
const CARD: &str = "Requests to an SD card, one at a time: guest instructions";
const ALONE: &str = "Requests of an SD card's driver, one at a time: guest instructions";

/// Writes every plot that the results have figures for, of benchmarks that are `whole`. Returns how
/// many that were.
pub fn write(folder: &Path, results: &Results, whole: impl Fn(&str) -> bool) -> Result<usize> {
    let plots = [
        ("net-throughput", throughput(results)),
        ("net-instructions-by-window", by_window(results)),
        ("net-components", components(results, "net")),
        ("web-components", components(results, "web")),
        ("net-round-trips", round_trips(results)),
        ("net-overload", overload(results)),
        ("net-processor", processor(results)),
        ("web-sweep", sweep(results)),
        ("crossing-components", crossing(results)),
        ("steps-components", components(results, "steps")),
        ("growth-cost", growth(results)),
        ("blk-instructions", disk_cost(results, "blk", VIRTIO, |_| true)),
        ("blk-throughput", disk_throughput(results, "blk", "A virtio disk, one request at a time: throughput")),
        ("blk-components", disk_components(results, "blk")),
        ("sd-instructions", disk_cost(results, "sd", CARD, |row| !row.starts_with("raw-"))),
        ("sd-raw-instructions", disk_cost(results, "sd", ALONE, |row| row.starts_with("raw-"))),
        ("sd-throughput", disk_throughput(results, "sd", "An SD card, one request at a time: throughput")),
        ("sd-components", disk_components(results, "sd")),
    ];
    std::fs::create_dir_all(folder)?;
    let mut count = 0;
    for (name, svg) in plots {
        let bench = name.split('-').next().unwrap_or_default();
        if let Some(svg) = svg.filter(|_| whole(bench)) {
            let path = folder.join(format!("{name}.svg"));
            std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
            count += 1;
        }
    }
    Ok(count)
}

fn number(entry: &Entry, name: &str) -> Option<f64> {
    entry.params.get(name)?.as_f64()
}

/// One line per side through the entries that `x` gives a place, of the figure called `unit`.
fn series(results: &Results, unit: &str, x: impl Fn(&Entry) -> Option<f64>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for entry in results.entries().iter().filter(|entry| entry.bench == "net") {
        let Some(x) = x(entry) else { continue };
        for (side, sample) in &entry.samples {
            let Some(y) = sample.figures.get(unit) else { continue };
            let name = side.name();
            match all.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push((x, *y)),
                None => all.push(Series { name: name.to_owned(), points: vec![(x, *y)] }),
            }
        }
    }
    all.retain(|series| series.points.len() > 1);
    all.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    all
}

fn throughput(results: &Results) -> Option<String> {
    let at = |entry: &Entry| number(entry, "size").filter(|_| number(entry, "window") == Some(64.0));
    let mut series = series(results, "packets/s", at);
    for line in &mut series {
        line.points.iter_mut().for_each(|(size, rate)| *rate *= *size * 8.0 / 1e6);
    }
    Lines {
        title: "UDP echo: payload by packet size, window 64",
        x: "bytes of payload in a packet",
        y: "Mbit/s each way, this run only",
        series,
        scale: Scale::Linear,
    }
    .draw()
}

fn by_window(results: &Results) -> Option<String> {
    let at = |entry: &Entry| number(entry, "window").filter(|_| number(entry, "size") == Some(64.0));
    Lines {
        title: "UDP echo, 64 bytes: guest instructions per packet",
        x: "packets in flight",
        y: "instructions",
        series: series(results, "instructions/packet", at),
        scale: Scale::Across,
    }
    .draw()
}

fn processor(results: &Results) -> Option<String> {
    let at = |entry: &Entry| number(entry, "rate");
    Lines {
        title: "UDP echo, 64 bytes: processor use by load",
        x: "packets per second sent",
        y: "millions of guest instructions per second",
        series: {
            let mut lines = series(results, "instructions/packet", at);
            for line in &mut lines {
                line.points.iter_mut().for_each(|(rate, cost)| *cost *= *rate / 1e6);
            }
            lines
        },
        scale: Scale::Across,
    }
    .draw()
}

fn components(results: &Results, bench: &str) -> Option<String> {
    let mut bars = Vec::new();
    // A MiB and a packet do not fit on one scale.
    let of_packets = |entry: &&Entry| {
        let other = ["bytes", "of saturation"].iter().any(|name| entry.params.contains_key(*name));
        entry.bench == bench && !other
    };
    for entry in results.entries().iter().filter(of_packets) {
        let culm = entry.samples.iter().find(|(side, _)| *side == Side::Culm);
        if let Some((_, sample)) = culm.filter(|(_, sample)| !sample.parts.is_empty()) {
            bars.push(Bar { name: entry.row.clone(), parts: sample.parts.clone() });
        }
    }
    bars.truncate(20);
    Stacked { title: "Culm: guest instructions per operation, by component", x: "instructions", bars }.draw()
}

/// Answers of web servers by what is asked of them, both as shares of what saturates the server.
fn sweep(results: &Results) -> Option<String> {
    let mut lines: Vec<Series> = Vec::new();
    for entry in results.entries().iter().filter(|entry| entry.bench == "web") {
        let (Some(factor), Some(rate)) = (number(entry, "of saturation"), number(entry, "rate")) else { continue };
        for (side, sample) in &entry.samples {
            let Some(replies) = sample.figures.get("replies/s") else { continue };
            // The rate is the first side's; each side has its own, at the same share of its
            // saturation.
            let asked = sample.figures.get("asked/s").copied().unwrap_or(rate);
            let point = (factor, replies / asked * factor * 100.0);
            match lines.iter_mut().find(|line| line.name == side.name()) {
                Some(line) => line.points.push(point),
                None => lines.push(Series { name: side.name().to_owned(), points: vec![point] }),
            }
        }
    }
    lines.retain(|line| line.points.len() > 1);
    Lines {
        title: "HTTP, a connection for each request: answers by load",
        x: "connections per second, as a multiple of what saturates the server",
        y: "answers per second, % of that",
        series: lines,
        scale: Scale::Linear,
    }
    .draw()
}

fn crossing(results: &Results) -> Option<String> {
    let mut lines: Vec<Series> = Vec::new();
    for entry in results.entries().iter().filter(|entry| entry.bench == "crossing") {
        let (Some(count), Some(window)) = (number(entry, "components"), number(entry, "window")) else { continue };
        let culm = entry.samples.iter().find(|(side, _)| *side == Side::Culm);
        let Some(cost) = culm.and_then(|(_, sample)| sample.figures.get("instructions/packet")) else { continue };
        let name = format!("window {window}");
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((count, *cost)),
            None => lines.push(Series { name, points: vec![(count, *cost)] }),
        }
    }
    Lines {
        title: "UDP echo, 64 bytes: further components in the way",
        x: "components between copier and echo server",
        y: "instructions per packet",
        series: lines,
        scale: Scale::Linear,
    }
    .draw()
}

/// One line for each series and side: the cost by how many there are, as a multiple of the
/// smallest's.
fn growth(results: &Results) -> Option<String> {
    let mut lines: Vec<Series> = Vec::new();
    for entry in results.entries().iter().filter(|entry| entry.bench == "growth") {
        let Some((name, size)) = entry.row.rsplit_once('-') else { continue };
        let Ok(size) = size.parse::<f64>() else { continue };
        for (side, sample) in &entry.samples {
            let Some(cost) = sample.figures.get("cost to the smallest's") else { continue };
            let name = if *side == Side::Culm { name.to_owned() } else { format!("{name}, {}", side.name()) };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((size, *cost)),
                None => lines.push(Series { name, points: vec![(size, *cost)] }),
            }
        }
    }
    Lines {
        title: "Cost against work",
        x: "how many there are",
        y: "instructions per operation, to the smallest's",
        series: lines,
        scale: Scale::Across,
    }
    .draw()
}

/// One line for each way and operation of a disk: a figure by the size of requests, one at a time,
/// of rows that are wanted.
fn by_size(results: &Results, bench: &str, unit: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<Series> {
    let mut lines: Vec<Series> = Vec::new();
    for entry in results.entries().iter().filter(|entry| entry.bench == bench && is_wanted(&entry.row)) {
        let text = |name: &str| entry.params.get(name).and_then(|value| value.as_str());
        let (Some(size), Some(1.0)) = (number(entry, "size"), number(entry, "depth")) else { continue };
        let Some(operation) = text("operation").filter(|operation| ["read", "write"].contains(operation)) else {
            continue;
        };
        for (side, sample) in &entry.samples {
            let Some(value) = sample.figures.get(unit) else { continue };
            let way = if *side == Side::Culm { text("way").unwrap_or("Culm") } else { side.name() };
            let name = format!("{way}, {operation}");
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((size, *value)),
                None => lines.push(Series { name, points: vec![(size, *value)] }),
            }
        }
    }
    lines.retain(|line| line.points.len() > 1);
    lines
}

fn disk_cost(results: &Results, bench: &str, title: &str, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let series = by_size(results, bench, "instructions/request", is_wanted);
    Lines { title, x: "bytes of a request", y: "instructions per request", series, scale: Scale::Both }.draw()
}

fn disk_throughput(results: &Results, bench: &str, title: &str) -> Option<String> {
    let series = by_size(results, bench, "MiB/s", |_| true);
    Lines { title, x: "bytes of a request", y: "MiB/s, this run only", series, scale: Scale::Both }.draw()
}

/// The smallest and a large request, by component.
fn disk_components(results: &Results, bench: &str) -> Option<String> {
    let is_shown = |entry: &Entry| ["512-d1", "4k-d1", "128k-d1", "4k-d32"].iter().any(|row| entry.row.ends_with(row));
    let mut bars = Vec::new();
    for entry in results.entries().iter().filter(|entry| entry.bench == bench && is_shown(entry)) {
        if let Some(sample) = results.sample(Side::Culm, bench, &entry.row) {
            bars.push(Bar { name: entry.row.clone(), parts: sample.parts.clone() });
        }
    }
    // Data that the driver moves itself would leave nothing to see of the others.
    bars.retain(|bar| !bar.name.contains("pio-") || !bar.name.contains("128k"));
    Stacked { title: "Culm: guest instructions per request, by component", x: "instructions", bars }.draw()
}

fn round_trips(results: &Results) -> Option<String> {
    let entry = results.entries().iter().find(|entry| entry.row == "udp-64-r1000")?;
    let line = |(side, sample): &(Side, crate::results::Sample)| {
        let points = sample.distribution.iter().map(|(time, share)| (*time as f64 / 1e3, *share * 100.0));
        Series { name: side.name().to_owned(), points: points.collect() }
    };
    Lines {
        title: "UDP echo, 64 bytes, 1,000 packets/s: round trips",
        x: "microseconds",
        y: "% of packets back within that time",
        series: entry.samples.iter().map(line).filter(|line| line.points.len() > 1).collect(),
        scale: Scale::Across,
    }
    .draw()
}

fn overload(results: &Results) -> Option<String> {
    let entry = results.entries().iter().find(|entry| entry.row == "udp-64-overload")?;
    let line = |(side, sample): &(Side, crate::results::Sample)| {
        let most = sample.figures.iter().filter(|(unit, _)| unit.starts_with("answers/s at")).map(|(_, rate)| *rate);
        let most = most.fold(1.0, f64::max);
        let point = |(unit, rate): (&String, &f64)| {
            let factor = unit.strip_prefix("answers/s at ")?.strip_suffix('x')?.parse().ok()?;
            Some((factor, rate / most * 100.0))
        };
        let mut points: Vec<(f64, f64)> = sample.figures.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: side.name().to_owned(), points }
    };
    Lines {
        title: "UDP echo under overload",
        x: "packets sent, as a multiple of what saturates the side",
        y: "answers per second, % of the side's most",
        series: entry.samples.iter().map(line).filter(|line| line.points.len() > 1).collect(),
        scale: Scale::Linear,
    }
    .draw()
}
