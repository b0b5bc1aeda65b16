//! dd and fio, by which a disk of the peer's is read and written beside our own program: what other
//! people measure disks with, so that a reader sees whether ours makes Linux look dear.
//!
//! fio is linked with a few dozen libraries of network storage, more than all else in the initial
//! RAM disk: both stand in an archive of their own behind it, which Linux unpacks over the first.

use super::read;
use anyhow::{Context, Result};
use culm_bench_guest::disk::{BLOCK, Operation, Row, SPAN};
use culm_tool::debian::{self, RELEASE};
use culm_tool::guest::cpio::Archive;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// A program that reads and writes disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// GNU dd, with direct input or output.
    Dd,
    /// fio by io_uring, direct, with as many requests in a system call as it can send or collect.
    Fio,
}

impl Tool {
    /// Its name in results.
    pub fn peer(self) -> &'static str {
        match self {
            Tool::Dd => "linux-dd",
            Tool::Fio => "linux-fio",
        }
    }
}

/// What is measured of each disk: the tool, and the name of the row whose requests it makes.
const ROWS: [(Tool, &str); 10] = [
    (Tool::Dd, "read-4k-d1"),
    (Tool::Dd, "write-4k-d1"),
    (Tool::Dd, "read-128k-d1"),
    (Tool::Dd, "write-128k-d1"),
    (Tool::Fio, "read-4k-d1"),
    (Tool::Fio, "write-4k-d1"),
    (Tool::Fio, "read-4k-d32"),
    (Tool::Fio, "write-4k-d32"),
    (Tool::Fio, "read-128k-d1"),
    (Tool::Fio, "write-128k-d1"),
];

/// A row of a disk as a tool does it: twice, and what the longer run costs beyond the shorter one
/// is the cost of its further requests, without what begins and ends a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Who does it.
    pub tool: Tool,
    /// The row.
    pub row: &'static Row,
    /// The number of the shorter run's marks; the longer one's is the next.
    pub number: u64,
    /// Requests of the shorter run.
    pub short: u32,
    /// Requests of the longer run.
    pub long: u32,
}

impl Run {
    /// Returns both lengths: the number of the marks, and the requests.
    pub fn lengths(&self) -> [(u64, u32); 2] {
        [(self.number, self.short), (self.number + 1, self.long)]
    }
}

/// The fewest requests of a row that the tools make. fio's threads and clocks take instructions by
/// the time that passes, which a few requests do not make up for.
const LEAST: u32 = 200;

/// Returns the runs that there are of `rows`, a disk's.
pub fn runs(rows: &'static [Row]) -> Vec<Run> {
    let row = |name: &str| rows.iter().find(|row| row.requests >= LEAST && row.to_string() == name);
    let found = ROWS.iter().filter_map(|(tool, name)| Some((*tool, row(name)?)));
    let run = |(number, (tool, row)): (u64, (Tool, &'static Row))| {
        // dd does not begin again at the end of the disk.
        let most = (SPAN / u64::from(row.blocks)) as u32;
        let long = (row.requests + row.requests / 4).min(most);
        Run { tool, row, number: 2 * number, short: long / 5, long }
    };
    (0..).zip(found).map(run).collect()
}

/// A disk of Linux's that the tools read and write.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its files, which the word `culm.tools=NAME` of the kernel's command line has.
    pub name: &'static str,
    /// Its device.
    pub device: &'static str,
    /// Its rows.
    pub rows: &'static [Row],
}

/// Fetches the tools and writes the archive of `initrd`, and of them with what they do on the disk.
pub fn prepare(cache: &Path, initrd: &Path, target: &Target) -> Result<PathBuf> {
    let packages = cache.join(format!("{RELEASE}-arm64-packages"));
    let mut archive = Archive::default();
    archive.directory("etc/tools");
    for (package, file, name) in [("coreutils", "bin/dd", "dd"), ("fio", "usr/bin/fio", "fio")] {
        let (program, libraries) = debian::linked(cache, &packages, package, file).context(super::ONCE)?;
        archive.file(&format!("bin/{name}"), 0o755, &read(&program)?);
        for (library, path) in libraries {
            archive.file(&format!("lib/{library}"), 0o755, &read(&path)?);
        }
    }
    let (script, jobs) = (script(target), jobs(target));
    archive.file(&format!("etc/tools/{}", target.name), 0o644, script.as_bytes());
    archive.file(&format!("etc/tools/{}.fio", target.name), 0o644, jobs.as_bytes());
    let path = cache.join(format!("{}-tools.cpio", target.name));
    let content = [read(initrd)?, archive.finish()].concat();
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The shell script: dd row by row, then fio once for all of its rows, whose start takes it
/// seconds.
fn script(target: &Target) -> String {
    let Target { name, device, rows } = target;
    let mut script = format!("while [ ! -e {device} ]; do /bin/busybox sleep 0.1; done\n");
    for run in runs(rows).iter().filter(|run| run.tool == Tool::Dd) {
        let files = match run.row.operation {
            Operation::Read => format!("if={device} of=/dev/null iflag=direct"),
            Operation::Write | Operation::WriteFlush => format!("if=/dev/zero of={device} oflag=direct conv=notrunc"),
        };
        for (number, count) in run.lengths() {
            let bytes = run.row.blocks * BLOCK;
            let _ = writeln!(script, "/bin/peer work {number} 1 /bin/dd {files} bs={bytes} count={count} status=none");
        }
    }
    script + &format!("/bin/fio --output=/dev/null /etc/tools/{name}.fio || echo 'fio failed'\n")
}

/// The file of fio's jobs, one after the other, each with marks at its begin and its end.
fn jobs(target: &Target) -> String {
    let mut jobs = format!(
        "[global]\nfilename={}\nsize={}\ndirect=1\nioengine=io_uring\nstonewall\n",
        target.device,
        SPAN * u64::from(BLOCK)
    );
    for run in runs(target.rows).iter().filter(|run| run.tool == Tool::Fio) {
        let operation = if run.row.operation == Operation::Read { "read" } else { "write" };
        let (bytes, depth) = (run.row.blocks * BLOCK, run.row.depth);
        for (number, count) in run.lengths() {
            let all = u64::from(bytes) * u64::from(count);
            let _ = write!(
                jobs,
                "\n[{number}]\nrw={operation}\nbs={bytes}\niodepth={depth}\niodepth_batch_submit={depth}\n\
                 iodepth_batch_complete_max={depth}\nio_size={all}\nexec_prerun=/bin/peer begin {number} {count}\n\
                 exec_postrun=/bin/peer end {number} {count}\n"
            );
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_bench_guest::disk::{CARD, DISK};

    const TARGETS: [Target; 2] = [
        Target { name: "blk", device: "/dev/vda", rows: &DISK },
        Target { name: "sd", device: "/dev/mmcblk0", rows: &CARD },
    ];

    #[test]
    fn each_tool_makes_the_requests_of_a_row_within_its_part_of_the_disk() {
        // A card's large requests are too few.
        for (Target { rows, .. }, count) in TARGETS.iter().zip([ROWS.len(), 6]) {
            let runs = runs(rows);
            assert_eq!(runs.len(), count);
            for run in &runs {
                assert!(0 < run.short && 4 * run.short <= run.long, "{run:?}");
                assert!(u64::from(run.long * run.row.blocks) <= SPAN, "{run:?}");
            }
        }
    }

    #[test]
    fn every_run_has_marks_of_its_own_in_what_the_tools_are_given() {
        for target in &TARGETS {
            let (script, jobs) = (script(target), jobs(target));
            for run in runs(target.rows) {
                for (number, count) in run.lengths() {
                    let (begin, text) = match run.tool {
                        Tool::Dd => (format!("peer work {number} 1 /bin/dd "), &script),
                        Tool::Fio => (format!("/bin/peer begin {number} {count}\n"), &jobs),
                    };
                    assert_eq!(text.matches(&begin).count(), 1, "{begin} in {text}");
                }
            }
            let fios = runs(target.rows).iter().filter(|run| run.tool == Tool::Fio).count();
            assert_eq!(jobs.matches("exec_postrun").count(), 2 * fios);
            assert!(script.contains(target.device) && jobs.contains(target.device));
        }
    }
}
