//! A device on a PCI bus: the driver of the bus gives it its address, or leaves it off.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, root};

#[test]
fn a_planned_device_answers_at_its_address() {
    let machine = &mut Boot::system("tests/systems/sd.toml").start(&[]);
    machine.expect_anywhere("sd0_driver: waits for the bus's driver");
    machine.expect_anywhere("pci0_driver: slot 1: ready, 0x100 bytes at 0x10000000");
    machine.expect_anywhere("sd0_driver: card QEMU!");
}

#[test]
fn another_device_than_was_planned_stays_off() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let board = std::fs::read_to_string(root().join("boards/virt.toml")).expect("there is the board");
    let board =
        board.replace("name = \"virt\"", "name = \"virt-other\"").replace("product = 0x0007", "product = 0x0008");
    let file = folder.path().join("other.toml");
    std::fs::write(&file, board).expect("the folder is writable");
    let board = file.to_str().expect("temporary paths are text");
    let machine = &mut Boot::system("tests/systems/sd.toml").board(board).start(&[]);
    let why = "slot 1: off, it is not 1b36:0008 as planned: a device 1b36:0007 of the class 080501 sits there";
    machine.expect_anywhere(why);
    machine.expect_anywhere("sd0_driver: the bus's driver keeps the controller off: there is no disk");
    machine.expect_anywhere("first: block-test failed");
}
