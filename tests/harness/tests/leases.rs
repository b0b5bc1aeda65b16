//! The address that dnsmasq leases, when the wire is unplugged and plugged in again: in the same
//! network, and in another one.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, answers_pings, try_run};
use culm_tests_harness::qmp::Qmp;
use culm_tests_harness::{Boot, Machine, PATIENCE, artefacts, free_port, on_wires};
use culm_wire::ip;
use serde_json::json;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const WIRE: (&str, &str) = ("culm0", "198.18.0.1/24");

/// Starts a DHCP server for a network, by its first three bytes.
fn server(network: &str, log: &str) -> Background {
    let range = format!("--dhcp-range={network}.50,{network}.60,1h");
    let (facility, leases) = (format!("--log-facility={log}"), format!("--dhcp-leasefile={log}.{network}"));
    _ = fs::remove_file(format!("{log}.{network}"));
    let options = [
        "--port=0",
        "--interface=culm0",
        "--bind-dynamic",
        "--dhcp-authoritative",
        "--log-dhcp",
        &range,
        &facility,
        &leases,
    ];
    Background::dnsmasq(&options)
}

/// Unplugs the wire and plugs it in again.
fn plug(machine: &mut Machine, monitor: &mut Qmp, meanwhile: impl FnOnce()) {
    monitor.execute("set_link", &json!({ "name": "nic0", "up": false }));
    machine.expect("link down");
    meanwhile();
    monitor.execute("set_link", &json!({ "name": "nic0", "up": true }));
    machine.expect("link up");
}

/// Asks for somebody who is not there, as stations of a network do, until the console says `text`.
fn until_said(machine: &mut Machine, network: &str, text: &str) {
    let until = Instant::now() + PATIENCE;
    while !machine.saw(text) {
        try_run(5, "ping", &["-n", "-c", "1", "-W", "1", &format!("{network}.200")]);
        assert!(Instant::now() < until, "{}", machine.console());
    }
}

#[test]
fn a_lease_is_asked_for_anew_when_the_wire_is_plugged_in_again() {
    let port = free_port();
    let boot = Boot::system("echo").option(&Qmp::options(port).each_ref().map(String::as_str));
    on_wires(boot, &[WIRE], |machine| {
        let log = artefacts().join("leases-dnsmasq.log");
        _ = fs::remove_file(&log);
        let log = log.to_str().expect("a path in UTF-8");
        let first = server("198.18.0", log);
        let line = machine.expect("by DHCP");
        let address = line.split_once("address ").and_then(|(_, rest)| rest.split('/').next()).expect("an address");
        answers_pings(address, 56);
        let mut monitor = Qmp::connect(port);
        let said = |what: &str| fs::read_to_string(log).unwrap_or_default().matches(what).count();
        let (discovered, acknowledged) = (said("DHCPDISCOVER("), said("DHCPACK("));

        // The same network: one more request, and the same address.
        plug(machine, &mut monitor, || {});
        let until = Instant::now() + PATIENCE;
        while said("DHCPACK(") == acknowledged {
            try_run(5, "ping", &["-n", "-c", "1", "-W", "1", "198.18.0.200"]);
            assert!(Instant::now() < until, "nobody asks: {}", machine.console());
            sleep(Duration::from_millis(200));
        }
        assert_eq!(said("DHCPDISCOVER("), discovered, "it has asked for any address");
        answers_pings(address, 56);
        assert!(!machine.saw("no address"), "{}", machine.console());

        // Another network, whose server refuses the address.
        let mut second = None;
        plug(machine, &mut monitor, || {
            drop(first);
            ip("addr flush dev culm0 scope global").expect("it can be emptied");
            ip("addr add 198.19.7.1/24 dev culm0").expect("it can be added");
            second = Some(server("198.19.7", log));
        });
        until_said(machine, "198.19.7", "this network has other addresses");
        until_said(machine, "198.19.7", "address 198.19.7.");
        assert!(said("DHCPNAK(") > 0);
        let line = machine.expect("address 198.19.7.");
        let address = line.split_once("address ").and_then(|(_, rest)| rest.split('/').next()).expect("an address");
        answers_pings(address, 56);
        assert!(!machine.saw("faulted"), "{}", machine.console());
    });
}
