//! Files of a FAT volume: a file of 1 MiB, read by the file service and by a component that has the
//! library, and HTTP from a volume on a virtio disk and on an SD card.

use super::marks::{between, profile, wait};
use super::web::{self, Case};
use crate::lab::{Lab, Setup};
use crate::linux::Variant;
use crate::results::{Params, Results, Side};
use crate::systems::System;
use anyhow::Result;
use culm_bench_guest::file::{CACHED, DIRECT, SIZE};
use serde_json::json;

const BENCH: &str = "file";

/// Systems that read the file, and their rows.
const READERS: &[(&str, &str)] = &[("bench-file", "service-read-1m"), ("bench-file-library", "library-read-1m")];

/// Rows of the peer, what each is called, and the unit of Culm's cost as its share.
const PEERS: &[(u64, &str, &str)] =
    &[(DIRECT, "linux-vfat-direct", "cost to direct reads"), (CACHED, "linux-vfat-cached", "cost to cached reads")];

/// HTTP from a volume.
struct Site {
    row: &'static str,
    system: &'static str,
    /// The device of the board.
    device: &'static str,
    peer: Variant,
    /// The word of the peer kernel's command line by which it mounts the volume for nginx.
    word: &'static str,
}

const SITES: &[Site] = &[
    Site {
        row: "http-10240-disk",
        system: "bench-web-disk",
        device: "disk0",
        peer: Variant::NoKaslr,
        word: "culm.site=/dev/vda1",
    },
    Site {
        row: "http-10240-card",
        system: "bench-web-card",
        device: "sd0",
        peer: Variant::General,
        word: "culm.site=/dev/mmcblk0p1",
    },
];

/// The unit of a read's cost.
const COST: &str = "instructions/MiB";

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    if READERS.iter().any(|(_, row)| lab.wants(BENCH, row)) {
        lab.attempt(BENCH, "reads", || reads(lab, results));
    }
    for site in SITES.iter().filter(|site| lab.wants(BENCH, site.row)) {
        lab.attempt(BENCH, site.row, || http(lab, results, site));
    }
    Ok(())
}

fn reads(lab: &Lab, results: &mut Results) -> Result<()> {
    let setup = Setup { image: Some(lab.volume()?), ..Setup::with_disk("disk0") };
    let readers = || READERS.iter().filter(|(_, row)| lab.wants(BENCH, row));
    let params: Params = [("bytes".to_owned(), json!(SIZE))].into();
    for (system, row) in readers().filter(|_| lab.settings.culm()) {
        let mut subject = lab.boot_culm(&System::file(system), &setup)?;
        let marks = wait(&mut subject.machine, 1)?;
        if let Some((mut sample, _)) = between(&marks, DIRECT, "MiB", subject.image.as_ref()) {
            sample.profile = profile(&subject, &marks, DIRECT, "MiB");
            results.record(Side::Culm, BENCH, row, &params, sample);
        }
    }
    if lab.settings.peer() {
        let mut machine = lab.start_linux(Variant::NoKaslr, "culm.site=/dev/vda1 culm.file", &setup)?;
        let marks = wait(&mut machine, PEERS.len())?;
        for (number, peer, _) in PEERS {
            let Some((sample, _)) = between(&marks, *number, "MiB", None) else { continue };
            readers().for_each(|(_, row)| results.record(Side::Peer(peer), BENCH, row, &params, sample.clone()));
        }
    }
    for (_, row) in READERS {
        for (_, peer, unit) in PEERS {
            results.compare(Side::Peer(peer), BENCH, row, COST, |culm, peer| (unit, culm / peer));
        }
    }
    Ok(())
}

fn http(lab: &Lab, results: &mut Results, site: &Site) -> Result<()> {
    let setup = Setup { image: Some(lab.volume()?), ..Setup::with_disk(site.device) };
    let case = Case { row: site.row, path: "/10K.html", connections: 16, requests_per_connection: 0 };
    let params: Params =
        [("path".to_owned(), json!(case.path)), ("connections".to_owned(), json!(case.connections))].into();
    if lab.settings.culm() {
        let mut subject = lab.boot_culm(&System::web_file(site.system), &setup)?;
        let sample = web::measure(lab, &mut subject, &case)?;
        results.record(Side::Culm, BENCH, site.row, &params, sample);
    }
    let nginx = Side::Peer("nginx-vfat");
    if lab.settings.peer() {
        let mut subject = lab.boot_linux_with(site.peer, site.word, &setup)?;
        let sample = web::measure(lab, &mut subject, &case)?;
        results.record(nginx, BENCH, site.row, &params, sample);
    }
    results.compare(nginx, BENCH, site.row, "instructions/request", |culm, peer| ("cost to peer", culm / peer));
    Ok(())
}
