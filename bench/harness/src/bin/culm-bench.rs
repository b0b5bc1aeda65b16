//! The harness as a program of its own, for work on the harness; users call it as `./culm bench`.

use anyhow::{Context, Result};
use clap::Parser;
use culm_bench_harness::Settings;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
struct Arguments {
    /// The host tool, which builds Culm's systems.
    #[arg(long, default_value = "./culm")]
    tool: PathBuf,
    #[command(flatten)]
    settings: Settings,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let root = std::env::current_dir().context("the current folder is gone")?;
    let settings = Settings { tool: arguments.tool, ..arguments.settings };
    let fine = culm_bench_harness::run(&root, &settings)?;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
