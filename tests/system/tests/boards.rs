//! Systems as they are, on every board there is.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_system_tests::client::curl;
use culm_system_tests::{Boot, root};

fn serves_on(board: &str, system: &str) {
    let mut machine = Boot::system(system).board(board).start(&[80]);
    machine.wait_for_web();
    let page = std::fs::read(root().join("site/index.html")).expect("the site has a page");
    for _ in 0..5 {
        assert!(curl(&machine.url("/"), &[]).body == page, "not the page");
    }
    machine.is_unharmed();
}

#[test]
fn gicv2_at_el1_serves() {
    serves_on("virt-gicv2", "web");
}

#[test]
fn gicv2_at_el1_serves_from_four_cores() {
    serves_on("virt-gicv2", "web4");
}

#[test]
fn every_board_has_a_test() {
    let tests = include_str!("boards.rs");
    for entry in std::fs::read_dir(root().join("boards")).expect("there are boards").flatten() {
        let name = entry.path().file_stem().expect("a board has a name").to_string_lossy().into_owned();
        // The others of these tests run on `virt`.
        assert!(name == "virt" || tests.contains(&format!("\"{name}\"")), "{name}");
    }
}
