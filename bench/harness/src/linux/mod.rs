//! The peer: an unmodified Debian Linux for arm64 in the same emulated machine, with the same
//! devices and the same load.
//!
//! Its root is an initial RAM disk made here: Debian's kernel modules for virtio, SD cards and FAT,
//! busybox, nginx, iperf3 and our own echo server. All servers run at once; one that is not asked
//! sleeps.

pub mod gateway;
pub mod tools;

use anyhow::{Context, Result};
use culm_bench_guest::work::{WORK, Work};
use culm_tool::build::{Cargo, Profile, Toolchain};
use culm_tool::debian::{self, RELEASE};
use culm_tool::guest::cpio::Archive;
use culm_tool::tree::Tree;
use std::fs;
use std::path::{Path, PathBuf};

/// Ports of the servers on the peer.
pub mod port {
    /// UDP echo, one system call a packet and direction; also Culm's own echo server.
    pub const ECHO: u16 = 7;
    /// UDP echo by recvmmsg and sendmmsg.
    pub const ECHO_BATCH: u16 = 8;
    /// TCP that drops what it is sent, on both sides.
    pub const DISCARD: u16 = 9;
    /// TCP that sends as long as somebody listens, on both sides.
    pub const SOURCE: u16 = 19;
    /// nginx.
    pub const HTTP: u16 = 80;
    /// iperf3.
    pub const IPERF: u16 = 5201;
}

/// Debian's packages: kernels, programs, and the libraries that they are linked to.
const PACKAGES: &[&str] = &[
    "linux-image-cloud-arm64",
    "linux-image-arm64",
    "busybox-static",
    "nginx",
    "iperf3",
    "libc6",
    "libcrypt1",
    "libiperf0",
    "libpcre2-8-0",
    "libsctp1",
    "libssl3",
    "zlib1g",
];

/// Advice for who has no network.
const ONCE: &str = "the peer's Linux cannot be fetched, for which the network is needed once. With --no-peer Culm is \
                    measured alone";

/// In the order in which they depend on each other; one that is built into the kernel is not there
/// and not missed.
const MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_mmio",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
    "virtio-rng",
    "cqhci",
    "sdhci",
    "sdhci-pci",
    "nls_ascii",
    "nls_cp437",
    "nls_utf8",
    "fat",
    "vfat",
];

/// Those of the small one.
const SMALL_MODULES: &[&str] =
    &["virtio_ring", "virtio", "virtio_mmio", "failover", "net_failover", "virtio_net", "virtio-rng"];

const FOLDERS: &[&str] = &[
    "bin",
    "dev",
    "etc",
    "etc/nginx",
    "lib",
    "modules",
    "proc",
    "run",
    "site",
    "sys",
    "tmp",
    "var",
    "var/lib",
    "var/lib/nginx",
    "var/log",
    "var/log/nginx",
];

/// Files that nginx and iperf3 need, and where they stand in Debian's packages (before and after
/// the merge of /usr).
const PROGRAMS: &[(&str, &[&str])] = &[
    ("bin/busybox", &["bin/busybox", "usr/bin/busybox"]),
    ("bin/nginx", &["usr/sbin/nginx"]),
    ("bin/iperf3", &["usr/bin/iperf3"]),
];

const LIBRARIES: &[&str] = &[
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libcrypt.so.1",
    "libcrypto.so.3",
    "libiperf.so.0",
    "libm.so.6",
    "libpcre2-8.so.0",
    "libsctp.so.1",
    "libssl.so.3",
    "libz.so.1",
];

const NGINX: &str = "\
user root;
worker_processes 1;
daemon off;
error_log /dev/null crit;
pid /run/nginx.pid;
events { worker_connections 4096; }
http {
    access_log off;
    sendfile on;
    keepalive_requests 100000000;
    keepalive_timeout 75;
    types { text/html html; }
    default_type application/octet-stream;
    server { listen 80 backlog=1024; root /site; index index.html; }
}
";

/// A Linux that can be booted.
pub struct Linux {
    /// Its kernels.
    kernels: Vec<Kernel>,
    /// The initial RAM disk, with the modules of each kernel.
    pub initrd: PathBuf,
    /// One with an echo server and nothing else, of which several fit the machine.
    pub small_initrd: PathBuf,
}

/// A kernel.
pub struct Kernel {
    /// Where it is, unpacked: QEMU boots no compressed EFI image.
    pub path: PathBuf,
    /// Its version, as `uname -r` has it.
    pub version: String,
}

impl Kernel {
    /// Whether it is the one for clouds.
    fn is_cloud(&self) -> bool {
        self.version.contains("-cloud-")
    }
}

impl Linux {
    /// Returns the kernel that a variant boots.
    pub fn kernel(&self, variant: Variant) -> Result<&Kernel> {
        let is_cloud = variant != Variant::General;
        let kernel = self.kernels.iter().find(|kernel| kernel.is_cloud() == is_cloud);
        kernel.with_context(|| format!("Debian's packages have no kernel for {}", variant.name()))
    }
}

/// How the peer's kernel is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// No address randomisation, and so no KPTI on this CPU: the strict peer.
    NoKaslr,
    /// As Debian starts it.
    Default,
    /// `mitigations=off`.
    MitigationsOff,
    /// As [`Variant::NoKaslr`], with Debian's kernel for any machine: the one for clouds, which all
    /// others are, has no driver of SD cards.
    General,
}

impl Variant {
    /// The kernel for clouds in each way, the strict one first.
    pub const ALL: [Variant; 3] = [Variant::NoKaslr, Variant::Default, Variant::MitigationsOff];

    /// The peer's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Variant::NoKaslr => "linux-nokaslr",
            Variant::Default => "linux-default",
            Variant::MitigationsOff => "linux-mitigations-off",
            Variant::General => "linux-general",
        }
    }

    /// The kernel's command line.
    pub fn command_line(self) -> &'static str {
        match self {
            Variant::NoKaslr | Variant::General => "console=ttyAMA0 panic=-1 quiet nokaslr",
            Variant::Default => "console=ttyAMA0 panic=-1 quiet",
            Variant::MitigationsOff => "console=ttyAMA0 panic=-1 quiet nokaslr mitigations=off",
        }
    }
}

/// The line that the console shows when all servers were started.
pub const READY: &str = "culm-bench: ready";

/// Fetches what is missing below `cache` and makes the RAM disk with `peer`, our own program, and
/// the files of `site`.
pub fn prepare(cache: &Path, peer: &Path, site: &Path) -> Result<Linux> {
    fs::create_dir_all(cache)?;
    let root = cache.join(format!("{RELEASE}-arm64"));
    debian::unpack(cache, &root, PACKAGES).context(ONCE)?;
    let kernels = find_kernels(&root)?;
    let mut archive = Archive::default();
    FOLDERS.iter().for_each(|folder| archive.directory(folder));
    for (name, places) in PROGRAMS {
        let place = places.iter().map(|place| root.join(place)).find(|place| place.exists());
        let place = place.with_context(|| format!("{name} is not in Debian's packages below {}", root.display()))?;
        archive.file(name, 0o755, &read(&place)?);
    }
    archive.file("bin/peer", 0o755, &read(peer)?);
    archive.link("bin/sh", "busybox");
    for library in LIBRARIES {
        archive.file(&format!("lib/{library}"), 0o755, &read(&find_library(&root, library)?)?);
    }
    for Kernel { version, .. } in &kernels {
        archive.directory(&format!("modules/{version}"));
        for module in MODULES {
            if let Some(path) = find_file(&root.join("lib/modules").join(version), &format!("{module}.ko")) {
                archive.file(&format!("modules/{version}/{module}.ko"), 0o644, &read(&path)?);
            }
        }
    }
    for entry in fs::read_dir(site)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        archive.file(&format!("site/{name}"), 0o644, &read(&path)?);
    }
    archive.file("etc/passwd", 0o644, b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n");
    archive.file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n");
    archive.file("etc/nginx/nginx.conf", 0o644, NGINX.as_bytes());
    archive.file("init", 0o755, init().as_bytes());
    let initrd = cache.join("initrd.cpio");
    fs::write(&initrd, archive.finish()).with_context(|| format!("cannot write {}", initrd.display()))?;
    let small_initrd = small_initrd(cache, &root, peer, &kernels)?;
    Ok(Linux { kernels, initrd, small_initrd })
}

/// Makes the RAM disk of a small Linux, for the kernel for clouds.
fn small_initrd(cache: &Path, root: &Path, peer: &Path, kernels: &[Kernel]) -> Result<PathBuf> {
    let mut archive = Archive::default();
    ["bin", "dev", "modules", "proc"].iter().for_each(|folder| archive.directory(folder));
    archive.file(
        "bin/busybox",
        0o755,
        &read(&root.join("bin/busybox")).or_else(|_| read(&root.join("usr/bin/busybox")))?,
    );
    archive.file("bin/peer", 0o755, &read(peer)?);
    for Kernel { version, .. } in kernels.iter().filter(|kernel| kernel.is_cloud()) {
        for module in SMALL_MODULES {
            if let Some(path) = find_file(&root.join("lib/modules").join(version), &format!("{module}.ko")) {
                archive.file(&format!("modules/{module}.ko"), 0o644, &read(&path)?);
            }
        }
    }
    archive.file("init", 0o755, small_init().as_bytes());
    let path = cache.join("small-initrd.cpio");
    fs::write(&path, archive.finish()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// What the kernel does not know of its command line is in the environment: `address`; `second`,
/// the address of its second card, with which it forwards to the network `behind` it, by `via`; and
/// `ask`, the address of another Linux to which it sends packets.
fn small_init() -> String {
    format!(
        "#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs devtmpfs /dev
for module in {modules}; do
    [ -e /modules/$module.ko ] && $b insmod /modules/$module.ko
done
$b ip link set lo up
$b ip addr add $address/24 dev eth0
$b ip link set eth0 up
if [ -n \"$second\" ]; then
    $b mount -t proc proc /proc
    $b ip addr add $second/24 dev eth1
    $b ip link set eth1 up
    $b ip route add $behind via $via
    echo 1 >/proc/sys/net/ipv4/ip_forward
fi
/bin/peer echo {echo} &
echo {READY} $address
[ -z \"$ask\" ] || /bin/peer ask $ask {echo}
while true; do $b sleep 100000; done
",
        modules = SMALL_MODULES.join(" "),
        echo = port::ECHO,
    )
}

fn init() -> String {
    let modules = MODULES.join(" ");
    let work = WORK
        .iter()
        .map(|Work { number, rounds, program, .. }| format!("/bin/peer work {number} {rounds} {program} >/dev/null"));
    let work = work.collect::<Vec<_>>().join("\n        ");
    format!(
        "#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
modules=/modules/$($b uname -r)
for module in {modules}; do
    [ -e $modules/$module.ko ] && $b insmod $modules/$module.ko
done
$b ip link set lo up
$b ip addr add {guest}/24 dev eth0
$b ip link set eth0 up
/bin/peer echo {echo} &
/bin/peer batch {batch} &
/bin/peer bulk &
for word in $($b cat /proc/cmdline); do
    case $word in
    culm.ipc) /bin/peer ipc ;;
    culm.congestion=*) echo ${{word#*=}} >/proc/sys/net/ipv4/tcp_congestion_control ;;
    culm.booted) /bin/peer booted ;;
    culm.work)
        {work} ;;
    culm.disk) /bin/peer disk ;;
    culm.disk-of-guest) /bin/peer disk-of-guest ;;
    culm.card)
        while [ ! -e /dev/mmcblk0 ]; do $b sleep 0.1; done
        /bin/peer card ;;
    culm.site=*)
        while [ ! -e ${{word#*=}} ]; do $b sleep 0.1; done
        $b mount -t vfat -o ro ${{word#*=}} /site ;;
    culm.tools=*) $b sh /etc/tools/${{word#*=}} ;;
    culm.file) /bin/peer file ;;
    culm.loops=*) /bin/peer loops ${{word#*=}} ;;
    culm.spin)
        for cpu in $($b seq $($b nproc)); do
            while :; do :; done &
        done ;;
    esac
done
/bin/nginx -c /etc/nginx/nginx.conf &
/bin/iperf3 -s >/dev/null 2>&1 &
echo {READY}
while true; do $b sleep 100000; done
",
        guest = crate::network::GUEST,
        echo = port::ECHO,
        batch = port::ECHO_BATCH,
    )
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn find_kernels(root: &Path) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for entry in fs::read_dir(root.join("boot"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(version) = name.strip_prefix("vmlinuz-").map(str::to_owned) {
            kernels.push(Kernel { path, version });
        }
    }
    Ok(kernels)
}

fn find_library(root: &Path, name: &str) -> Result<PathBuf> {
    let folders = ["lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib", "usr/lib"];
    let found = folders.iter().map(|folder| root.join(folder).join(name)).find(|path| path.exists());
    found.with_context(|| format!("the library {name} is not in Debian's packages below {}", root.display()))
}

fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find_file(&path, name) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|file| file == name) {
            return Some(path);
        }
    }
    None
}

/// Builds the peer's program (`bench/peer`) with the tool chain that builds components.
pub fn build_peer(root: &Path) -> Result<PathBuf> {
    let cargo = Cargo::new(Toolchain::find()?, &Tree::new(root.to_path_buf(), None), Profile::Release);
    Ok(cargo.program("culm-bench-peer", "peer")?)
}
