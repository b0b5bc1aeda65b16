//! Requests to an SD card: loops in the guest between marks, which the counting plugin records
//! (`bench/components/block-bench`), with data by DMA and by the driver (PIO).

use super::marks::{between, profile, wait};
use crate::lab::{Lab, Setup};
use crate::results::{Results, Side};
use crate::systems::System;
use anyhow::Result;

const BENCH: &str = "sd";

/// Numbers of the rows in the guest, and what each measures.
const ROWS: &[(u64, &str)] = &[(1, "read-512"), (2, "write-512"), (3, "read-128k"), (4, "write-128k")];

/// Runs the benchmark. Debian's cloud kernel, the peer of other rows, has no driver of SD cards.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    if !lab.settings.culm() {
        return Ok(());
    }
    let setup = Setup { disk: Some("sd0"), ..Setup::default() };
    for (system, suffix) in [("bench-sd", ""), ("bench-sd-pio", "-pio")] {
        let rows = ROWS.iter().map(|(number, row)| (*number, format!("{row}{suffix}")));
        let rows: Vec<(u64, String)> = rows.filter(|(_, row)| lab.wants(BENCH, row)).collect();
        if rows.is_empty() {
            continue;
        }
        let mut subject = lab.boot_culm(&System::file(system), &setup)?;
        let marks = wait(&mut subject.machine, ROWS.len())?;
        for (number, row) in rows {
            if let Some((mut sample, params)) = between(&marks, number, "request") {
                sample.profile = profile(&subject, &marks, number, "request");
                results.record(Side::Culm, BENCH, &row, &params, sample);
            }
        }
    }
    Ok(())
}
