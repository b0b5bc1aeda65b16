//! The laboratory of every row: where things are, which processors are whose, and how either side
//! is booted.

use crate::counters::{Delta, Snapshot};
use crate::linux::{self, Linux, Variant, gateway, port, tools};
use crate::machine::{BootSpec, BootedMachine, read_board};
use crate::network::{Network, Port, USER_NETWORKING_COST};
use crate::profile::Blocks;
use crate::results::Sample;
use crate::spawn;
use crate::starved::ThreadTimes;
use crate::systems::{self, Guests, Ready, System};
use crate::{counters, culm, profile, site};
use anyhow::{Context, Result, bail};
use culm_bench_load::{Load, Mode};
use culm_tool::bench::Options;
use culm_tool::image::report::Report;
use culm_tool::plan::Board;
use std::fmt::{Display, Formatter};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The board of all measurements.
pub const BOARD: &str = "virt";

/// The time that Linux has to boot.
const BOOT_PATIENCE: Duration = Duration::from_secs(90);
/// The time that Culm has to start, which takes it less than a second.
const START_PATIENCE: Duration = Duration::from_secs(15);

/// The unit of what QEMU uses of its processor.
pub const SHARE: &str = "QEMU's share of a core";

/// The unit of how much of the time the host runs an emulated processor that sleeps otherwise.
pub const CORE: &str = "share of a core";

/// Everything that rows share.
pub struct Lab {
    /// The repository.
    pub root: PathBuf,
    /// Seconds in one measured window.
    pub window: Duration,
    /// The processor of QEMU.
    pub guest_processor: Option<usize>,
    /// The processor of the load.
    pub load_processor: Option<usize>,
    /// The options of `./culm bench`.
    pub settings: Options,
    board: Board,
    plugin: PathBuf,
    cache: PathBuf,
    linux: OnceLock<Linux>,
    notes: Mutex<Vec<String>>,
    failed: Mutex<Vec<String>>,
}

/// The particulars of one machine.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Its emulated cores, where not those that the caller wants.
    pub cores: Option<u32>,
    /// QEMU may use all processors of the host: emulated cores that wait for each other by spinning
    /// do so for long where they share one. The load shares one with it then.
    pub unpinned: bool,
    /// Whether accesses to device registers are counted.
    pub devices: bool,
    /// The device of the board that is its disk, if it has one.
    pub disk: Option<&'static str>,
    /// The image that the disk is a copy of, if it is not of zeroes.
    pub image: Option<PathBuf>,
    /// Whether its network device computes no checksums and cuts no segments.
    pub without_offloads: bool,
    /// Whether its wire can have faults. It offers no offloads then.
    pub faulty: bool,
    /// Whether it has a second network device, for what is beside the one that is measured.
    pub beside: bool,
    /// Whether it has a source of random bytes, without which a Linux that lacks a seed makes some
    /// by spinning.
    pub random: bool,
}

impl Setup {
    /// A machine with a disk of zeroes.
    pub fn with_disk(device: &'static str) -> Setup {
        Setup { disk: Some(device), ..Setup::default() }
    }
}

impl Display for Setup {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if let Some(cores) = self.cores {
            write!(f, ", {cores} cores")?;
        }
        f.write_str(if self.devices { ", accesses to devices counted" } else { "" })?;
        if let Some(device) = self.disk {
            write!(f, ", a disk ({device})")?;
        }
        f.write_str(if self.faulty { ", a wire with faults" } else { "" })?;
        f.write_str(if self.without_offloads { ", without offloads" } else { "" })
    }
}

/// A booted machine, quiet, with what it does when idle.
pub struct Subject {
    /// The machine.
    pub machine: BootedMachine,
    /// Its counts when nobody asks anything of it.
    pub idle: Delta,
    /// The image, where it is Culm's.
    pub image: Option<Report>,
    /// The vector table by which a guest of Culm's leaves its core, where the system has one.
    pub exits: Option<u64>,
    profile: bool,
    keeps_starved: bool,
}

/// The window between [`Subject::begin`] and [`Subject::end`].
pub struct Window {
    before: Snapshot,
    processor_seconds: f64,
    times: ThreadTimes,
    started: Instant,
    blocks: Option<Blocks>,
}

impl Lab {
    /// Prepares what does not depend on the side.
    pub fn new(root: &Path, settings: Options) -> Result<Lab> {
        let cache = match &settings.cache {
            Some(cache) => cache.clone(),
            None => crate::target_folder(root).join("bench"),
        };
        std::fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
        let plugin = counters::build(root, &cache)?;
        let processors = spawn::processors();
        let lab = Lab {
            root: root.to_owned(),
            window: Duration::from_secs_f64(settings.seconds.clamp(0.2, 600.0)),
            guest_processor: (processors.len() > 1).then(|| processors[0]),
            load_processor: (processors.len() > 1).then(|| processors[1]),
            board: read_board(root, BOARD)?,
            plugin,
            cache,
            linux: OnceLock::new(),
            notes: Mutex::new(Vec::new()),
            failed: Mutex::new(Vec::new()),
            settings,
        };
        if processors.len() < 2 {
            lab.note("only one processor: QEMU and the load share it, so throughput and round trips say little");
        }
        Ok(lab)
    }

    /// Adds a note for readers of the results, unless it is there already.
    pub fn note(&self, text: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !notes.iter().any(|known| known == text) {
            eprintln!("bench: {text}");
            notes.push(text.to_owned());
        }
    }

    /// Returns the notes so far.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Measures a part of a benchmark: a row or several. One that fails is named, and does not take
    /// the others with it.
    pub fn attempt(&self, bench: &str, what: &str, work: impl FnOnce() -> Result<()>) {
        if spawn::interrupted() {
            return;
        }
        if let Err(error) = work() {
            eprintln!("bench: {bench}/{what} failed: {error:#}");
            self.failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(bench.to_owned());
        }
    }

    /// Benchmarks of which something failed.
    pub fn failed(&self) -> Vec<String> {
        self.failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Files that both web servers serve.
    pub fn site(&self) -> Result<PathBuf> {
        site::write(&self.root.join("build/bench-site"))
    }

    /// Makes the image of a disk with a FAT volume that both sides read, where systems name it.
    pub fn volume(&self) -> Result<PathBuf> {
        site::write_volume(&self.root.join("build/bench-files"))?;
        let path = self.root.join("build/bench-files.img");
        let disk = culm_tool::disk_image::describe(&self.root.join("bench/disks/files.toml"))?;
        culm_tool::disk::make(&disk, &path)?;
        Ok(path)
    }

    /// Makes the image of a disk with so many partitions of 128 KiB, where systems name it.
    pub fn partitions(&self, count: usize) -> Result<PathBuf> {
        const FIRST: usize = 2048;
        const BLOCKS: usize = 256;
        let path = self.root.join(format!("build/bench-partitions-{count}.img"));
        let mut script = "label: gpt\ntable-length: 256\nunit: sectors\n".to_owned();
        for index in 0..count {
            script += &format!("start={}, size={BLOCKS}\n", FIRST + index * BLOCKS);
        }
        std::fs::File::create(&path)?.set_len(64 << 20)?;
        let file = path.with_extension("sfdisk");
        std::fs::write(&file, script)?;
        // It is not on the search path of everybody who may use it.
        let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let command = "exec sfdisk --quiet \"$0\" < \"$1\"";
        spawn::run(Command::new("sh").env("PATH", search).args(["-c", command]).arg(&path).arg(&file))
            .context("cannot make partitions (Debian's package fdisk)")?;
        Ok(path)
    }

    fn linux(&self) -> Result<&Linux> {
        if self.linux.get().is_none() {
            let peer = linux::build_peer(&self.root)?;
            let linux = linux::prepare(&self.cache, &peer, &self.site()?)?;
            let _ = self.linux.set(linux);
        }
        self.linux.get().context("the Linux baseline is not prepared")
    }

    fn network(&self, setup: &Setup) -> Result<Network> {
        if setup.faulty {
            return Network::faulty(self.load_processor);
        }
        let udp = [port::ECHO, port::ECHO_BATCH].map(Port::Udp);
        let tcp = [port::DISCARD, port::SOURCE, port::HTTP, port::IPERF].map(Port::Tcp);
        let ports = [udp.as_slice(), &tcp].concat();
        if self.settings.user_networking {
            self.note(USER_NETWORKING_COST);
            return Network::user(&ports);
        }
        let (network, why) = Network::open(&ports)?;
        why.iter().for_each(|why| self.note(why));
        Ok(network)
    }

    fn boot_spec(&self, kernel: PathBuf, initrd: Option<PathBuf>, command_line: String, setup: &Setup) -> BootSpec<'_> {
        BootSpec {
            board: &self.board,
            kernel,
            initrd,
            command_line,
            cores: setup.cores.unwrap_or(self.settings.cores),
            processor: self.guest_processor.filter(|_| !setup.unpinned),
            plugin: self.plugin.clone(),
            own: None,
            profile: self.settings.profile,
            devices: setup.devices || self.settings.devices,
            disk: setup.disk,
            image: setup.image.clone(),
            beside: setup.beside,
            offloads: !setup.without_offloads,
            random: setup.random,
        }
    }

    /// Starts Linux without waiting for it.
    pub fn start_linux(&self, variant: Variant, more: &str, setup: &Setup) -> Result<BootedMachine> {
        self.start_linux_from(variant, more, self.linux()?.initrd.clone(), setup)
    }

    fn start_linux_from(&self, variant: Variant, more: &str, initrd: PathBuf, setup: &Setup) -> Result<BootedMachine> {
        let kernel = self.linux()?.kernel(variant)?;
        eprintln!("bench: booting {} ({}{setup})", variant.name(), kernel.version);
        let command_line = format!("{} {more}", variant.command_line()).trim().to_owned();
        let spec = self.boot_spec(kernel.path.clone(), Some(initrd), command_line, setup);
        BootedMachine::start(&spec, self.network(setup)?)
    }

    /// The same with dd and fio, which it has read and write a disk.
    pub fn start_linux_with_tools(
        &self,
        variant: Variant,
        target: &tools::Target,
        setup: &Setup,
    ) -> Result<BootedMachine> {
        let initrd = tools::prepare(&self.cache, &self.linux()?.initrd, target)?;
        self.start_linux_from(variant, &format!("culm.tools={}", target.name), initrd, setup)
    }

    /// Boots a Linux with two network cards that joins or routes the networks behind them.
    pub fn boot_gateway(&self, variant: Variant, way: gateway::Way, setup: &Setup) -> Result<Subject> {
        let linux = self.linux()?;
        let initrd = gateway::prepare(&self.cache, &linux.initrd, linux.kernel(variant)?, way)?;
        let mut machine = self.start_linux_from(variant, &format!("culm.tools={}", way.name()), initrd, setup)?;
        machine.wait_for(linux::READY, BOOT_PATIENCE)?;
        self.wait_until_quiet(machine, None)
    }

    /// Boots Linux until its servers answer.
    pub fn boot_linux(&self, variant: Variant, setup: &Setup) -> Result<Subject> {
        self.boot_linux_with(variant, "", setup)
    }

    /// The same with `more` on its command line, by which it does something before.
    pub fn boot_linux_with(&self, variant: Variant, more: &str, setup: &Setup) -> Result<Subject> {
        let mut machine = self.start_linux(variant, more, setup)?;
        machine.wait_for(linux::READY, BOOT_PATIENCE)?;
        self.wait_until_quiet(machine, None)
    }

    /// Builds and starts a system of Culm without waiting for it.
    pub fn start_culm(&self, system: &System, setup: &Setup) -> Result<(BootedMachine, Report)> {
        self.site()?;
        let image = culm::build(self, system)?;
        eprintln!("bench: booting culm ({}{setup})", system.name);
        let spec = self.boot_spec(image.image.path.clone(), None, String::new(), setup);
        let spec = BootSpec { own: profile::own(&image), ..spec };
        Ok((BootedMachine::start(&spec, self.network(setup)?)?, image))
    }

    /// Boots a system of Culm until its server answers, where it has one, or for a moment.
    pub fn boot_culm(&self, system: &System, setup: &Setup) -> Result<Subject> {
        let (mut machine, image) = self.start_culm(system, setup)?;
        match system.ready {
            Ready::Echo => drop(first_echo(&mut machine, START_PATIENCE)?),
            Ready::Web => drop(first_http(&mut machine, START_PATIENCE)?),
            Ready::Soon => std::thread::sleep(Duration::from_millis(500)),
        }
        self.wait_until_quiet(machine, Some(image))
    }

    /// Builds and starts a system of Culm that has the peer's Linux for a guest, with `more` on its
    /// command line, without waiting for it. It has a virtual CPU for each core that `setup` asks
    /// for, else one.
    pub fn start_guest(&self, more: &str, setup: &Setup) -> Result<(BootedMachine, Report)> {
        let (linux, variant) = (self.linux()?, Variant::NoKaslr);
        let kernel = linux.kernel(variant)?;
        site::write_beside(&self.root.join("build/bench-site-beside"))?;
        let command_line = format!("{} {more}", variant.command_line());
        let cpus = setup.cores.unwrap_or(1);
        self.start_culm(&systems::guest("bench-guest", cpus, &kernel.path, &linux.initrd, &command_line), setup)
    }

    /// Builds and starts a system of Culm with several small Linuxes, without waiting for them.
    pub fn start_guests(&self, guests: &Guests<'_>, setup: &Setup) -> Result<(BootedMachine, Report)> {
        let (linux, variant) = (self.linux()?, Variant::NoKaslr);
        let kernel = linux.kernel(variant)?;
        let system = guests.system(&kernel.path, &linux.small_initrd, variant.command_line());
        let cores = guests.cores().max(self.settings.cores);
        // They are on several of the emulated cores, which take turns where the host has but one.
        self.start_culm(&system, &Setup { cores: Some(cores), unpinned: true, random: true, ..setup.clone() })
    }

    /// Waits until the machine does next to nothing, or as much as a moment ago: until everything
    /// has started.
    pub fn wait_until_quiet(&self, mut machine: BootedMachine, image: Option<Report>) -> Result<Subject> {
        let moment = Duration::from_millis(700);
        let mut idle = machine.idle(moment)?;
        for _ in 0..12 {
            let before = std::mem::replace(&mut idle, machine.idle(moment)?);
            if idle.has_settled_since(&before) {
                break;
            }
        }
        let exits = image.as_ref().and_then(profile::exits);
        let Options { profile, busy: keeps_starved, .. } = self.settings;
        Ok(Subject { machine, idle, image, exits, profile, keeps_starved })
    }
}

/// Asks the echo server until it answers once. Returns the counters right after.
pub fn first_echo(machine: &mut BootedMachine, patience: Duration) -> Result<Snapshot> {
    let spec = culm_bench_load::LoadSpec {
        targets: vec![machine.network.address(Port::Udp(port::ECHO))?],
        size: 64,
        mode: Mode::Window(1),
        patience: Duration::from_millis(20),
        processor: None,
    };
    let load = machine.network.within(|| Load::start(&spec))?;
    let end = Instant::now() + patience;
    while load.counts().answered == 0 {
        spawn::go_on()?;
        if Instant::now() > end {
            bail!("no answer from the guest's echo server. Its console's last lines:\n{}", machine.last_lines());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    machine.snapshot()
}

/// Asks the web server until it answers once. Returns the counters right after.
pub fn first_http(machine: &mut BootedMachine, patience: Duration) -> Result<Snapshot> {
    let address = machine.network.address(Port::Tcp(port::HTTP))?;
    let end = Instant::now() + patience;
    while machine.network.within(|| Ok(first_byte(address).is_err()))? {
        spawn::go_on()?;
        if Instant::now() > end {
            bail!("no answer from the guest's web server. Its console's last lines:\n{}", machine.last_lines());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    machine.snapshot()
}

fn first_byte(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(20))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n")?;
    stream.read_exact(&mut [0])
}

impl Subject {
    /// Begins to count.
    pub fn begin(&mut self) -> Result<Window> {
        let blocks = self.blocks()?;
        let processor_seconds = self.machine.processor_seconds()?;
        let times = self.machine.thread_times();
        Ok(Window { before: self.machine.snapshot()?, processor_seconds, times, started: Instant::now(), blocks })
    }

    /// Executions of blocks so far, where they are counted and the names of functions are known.
    fn blocks(&mut self) -> Result<Option<Blocks>> {
        if !self.profile || self.image.is_none() {
            return Ok(None);
        }
        let path = self.machine.folder().join("blocks");
        self.machine.control().profile(&path)?;
        Blocks::read(&path).map(Some)
    }

    /// Ends counting: figures per operation, for `operations` of `what` (packets, requests, …).
    pub fn end(&mut self, window: Window, operations: f64, what: &str) -> Result<Sample> {
        let after = self.machine.snapshot()?;
        let wall = window.started.elapsed().as_secs_f64();
        let busy = (self.machine.processor_seconds()? - window.processor_seconds) / wall;
        if !self.keeps_starved {
            self.machine.thread_times().check_since(&window.times, wall)?;
        }
        let delta = Delta::between(&window.before, &after);
        if operations < 1.0 {
            bail!("nothing was answered. The guest's console's last lines:\n{}", self.machine.last_lines());
        }
        let (wfi_rate, seconds) = (delta.wfi / delta.seconds, delta.seconds);
        let delta = delta.without_idle(&self.idle);
        let mut sample = Sample::default();
        sample.set(&format!("instructions/{what}"), delta.instructions() / operations);
        sample.set(&format!("entries/{what}"), delta.entries / operations);
        sample.set(&format!("system calls/{what}"), delta.svc / operations);
        sample.set(&format!("switches/{what}"), delta.switches / operations);
        sample.set(&format!("{what}s/s"), operations / seconds);
        if let (Some(table), Some(image)) = (self.exits, &self.image) {
            sample.set(&format!("exits/{what}"), delta.tables.get(&table).unwrap_or(&0.0) / operations);
            let culm = culm::without_guest(image, delta.own, &delta.spaces);
            sample.set(&format!("Culm's instructions/{what}"), culm / operations);
        }
        sample.set("wfi/s", wfi_rate);
        sample.set(SHARE, busy);
        if !delta.devices.is_empty() {
            let accesses: f64 = delta.devices.values().map(|(reads, writes)| reads + writes).sum();
            sample.set(&format!("device accesses/{what}"), accesses / operations);
        }
        sample.parts = self.parts(&delta, operations);
        if let (Some(before), Some(after), Some(image)) = (&window.blocks, self.blocks()?, &self.image) {
            sample.profile = Some(profile::text(&after.since(before), image, operations, what));
        }
        // Where the guest never waits and QEMU never idles, the guest's processor is what limits.
        if !(wfi_rate < 100.0 && busy > 0.95) {
            sample.notes.push("the guest's processor was not the bottleneck".to_owned());
        }
        Ok(sample)
    }

    fn parts(&self, delta: &Delta, operations: f64) -> Vec<(String, f64)> {
        let mut parts = vec![("kernel".to_owned(), delta.kernel / operations)];
        match &self.image {
            None => parts.push(("user".to_owned(), delta.user / operations)),
            Some(image) => parts.extend(culm::parts(image, &delta.spaces, operations)),
        }
        parts
    }
}

impl Lab {
    /// Whether the caller wants any row of a benchmark.
    pub fn wants_bench(&self, bench: &str) -> bool {
        let names = &self.settings.names;
        names.is_empty() || names.iter().any(|name| name.split('/').next() == Some(bench))
    }

    /// Whether the caller wants a row, and nobody has interrupted the run.
    pub fn wants(&self, bench: &str, row: &str) -> bool {
        if spawn::interrupted() {
            return false;
        }
        let names = &self.settings.names;
        let wanted = |name: &String| name == bench || name.split_once('/') == Some((bench, row));
        names.is_empty() || names.iter().any(wanted)
    }
}
