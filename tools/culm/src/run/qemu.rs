//! The emulator: finding it, and its command line for a system.

use crate::build::{Version, find_program};
use crate::class::Outside;
use crate::failure::Failure;
use crate::plan::{Board, BoardDevice, Plan};
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

/// QEMU's arguments for a board without its devices, which ends when its guest ends and shows
/// nothing; `memory` is in bytes.
pub fn machine_arguments(board: &Board, cores: u32, memory: u64) -> Result<Vec<OsString>, Failure> {
    let qemu = board.qemu.as_ref().ok_or_else(|| {
        Failure::new(format!("QEMU does not emulate the board `{}`", board.name))
            .help("`./culm boards` lists those that can be run here; `./culm build` builds for any")
    })?;
    let (cores, memory) = (cores.to_string(), format!("{memory}B"));
    let words = ["-nodefaults", "-no-reboot", "-display", "none", "-machine", &qemu.machine, "-cpu", &qemu.cpu];
    let words = words.into_iter().chain(["-smp", &cores, "-m", &memory]);
    Ok(words.chain(qemu.arguments.iter().map(String::as_str)).map(OsString::from).collect())
}

/// QEMU's arguments for a device of a board.
pub fn device_arguments(device: &BoardDevice, mac: &str) -> impl Iterator<Item = String> {
    device.qemu.iter().map(move |argument| argument.replace("{name}", &device.name).replace("{mac}", mac))
}

/// An emulated machine.
#[derive(Clone, Debug)]
pub struct QemuCommand<'a> {
    /// The system.
    pub plan: &'a Plan,
    /// Its image.
    pub image: &'a Path,
    /// How many cores.
    pub cores: u32,
    /// The surroundings that its devices lead to.
    pub outside: Outside,
    /// The port of 127.0.0.1 on which it waits for a debugger before it starts.
    pub gdb: Option<u16>,
    /// Further arguments.
    pub extra: &'a [String],
}

impl QemuCommand<'_> {
    /// QEMU's arguments. The console is standard input and output.
    pub fn arguments(&self) -> Result<Vec<OsString>, Failure> {
        let board = &self.plan.board;
        let mut arguments = machine_arguments(board, self.cores, board.memory.size)?;
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
        add(&["-no-user-config", "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        for (index, device) in self.plan.devices.iter().enumerate() {
            for argument in &self.outside.arguments(&self.plan.devices, index) {
                add(&[argument]);
            }
            let mac = device.mac.map(format_mac).unwrap_or_default();
            for argument in device_arguments(&device.board, &mac) {
                add(&[&argument]);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Options;
    use crate::layout::tests::fixture::{self, Shape};
    use crate::plan::{Device, Qemu as BoardQemu};

    fn with_device() -> Plan {
        let mut plan = fixture::parts(&Shape::default()).plan;
        plan.board.qemu = Some(BoardQemu {
            machine: "virt".into(),
            cpu: "max".into(),
            arguments: vec!["-global".into(), "x=y".into()],
        });
        let board = BoardDevice {
            qemu: vec!["-device".into(), "some-device,id={name},mac={mac}".into()],
            ..plan.board.devices[0].clone()
        };
        let mac = Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        plan.devices.push(Device { mac, ..fixture::used(board) });
        plan
    }

    #[test]
    fn the_command_line_has_what_board_and_options_ask_for() {
        let plan = with_device();
        let outside = Options::default().outside(&plan, None).expect("nothing is to be made");
        let extra = ["-d".into(), "int".into()];
        let mut machine =
            QemuCommand { plan: &plan, image: Path::new("image"), cores: 2, outside, gdb: Some(1234), extra: &extra };
        let line = |machine: &QemuCommand<'_>| {
            let arguments = machine.arguments().expect("emulated");
            arguments.into_iter().map(|word| word.into_string().expect("UTF-8")).collect::<Vec<_>>().join(" ")
        };
        let name = &plan.devices[0].board.name;
        for part in [
            "-machine virt -cpu max -smp 2 -m 536870912B -global x=y".to_string(),
            format!("-device some-device,id={name},mac=52:54:00:12:34:56"),
            "-gdb tcp:127.0.0.1:1234 -S -d int -kernel image".to_string(),
        ] {
            assert!(line(&machine).contains(&part), "{part}");
        }
        machine.gdb = None;
        assert!(!line(&machine).contains("-gdb"));
    }

    #[test]
    fn a_board_that_is_not_emulated_is_named() {
        let plan = fixture::parts(&Shape::default()).plan;
        let outside = Options::default().outside(&plan, None).expect("nothing is to be made");
        let machine = QemuCommand { plan: &plan, image: Path::new("i"), cores: 1, outside, gdb: None, extra: &[] };
        assert!(machine.arguments().expect_err("none").message().contains("does not emulate the board `test`"));
    }
}
