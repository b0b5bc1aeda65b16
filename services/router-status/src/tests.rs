//! What is shown of made-up flows and rules, and how requests are read.

use crate::flows::{Flows, SHOWN};
use crate::json::{self, Picture};
use crate::request::{self, Ask};
use core::sync::atomic::AtomicU64;
use culm_bridge::counts::{COUNT_WORDS, Counts, View};
use culm_flow::{Key, Packet, Settings, Table, Timeouts, Watch, memory_words};
use culm_http::request::Parser;
use culm_report::{Shown, Since};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

/// A datagram of UDP with so many bytes, from a port of 10.0.0.1 to 192.0.2.80:53.
fn datagram(port: u16, length: usize) -> Vec<u8> {
    let total = (28 + length) as u16;
    let mut bytes =
        [&[0x45, 0][..], &total.to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 80]].concat();
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend([&port.to_be_bytes()[..], &[0, 53], &(8 + length as u16).to_be_bytes(), &[0, 0]].concat());
    bytes.resize(28 + length, 0);
    bytes
}

fn pass(table: &mut Table<'_>, port: u16, length: usize) {
    let bytes = datagram(port, length);
    let packet = Packet::read(&bytes).expect("a packet");
    let tuple = packet.tuple().expect("it has ports");
    let found = table.find(&tuple, 0);
    let (id, direction) = found.unwrap_or_else(|| {
        let id = table.insert([&tuple, &tuple.reversed()], &packet, 4, 0, |_, _| {}).expect("there is room");
        (id, culm_flow::Direction::Original)
    });
    table.track(id, direction, &packet, 0, |_, _| {});
}

fn table() -> (Table<'static>, Flows) {
    let memory: &'static [AtomicU64] = (0..memory_words(500)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    let settings = Settings { key: Key([1, 2]), timeouts: Timeouts::default(), most_per_source: 500 };
    (Table::new(&settings, memory), Flows::new(Watch::new(memory), 500))
}

#[test]
fn the_busiest_flows_are_shown_first() {
    let (mut table, mut flows) = table();
    for port in 1..=300 {
        pass(&mut table, port, usize::from(port));
    }
    flows.look(1000);
    assert_eq!((flows.count(), flows.busiest().len()), ((300, 500), SHOWN));
    let ports = |flows: &Flows| flows.busiest().iter().map(|busy| busy.flow.original.source_port).collect::<Vec<_>>();
    assert_eq!(ports(&flows)[..3], [300, 299, 298]);
    // One that sends now comes before what has sent more.
    pass(&mut table, 7, 100);
    flows.look(1500);
    assert_eq!(ports(&flows)[0], 300, "it is too early for another look");
    flows.look(3000);
    assert_eq!((ports(&flows)[..2].to_vec(), flows.busiest()[0].rates), ([7, 300].to_vec(), [64, 0]));
}

#[test]
fn the_state_is_json_that_says_what_there_is() {
    let (mut table, mut flows) = table();
    pass(&mut table, 9, 10);
    flows.look(1000);
    let text = "default reject log\n# \"quoted\"\nallow\tin inner\n\ndeny to 10.0.0.1 # \\\n";
    let shown = Shown {
        text: text.into(),
        since: Since { is_proposed: true, time: 5 },
        counts: [(3, 7), (5, 0), (0, 2)].to_vec(),
    };
    let mut out = String::new();
    let ports = (0..COUNT_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    Counts::new(ports, ["lan"].into_iter()).came(0, 60);
    let ports = View::new(ports);
    let state = Picture { now: 1234, shown: Some(&shown), flows: Some(&flows), ports: Some(&ports), observation: None };
    json::write(&mut out, 1 << 20, &state).expect("there is room");
    let value: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    let list = &value["rules"]["list"];
    assert_eq!(list[0], serde_json::json!({ "line": 3, "packets": 7, "rule": "allow\tin inner" }));
    assert_eq!(list[1]["rule"], "deny to 10.0.0.1 # \\");
    assert_eq!(list[2], serde_json::json!({ "line": 0, "packets": 2, "rule": "default reject log" }));
    let flow = &value["flows"]["busiest"][0];
    assert_eq!(
        (flow["protocol"].as_str(), flow["source_port"].as_u64(), flow["line"].as_u64()),
        (Some("udp"), Some(9), Some(4))
    );
    assert_eq!((&value["ports"][0]["name"], &value["ports"][0]["bytes_in"]), (&"lan".into(), &60.into()));
    assert_eq!((flow["state"].as_str(), flow.get("translated")), (Some("unanswered"), None));
    json::write(&mut out, 1 << 20, &Picture::default()).expect("there is room");
    assert!(serde_json::from_str::<serde_json::Value>(&out).expect("it is JSON")["rules"].is_null());
}

#[test]
fn so_many_rules_are_shown_as_there_is_room_for() {
    let text = format!("allow from {}\n", "1".repeat(300)).repeat(4096);
    let counts = (1..=4096).map(|line| (line, 1)).chain([(0, 9)]).collect();
    let shown = Shown { text, since: Since::default(), counts };
    let mut out = String::new();
    json::write(&mut out, 1 << 20, &Picture { shown: Some(&shown), ..Picture::default() }).expect("there is room");
    let value: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    let list = value["rules"]["list"].as_array().expect("a list");
    let left_out = value["rules"]["left_out"].as_u64().expect("a number");
    // Of a long rule the rest is left out, which is said.
    let rule = list[0]["rule"].as_str().expect("a text");
    assert!(rule.chars().count() == 161 && rule.ends_with("11…"), "{rule}");
    assert!(out.len() < 300 << 10 && left_out > 1000, "{} bytes", out.len());
    assert_eq!((list.len() as u64 + left_out, list.last().map(|rule| rule["packets"].clone())), (4097, Some(9.into())));
}

#[test]
fn rules_are_counted_as_they_are_written() {
    // Each of these tabs is six letters of JSON.
    let text = format!("allow from{}x\n", "\t".repeat(140)).repeat(4096);
    let counts = (1..=4096).map(|line| (line, 1)).chain([(0, 9)]).collect();
    let shown = Shown { text, since: Since::default(), counts };
    let mut out = String::new();
    json::write(&mut out, 8 << 20, &Picture { shown: Some(&shown), ..Picture::default() }).expect("there is room");
    assert!(out.len() < 200 << 10, "{} bytes", out.len());
    let value: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert!(value["rules"]["left_out"].as_u64() > Some(3000));
}

#[test]
fn what_has_no_room_is_no_state() {
    let mut whole = String::new();
    let (mut table, mut flows) = table();
    (1..=300).for_each(|port| pass(&mut table, port, 10));
    flows.look(1000);
    json::write(&mut whole, 1 << 20, &Picture { flows: Some(&flows), ..Picture::default() }).expect("there is room");
    let mut out = String::with_capacity(whole.len());
    for most in [whole.len() - 1, 1000, 1, 0] {
        assert!(json::write(&mut out, most, &Picture { flows: Some(&flows), ..Picture::default() }).is_err(), "{most}");
        assert!(out.len() <= most && out.capacity() == whole.len(), "{most}");
    }
    assert!(json::write(&mut out, whole.len(), &Picture { flows: Some(&flows), ..Picture::default() }).is_ok());
    assert_eq!(out, whole);
}

#[test]
fn flows_beyond_those_that_are_remembered_are_shown_without_a_rate() {
    let memory: &'static [AtomicU64] = (0..memory_words(9)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    let settings = Settings { key: Key([1, 2]), timeouts: Timeouts::default(), most_per_source: 9 };
    let mut table = Table::new(&settings, memory);
    let mut flows = Flows::new(Watch::new(memory), 4);
    for time in [1000, 2000] {
        (1..=9).for_each(|port| pass(&mut table, port, 100));
        flows.look(time);
        assert_eq!((flows.count(), flows.busiest().len()), ((9, 9), 9));
    }
    let rates = flows.busiest().iter().filter(|busy| busy.rates == [128, 0]).count();
    assert_eq!((rates, flows.busiest().last().map(|busy| busy.rates)), (4, Some([0, 0])));
}

#[test]
fn the_busiest_are_found_in_whatever_order_they_come() {
    let (mut table, mut flows) = table();
    for index in 0..450_u16 {
        pass(&mut table, 1 + index, usize::from(index) * 199 % 450);
    }
    flows.look(1000);
    let bytes: Vec<u64> = flows.busiest().iter().map(|busy| busy.flow.bytes[0]).collect();
    let expected: Vec<u64> = (0..SHOWN as u64).map(|rank| 28 + 449 - rank).collect();
    assert_eq!(bytes, expected);
}

/// Reads a request, and has `see` look at what it asks for.
fn ask(text: &str, see: impl FnOnce(Ask<'_>)) {
    let mut parser = Parser::default();
    parser.advance(text.as_bytes()).expect("it is one");
    see(request::read(parser.request(), text.as_bytes()));
}

#[test]
fn requests_are_told_apart() {
    let get = |line: &str, see: &dyn Fn(Ask<'_>)| ask(&format!("{line}\r\nHost: r\r\n\r\n"), see);
    get("GET / HTTP/1.1", &|ask| {
        assert!(matches!(ask, Ask::Page(_, content) if content.starts_with(b"<!doctype html>")))
    });
    get("HEAD /page.js?1 HTTP/1.1", &|ask| assert!(matches!(ask, Ask::Page("text/javascript; charset=utf-8", _))));
    get("GET /status.json HTTP/1.1", &|ask| assert_eq!(ask, Ask::State));
    get("GET /rules HTTP/1.1", &|ask| assert_eq!(ask, Ask::Rules));
    for (line, status) in [
        ("GET /rules.txt HTTP/1.1", "404"),
        ("PUT /status.json HTTP/1.1", "405"),
        ("DELETE /rules HTTP/1.1", "405"),
        ("PUT /rules HTTP/1.1", "411"),
    ] {
        get(line, &|ask| assert!(matches!(ask, Ask::Refused(said, _) if said.starts_with(status)), "{line}: {ask:?}"));
    }
    let put = "PUT /rules HTTP/1.1\r\nHost: r\r\nContent-Length: 5\r\nAuthorization: Bearer abc\r\n\r\n".to_string();
    ask(&put, |ask| assert_eq!(ask, Ask::Exchange { length: 5, token: Some(b"abc"), waits: false }));
}

/// Whose page has its name lead to this address reads nothing by it.
#[test]
fn only_names_of_this_host_are_answered() {
    let is_for_us = |host: &str| {
        let head = format!("GET / HTTP/1.1\r\nAccept: */*\r\nhOsT: {host}\r\nCookie: host: localhost\r\n\r\n");
        request::is_for_us(head.as_bytes(), ["router.example"].into_iter())
    };
    for host in [
        "10.0.3.80",
        "10.0.3.80:8080",
        "[2001:db8::1]",
        "[::1]:80",
        "localhost:8080",
        "LOCALHOST.",
        "Router.example:80",
    ] {
        assert!(is_for_us(host), "{host}");
    }
    for host in
        ["evil.example", "router.example.evil.example", "10.0.3.80.evil.example", "", "[x]:80", "1.2.3", "\u{1f}"]
    {
        assert!(!is_for_us(host), "{host}");
    }
    assert!(request::is_for_us(b"GET / HTTP/1.0\r\n\r\n", [].into_iter()));
}
