//! Systems as they are, on every board there is.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::curl;
use culm_tests_harness::{Boot, root};
use std::path::Path;

fn serves_on(board: &str, system: &str) {
    serves(Boot::system(system).board(board));
}

fn serves(boot: Boot) {
    let mut machine = boot.start(&[80]);
    machine.wait_for_web();
    let page = std::fs::read(root().join("site/index.html")).expect("the site has a page");
    for _ in 0..5 {
        assert!(curl(&machine.url("/"), &[]).body == page, "not the page");
    }
    machine.is_unharmed();
}

#[test]
fn gicv2_at_el1_serves_from_four_cores() {
    serves_on("virt-gicv2", "web4");
}

/// `path` is of a system in `tests/systems`.
fn of_tests(path: &str) -> String {
    root().join("tests/systems").join(path).to_str().expect("the checkout's path is text").into()
}

#[test]
fn a_fused_driver_serves() {
    serves(Boot::system(of_tests("fused.toml")));
}

#[test]
fn a_fused_driver_serves_on_gicv2_at_el1() {
    serves(Boot::system(of_tests("fused.toml")).board("virt-gicv2"));
}

// A processor that has EL2 and no VHE: the kernel is entered at EL2, runs at EL1, and reaches the
// firmware by SMC.
#[test]
fn el2_without_vhe_serves() {
    serves(Boot::system("web").processor("cortex-a72"));
}

#[test]
fn el2_without_vhe_serves_from_four_cores() {
    serves(Boot::system("web4").processor("cortex-a72"));
}

#[test]
fn all_that_a_new_processor_has_serves_from_four_cores() {
    serves(Boot::system("web4").processor("max"));
}

#[test]
fn without_optimisation_serves_from_four_cores() {
    serves(Boot::system("web4").debug());
}

#[test]
fn without_optimisation_serves_from_four_cores_on_gicv2_at_el1() {
    serves(Boot::system("web4").board("virt-gicv2").debug());
}

/// A board like `virt`, whose cores have these affinities. It has a name of its own: two boards of
/// one name are built in one folder, and tests that run side by side would boot each other's
/// images.
fn board_with_cores(folder: &Path, affinities: &[u32]) -> String {
    let virt = std::fs::read_to_string(root().join("boards/virt.toml")).expect("there is the board");
    let line = |line: &str| match line.split(' ').next() {
        Some("name") => format!("name = \"virt-{}-of-{}\"\n", affinities[0], affinities.len()),
        Some("cores") => format!("cores = {}\n", affinities.len()),
        Some("mpidr") => format!("mpidr = {affinities:?}\n"),
        _ => format!("{line}\n"),
    };
    let file = folder.join("mixed.toml");
    std::fs::write(&file, virt.lines().map(line).collect::<String>()).expect("the folder is writable");
    file.to_str().expect("temporary paths are text").into()
}

#[test]
fn the_core_that_boots_need_not_be_the_first() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    serves(Boot::system("web4").board(&board_with_cores(folder.path(), &[2, 3, 0, 1])));
}

#[test]
fn a_core_that_boots_and_is_none_of_the_images_says_so() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let machine = &mut Boot::system("hello").board(&board_with_cores(folder.path(), &[1])).start(&[]);
    let line = machine.expect("culm: panic: ");
    assert!(line.contains("the core that boots has the affinity 0x0"), "{line}");
}

/// Boots a board whose file is wrong about its interrupt controller in a way that the tool cannot
/// see, since it takes the last word from another option; the kernel's line.
fn panic_of_gic(board: &str, argument: &str) -> String {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let text = std::fs::read_to_string(root().join("boards").join(board)).expect("there is the board");
    let argument = format!("arguments = [\"-machine\", \"{argument}\", ");
    let text = text.replace("arguments = [", &argument).replace("name = \"virt", "name = \"wrong-virt");
    let file = folder.path().join("wrong.toml");
    std::fs::write(&file, text).expect("the folder is writable");
    let machine = &mut Boot::system("hello").board(file.to_str().expect("temporary paths are text")).start(&[]);
    machine.expect("culm: panic: ")
}

#[test]
fn a_gicv2_where_the_board_says_3_is_named() {
    let line = panic_of_gic("virt.toml", "gic-version=2");
    assert!(line.contains("says `gic.version = 3`, but this processor has no interface to a GICv3"), "{line}");
}

#[test]
fn a_gicv3_where_the_board_says_2_is_named() {
    let line = panic_of_gic("virt-gicv2.toml", "gic-version=3");
    assert!(line.contains("says `gic.version = 2`, but GICD_PIDR2 (0x"), "{line}");
    assert!(line.contains("is the version 3,"), "{line}");
}

/// A new board is one file: it is tested by being there.
#[test]
fn every_board_that_qemu_has_serves() {
    for entry in std::fs::read_dir(root().join("boards")).expect("there are boards").flatten() {
        let board = std::fs::read_to_string(entry.path()).expect("a board is text");
        if board.lines().any(|line| line.trim() == "[qemu]") {
            let name = entry.path().file_stem().expect("a board has a name").to_string_lossy().into_owned();
            eprintln!("on {name}");
            serves_on(&name, "web");
        }
    }
}
