//! The harness as a program, which `./culm bench` starts.

use anyhow::{Result, bail};
use clap::Parser;
use std::process::ExitCode;

/// The command line of `./culm bench`, which has been checked by the tool already.
#[derive(Parser)]
#[command(name = "culm bench")]
struct CommandLine {
    #[command(flatten)]
    options: culm_tool::bench::Options,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            culm_tool::commands::report(&error);
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let options = CommandLine::parse().options;
    if !culm_bench_harness::run(&culm_tool::tree::Tree::find()?.culm, &options)? {
        bail!("the benchmarks did not all go well: see above");
    }
    Ok(())
}
