//! The counting plugin (`bench/plugin`): built where it is used, loaded into QEMU, asked over a
//! socket.

use crate::spawn::run;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SOURCES: &[&str] = &["count.c", "profile.c", "control.c"];
const HEADERS: &[&str] = &["counters.h", "qemu_plugin.h"];

/// Compiles the plugin into `folder` unless it is there and newer than its sources.
pub fn build(root: &Path, folder: &Path) -> Result<PathBuf> {
    let sources = root.join("bench/plugin");
    let plugin = folder.join("count.so");
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let newest = SOURCES.iter().chain(HEADERS).map(|name| changed(&sources.join(name))).collect::<Result<Vec<_>, _>>();
    let newest = newest.context("the plugin's sources in bench/plugin are not readable")?.into_iter().max();
    if changed(&plugin).ok() >= newest && newest.is_some() {
        return Ok(plugin);
    }
    fs::create_dir_all(folder)?;
    let partial = plugin.with_extension("partial");
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-o"]);
    command.arg(&partial).args(SOURCES.iter().map(|name| sources.join(name))).arg("-lpthread");
    run(&mut command).context("cannot build the counting plugin (a C compiler: Debian's package gcc)")?;
    fs::rename(&partial, &plugin)?;
    Ok(plugin)
}

/// Counters of one emulated processor, as the plugin reports them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Counters {
    /// Instructions at addresses of the upper half.
    pub kernel: u64,
    /// All other instructions.
    pub user: u64,
    /// Those of the kernel's that are Culm's, where a guest's are in the upper half too.
    #[serde(default)]
    pub own: u64,
    /// Wait-for-interrupt instructions.
    pub wfi: u64,
    /// System calls.
    pub svc: u64,
    /// Exceptions by entry of the vector table, of all tables together.
    pub vectors: [u64; 16],
    /// Exceptions by vector table.
    #[serde(default)]
    pub tables: Vec<VectorTable>,
}

/// A vector table that a kernel has set.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct VectorTable {
    /// Its address.
    pub address: u64,
    /// Exceptions that were taken to it.
    pub taken: u64,
}

impl Counters {
    /// Returns how many exceptions were taken to the vector table at `address`.
    pub fn taken(&self, address: u64) -> u64 {
        self.tables.iter().filter(|table| table.address == address).map(|table| table.taken).sum()
    }
}

/// Instructions executed in one address space.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Space {
    /// Physical address of its translation table.
    pub table: u64,
    /// Instructions in the kernel while it was loaded.
    pub kernel: u64,
    /// Its own instructions.
    pub user: u64,
    /// Times it was switched to.
    pub switches: u64,
}

/// Accesses to one page of device registers.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Device {
    /// Physical address of the page.
    pub page: u64,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
}

/// One emulated processor.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Processor {
    /// Its counters.
    #[serde(flatten)]
    pub counters: Counters,
    /// Address spaces it has had loaded.
    pub spaces: Vec<Space>,
    /// Devices it has accessed, where that is counted.
    pub devices: Vec<Device>,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Snapshot {
    /// When: nanoseconds of the host's monotonic clock.
    pub time: u64,
    /// The emulated processors.
    pub processors: Vec<Processor>,
}

/// A mark that a program in the guest has set, with the sum of all processors' counters at that
/// moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Mark {
    /// 96 begins a row, 97 ends it; `bench/guest` has others.
    pub number: u64,
    /// The program's number for the row.
    pub x0: u64,
    /// Rounds that the row makes.
    pub x1: u64,
    /// When: nanoseconds of the host's monotonic clock.
    pub time: u64,
    /// Nanoseconds for which the host has run the processor that set it, the work of its devices
    /// included.
    pub busy: u64,
    /// Address spaces switched to so far.
    pub switches: u64,
    /// The counters.
    #[serde(flatten)]
    pub counters: Counters,
    /// Each processor's address spaces.
    pub spaces: Vec<Space>,
}

impl Mark {
    /// Instructions of the programs in each address space between an earlier mark and this one.
    pub fn spaces_since(&self, earlier: &Mark) -> BTreeMap<u64, f64> {
        let mut spaces = BTreeMap::new();
        for (mark, sign) in [(self, 1.0), (earlier, -1.0)] {
            for space in &mark.spaces {
                *spaces.entry(space.table).or_default() += sign * space.user as f64;
            }
        }
        spaces
    }
}

/// The counts between two moments, all processors together.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Time between the two.
    pub seconds: f64,
    /// Instructions of the kernel.
    pub kernel: f64,
    /// All other instructions.
    pub user: f64,
    /// Those of the kernel's that are Culm's, where a guest's are in the upper half too.
    pub own: f64,
    /// Wait-for-interrupt instructions.
    pub wfi: f64,
    /// System calls.
    pub svc: f64,
    /// Exceptions taken: entries into the kernel of any kind.
    pub entries: f64,
    /// Those of them that were interrupts.
    pub interrupts: f64,
    /// Changes of address space.
    pub switches: f64,
    /// Own instructions by address space.
    pub spaces: BTreeMap<u64, f64>,
    /// Exceptions by address of the vector table.
    pub tables: BTreeMap<u64, f64>,
    /// Accesses (reads, writes) by page of device registers.
    pub devices: BTreeMap<u64, (f64, f64)>,
}

impl Delta {
    /// All instructions.
    pub fn instructions(&self) -> f64 {
        self.kernel + self.user
    }

    /// From one snapshot to a later one of the same machine.
    pub fn between(earlier: &Snapshot, later: &Snapshot) -> Delta {
        let mut delta = Delta { seconds: (later.time - earlier.time) as f64 / 1e9, ..Delta::default() };
        delta.add(later, 1.0);
        delta.add(earlier, -1.0);
        delta
    }

    /// Whether a machine of which nobody asks anything, and that did `before` in the moment before,
    /// has started: it does next to nothing, or as much as before and sleeps in between. What one
    /// does that is still starting would be taken off all that is measured.
    pub fn has_settled_since(&self, before: &Delta) -> bool {
        /// Instructions in a second.
        const NEXT_TO_NOTHING: f64 = 1e5;
        let [now, before] = [self, before].map(|delta| delta.instructions() / delta.seconds);
        now < NEXT_TO_NOTHING || self.wfi > 0.0 && (0.8..1.25).contains(&(now / before))
    }

    /// Without what an idle machine does in the same time, judged by `idle`.
    pub fn without_idle(mut self, idle: &Delta) -> Delta {
        if idle.seconds <= 0.0 {
            return self;
        }
        let share = self.seconds / idle.seconds;
        self.kernel = (self.kernel - idle.kernel * share).max(0.0);
        self.user = (self.user - idle.user * share).max(0.0);
        self.own = (self.own - idle.own * share).max(0.0);
        for (table, instructions) in &idle.spaces {
            if let Some(own) = self.spaces.get_mut(table) {
                *own = (*own - instructions * share).max(0.0);
            }
        }
        self
    }

    fn add(&mut self, snapshot: &Snapshot, sign: f64) {
        for processor in &snapshot.processors {
            let counters = &processor.counters;
            self.kernel += sign * counters.kernel as f64;
            self.user += sign * counters.user as f64;
            self.own += sign * counters.own as f64;
            self.wfi += sign * counters.wfi as f64;
            self.svc += sign * counters.svc as f64;
            self.entries += sign * counters.vectors.iter().sum::<u64>() as f64;
            self.interrupts += sign * interrupts(counters) as f64;
            for table in &counters.tables {
                *self.tables.entry(table.address).or_default() += sign * table.taken as f64;
            }
            for space in &processor.spaces {
                *self.spaces.entry(space.table).or_default() += sign * space.user as f64;
                self.switches += sign * space.switches as f64;
            }
            for device in &processor.devices {
                let entry = self.devices.entry(device.page).or_default();
                entry.0 += sign * device.reads as f64;
                entry.1 += sign * device.writes as f64;
            }
        }
    }
}

/// Entries 1 and 2 of each group of four are IRQ and FIQ (Arm ARM D1.4.1).
fn interrupts(counters: &Counters) -> u64 {
    let of_group = |group: &[u64]| group[1] + group[2];
    counters.vectors.chunks_exact(4).map(of_group).sum()
}

/// A connection to the plugin in a running QEMU.
pub struct Control {
    stream: BufReader<UnixStream>,
}

impl Control {
    /// Connects, as soon as QEMU has made the socket.
    pub fn connect(path: &Path, patience: Duration) -> Result<Control> {
        let start = Instant::now();
        loop {
            match UnixStream::connect(path) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
                    return Ok(Control { stream: BufReader::new(stream) });
                }
                Err(error) if start.elapsed() > patience => {
                    return Err(error).context("QEMU did not load the counting plugin");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    fn ask<T: for<'a> Deserialize<'a>>(&mut self, request: &str) -> Result<T> {
        writeln!(self.stream.get_mut(), "{request}")?;
        let mut line = String::new();
        if self.stream.read_line(&mut line).context("no answer of the counting plugin: QEMU has ended")? == 0 {
            bail!("no answer of the counting plugin: QEMU has ended");
        }
        serde_json::from_str(&line).with_context(|| format!("the counting plugin answered: {}", line.trim()))
    }

    /// The counters now.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        self.ask("snapshot")
    }

    /// The marks set so far.
    pub fn marks(&mut self) -> Result<Vec<Mark>> {
        #[derive(Deserialize)]
        struct Answer {
            marks: Vec<Mark>,
        }
        Ok(self.ask::<Answer>("marks")?.marks)
    }

    /// Has the executions of each block written to `path` (see [`crate::profile`]).
    pub fn profile(&mut self, path: &Path) -> Result<()> {
        #[derive(Deserialize)]
        struct Answer {
            blocks: i64,
        }
        match self.ask::<Answer>(&format!("profile {}", path.display()))?.blocks {
            count if count >= 0 => Ok(()),
            _ => bail!("the counting plugin could not write {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"time":TIME,"processors":[{"kernel":K,"user":50,"wfi":1,"wfe":0,"svc":2,"hvc":0,"eret":3,
        "vectors":[0,0,0,0,0,4,0,0,2,1,0,0,0,0,0,0],"tables":[{"address":2048,"taken":TAKEN}],
        "spaces":[{"table":4096,"kernel":K,"user":50,"switches":7}],"devices":[{"page":4096,"reads":1,"writes":2}]}]}"#;

    fn snapshot(time: &str, kernel: &str) -> Snapshot {
        serde_json::from_str(&TEXT.replace("TAKEN", kernel).replace("TIME", time).replace('K', kernel)).unwrap()
    }

    #[test]
    fn a_delta_is_a_difference() {
        let mut later = snapshot("3000000000", "500");
        later.processors[0].spaces[0].user = 80;
        later.processors[0].counters.vectors[5] += 10;
        let delta = Delta::between(&snapshot("1000000000", "100"), &later);
        assert_eq!((delta.seconds, delta.kernel, delta.user), (2.0, 400.0, 0.0));
        assert_eq!(
            (delta.entries, delta.interrupts, delta.spaces[&4096], delta.tables[&2048]),
            (10.0, 10.0, 30.0, 400.0)
        );
    }

    #[test]
    fn a_machine_has_settled_when_it_does_as_much_as_before() {
        let of = |user, wfi| Delta { seconds: 1.0, user, wfi, ..Delta::default() };
        assert!(of(1e6, 5.0).has_settled_since(&of(1e6, 5.0)));
        assert!(of(0.0, 0.0).has_settled_since(&of(1e8, 5.0)), "it sleeps all the time");
        assert!(!of(7e5, 5.0).has_settled_since(&of(1e6, 5.0)), "it does less and less");
        assert!(!of(1e7, 5.0).has_settled_since(&of(1e6, 5.0)), "it does more");
        assert!(!of(1e8, 0.0).has_settled_since(&of(1e8, 0.0)), "it starts as fast as it can");
    }

    #[test]
    fn idle_work_is_taken_off_by_time() {
        let idle = Delta { seconds: 1.0, kernel: 100.0, user: 10.0, ..Delta::default() };
        let delta = Delta { seconds: 3.0, kernel: 1000.0, user: 20.0, ..Delta::default() }.without_idle(&idle);
        assert_eq!((delta.kernel, delta.user), (700.0, 0.0));
    }
}
