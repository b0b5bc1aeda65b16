//! The station that leases addresses and answers for names, on a router's inner network: with a
//! client of busybox inside, and dnsmasq outside as the name server.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, answers_pings, run, try_run};
use culm_tests_harness::{Boot, Machine, PATIENCE, artefacts, on_wires};
use culm_wire::{Namespace, ip};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

/// The wires' ends on the host. Inside, the address comes from the machine.
const OUTER: (&str, &str) = ("culm0", "10.0.2.2/24");
const INNER: (&str, &str) = ("culm1", "10.0.9.9/24");

/// The machine's server.
const SERVER: &str = "10.0.3.3";

/// The machine's router, outside.
const ROUTER: &str = "10.0.2.15";

/// Does with a lease what it says (udhcpc's environment), and writes down what that is.
const SCRIPT: &str = r#"#!/bin/sh
case $1 in
    deconfig) ip addr flush dev "$interface" scope global ;;
    bound|renew)
        ip addr replace "$ip/$mask" dev "$interface"
        ip route replace default via "$router"
        echo "$1 $ip/$mask router $router dns $dns lease $lease server $serverid" >>"$0.said" ;;
esac
"#;

/// Waits until the router answers outside: a wire that was moved away before the machine has begun
/// would not be found. The server, which starts beside it, may be a moment later: clients ask
/// again.
fn until_up(machine: &mut Machine) {
    let until = Instant::now() + PATIENCE;
    while !try_run(5, "ping", &["-n", "-c", "1", "-W", "1", ROUTER]).status.success() {
        assert!(Instant::now() < until, "the router does not answer: {}", machine.console());
    }
}

/// Asks udhcpc for an address; returns what it was given last.
fn lease(script: &str) -> String {
    run(60, "udhcpc", &["-i", "culm1", "-f", "-n", "-q", "-t", "10", "-T", "1", "-s", script]);
    let said = fs::read_to_string(format!("{script}.said")).expect("it was run");
    said.lines().last().expect("a line").into()
}

/// Asks the machine for a name; returns what busybox says.
fn look_up(name: &str) -> String {
    let output = try_run(30, "busybox", &["nslookup", name, SERVER]);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_client_inside_gets_an_address_and_finds_names() {
    on_wires(Boot::system("tests/systems/lan.toml"), &[OUTER, INNER], |machine| {
        until_up(machine);
        let (inside, ()) = Namespace::new(|| Ok(())).expect("there was one before");
        ip(&format!("link set culm1 netns {}", inside.path())).expect("it can be moved");
        let mut names = Background::dnsmasq(&[
            "--bind-interfaces",
            "--listen-address=10.0.2.2",
            "--local-ttl=60",
            "--host-record=www.example,192.0.2.80",
            "--cname=alias.example,www.example",
        ]);
        let script = artefacts().join("udhcpc.script");
        fs::write(&script, SCRIPT).expect("it can be written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let script = script.to_str().expect("a path in UTF-8");
        _ = fs::remove_file(format!("{script}.said"));
        inside
            .within(|| {
                ip("link set culm1 up")?;
                // A lease with all that belongs to it, and the same again, by which the rest works.
                let expected = "10.0.3.100/24 router 10.0.3.15 dns 10.0.3.3 lease 3600 server 10.0.3.3";
                for _ in 0..2 {
                    assert_eq!(lease(script), format!("bound {expected}"));
                }
                answers_pings("10.0.2.2", 56);
                // The address that is set down for a station.
                ip("link set culm1 down")?;
                ip("link set culm1 address 52:54:00:00:00:77 up")?;
                let reserved = lease(script);
                assert!(reserved.starts_with("bound 10.0.3.77/24 "), "{reserved}");
                // Names, through the machine and its router.
                let until = Instant::now() + PATIENCE;
                while !look_up("www.example").contains("192.0.2.80") {
                    assert!(Instant::now() < until, "{}", look_up("www.example"));
                }
                let alias = look_up("alias.example");
                assert!(alias.contains("www.example") && alias.contains("192.0.2.80"), "{alias}");
                let none = look_up("none.example");
                assert!(!none.contains("192.0.2") && none.contains("find"), "{none}");
                Ok(())
            })
            .expect("what failed is above");
        assert!(names.is_running());
        drop(names);
        // The name server is gone: what is remembered is answered, all else is given up.
        inside
            .within(|| {
                let kept = look_up("www.example");
                assert!(kept.contains("192.0.2.80"), "{kept}");
                Ok(())
            })
            .expect("what failed is above");
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}
