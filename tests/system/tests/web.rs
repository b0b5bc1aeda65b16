//! The web server under real clients, on one core and on four.

use culm_system_tests::client::{curl, exchange, run};
use culm_system_tests::{Boot, Machine, artefacts};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

fn start(system: &str) -> Machine {
    let mut machine = Boot::system(system).start(&[80]);
    machine.wait_for_web();
    machine
}

fn address(machine: &Machine) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], machine.port(80)))
}

/// A counter of a component in the status, 0 for none.
fn counter(machine: &Machine, component: &str, name: &str) -> u64 {
    let status = curl(&machine.url("/_status.json"), &[]);
    let status: serde_json::Value = serde_json::from_slice(&status.body).expect("the status is JSON");
    let components = status["components"].as_array().expect("it lists components");
    components.iter().filter(|own| own["name"] == component).find_map(|own| own["counters"][name].as_u64()).unwrap_or(0)
}

#[test]
#[ignore = "not yet tried against QEMU's port forwarding, which has a short backlog"]
fn it_speaks_http() {
    let machine = start("web");
    let page = curl(&machine.url("/"), &[]);
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let tag = page.header("etag").expect("a page has an entity tag").to_string();
    let length: usize = page.header("content-length").and_then(|text| text.parse().ok()).expect("a page has a length");
    assert_eq!(page.body.len(), length);

    let head = curl(&machine.url("/"), &["--head"]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    let unchanged = curl(&machine.url("/"), &["-H", &format!("If-None-Match: {tag}")]);
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    let part = curl(&machine.url("/"), &["-r", "0-99"]);
    assert_eq!((part.status, part.body.as_slice()), (206, &page.body[..100]));
    let end = curl(&machine.url("/"), &["-r", "-50"]);
    assert_eq!((end.status, end.body.as_slice()), (206, &page.body[length - 50..]));
    assert_eq!(curl(&machine.url("/"), &["-r", &format!("{length}-")]).status, 416);
    assert_eq!(curl(&machine.url("/nothing/here"), &[]).status, 404);
    for outside in ["/../Cargo.toml", "/%2e%2e/Cargo.toml", "/..%2fCargo.toml", "/%2e%2e%5cCargo.toml"] {
        let status = curl(&machine.url(outside), &[]).status;
        assert!(status == 400 || status == 404, "{outside}: {status}");
    }
    assert_eq!(curl(&machine.url("/"), &["-X", "DELETE"]).status, 405);
    assert_eq!(curl(&machine.url("/"), &["-X", "BREW"]).status, 501);
    assert_eq!(curl(&machine.url(&format!("/{}", "a".repeat(20_000))), &[]).status, 414);
    assert_eq!(curl(&machine.url("/"), &["-H", &format!("X: {}", "a".repeat(30_000))]).status, 431);

    let raw =
        |request: &str| String::from_utf8_lossy(&exchange(address(&machine), request.as_bytes()).unwrap()).into_owned();
    assert!(raw("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "), "a request of HTTP/1.1 names its host");
    assert!(raw("GET / HTTP/3.0\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 505 "));
    assert!(raw("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let pipelined =
        "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(7) + "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(&pipelined).matches("HTTP/1.1 200 OK").count(), 8);

    let metrics = curl(&machine.url("/_metrics"), &[]);
    assert!(metrics.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text")));
    assert!(metrics.text().ends_with("# EOF\n"));
}

fn stands_the_load(system: &str) {
    let machine = start(system);
    let url = machine.url("/favicon.svg");
    let wrk = run(60, "wrk", &["-t1", "-c256", "-d5s", "--timeout", "30s", &url]);
    assert!(!wrk.contains("Non-2xx"), "{wrk}");
    assert!(!wrk.contains("Socket errors"), "{wrk}");
    let ab = run(120, "ab", &["-q", "-k", "-n", "5000", "-c", "32", &url]);
    assert!(ab.contains("Failed requests:        0"), "{ab}");
    let port = machine.port(80).to_string();
    let httperf = run(
        120,
        "httperf",
        &[
            "--server=127.0.0.1",
            "--port",
            &port,
            "--uri=/favicon.svg",
            "--num-conns=300",
            "--num-calls=3",
            "--rate=50",
            "--timeout=20",
        ],
    );
    assert!(httperf.contains("Errors: total 0 "), "{httperf}");
    assert!(httperf.contains("Reply status: 1xx=0 2xx=900 "), "{httperf}");
    assert!(counter(&machine, "http", "requests") > 5900);
    assert_eq!(counter(&machine, "supervisor", "faults"), 0);
}

#[test]
#[ignore = "not yet tried against QEMU's port forwarding, which has a short backlog"]
fn one_core_stands_the_load() {
    stands_the_load("web");
}

#[test]
#[ignore = "not yet tried against QEMU's port forwarding, which has a short backlog"]
fn four_cores_stand_the_load() {
    stands_the_load("web4");
}

#[test]
#[ignore = "not yet tried against QEMU's port forwarding, which has a short backlog"]
fn slow_and_silent_clients_do_not_keep_others_out() {
    let machine = start("web");
    let mut slow = vec![];
    for number in 0..300 {
        let Ok(mut stream) = TcpStream::connect_timeout(&address(&machine), Duration::from_secs(20)) else { continue };
        // Half of them begin a request and never end it, half say nothing.
        if number % 2 == 0 {
            // It may have been turned away already, which is as good.
            _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: slow\r\nX: ");
        }
        slow.push(stream);
    }
    assert!(slow.len() >= 256, "only {} connections", slow.len());
    for _ in 0..20 {
        assert_eq!(curl(&machine.url("/"), &[]).status, 200);
    }
}

#[test]
#[ignore = "not yet tried against QEMU's port forwarding, which has a short backlog"]
fn people_like_to_look_at_it() {
    let machine = start("web");
    for (name, path) in [("site", "/"), ("status", "/_status")] {
        for (form, size) in [("desktop", "1280,1400"), ("phone", "390,1600")] {
            let file = artefacts().join(format!("{name}-{form}.png"));
            _ = std::fs::remove_file(&file);
            let profile = tempfile::tempdir().expect("a folder for the browser");
            run(
                120,
                "chromium",
                &[
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-quic",
                    "--no-first-run",
                    "--disable-background-networking",
                    "--disable-component-update",
                    "--disable-sync",
                    "--hide-scrollbars",
                    "--virtual-time-budget=6000",
                    &format!("--user-data-dir={}", profile.path().display()),
                    &format!("--window-size={size}"),
                    &format!("--screenshot={}", file.display()),
                    &machine.url(path),
                ],
            );
            let picture = std::fs::read(&file).expect("the browser made a picture");
            assert!(picture.len() > 20_000, "{} is nearly empty", file.display());
        }
    }
}
