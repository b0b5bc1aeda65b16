//! The guests that are written for tests (`tests/guest`), as Images for a system's guest.

use crate::root;
use culm_tool::build::{Cargo, Profile, Toolchain};
use culm_tool::tree::Tree;
use std::path::PathBuf;

/// Builds the guest of this name with the tool chain that builds components.
///
/// # Panics
/// Where it does not build.
pub fn build(name: &str) -> PathBuf {
    let toolchain = Toolchain::find().expect("a Rust builds for the target");
    let cargo = Cargo::new(toolchain, &Tree::new(root(), None), Profile::Release);
    cargo.program("culm-tests-guest", name).expect("the guest builds")
}
