//! The emulator: finding it, and its command line for a system.

use super::forward::Forward;
use crate::build::{Version, find_program};
use crate::failure::Failure;
use crate::plan::Plan;
use culm_manifest::units::format_mac;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Oldest QEMU that runs Culm's boards.
pub const MINIMUM_QEMU: Version = Version { major: 8, minor: 0 };

/// The QEMU that Culm is tested with.
pub const PREFERRED_QEMU: Version = Version { major: 10, minor: 0 };

/// The emulator's name.
pub const QEMU: &str = "qemu-system-aarch64";

/// A QEMU on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// Its version.
    pub version: Version,
}

impl Qemu {
    /// The QEMU on the search path.
    pub fn find() -> Result<Self, Failure> {
        let help = "`./culm setup` installs it (Debian: the package qemu-system-arm, on Debian 12 from backports)";
        let path = find_program(QEMU).ok_or_else(|| Failure::new(format!("{QEMU} is missing")).help(help))?;
        let text = crate::build::ask(&path, &["--version"]).map_err(|error| Failure::new(error).help(help))?;
        let version = Version::find(&text)
            .ok_or_else(|| Failure::new(format!("{} does not tell its version", path.display())).help(help))?;
        if version < MINIMUM_QEMU {
            return Err(Failure::new(format!(
                "{} is version {version}; version {MINIMUM_QEMU} or later is needed",
                path.display()
            ))
            .help(help));
        }
        Ok(Self { path, version })
    }
}

/// How the network cards are connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// QEMU's own network, with ports forwarded to the first card.
    User(Vec<Forward>),
    /// The first card is on this TAP interface of the host.
    Tap(String),
}

/// An emulated machine.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// The system.
    pub plan: &'a Plan,
    /// Its image.
    pub image: &'a Path,
    /// How many cores.
    pub cores: u32,
    /// Its network.
    pub network: Network,
    /// The port of 127.0.0.1 on which it waits for a debugger before it starts.
    pub gdb: Option<u16>,
    /// Further arguments.
    pub extra: &'a [String],
}

impl Machine<'_> {
    /// QEMU's arguments. The serial console is standard input and output.
    pub fn arguments(&self) -> Result<Vec<OsString>, Failure> {
        let board = &self.plan.board;
        let qemu = board.qemu.as_ref().ok_or_else(|| {
            Failure::new(format!("QEMU does not emulate the board `{}`", board.name))
                .help("`./culm boards` lists those that can be run here; `./culm build` builds for any")
        })?;
        let mut arguments: Vec<OsString> = ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
            .into_iter()
            .chain(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"])
            .map(OsString::from)
            .collect();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        add(&["-machine", &qemu.machine, "-cpu", &qemu.cpu, "-smp", &self.cores.to_string()]);
        add(&["-m", &format!("{}B", board.memory.size)]);
        for argument in &qemu.arguments {
            add(&[argument]);
        }
        let mut first = true;
        for device in &self.plan.devices {
            let mac = device.mac.map(format_mac).unwrap_or_default();
            if device.board.class.name() == "net" {
                add(&["-netdev", &self.netdev(&device.board.name, first)]);
                first = false;
            }
            for argument in &device.board.qemu {
                add(&[&argument.replace("{name}", &device.board.name).replace("{mac}", &mac)]);
            }
        }
        if let Some(port) = self.gdb {
            add(&["-gdb", &format!("tcp:127.0.0.1:{port}"), "-S"]);
        }
        for argument in self.extra {
            add(&[argument]);
        }
        arguments.extend(["-kernel".into(), self.image.into()]);
        Ok(arguments)
    }

    fn netdev(&self, name: &str, first: bool) -> String {
        match &self.network {
            Network::Tap(interface) if first => {
                format!("tap,id={name},ifname={interface},script=no,downscript=no")
            }
            Network::User(forwards) if first => {
                let forwards: String = forwards.iter().map(|forward| format!(",{}", forward.qemu())).collect();
                format!("user,id={name}{forwards}")
            }
            _ => format!("user,id={name}"),
        }
    }
}

/// Refuses a TAP interface that QEMU could not use.
pub fn check_tap(name: &str) -> Result<(), Failure> {
    let help = "make one, then use --tap tap0: sudo ip tuntap add dev tap0 mode tap user $(id -un) && \
                sudo ip addr add 10.0.0.1/24 dev tap0 && sudo ip link set tap0 up";
    if nix::net::if_::if_nametoindex(name).is_err() {
        return Err(Failure::new(format!("there is no network interface `{name}`")).help(help));
    }
    // The folder shows the interfaces of the network namespace in which it was mounted, which need not be this one.
    let folder = Path::new("/sys/class/net").join(name);
    if folder.is_dir() && !folder.join("tun_flags").is_file() {
        return Err(Failure::new(format!("the network interface `{name}` is not a TAP")).help(help));
    }
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").map(drop).map_err(|error| {
        Failure::io("open /dev/net/tun", &error).help("without it there is user networking: leave --tap out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::fixture::{self, Shape};
    use crate::plan::{BoardDevice, Device, DeviceClass, PhysicalRange, Qemu as BoardQemu};

    fn with_card() -> Plan {
        let mut plan = fixture::parts(&Shape::default()).plan;
        plan.board.qemu = Some(BoardQemu {
            machine: "virt".into(),
            cpu: "max".into(),
            arguments: vec!["-global".into(), "x=y".into()],
        });
        plan.devices.push(Device {
            board: BoardDevice {
                name: "nic0".into(),
                class: DeviceClass::named("net").expect("a class"),
                compatible: "virtio,net".into(),
                registers: PhysicalRange { address: 0x0a00_0000, size: 0x200 },
                interrupts: Vec::new(),
                dma: 0,
                qemu: vec!["-device".into(), "virtio-net-device,netdev={name},mac={mac}".into()],
            },
            driver: 0,
            registers: 0,
            offset: 0,
            dma: None,
            mac: Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]),
        });
        plan
    }

    fn line(plan: &Plan, network: Network, gdb: Option<u16>) -> String {
        let image = Path::new("image");
        let machine = Machine { plan, image, cores: 2, network, gdb, extra: &["-d".into(), "int".into()] };
        let arguments = machine.arguments().expect("emulated");
        arguments.into_iter().map(|word| word.into_string().expect("UTF-8")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_has_what_board_and_options_ask_for() {
        let plan = with_card();
        let forward = "8080:80".parse().expect("a forward");
        let user = line(&plan, Network::User(vec![forward]), Some(1234));
        for part in [
            "-machine virt -cpu max -smp 2 -m 536870912B -global x=y",
            "-netdev user,id=nic0,hostfwd=tcp:127.0.0.1:8080-10.0.2.15:80",
            "-device virtio-net-device,netdev=nic0,mac=52:54:00:12:34:56",
            "-gdb tcp:127.0.0.1:1234 -S -d int -kernel image",
        ] {
            assert!(user.contains(part), "{part}\n{user}");
        }
        let tap = line(&plan, Network::Tap("tap7".into()), None);
        assert!(tap.contains("-netdev tap,id=nic0,ifname=tap7,script=no,downscript=no") && !tap.contains("-gdb"));
    }

    #[test]
    fn a_board_that_is_not_emulated_is_named() {
        let plan = fixture::parts(&Shape::default()).plan;
        let network = Network::User(Vec::new());
        let machine = Machine { plan: &plan, image: Path::new("i"), cores: 1, network, gdb: None, extra: &[] };
        assert!(machine.arguments().expect_err("none").message().contains("does not emulate the board `test`"));
    }

    #[test]
    fn an_interface_that_is_no_tap_is_refused() {
        assert!(check_tap("lo").expect_err("loopback").message().contains("not a TAP"));
        assert!(check_tap("culm-no-such").expect_err("missing").to_string().contains("ip tuntap add"));
    }
}
