//! The book's page of results, `docs/src/results.md`: made from the records, so that it never says
//! anything else than they do.

use crate::record::{self, Record};
use crate::results::{Row, number};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Results

<!-- Written by `./culm bench --record` from bench/results; edit bench/harness/src/page.rs instead. -->

These are instructions that an emulated machine executed. They are not cycles: the machine has no cache, no branch predictor and no
memory latency, and nothing here was measured on hardware. [Measuring](measuring.md) says how they are counted, and what else
they leave out. The count repeats to within 3 % from run to run on a busy host, most rows to within 1 %; throughput and round trips do
not, and are in the records (`bench/results`) only for comparison within one run.

The peer is Debian's Linux in the same machine, under `nokaslr` unless its name says otherwise.
";

/// The plots, each with its caption; those that exist are on the page.
const PLOTS: &[(&str, &str)] = &[
    ("net-components", "UDP echo: Culm's instructions per packet, by component"),
    ("net-instructions-by-window", "UDP echo of 64 bytes: instructions per packet by packets in flight"),
    ("net-throughput", "UDP echo: payload by size of the packet"),
    ("net-processor", "UDP echo of 64 bytes: processor use by load"),
    ("net-round-trips", "UDP echo of 64 bytes at 1,000 packets a second: distribution of round trips"),
    ("net-overload", "UDP echo of 64 bytes: answers under overload"),
    ("web-components", "HTTP: Culm's instructions per request, by component"),
    ("web-sweep", "HTTP, a connection for each request: answers from a tenth to three times saturation"),
    ("crossing-components", "UDP echo: instructions per packet by components in the way"),
    ("steps-components", "The echo path with and without each idea: instructions per packet, by component"),
    ("growth-cost", "Cost against work: instructions per operation to the smallest's"),
    ("blk-instructions", "A virtio disk: instructions per request by its size"),
    ("blk-components", "A virtio disk: Culm's instructions per request, by component"),
    ("blk-throughput", "A virtio disk: MiB per second by the size of a request"),
    ("sd-instructions", "An SD card, by DMA and by the driver (PIO): instructions per request by its size"),
    ("sd-raw-instructions", "An SD card's driver alone, by DMA and by PIO: instructions per request by its size"),
    ("sd-components", "An SD card: Culm's instructions per request, by component"),
    ("sd-throughput", "An SD card, by DMA and by the driver (PIO): MiB per second by the size of a request"),
];

/// Where the book has the plots.
pub const PICTURES: &str = "docs/src/pictures/results";

/// Writes the page from all records.
pub fn write(root: &Path, benches: &[(&str, &str)]) -> Result<()> {
    let mut text = HEAD.to_owned();
    for (bench, what) in benches {
        if let Some(record) = record::read(root, bench)? {
            section(&mut text, bench, what, &record);
        }
        for (name, caption) in PLOTS.iter().filter(|(name, _)| name.starts_with(bench)) {
            if root.join(PICTURES).join(format!("{name}.svg")).exists() {
                let _ = writeln!(text, "\n![{caption}](pictures/results/{name}.svg)");
            }
        }
    }
    let path = root.join("docs/src/results.md");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn section(text: &mut String, bench: &str, what: &str, record: &Record) {
    let _ = writeln!(text, "\n## {bench}: {what}\n");
    let _ = writeln!(text, "Commit {}, `{}`, {}.\n", record.commit, record.command, record.qemu);
    text.push_str(
        "| Row | Figure | Culm | Peer | | Culm to peer | Target |\n| --- | --- | ---: | ---: | --- | ---: | ---: |\n",
    );
    for row in record.rows.iter().filter(|row| worth_telling(row)) {
        let ratio = row.culm.zip(row.peer).map_or(String::new(), |(culm, peer)| format!("{:.3}", culm / peer));
        let verdict = row.ok.map_or("", |ok| if ok { " ✓" } else { " ✗" });
        let target = row.target.map_or(String::new(), |target| number(Some(target)) + verdict);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {ratio} | {target} |",
            row.row,
            row.unit,
            row.culm.map_or(String::new(), |value| number(Some(value))),
            row.peer.map_or(String::new(), |value| number(Some(value))),
            row.peer_name.as_deref().unwrap_or(""),
        );
    }
    for note in &record.notes {
        let _ = writeln!(text, "\nNote: {note}");
    }
}

/// Counts and what has a target; the rest is noise of one host.
fn worth_telling(row: &Row) -> bool {
    const UNITS: &[&str] = &[
        "image bytes",
        "bytes of text",
        "% more for each component",
        "cost to the smallest's",
        "cost to what is usual",
        "device accesses/packet",
        "cost to cached reads",
        "cost to direct reads",
        "cost to peer",
        "throughput to peer",
    ];
    row.target.is_some() || row.unit.starts_with("instructions") || UNITS.contains(&row.unit.as_str())
}
