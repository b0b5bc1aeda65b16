//! Providers of a class in a device's place, and devices without virtualisers.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, client};

#[test]
fn a_switch_joins_its_clients() {
    let mut machine = Boot::system("tests/systems/switch.toml").start(&[]);
    machine.expect("asker: 1000 frames came back");
    assert!(!machine.saw("a frame from another"), "{}", machine.tail());
}

#[test]
fn a_client_of_a_switch_is_reached_from_outside() {
    let machine = &mut Boot::system("tests/systems/uplink.toml").start(&[7000]);
    machine.wait_for_tcp(7000, b"anybody\n");
    let heard = client::exchange(machine.address(7000), b"Ada\r\n").expect("it accepts a connection");
    assert!(String::from_utf8_lossy(&heard).ends_with("Ada!\n"), "{heard:?}");
}

/// Linux's own 802.1Q on a trunk, in a guest: each of its devices reaches who is in its VLAN behind
/// the switch, and nobody else.
#[test]
fn linux_on_a_trunk_reaches_who_is_in_its_vlans() {
    let machine = &mut Boot::system("tests/systems/vlans.toml").start(&[]);
    machine.expect("all was asked");
    let said = machine.console();
    let answers = ["eth0.10: 5", "eth0.20: 5", "eth0.10: 0", "eth0.30: 0", "eth0: 0"];
    let found = said.lines().filter_map(|line| Some(&line[line.find("eth0")?..line.find(" packets received")?]));
    assert_eq!(found.collect::<Vec<_>>(), answers, "{said}");
}
