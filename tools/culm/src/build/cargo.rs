//! Runs cargo for the target: once for the kernel, once for all components of a system.
//!
//! Cargo writes its progress and the compiler's messages to the terminal by itself; what it prints
//! for programs says where each ELF file is.

use super::toolchain::{TargetSupport, Toolchain};
use crate::failure::Failure;
use crate::tree::Tree;
use culm_manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The kernel and nearly all components: general registers only.
    #[default]
    General,
    /// Components that use vector registers. A target of its own, since it passes floating-point
    /// numbers in other registers: the compiler does not let the other one have vectors.
    Vectors,
}

impl Target {
    /// Rust's name for it.
    pub const fn triple(self) -> &'static str {
        match self {
            Self::General => "aarch64-unknown-none-softfloat",
            Self::Vectors => "aarch64-unknown-none",
        }
    }

    /// The target of a component.
    pub fn of(manifest: &Manifest) -> Self {
        if manifest.vectors { Self::Vectors } else { Self::General }
    }
}

/// How much the compiler optimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// As fast as it can be.
    #[default]
    Release,
    /// Quick to build, with checks for overflow.
    Debug,
}

impl Profile {
    /// The profile's name, also that of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Debug => "debug",
        }
    }
}

/// Cargo, ready to build for the target.
#[derive(Clone, Debug)]
pub struct Cargo {
    toolchain: Toolchain,
    culm: PathBuf,
    profile: Profile,
}

/// ELF files by the name of their crate.
pub type Built = BTreeMap<String, PathBuf>;

impl Cargo {
    /// Cargo for the kernel and the runtime of this tree.
    pub fn new(toolchain: Toolchain, tree: &Tree, profile: Profile) -> Self {
        Self { toolchain, culm: tree.culm.clone(), profile }
    }

    /// Builds the kernel.
    pub fn kernel(&self) -> Result<PathBuf, Failure> {
        self.program("culm-kernel", "culm-kernel")
    }

    /// Builds the program `name` of a package that is linked like no component.
    pub fn program(&self, package: &str, name: &str) -> Result<PathBuf, Failure> {
        let mut command = self.command("build", Target::General, &self.culm, &[package.to_string()].into(), None);
        let built = self.run(command.args(["--bin", name]))?.0;
        built.get(name).cloned().ok_or_else(|| {
            Failure::new(format!("`{name}` does not build")).help("cargo's messages are above; they say what is wrong")
        })
    }

    /// Builds `components` of a cargo workspace, given as names of their crates, for a target of
    /// theirs.
    pub fn components(
        &self,
        target: Target,
        workspace: &Path,
        components: &BTreeSet<String>,
    ) -> Result<Built, Failure> {
        if self.support(target).is_none() {
            let names = components.iter().map(String::as_str).collect::<Vec<_>>().join("`, `");
            let (rust, triple) = (self.toolchain.rustc.display(), target.triple());
            let message = format!("this Rust cannot compile for vector registers, which `{names}` uses");
            return Err(Failure::new(message)
                .detail(format!("{rust} has neither the target {triple} nor the library sources"))
                .help(format!(
                    "`rustup target add {triple}`; or, for Debian's Rust, install its sources: rust-web-src"
                )));
        }
        let script = self.culm.join("runtime/link.ld");
        let built = self.build(target, workspace, components, &script)?;
        let missing: Vec<&str> =
            components.iter().map(String::as_str).filter(|&name| !built.contains_key(name)).collect();
        match missing.as_slice() {
            [] => Ok(built),
            [one] => Err(Failure::new(format!("component `{one}` does not build"))),
            several => Err(Failure::new(format!("components `{}` do not build", several.join("`, `")))),
        }
        .map_err(|failure| {
            let packages: Vec<String> = missing.iter().map(|name| format!("-p {name}")).collect();
            failure.help(format!(
                "cargo's messages are above; `cargo check {}` finds most mistakes faster, on the host",
                packages.join(" ")
            ))
        })
    }

    /// Builds `packages` as far as they build.
    fn build(
        &self,
        target: Target,
        workspace: &Path,
        packages: &BTreeSet<String>,
        script: &Path,
    ) -> Result<Built, Failure> {
        let mut command = self.command("build", target, workspace, packages, Some(script));
        let (built, status) = self.run(command.arg("--keep-going"))?;
        // Without success an executable can be one of an earlier build; only what cargo named is
        // taken.
        if status.success() && packages.iter().any(|package| !built.contains_key(package)) {
            let missing: Vec<&str> =
                packages.iter().filter(|name| !built.contains_key(*name)).map(String::as_str).collect();
            return Err(Failure::new(format!("no program comes out of the crate `{}`", missing.join("`, `")))
                .help("a component's crate has a `src/main.rs` and bears the component's name"));
        }
        Ok(built)
    }

    /// Runs a command of cargo's that builds, and collects the programs that come out.
    fn run(&self, command: &mut Command) -> Result<(Built, ExitStatus), Failure> {
        let mut child = command
            .arg(message_format())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::io(format_args!("run {}", self.toolchain.cargo.display()), &error))?;
        let mut built = Built::new();
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                built.extend(understand(&line));
            }
        }
        let status = child.wait().map_err(|error| Failure::io("wait for cargo", &error))?;
        if built.is_empty() && !status.success() {
            return Err(Failure::new(format!("cargo fails ({status})")).help(
                "its messages are above; it reads the crates of all components before it builds one, so one without a \
                 good Cargo.toml stops it: mend that, or remove its folder. The first build needs the network, for the crates \
                 that Culm uses; later ones do not",
            ));
        }
        Ok((built, status))
    }

    /// The command that has clippy look at `packages` of a cargo workspace.
    pub fn clippy(&self, target: Target, workspace: &Path, packages: &BTreeSet<String>) -> Command {
        self.command("clippy", target, workspace, packages, None)
    }

    /// The command that has rustdoc look at `packages` of a cargo workspace.
    pub fn doc(&self, workspace: &Path, packages: &BTreeSet<String>) -> Command {
        let mut command = self.command("doc", Target::General, workspace, packages, None);
        command.arg("--no-deps");
        command
    }

    /// Where `core` for a target comes from, if there is any.
    fn support(&self, target: Target) -> Option<TargetSupport> {
        match target {
            Target::General => Some(self.toolchain.support),
            Target::Vectors => self.toolchain.vectors,
        }
    }

    fn command(
        &self,
        verb: &str,
        target: Target,
        workspace: &Path,
        packages: &BTreeSet<String>,
        script: Option<&Path>,
    ) -> Command {
        let mut command = Command::new(&self.toolchain.cargo);
        command
            .current_dir(workspace)
            .args([verb, "--target", target.triple()])
            .env("RUSTC", &self.toolchain.rustc)
            // A warning that a later Rust will reject the standard library does not help a person
            // who builds a system.
            .env("CARGO_FUTURE_INCOMPAT_REPORT_FREQUENCY", "never")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS");
        if self.profile == Profile::Release {
            command.arg("--release");
        }
        if self.support(target) == Some(TargetSupport::Source) {
            command
                .args(["-Zbuild-std=core,alloc,compiler_builtins", "-Zbuild-std-features=compiler-builtins-mem"])
                .env("RUSTC_BOOTSTRAP", "1");
        }
        if let Some(linker) = &self.toolchain.linker {
            let triple = target.triple().replace('-', "_").to_uppercase();
            command.env(format!("CARGO_TARGET_{triple}_LINKER"), linker);
        }
        if let Some(script) = script {
            // Unaligned accesses to normal memory work while translation is on, which it always is
            // for components. Without the permission the compiler reads unaligned values, such as
            // headers of packets, byte by byte.
            let unaligned = "target-feature=-strict-align";
            // Separated by the unit separator, so that a path may hold spaces.
            let script = format!("link-arg=-T{}", script.display());
            let flags = ["-C", &script, "-C", "force-frame-pointers=yes", "-C", unaligned];
            command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        }
        for package in packages {
            command.args(["-p", package]);
        }
        command
    }
}

/// Returns the option for what cargo is to print for programs: with the compiler's messages as it
/// would show them on this terminal.
fn message_format() -> &'static str {
    if std::io::stderr().is_terminal() {
        "--message-format=json-diagnostic-rendered-ansi"
    } else {
        "--message-format=json"
    }
}

/// Passes a message of the compiler on; the crate's name and the program, where a line of cargo's
/// output tells of one.
fn understand(line: &str) -> Option<(String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    match message["reason"].as_str()? {
        "compiler-message" => {
            let message = &message["message"];
            // The one flag of ours that the compiler hands to LLVM without knowing it.
            if !message["message"].as_str()?.contains("`strict-align`") {
                eprint!("{}", message["rendered"].as_str()?);
            }
            None
        }
        "compiler-artifact" => {
            let executable = message["executable"].as_str()?;
            Some((message["target"]["name"].as_str()?.to_string(), executable.into()))
        }
        _ => None,
    }
}
