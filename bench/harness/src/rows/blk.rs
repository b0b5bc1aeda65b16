//! Requests to a virtio disk: loops in the guest between marks, which the counting plugin records,
//! the same on both sides (`bench/components/block-bench`, `bench/peer/src/disk.rs`).

use super::marks::{between, profile, wait};
use crate::lab::{Lab, Setup};
use crate::linux::{READY, Variant};
use crate::results::{Results, Side};
use crate::systems::System;
use anyhow::{Result, bail};
use std::time::Duration;

const BENCH: &str = "blk";

/// Numbers of the rows: size of a request, and how many are under way.
const ROWS: &[(u64, &str)] = &[
    (1, "read-4k-d1"),
    (2, "write-4k-d1"),
    (3, "read-4k-d32"),
    (4, "write-4k-d32"),
    (5, "read-128k-d1"),
    (6, "write-128k-d1"),
    (7, "write-flush-4k-d1"),
];

/// Systems, and what stands before the names of their rows. In the second one, driver and
/// virtualiser share a domain.
const SYSTEMS: [(&str, &str); 2] = [("bench-blk", ""), ("bench-blk-fused", "fused-")];

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let setup = Setup { disk: Some("disk0"), ..Setup::default() };
    if lab.settings.culm() {
        for (system, prefix) in SYSTEMS {
            let mut subject = lab.boot_culm(&System::file(system), &setup)?;
            let marks = wait(&mut subject.machine, ROWS.len())?;
            for (number, row) in ROWS {
                if let Some((mut sample, params)) = between(&marks, *number, "request") {
                    sample.profile = profile(&subject, &marks, *number, "request");
                    results.record(Side::Culm, BENCH, &format!("{prefix}{row}"), &params, sample);
                }
            }
        }
    }
    if lab.settings.peer() {
        let mut machine = lab.start_linux(Variant::NoKaslr, "culm.disk", &setup)?;
        machine.wait_for(READY, Duration::from_secs(180))?;
        let marks = machine.control().marks()?;
        for (number, row) in ROWS {
            let Some((sample, params)) = between(&marks, *number, "request") else {
                bail!("{row} was not measured. The guest's console's last lines:\n{}", machine.last_lines());
            };
            results.record(Side::Peer(Variant::NoKaslr.name()), BENCH, row, &params, sample);
        }
    }
    Ok(())
}
