//! `culm bench`: the harness with the tool itself as the builder of Culm's systems.

use crate::build::{TargetSupport, Toolchain};
use crate::commands;
use anyhow::{Context as _, Result, bail};

/// Arguments of `culm bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The harness's own.
    #[command(flatten)]
    pub settings: culm_bench_harness::Settings,
}

/// Runs the benchmarks.
pub fn bench(options: &Options) -> Result<()> {
    let toolchain = Toolchain::find()?;
    let settings = culm_bench_harness::Settings {
        tool: std::env::current_exe().context("the tool does not find itself")?,
        toolchain: culm_bench_harness::Toolchain {
            cargo: toolchain.cargo,
            rustc: Some(toolchain.rustc),
            linker: toolchain.linker,
            builds_core: toolchain.support == TargetSupport::Source,
        },
        ..options.settings.clone()
    };
    if !culm_bench_harness::run(&commands::root()?, &settings)? {
        bail!("the benchmarks did not all go well: see above");
    }
    Ok(())
}
