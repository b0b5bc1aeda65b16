//! `culm bench`: what can be asked of the benchmarks, and the harness (`bench/harness`) started
//! with it.
//!
//! The harness is a program of its own, so that whoever builds or runs a system does not build it.

use crate::build::Toolchain;
use crate::failure::Failure;
use crate::tree::Tree;
use anyhow::Result;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Advice on names, which the harness gives too.
pub use culm_manifest::problem::suggest;

/// The variable by which the harness learns which tool builds Culm's systems.
pub const TOOL: &str = "CULM";

/// The harness's program.
const HARNESS: &str = "culm-bench";

/// Arguments of `culm bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Benchmarks or single rows (NAME or NAME/ROW); all without any
    pub names: Vec<String>,
    /// Print one JSON object a row instead of the table
    #[arg(long)]
    pub json: bool,
    /// Run the rows that have a target, and fail where one is missed
    #[arg(long)]
    pub check: bool,
    /// Compare with the recorded results and name what moved by more than 3 %
    #[arg(long)]
    pub compare: bool,
    /// Record the results in bench/results
    #[arg(long)]
    pub record: bool,
    /// Measure every combination, not only the usual ones
    #[arg(long)]
    pub full: bool,
    /// Count executions of all translated code and write profiles by function
    #[arg(long)]
    pub profile: bool,
    /// Count accesses to device registers (slower)
    #[arg(long)]
    pub devices: bool,
    /// Leave Linux out
    #[arg(long, conflicts_with = "only_peer")]
    pub no_peer: bool,
    /// Leave Culm out
    #[arg(long)]
    pub only_peer: bool,
    /// Use QEMU's user networking even where a TAP device is possible
    #[arg(long)]
    pub user_networking: bool,
    /// Keep rows also where other processes of the host kept QEMU from running
    #[arg(long)]
    pub busy: bool,
    /// Seconds of one measured window
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    pub seconds: f64,
    /// Instructions of each loop of `cpu`
    #[arg(long, default_value_t = 100_000_000)]
    pub instructions: u64,
    /// Emulated cores
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: u32,
    /// Folder for downloads and what is made of them
    #[arg(long)]
    pub cache: Option<PathBuf>,
    /// List the benchmarks, with those of their rows that are recorded or have a target
    #[arg(long)]
    pub list: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "expected a number of seconds above 0, such as 2 or 0.5".to_string())
}

impl Options {
    /// Whether Culm is measured.
    pub fn culm(&self) -> bool {
        !self.only_peer
    }

    /// Whether the peer is measured.
    pub fn peer(&self) -> bool {
        !self.no_peer
    }
}

/// Becomes the harness, which reads the same command line.
pub fn bench() -> Result<()> {
    let root = Tree::find()?.culm;
    let toolchain = Toolchain::find()?;
    let tool = std::env::current_exe().map_err(|error| Failure::io("find this program", &error))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    if !target.join("debug").join(HARNESS).is_file() {
        eprintln!("culm: building the benchmark harness (the first time takes a minute)");
    }
    let arguments = std::env::args_os().skip_while(|word| word != "bench").skip(1);
    let error = Command::new(&toolchain.cargo)
        .current_dir(&root)
        .env("RUSTC", &toolchain.rustc)
        .env(TOOL, tool)
        .args(["run", "--quiet", "--locked", "--package", "culm-bench-harness", "--bin", HARNESS, "--"])
        .args(arguments)
        .exec();
    Err(Failure::io(format_args!("run {}", toolchain.cargo.display()), &error).into())
}
