//! From a checked plan to an image on disk: programs are built, memory is laid out, the image and
//! its report are written.

use super::cargo::{Built, Cargo, Profile, Target};
use super::elf::{self, Program};
use super::toolchain::Toolchain;
use crate::failure::Failure;
use crate::guest;
use crate::image::{self, Contents, Nowhere, report::Report};
use crate::layout::{self, Layout};
use crate::plan::Plan;
use crate::tree::{Tree, cannot_build};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// An image that was built.
#[derive(Debug)]
pub struct BuiltSystem {
    /// The image file.
    pub image: PathBuf,
    /// The report of what is in it; also written as `report.json` beside it.
    pub report: Report,
}

/// The folder for the image of a system on a board.
pub fn output_folder(tree: &Tree, plan: &Plan, profile: Profile) -> PathBuf {
    let suffix = match profile {
        Profile::Release => "",
        Profile::Debug => "-debug",
    };
    tree.build.join(format!("{}-{}{suffix}", plan.name, plan.board.name))
}

/// How many times the stack of optimised code a component has without optimisation, where what
/// would stay in registers is copied to the stack.
const DEBUG_STACK: u64 = 4;

/// The largest stack that is made for that reason.
const MAX_DEBUG_STACK: u64 = 64 << 20;

/// `plan` for code that is built like this.
fn for_profile(plan: &Plan, profile: Profile) -> Plan {
    let mut plan = plan.clone();
    if profile == Profile::Debug {
        for domain in &mut plan.domains {
            domain.stack = (domain.stack * DEBUG_STACK).min(MAX_DEBUG_STACK).max(domain.stack);
        }
    }
    plan
}

/// Builds the image of `plan`; `picture` is the system's SVG.
pub fn build_system(tree: &Tree, plan: &Plan, picture: &[u8], profile: Profile) -> Result<BuiltSystem, Failure> {
    let plan = &for_profile(plan, profile);
    let contents = Contents::read(plan)?;
    let cargo = Cargo::new(Toolchain::find()?, tree, profile);
    let kernel_path = cargo.kernel()?;
    let mut built = Built::new();
    for ((workspace, target), names) in crates(tree, plan) {
        built.extend(cargo.components(target, workspace, &names)?);
    }
    let kernel = Program::read(&kernel_path)?;
    let programs = plan
        .components
        .iter()
        .filter_map(|component| built.get(&component.manifest.name))
        .map(|path| Program::read(path))
        .collect::<Result<Vec<_>, _>>()?;
    let kernel_layout = elf::kernel_layout(&kernel_path)?;
    let start_sizes: Vec<u64> = (0..plan.domains.len())
        .map(|id| image::start_block(plan, &contents, picture.len(), &Nowhere, id).len() as u64)
        .collect();
    let layout = Layout::new(&layout::Inputs {
        plan,
        kernel: &kernel,
        kernel_layout: &kernel_layout,
        programs: &programs,
        start_sizes: &start_sizes,
        file_sizes: &contents.sizes(),
        picture_size: picture.len() as u64,
    })?;
    let guests = plan.guests.iter().map(|guest| guest::Content::read(plan, guest)).collect::<Result<Vec<_>, _>>()?;
    let inputs =
        image::Inputs { plan, layout: &layout, kernel: &kernel, contents: &contents, guests: &guests, picture };
    let bytes = image::write(&inputs);
    let folder = output_folder(tree, plan, profile);
    let path = folder.join("image");
    let report = Report::new(plan, &layout, &kernel, &programs, profile.name(), &path);
    std::fs::create_dir_all(&folder)
        .map_err(|error| cannot_build(format_args!("make the folder {}", folder.display()), &error))?;
    let json = serde_json::to_vec_pretty(&report)
        .map_err(|error| Failure::new(format!("cannot write the report as JSON: {error}")))?;
    write(&folder, &[("image", &bytes), ("report.json", &json)])?;
    Ok(BuiltSystem { image: path, report })
}

/// The crates of the system's components, by the cargo workspace that has them, and by what they
/// are compiled for.
fn crates<'t>(tree: &'t Tree, plan: &Plan) -> BTreeMap<(&'t Path, Target), BTreeSet<String>> {
    let mut crates: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for component in &plan.components {
        let place = (tree.of_crate(&component.folder), Target::of(&component.manifest));
        crates.entry(place).or_default().insert(component.manifest.name.clone());
    }
    crates
}

/// Writes each file beside the old one and then puts the new one in its place: a machine that boots
/// meanwhile reads one or the other. Builds of the same system, which may run at the same time,
/// take turns: without that, one would rename what another still writes.
fn write(folder: &Path, files: &[(&str, &[u8])]) -> Result<(), Failure> {
    let lock = File::create(folder.join("lock"));
    lock.and_then(|lock| lock.lock().map(|()| lock))
        .and_then(|_lock| {
            files.iter().try_for_each(|(name, bytes)| {
                let new = folder.join(format!("{name}.new"));
                std::fs::write(&new, bytes)?;
                std::fs::rename(&new, folder.join(name))
            })
        })
        .map_err(|error| cannot_build(format_args!("write in {}", folder.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_at_the_same_time_do_not_take_each_others_files() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::thread::scope(|scope| {
            for byte in 0..8 {
                let folder = folder.path();
                scope.spawn(move || {
                    for _ in 0..50 {
                        write(folder, &[("image", &[byte; 10_000])]).expect("nobody takes what it writes");
                    }
                });
            }
        });
        let image = std::fs::read(folder.path().join("image")).expect("it was written");
        assert_eq!(image, [image[0]; 10_000], "one build's, whole");
    }
}
