//! Requests to a virtio disk, and whether its clients get fair shares.

use super::disks::{Disks, Way};
use super::sharing;
use crate::lab::Lab;
use crate::linux::Variant;
use crate::results::Results;
use anyhow::Result;
use culm_bench_guest::disk::DISK;

/// In the second system, driver and virtualiser share a domain; in the third, the driver reads and
/// writes for itself.
const DISKS: Disks = Disks {
    bench: "blk",
    device: "disk0",
    rows: &DISK,
    systems: &[
        Way { system: "bench-blk", prefix: "", name: "Culm" },
        Way { system: "bench-blk-fused", prefix: "fused-", name: "Culm, fused" },
        Way { system: "bench-blk-raw", prefix: "raw-", name: "Culm, the driver alone" },
    ],
    rounds: 1,
    peer: Variant::NoKaslr,
    word: "culm.disk",
    path: "/dev/vda",
};

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    DISKS.run(lab, results)?;
    lab.attempt(DISKS.bench, "fair", || sharing::fairness(lab, results, DISKS.bench));
    Ok(())
}
