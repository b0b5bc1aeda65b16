//! A device on a PCI bus: the driver of the bus gives it its address, or leaves it off.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::qmp::Qmp;
use culm_tests_harness::{Boot, free_port, root};
use serde_json::{Value, json};

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

/// Functions that no system planned, beside a disk that one did: they answer nowhere but in
/// configuration space, and the disk where its driver has its registers.
#[test]
fn functions_that_nobody_planned_answer_nowhere() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("pci-strangers.toml");
    let description = "name = \"pci-strangers\"\ndescription = \"A disk among strangers\"\nboard = \"virt\"\n\
                       [device.uart0]\npriority = 60\n[device.pci0]\npriority = 50\n\
                       [device.disk1]\npriority = 200\nbus = \"pci0\"\nsize = \"1MiB\"\n\
                       [pd.client]\ncomponent = \"block-test\"\npriority = 100\ndisk = \"disk1\"\n";
    std::fs::write(&file, description).expect("the folder is writable");
    let port = free_port();
    let [first, second] = Qmp::options(port);
    let strangers = ["virtio-rng-pci,bus=pcie.0,addr=3.0,multifunction=on", "e1000e,romfile=,bus=pcie.0,addr=3.5"];
    let devices: Vec<String> =
        strangers.iter().flat_map(|device| ["--qemu=-device".to_string(), format!("--qemu={device}")]).collect();
    let options: Vec<&str> = [first.as_str(), &second].into_iter().chain(devices.iter().map(String::as_str)).collect();
    let boot = Boot::system(file.to_str().expect("temporary paths are text")).option(&options);
    let machine = &mut boot.start(&[]);
    machine.expect_anywhere("pci0_driver: found 3 functions on the bus that nobody uses yet, and turned them off");
    machine.expect_anywhere("client: block-test passed");
    let buses = Qmp::connect(port).execute("query-pci", &json!({}));
    let seen: Vec<&Value> = buses[0]["devices"].as_array().expect("a list").iter().collect();
    let memory_of = |slot: u64| -> Vec<(u64, i64)> {
        let functions = seen.iter().filter(|function| function["slot"] == slot);
        let regions = functions.flat_map(|function| function["regions"].as_array().expect("a list"));
        let memory = regions.filter(|region| region["type"] == "memory");
        memory.map(|region| (region["bar"].as_u64().expect("one"), region["address"].as_i64().expect("one"))).collect()
    };
    assert!(memory_of(2).contains(&(4, 0x1000_4000)), "{buses}");
    let strangers = memory_of(3);
    assert!(strangers.len() > 2 && strangers.iter().all(|(_, address)| *address == -1), "{buses}");
}
