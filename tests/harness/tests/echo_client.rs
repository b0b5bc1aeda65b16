//! Connections that a component opens: to Linux over IPv4 and IPv6, by names that dnsmasq knows,
//! with addresses that dnsmasq gives; to a port that refuses, and to stations that are not there.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::Background;
use culm_tests_harness::{Boot, artefacts, on_wires};
use culm_wire::ip;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::thread;

const WIRE: (&str, &str) = ("culm0", "198.18.0.1/24");

/// How many addresses `many.test` has: more than a datagram has room for.
const MANY: u8 = 40;

/// Serves each connection to `port`, of both protocols, for as long as the process lives.
fn serve(port: u16, each: fn(TcpStream)) {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("nobody else has the port");
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(thread::spawn(move || each(stream)))));
}

fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// Sends back all but one byte as it was.
fn falsify(mut stream: TcpStream) {
    let mut bytes = [0; 1000];
    if stream.read_exact(&mut bytes).is_ok() {
        bytes[777] ^= 1;
        _ = stream.write_all(&bytes);
        _ = stream.read_to_end(&mut vec![]);
    }
}

/// Takes some bytes, and no more.
fn leave(mut stream: TcpStream) {
    _ = stream.read_exact(&mut [0; 1000]);
}

/// Starts dnsmasq as name server, DHCP server and router of IPv6. It writes down what it is asked.
fn network(log: &str) -> Background {
    let many: Vec<String> = (1..=MANY).map(|last| format!("--host-record=many.test,198.18.0.{}", 100 + last)).collect();
    let facility = format!("--log-facility={log}");
    let leases = format!("--dhcp-leasefile={log}.leases");
    let mut options = vec![
        "--interface=culm0",
        "--bind-dynamic",
        "--dhcp-range=198.18.0.50,198.18.0.60,1h",
        "--dhcp-authoritative",
        "--enable-ra",
        "--dhcp-range=fd00:c::,ra-only",
        "--local-ttl=60",
        "--host-record=both.test,198.18.0.1,fd00:c::1",
        "--host-record=four.test,198.18.0.1",
        "--host-record=six.test,fd00:c::1",
        "--cname=alias.test,middle.test",
        "--cname=middle.test,four.test",
        "--local=/test/",
        "--log-queries=extra",
        &facility,
        &leases,
    ];
    options.extend(many.iter().map(String::as_str));
    Background::dnsmasq(&options)
}

#[test]
fn a_component_finds_services_and_connects_to_them() {
    on_wires(Boot::system("tests/systems/echo-client.toml"), &[WIRE], |machine| {
        ip("addr add fd00:c::1/64 dev culm0 nodad").expect("it can be added");
        for last in 1..=MANY {
            ip(&format!("addr add 198.18.0.{}/24 dev culm0", 100 + last)).expect("it can be added");
        }
        serve(7000, echo);
        serve(7002, falsify);
        serve(7003, leave);
        let log = artefacts().join("echo-client-dnsmasq.log");
        _ = fs::remove_file(&log);
        let mut names = network(log.to_str().expect("a path in UTF-8"));

        let sum = machine.expect("services have answered");
        let console = machine.console();
        let asked = fs::read_to_string(&log).expect("dnsmasq writes it");
        let expects = |text: &str| assert!(console.contains(text), "no {text:?}:\n{console}\n{asked}");
        for (service, remote) in [
            ("both.test:7000", "[fd00:c::1]:7000"),
            ("four.test:7000", "198.18.0.1:7000"),
            ("six.test:7000", "[fd00:c::1]:7000"),
            ("alias.test:7000", "198.18.0.1:7000"),
            ("198.18.0.1:7000", "198.18.0.1:7000"),
            ("[fd00:c::1]:7000", "[fd00:c::1]:7000"),
        ] {
            expects(&format!("{service}: 300000 bytes to {remote} and back"));
        }
        expects("many.test:7000: 300000 bytes to 198.18.0.1");
        expects("none.test:7000: there is no such name");
        expects("198.18.0.1:7001: 198.18.0.1:7001 refuses the connection");
        expects("[fd00:c::1]:7001: [fd00:c::1]:7001 refuses the connection");
        expects("198.18.0.77:7000: nothing gets to 198.18.0.77:7000");
        expects("[fd00:c::77]:7000: nothing gets to [fd00:c::77]:7000");
        expects("198.18.0.1:7002: 198.18.0.1:7002 sends back something else from byte 777 on");
        // With bytes of the client's unread, Linux ends a connection by a reset.
        expects("198.18.0.1:7003: 198.18.0.1:7003 has reset the connection");
        expects("203.0.113.9:7000: 203.0.113.9:7000 does not answer");
        assert!(sum.contains("7 of 15"), "{sum}");
        assert!(!console.contains("faulted"), "{console}");

        // The name with many addresses was asked for twice: in a datagram, and over TCP. Each
        // question came from a port of its own.
        let asks = |name: &str| asked.lines().filter(|line| line.contains(name)).count();
        assert!(asks("query[A] many.test") >= 2, "{asked}");
        let from = |line: &str| line.split_once(" query[")?.0.split(' ').next_back().map(str::to_string);
        let sources: Vec<_> = asked.lines().filter_map(from).collect();
        let different: BTreeSet<_> = sources.iter().collect();
        assert!(sources.len() >= 12 && different.len() == sources.len(), "{sources:?}");
        assert!(names.is_running());
    });
}
