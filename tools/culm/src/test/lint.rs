//! Clippy and rustdoc, of whatever version. Each knows lints that others do not, so only one
//! version can be asked to find nothing: the one recorded in the workspace's `Cargo.toml`. What
//! another finds is shown and fails nothing.

use crate::build::{Toolchain, Version};
use crate::failure::Failure;
use std::path::Path;

/// How the findings of clippy and rustdoc are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Whatever it finds fails the test.
    Deny,
    /// It is not of the recorded version, which is this: what it finds is shown.
    Show(Version),
    /// The code is a user's: what it finds is shown.
    Users,
}

impl Strictness {
    /// That for a Rust which works on the checkout at `root`.
    ///
    /// # Errors
    /// Where the checkout does not say which version is the recorded one.
    pub fn of(toolchain: &Toolchain, root: &Path) -> Result<Self, Failure> {
        let file = root.join("Cargo.toml");
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Failure::io(format_args!("read {}", file.display()), &error))?;
        let recorded = recorded(&text).ok_or_else(|| {
            Failure::new(format!("{} does not say which Rust is the recorded one", file.display()))
                .help("[workspace.metadata.culm] has a line such as recorded-rust = \"1.95\"")
        })?;
        Ok(if toolchain.version == recorded { Self::Deny } else { Self::Show(recorded) })
    }

    /// Returns the flags for rustdoc, which warns by itself.
    pub fn rustdoc_flags(self) -> &'static str {
        match self {
            Self::Deny => "-D warnings",
            Self::Users | Self::Show(_) => "",
        }
    }

    /// Returns the arguments for clippy after `--`.
    pub fn arguments(self) -> [&'static str; 2] {
        match self {
            Self::Deny => ["-D", "warnings"],
            // Some of its lints are denied by themselves.
            Self::Show(_) | Self::Users => ["-W", "clippy::all"],
        }
    }
}

fn recorded(cargo_toml: &str) -> Option<Version> {
    let table: toml::Table = cargo_toml.parse().ok()?;
    Version::find(table.get("workspace")?.get("metadata")?.get("culm")?.get("recorded-rust")?.as_str()?)
}

/// Returns the findings: the lines of its output that tell no progress.
pub fn findings(output: &str) -> String {
    const PROGRESS: &[&str] = &[
        "Adding ",
        "Blocking ",
        "Checking ",
        "Compiling ",
        "Documenting ",
        "Downloaded ",
        "Downloading ",
        "Finished ",
        "Generated ",
        "Locking ",
        "Updating ",
    ];
    let is_progress = |line: &&str| PROGRESS.iter().any(|verb| line.trim_start().starts_with(verb));
    output.lines().filter(|line| !is_progress(line)).collect::<Vec<_>>().join("\n").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::TargetSupport;

    #[test]
    fn the_recorded_version_is_in_the_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("Cargo.toml")).expect("there is a workspace");
        assert!(recorded(&text) >= Some(crate::build::minimum_rust()));
        assert_eq!(recorded("[workspace.metadata.culm]"), None);
    }

    /// Only that of the recorded version fails the test: the others' lints are another opinion.
    #[test]
    fn clippy_of_another_version_is_shown() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("Cargo.toml")).expect("there is a workspace");
        let recorded = recorded(&text).expect("it names a version");
        let with = |minor: u32| {
            let version = Version { minor, ..recorded };
            let toolchain = Toolchain {
                cargo: "cargo".into(),
                rustc: "rustc".into(),
                version,
                support: TargetSupport::Installed,
                vectors: None,
                linker: None,
            };
            Strictness::of(&toolchain, &root).expect("the checkout is whole")
        };
        assert_eq!(with(recorded.minor), Strictness::Deny);
        for minor in [recorded.minor - 1, recorded.minor + 1] {
            assert_eq!(with(minor), Strictness::Show(recorded));
        }
        assert!(Strictness::Deny.arguments().contains(&"-D"));
        assert!(!Strictness::Show(recorded).arguments().contains(&"-D"));
    }

    #[test]
    fn what_clippy_finds_is_told_from_its_progress() {
        let output = "    Checking culm-net v0.1.0 (/x)\nwarning: this can be collapsed\n --> a.rs:1:1\n  |\n\n    Finished `dev`";
        assert_eq!(findings(output), "warning: this can be collapsed\n --> a.rs:1:1\n  |");
        assert_eq!(findings("    Finished `dev` profile\n"), "");
    }
}
