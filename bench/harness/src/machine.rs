//! The emulated machine, one for Culm and for Linux: QEMU with the counting plugin, pinned to one
//! processor of the host.

use crate::awake::Awake;
use crate::counters::{Control, Delta, Snapshot};
use crate::network::{MAC, Network};
use crate::profile::Blocks;
use crate::spawn::{self, Ties};
use crate::starved::ThreadTimes;
use anyhow::{Context, Result, bail};
use culm_tool::description::board::BoardFile;
use culm_tool::description::catalogue::Catalogue;
use culm_tool::diagnostics::Diagnostics;
use culm_tool::plan::{Board, BoardDevice};
use culm_tool::run::qemu;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Reads `boards/NAME.toml`.
pub fn read_board(root: &Path, name: &str) -> Result<Board> {
    let catalogue = Catalogue::read(root);
    let source = catalogue.board_file(name).and_then(|file| catalogue.source(&file)).map_err(Diagnostics::from)?;
    let mut diagnostics = Diagnostics::default();
    match BoardFile::read(&source, &mut diagnostics) {
        Some(file) => Ok(file.board),
        None => Err(diagnostics.into()),
    }
}

/// The first device of a class that QEMU has on the board.
fn first_device<'a>(board: &'a Board, class: &str) -> Result<&'a BoardDevice> {
    let mut devices = board
        .devices
        .iter()
        .filter(|device| device.classes.iter().any(|other| other.name() == class) && !device.qemu.is_empty());
    devices.next().with_context(|| format!("the board has no device of the class {class}"))
}

/// QEMU's arguments for a disk in `folder`, a copy of `image` or of zeroes: this device of the
/// board.
fn disk_arguments(board: &Board, device: &str, image: Option<&Path>, folder: &Path) -> Result<Vec<String>> {
    let device = board.device(device).with_context(|| format!("the board has no device {device}"))?;
    let path = folder.join("disk");
    match image {
        Some(image) => drop(std::fs::copy(image, &path).with_context(|| format!("cannot copy {}", image.display()))?),
        None => std::fs::File::create(&path)?.set_len(DISK)?,
    }
    // As the tool does for a system's disk.
    let name = &device.name;
    let drive = format!("if=none,id={name},format=raw,cache=writeback,discard=unmap,file={}", path.display());
    let mut arguments = vec!["-drive".to_owned(), drive];
    arguments.extend(qemu::device_arguments(device, MAC));
    Ok(arguments)
}

/// The machine to boot, and how.
#[derive(Clone)]
pub struct BootSpec<'a> {
    /// The board, the same for both sides.
    pub board: &'a Board,
    /// The kernel or image.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: Option<PathBuf>,
    /// The kernel's command line.
    pub command_line: String,
    /// Emulated processors.
    pub cores: u32,
    /// The host's processor for all of QEMU.
    pub processor: Option<usize>,
    /// The counting plugin.
    pub plugin: PathBuf,
    /// Addresses of Culm's kernel, where those of a guest's are in the upper half too.
    pub own: Option<Range<u64>>,
    /// Count executions of each block.
    pub profile: bool,
    /// Count accesses to device registers (slows the guest down).
    pub devices: bool,
    /// Have a disk: this device of the board.
    pub disk: Option<&'static str>,
    /// The image that the disk is a copy of, if it is not of zeroes.
    pub image: Option<PathBuf>,
    /// Have a second network device.
    pub beside: bool,
    /// Let the network device compute checksums and cut segments.
    pub offloads: bool,
    /// Have a source of random bytes: the board's.
    pub random: bool,
}

/// Properties of QEMU's network device that are its offloads.
const OFFLOADS: &[&str] = &[
    "csum",
    "gso",
    "guest_csum",
    "guest_tso4",
    "guest_tso6",
    "guest_ecn",
    "guest_ufo",
    "guest_uso4",
    "guest_uso6",
    "host_tso4",
    "host_tso6",
    "host_ecn",
    "host_ufo",
    "host_uso",
];

/// The second network device.
const BESIDE: &str = "nic1";

/// Its address.
pub const MAC_BESIDE: &str = "52:54:00:12:35:56";

/// Bytes of memory of the machine, for both sides.
const MEMORY: u64 = 512 << 20;

/// Bytes of a disk of zeroes, for both sides.
const DISK: u64 = 64 << 20;

/// A running machine. Dropping it ends it.
pub struct BootedMachine {
    child: Child,
    /// The wire to it.
    pub network: Network,
    /// When QEMU was started.
    pub started: Instant,
    control: Control,
    console: Arc<Console>,
    folder: TempDir,
    /// Keeps the processor of QEMU from sleeping while the guest waits.
    _awake: Awake,
}

#[derive(Default)]
struct Console {
    text: Mutex<(String, bool)>,
    changed: Condvar,
}

impl BootedMachine {
    /// Starts QEMU.
    pub fn start(spec: &BootSpec, network: Network) -> Result<BootedMachine> {
        let folder = spawn::folder()?;
        let socket = folder.path().join("count");
        let mut command = Command::new(qemu::QEMU);
        command.args(qemu::machine_arguments(spec.board, spec.cores, MEMORY)?).args(["-serial", "stdio"]);
        command.arg("-kernel").arg(&spec.kernel);
        if let Some(initrd) = &spec.initrd {
            command.arg("-initrd").arg(initrd);
        }
        if !spec.command_line.is_empty() {
            command.args(["-append", &spec.command_line]);
        }
        let device = first_device(spec.board, "net")?;
        command.args(["-netdev", &network.option(&device.name)]).args(qemu::device_arguments(device, MAC));
        if spec.beside {
            let device = spec.board.device(BESIDE).with_context(|| format!("the board has no device {BESIDE}"))?;
            command.args(["-netdev", &network.option_beside(&device.name)]);
            command.args(qemu::device_arguments(device, MAC_BESIDE));
        }
        for property in OFFLOADS.iter().filter(|_| !spec.offloads) {
            command.args(["-global", &format!("virtio-net-device.{property}=off")]);
        }
        if let Some(device) = spec.disk {
            command.args(disk_arguments(spec.board, device, spec.image.as_deref(), folder.path())?);
        }
        if spec.random {
            command.args(qemu::device_arguments(first_device(spec.board, "entropy")?, MAC));
        }
        command.args(["-plugin", &plugin_option(spec, &socket)]);
        spawn::tie(&mut command, Ties { processor: spec.processor, inherit: network.inherited() });
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().context("cannot run qemu-system-aarch64 (./culm setup installs it)")?;
        let console = Arc::new(Console::default());
        let output = child.stdout.take().context("QEMU's console is missing")?;
        let errors = child.stderr.take().context("QEMU's messages are missing")?;
        follow(output, console.clone());
        follow(errors, console.clone());
        let control = match Control::connect(&socket, Duration::from_secs(10)) {
            Ok(control) => control,
            Err(error) => {
                let _ = (child.kill(), child.wait());
                return Err(error.context(format!("QEMU said:\n{}", console.last_lines())));
            }
        };
        let awake = Awake::keep(spec.processor);
        Ok(BootedMachine { child, network, started, control, console, folder, _awake: awake })
    }

    /// Waits until the console has shown `text`.
    pub fn wait_for(&mut self, text: &str, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        let mut console = self.console.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while !console.0.contains(text) {
            spawn::go_on()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || console.1 {
                drop(console);
                let why = if left.is_zero() { "in time" } else { "before QEMU ended" };
                bail!("the guest did not say '{text}' {why}. Its console's last lines:\n{}", self.last_lines());
            }
            let waited = self.console.changed.wait_timeout(console, left.min(Duration::from_millis(200)));
            console = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        Ok(())
    }

    /// The console's last lines.
    pub fn last_lines(&self) -> String {
        self.console.last_lines()
    }

    /// All that the console has shown.
    pub fn console(&self) -> String {
        self.console.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).0.clone()
    }

    /// The plugin.
    pub fn control(&mut self) -> &mut Control {
        &mut self.control
    }

    /// The counters now.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let said = self.last_lines();
        self.control.snapshot().with_context(|| format!("the guest's console said last:\n{said}"))
    }

    /// Returns the counts of the machine in `time` when nobody asks anything of it.
    pub fn idle(&mut self, time: Duration) -> Result<Delta> {
        let before = self.snapshot()?;
        std::thread::sleep(time);
        Ok(Delta::between(&before, &self.snapshot()?))
    }

    /// Processor seconds that QEMU has used.
    pub fn processor_seconds(&self) -> Result<f64> {
        spawn::processor_seconds(self.child.id())
    }

    /// How long QEMU's threads have run, and waited for a processor.
    pub fn thread_times(&self) -> ThreadTimes {
        ThreadTimes::of(self.child.id())
    }

    /// Executions of blocks until the mark at `position`, where they are counted.
    pub fn mark_profile(&self, position: usize) -> Option<Blocks> {
        Blocks::read(&self.folder.path().join(format!("count.mark.{position}"))).ok()
    }

    /// A folder that vanishes with the machine.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for BootedMachine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Console {
    fn last_lines(&self) -> String {
        let text = self.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let last: Vec<_> = text.0.lines().rev().take(15).collect();
        last.into_iter().rev().map(|line| format!("  | {line}\n")).collect()
    }
}

fn plugin_option(spec: &BootSpec, socket: &Path) -> String {
    let mut option = format!("{},socket={}", spec.plugin.display(), socket.display());
    if let Some(own) = &spec.own {
        option += &format!(",own={:x}-{:x}", own.start, own.end);
    }
    if spec.profile {
        option += ",profile=on";
    }
    if spec.devices {
        option += ",devices=on";
    }
    option
}

fn follow(mut output: impl Read + Send + 'static, console: Arc<Console>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            let count = output.read(&mut buffer).unwrap_or(0);
            let mut text = console.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            text.0.push_str(&String::from_utf8_lossy(&buffer[..count]).replace('\r', ""));
            text.1 |= count == 0;
            drop(text);
            console.changed.notify_all();
            if count == 0 {
                return;
            }
        }
    });
}
