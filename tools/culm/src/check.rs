//! `culm check`: everything that is wrong or odd in a system, for people or for programs.

use crate::commands::{self, System};
use crate::diagnostics::{Severity, json};
use crate::expand::Checked;
use crate::failure::Failure;
use anyhow::Result;
use culm_manifest::units::format_size;
use std::process::ExitCode;

/// What to check, and how to say what was found.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Which system.
    #[command(flatten)]
    pub system: System,
    /// Print one JSON document for programs and editors, whatever is found
    #[arg(long)]
    pub json: bool,
    /// What fails the check besides mistakes
    #[arg(long, value_enum, value_name = "WHAT")]
    pub deny: Option<Deny>,
}

/// What can be denied.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deny {
    /// What is legal, but odd
    Warnings,
}

/// Checks a system. Mistakes are the error, unless they are printed as JSON.
pub fn check(options: &Options) -> Result<ExitCode> {
    let result = options.system.checked();
    let found = match &result {
        Ok(checked) => &checked.warnings,
        Err(mistakes) => mistakes,
    };
    let is_denied = options.deny == Some(Deny::Warnings) && found.count(Severity::Warning) > 0;
    let is_well = result.is_ok() && !is_denied;
    if options.json {
        println!("{:#}", json::document(&options.system.system, found));
        return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let checked = result?;
    commands::show_warnings(&checked.warnings);
    if is_denied {
        return Err(Failure::new("warnings are denied").help("repair what they say, or leave out `--deny`").into());
    }
    println!("{}", summary(&checked));
    Ok(ExitCode::SUCCESS)
}

/// What a good system has.
fn summary(checked: &Checked) -> String {
    let plan = &checked.plan;
    let regions: u64 = plan.regions.iter().filter(|region| region.address.is_none()).map(|region| region.size).sum();
    format!(
        "{} is well: {} protection domains on {} core{}, {} queues, {} regions ({}), board {}",
        plan.name,
        plan.domains.len(),
        plan.cores(),
        if plan.cores() == 1 { "" } else { "s" },
        plan.rings.len(),
        plan.regions.len(),
        format_size(regions),
        plan.board.name
    )
}
