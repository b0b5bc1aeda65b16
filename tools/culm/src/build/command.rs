//! `culm build`: builds the image of a system and prints a table of sizes.

use super::cargo::Profile;
use super::system::{BuiltSystem, build_system};
use crate::commands::System;
use crate::plan::Plan;
use crate::tree::Tree;
use anyhow::Result;

/// How much the compiler optimises, as the command line says it.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct ProfileChoice {
    /// Optimised; this is the default
    #[arg(long, overrides_with = "debug")]
    pub release: bool,
    /// Built fast, with checks for overflow
    #[arg(long)]
    pub debug: bool,
}

impl ProfileChoice {
    /// The profile chosen.
    pub fn profile(self) -> Profile {
        if self.debug { Profile::Debug } else { Profile::Release }
    }
}

/// Arguments of `culm build`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The system.
    #[command(flatten)]
    pub system: System,
    /// The profile.
    #[command(flatten)]
    pub profile: ProfileChoice,
}

/// Builds the image and prints the table of sizes.
pub fn build(options: &Options) -> Result<()> {
    let plan = options.system.plan_to_build(None)?;
    let built = build_plan(&plan, options.profile.profile())?;
    print!("{}", built.report.table());
    Ok(())
}

/// Builds the image of `plan`, with its picture for those who observe.
pub fn build_plan(plan: &Plan, profile: Profile) -> Result<BuiltSystem> {
    let picture = crate::graph::svg(plan);
    Ok(build_system(&Tree::find()?, plan, picture.as_bytes(), profile)?)
}
