//! A Culm system in QEMU, as a user has it: started by `./culm run`, watched on its console,
//! reached by the forwards of QEMU's user networking, or on a wire of its own ([`on_a_wire`]),
//! or on several ([`on_wires`]).
//!
//! Tests wait for events, never for times: what does not come within [`PATIENCE`] fails the test
//! and shows the console's last lines.

#![forbid(unsafe_code)]

pub mod book;
pub mod capture;
pub mod checkout;
pub mod client;
pub mod deaths;
pub mod debugger;
mod dhcp;
pub mod download;
pub mod frames;
pub mod guest_image;
mod machine;
pub mod process;
pub mod qmp;
pub mod record;
pub mod screen;
pub mod terminal;
pub mod tiny_guest;
pub mod volume;
pub mod wire;

pub use machine::{Boot, Machine, free_port};
pub use wire::{on_a_wire, on_wires};

use std::path::PathBuf;
use std::time::Duration;

/// How long a test waits for anything. Generous: the emulator may share the machine with others.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The root of the checkout.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout has a root")
}

/// Where tests leave what people may want to look at: consoles and screenshots.
pub fn artefacts() -> PathBuf {
    let directory = root().join("build/test-artefacts");
    std::fs::create_dir_all(&directory).expect("the checkout is writable");
    directory
}

/// Whether a program is on the path. A test that needs one that is missing says so and fails:
/// `./culm setup` installs it.
pub fn require(program: &str) {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()));
    assert!(found, "this test needs `{program}`: `./culm setup --tests` installs it");
}
