//! `culm test`: every test there is, in the order in which they are quick to fail. In a workspace
//! of the user's: those of its own components, and a check of all that is described there.
//!
//! A stage is a list of programs to run. What they print goes to a file; the terminal shows what is
//! being done, and where it fails what the failed tests have said. All stages run, whatever the
//! earlier ones found. The last line has the plain counts.

mod lint;
mod report;
mod stage;
mod tally;

use crate::build::{Target, Toolchain};
use crate::description::catalogue::Catalogue;
use crate::failure::Failure;
use crate::tree::Tree;
use anyhow::Result;
use culm_manifest::problem::suggest;
use stage::{Stage, Workshop};
use std::collections::{BTreeMap, BTreeSet};
use tally::Tally;

/// Names of all stages of the checkout's own tests.
pub const STAGES: &[&str] = &["format", "spelling", "lint", "doc", "host", "models", "fuzz", "systems"];

/// Arguments of `culm test`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Only what takes less than five minutes: lints, host tests, and one system of each kind
    #[arg(long)]
    quick: bool,
    /// Repeat tests of rare events, like a driver's death under load, a thousand times
    #[arg(long)]
    soak: bool,
    /// Only these stages; `culm test --list` names them
    stages: Vec<String>,
    /// List the stages
    #[arg(long)]
    list: bool,
}

/// Runs the stages.
///
/// # Errors
/// Where a test fails, or something that it needs is missing.
pub fn test(options: &Options) -> Result<()> {
    let tree = Tree::find()?;
    let all = Catalogue::of(&tree).components.into_iter();
    let own = all.filter(|(_, component)| tree.of_crate(&component.folder) == tree.home());
    let mut components: BTreeMap<Target, BTreeSet<String>> = BTreeMap::new();
    for (name, component) in own {
        let target = component.manifest.as_ref().map(Target::of).unwrap_or_default();
        components.entry(target).or_default().insert(name);
    }
    let workshop = Workshop::new(tree, Toolchain::find()?, components)?;
    let stages: Vec<Stage> = Stage::all(&workshop, options.quick, options.soak);
    if options.list {
        for stage in &stages {
            println!("{:<10} {}", stage.name, stage.about);
        }
        return Ok(());
    }
    if let Some(unknown) = options.stages.iter().find(|name| !stages.iter().any(|stage| stage.name == **name)) {
        let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
        let help = suggest(unknown, names.iter().copied()).unwrap_or_default();
        return Err(Failure::new(format!("there is no stage `{unknown}`")).help(help).into());
    }
    let mut total = Tally::default();
    let mut failed = vec![];
    for stage in stages.iter().filter(|stage| options.stages.is_empty() || options.stages.contains(&stage.name.into()))
    {
        let tally = workshop.run(stage)?;
        if tally.failed > 0 {
            failed.push(stage.name);
        }
        total += tally;
    }
    println!();
    println!("{total}");
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("failed: {}", failed.join(", ")))
        .help(format!("what they printed is in {}", workshop.logs.display()))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn all_stages_are_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let toolchain = Toolchain::find().expect("a Rust that builds for the target");
        let workshop = Workshop::new(Tree::new(root, None), toolchain, BTreeMap::new()).expect("the checkout is whole");
        let names: Vec<&str> = Stage::all(&workshop, false, false).iter().map(|stage| stage.name).collect();
        assert_eq!(names, STAGES);
    }
}
