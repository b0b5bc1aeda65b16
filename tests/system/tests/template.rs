//! `./culm new component`: what it makes builds, passes its own test, and boots.
//!
//! In a file of its own, so that no other test builds while the checkout has one component more.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_system_tests::{Boot, root};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const NAME: &str = "made-by-a-test";

/// Puts the checkout back as it was.
struct Cleanup {
    lock: Vec<u8>,
}

impl Cleanup {
    fn new() -> Self {
        let cleanup = Self { lock: fs::read(root().join("Cargo.lock")).expect("the checkout has a lock file") };
        // What an aborted test left.
        cleanup.remove();
        cleanup
    }

    fn remove(&self) {
        _ = fs::remove_dir_all(root().join("apps").join(NAME));
        _ = fs::remove_file(root().join(format!("systems/{NAME}.toml")));
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.remove();
        _ = fs::write(root().join("Cargo.lock"), &self.lock);
    }
}

#[test]
fn a_new_component_builds_passes_its_test_and_boots() {
    let _cleanup = Cleanup::new();
    let tool = std::env::var("CULM").map_or_else(|_| root().join("culm"), PathBuf::from);
    let run = |mut command: Command| {
        let output = command.current_dir(root()).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let mut new = Command::new(tool);
    new.args(["new", "component", NAME]);
    run(new);
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "-p", NAME]);
    run(test);
    let mut machine = Boot::system(NAME).start(&[]);
    machine.expect(&format!("{NAME} starts"));
    machine.expect(&format!("{NAME} runs"));
}
