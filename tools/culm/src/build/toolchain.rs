//! Which Rust builds for the target: the first on the search path that is new enough and has either
//! the target's libraries (rustup) or their sources (rustup's rust-src, Debian's rust-web-src).
//!
//! A machine can have several, of which the first on the path need not be the one that can; nothing
//! is installed here, that is the work of `./culm setup`.

use super::Target;
use crate::failure::Failure;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest Rust that builds Culm, as the workspace's `Cargo.toml` says.
pub fn minimum_rust() -> Version {
    Version::find(env!("CARGO_PKG_RUST_VERSION")).unwrap_or(Version { major: 1, minor: 0 })
}

/// A program's version, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

impl Version {
    /// The first `MAJOR.MINOR` in a program's output.
    pub fn find(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            let mut numbers = word.split('.');
            let major = numbers.next()?.parse().ok()?;
            let minor = numbers.next()?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
            Some(Self { major, minor })
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// How a toolchain comes by `core` for the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSupport {
    /// It has it, compiled.
    Installed,
    /// It has its source and compiles it (`-Zbuild-std`).
    Source,
}

/// A Rust that can build for the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The cargo to run.
    pub cargo: PathBuf,
    /// The rustc that it shall use.
    pub rustc: PathBuf,
    /// Version of rustc.
    pub version: Version,
    /// Where `core` comes from.
    pub support: TargetSupport,
    /// Where that for components with vector registers comes from, if it can compile for them.
    pub vectors: Option<TargetSupport>,
    /// The linker to name to rustc; `None` where rustc brings one.
    pub linker: Option<PathBuf>,
}

impl Toolchain {
    /// The first that serves: `CULM_CARGO` if set, then each cargo on the search path, then
    /// Debian's.
    pub fn find() -> Result<Self, Failure> {
        let mut rejected = Vec::new();
        for cargo in candidates() {
            match Self::check(&cargo) {
                Ok(toolchain) => return Ok(toolchain),
                Err(reason) => rejected.push(format!("{}: {reason}", cargo.display())),
            }
        }
        let failure = Failure::new(format!("no Rust on this machine can build for {}", Target::General.triple()));
        let failure = rejected.into_iter().fold(failure, Failure::detail);
        Err(failure.help("`./culm setup` says what to install"))
    }

    /// Whether `cargo` and the rustc beside it can build for the target.
    pub fn check(cargo: &Path) -> Result<Self, String> {
        let rustc = cargo.with_file_name("rustc");
        let version = ask(&rustc, &["--version"])?;
        let version = Version::find(&version).ok_or_else(|| format!("unreadable version: {}", version.trim()))?;
        if version < minimum_rust() {
            return Err(format!("rustc {version} is older than {}", minimum_rust()));
        }
        let rustlib = PathBuf::from(ask(&rustc, &["--print", "sysroot"])?.trim()).join("lib/rustlib");
        let has_source = rustlib.join("src/rust/library/core/Cargo.toml").is_file();
        let support = |target: Target| match rustlib.join(target.triple()).join("lib").is_dir() {
            true => Some(TargetSupport::Installed),
            false => has_source.then_some(TargetSupport::Source),
        };
        let vectors = support(Target::Vectors);
        let support = support(Target::General).ok_or_else(|| {
            format!("rustc {version} has neither the target {} nor the library sources", Target::General.triple())
        })?;
        let linker = match own_linker(&rustlib) {
            true => None,
            false => Some(find_program("ld.lld").ok_or("ld.lld is missing (package lld)")?),
        };
        Ok(Self { cargo: cargo.into(), rustc, version, support, vectors, linker })
    }
}

/// Whether rustc brings `rust-lld`, the target's default linker.
fn own_linker(rustlib: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(rustlib) else { return false };
    entries.flatten().any(|entry| entry.path().join("bin/rust-lld").is_file())
}

fn candidates() -> Vec<PathBuf> {
    if let Some(cargo) = std::env::var_os("CULM_CARGO") {
        return vec![cargo.into()];
    }
    let mut found: Vec<PathBuf> = Vec::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path).chain(["/usr/bin".into()]) {
        let cargo = directory.join("cargo");
        if cargo.is_file() && !found.contains(&cargo) {
            found.push(cargo);
        }
    }
    found
}

/// The first executable of this name on the search path.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// Returns what `program` prints; an error in words if it cannot be run or fails.
pub fn ask(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{} {}: {}", program.display(), arguments.join(" "), output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let found = |text| Version::find(text).map(|version| version.to_string());
        assert_eq!(found("rustc 1.96.0 (ac68faa20 2026-05-25)").as_deref(), Some("1.96"));
        assert_eq!(found("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)").as_deref(), Some("10.0"));
        assert_eq!(found("rustc 1.93.0-nightly (abc)").as_deref(), Some("1.93"));
        assert_eq!(found("no number"), None);
    }

    #[test]
    fn the_oldest_rust_is_known() {
        assert!(minimum_rust() >= Version { major: 1, minor: 91 });
    }
}
