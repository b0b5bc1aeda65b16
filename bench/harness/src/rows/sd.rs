//! Requests to an SD card behind a controller on a PCI bus.

use super::disks::{Disks, Way};
use crate::lab::Lab;
use crate::linux::Variant;
use crate::results::Results;
use anyhow::Result;
use culm_bench_guest::disk::CARD;

/// In the second system, the driver moves the data itself (PIO). Linux has the controller do it, as
/// the first one. In the last two, the driver reads and writes for itself.
const CARDS: Disks = Disks {
    bench: "sd",
    device: "sd0",
    rows: &CARD,
    systems: &[
        Way { system: "bench-sd", prefix: "", name: "Culm, DMA" },
        Way { system: "bench-sd-pio", prefix: "pio-", name: "Culm, PIO" },
        Way { system: "bench-sd-raw", prefix: "raw-", name: "Culm, the driver alone, DMA" },
        Way { system: "bench-sd-raw-pio", prefix: "raw-pio-", name: "Culm, the driver alone, PIO" },
    ],
    // The emulator moves a card block by block, and takes nearly all of the time for that.
    rounds: 3,
    peer: Variant::General,
    word: "culm.card",
    path: "/dev/mmcblk0",
};

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    CARDS.run(lab, results)
}
