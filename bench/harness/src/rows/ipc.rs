//! Calls, notifications, faults and deadlines: loops in the guest between marks, which the counting
//! plugin records.
//!
//! A row's program sets `hint #96` (the row's number in x0, its rounds in x1) before its loop and
//! `hint #97` after it.

use super::marks::{between, profile, wait};
use crate::lab::{Lab, Setup, Subject};
use crate::linux::{READY, Variant};
use crate::results::{Results, Side};
use crate::systems::System;
use anyhow::{Result, bail};
use culm_bench_guest::ipc::{EVENTFD, FUTEX, GETPID, PIPE};
use std::time::Duration;

const BENCH: &str = "ipc";

/// Numbers of the peer's rows, and the rows of Culm that each is compared with.
const PEER: &[(u64, &str, &[&str])] = &[
    (GETPID, "linux-getpid", &["notify-no-switch"]),
    (EVENTFD, "linux-eventfd", &["call", "call-8-words"]),
    (FUTEX, "linux-futex", &["notify-ping-pong"]),
    (PIPE, "linux-pipe", &["notify-ping-pong"]),
];

/// Numbers of Culm's rows (`bench/components/ipc-bench`).
const CULM: &[(u64, &str)] =
    &[(1, "notify-no-switch"), (2, "call"), (3, "call-8-words"), (4, "notify-ping-pong"), (5, "deadline")];

/// The same between two cores (`bench/systems/bench-ipc-cores.toml`); its deadlines are those of
/// one core.
const CULM_CORES: &[(u64, &str)] = &[(101, "notify-no-wait-cores"), (104, "notify-ping-pong-cores"), (105, "")];

/// From a fault until the component runs again (`bench/components/fault-bench`).
const CULM_FAULT: &[(u64, &str)] = &[(200, "fault-restart")];

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let cores = Setup { cores: Some(2), ..Setup::default() };
    if lab.settings.culm() {
        culm_side(lab.boot_culm(&System::file("bench-ipc"), &Setup::default())?, results, CULM)?;
        lab.attempt(BENCH, "cores", || {
            culm_side(lab.boot_culm(&System::file("bench-ipc-cores"), &cores)?, results, CULM_CORES)
        });
        lab.attempt(BENCH, "fault-restart", || {
            culm_side(lab.boot_culm(&System::file("bench-fault"), &Setup::default())?, results, CULM_FAULT)
        });
    }
    if lab.settings.peer() {
        let mut machine = lab.start_linux(Variant::NoKaslr, "culm.ipc", &Setup::default())?;
        machine.wait_for(READY, Duration::from_secs(120))?;
        let marks = machine.control().marks()?;
        for (number, peer, rows) in PEER {
            let Some((sample, params)) = between(&marks, *number, "round", None) else {
                bail!("{peer} was not measured. The guest's console's last lines:\n{}", machine.last_lines());
            };
            for row in *rows {
                results.record(Side::Peer(peer), BENCH, row, &params, sample.clone());
            }
        }
    }
    Ok(())
}

fn culm_side(mut subject: Subject, results: &mut Results, rows: &[(u64, &str)]) -> Result<()> {
    let marks = wait(&mut subject.machine, rows.len())?;
    for (number, row) in rows.iter().filter(|(_, row)| !row.is_empty()) {
        if let Some((mut sample, params)) = between(&marks, *number, "round", subject.image.as_ref()) {
            sample.profile = profile(&subject, &marks, *number, "round");
            results.record(Side::Culm, BENCH, row, &params, sample);
        }
    }
    Ok(())
}
