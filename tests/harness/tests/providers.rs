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
