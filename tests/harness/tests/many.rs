//! Two hundred protection domains: more than fit into one word of a bit mask, or into one group of
//! channels.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::Boot;
use std::fmt::Write as _;

const DOMAINS: usize = 200;

/// Domains of all priorities below the serial driver's, each of which panics at a time of its own.
fn description() -> String {
    let mut text = String::from(
        "name = \"many\"\ndescription = \"Many domains\"\nboard = \"virt\"\n[device.uart0]\npriority = 240\n",
    );
    for index in 0..DOMAINS {
        write!(
            text,
            "[pd.pd{index}]\ncomponent = \"misbehave\"\npriority = {}\non_fault = \"stop\"\n\
             config = {{ rule = \"panic\", after = \"{}ms\" }}\n",
            10 + index,
            500 + 10 * index
        )
        .expect("a string takes everything");
    }
    text
}

#[test]
fn two_hundred_domains_boot_and_each_fault_is_told() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("many.toml");
    std::fs::write(&file, description()).expect("the folder is writable");
    let mut machine = Boot::system(file.to_str().expect("temporary paths are text")).start(&[]);
    // In any order: on a slow machine many are due at once.
    for index in 0..DOMAINS {
        machine.expect_anywhere(&format!("pd{index} faulted: panic"));
    }
}
