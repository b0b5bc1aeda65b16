//! The power button: QEMU presses it, and the machine ends in order.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, PATIENCE, free_port};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};

/// Presses the button by QEMU's machine protocol (QMP), which takes commands after a greeting.
fn press(port: u16) {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("QEMU listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
    let mut stream = BufReader::new(stream);
    for command in ["qmp_capabilities", "system_powerdown"] {
        let mut line = String::new();
        stream.read_line(&mut line).expect("QEMU answers");
        writeln!(stream.get_mut(), "{{\"execute\": \"{command}\"}}").expect("QEMU listens");
    }
    let mut line = String::new();
    stream.read_line(&mut line).expect("QEMU answers");
}

fn ends(board: &str) {
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port},server=on,wait=off");
    let boot = Boot::system("tests/systems/power-button.toml").board(board);
    let mut machine = boot.option(&["--qemu", "-qmp", "--qemu", &listen]).start(&[]);
    machine.expect("gpio0_driver: watches 1 line");
    press(port);
    machine.expect("power: the power button was pressed: the machine ends");
    assert_eq!(machine.wait().code(), Some(0));
}

#[test]
fn the_power_button_ends_the_machine() {
    ends("virt");
}

#[test]
fn the_power_button_ends_the_machine_on_gicv2() {
    ends("virt-gicv2");
}
