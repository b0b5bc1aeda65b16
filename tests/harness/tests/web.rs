//! The web server's answers, and how its pages look.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{HEADLESS, curl, exchange, run};
use culm_tests_harness::{Boot, Machine, artefacts};

fn start(system: &str) -> Machine {
    let mut machine = Boot::system(system).start(&[80]);
    machine.wait_for_web();
    machine
}

#[test]
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

    let raw = |request: &str| {
        String::from_utf8_lossy(&exchange(machine.address(80), request.as_bytes()).unwrap()).into_owned()
    };
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

/// The page of an idle system: nothing is red but what was lost, and nothing needs a script.
#[test]
fn its_state_is_in_the_page_itself() {
    let machine = start("web");
    curl(&machine.url("/nothing/here"), &[]);
    let page = curl(&machine.url("/_status"), &[]);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let text = page.text();
    for expected in ["nic0_rx", "http_copier", "Open connections", "Refused", "Evicted", "/_about", "</html>"] {
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
    let status = machine.status();
    // Only a frame that came before the server had started can be lost.
    let drops = status.component("nic0_rx")["drops"].as_u64();
    assert_eq!(drops, Some(status.counter("nic0_rx", "drops_full")));
    assert_eq!(text.contains("\"warn\""), drops > Some(0), "red is what was lost, and nothing else: {text}");
    assert!(status.counter("http", "requests") >= 2 && status.counter("http", "errors") >= 1);
    for path in ["/_about", "/_status.css", "/_status.js", "/_status.svg"] {
        assert_eq!(curl(&machine.url(path), &[]).status, 200, "{path}");
    }
}

#[test]
fn people_like_to_look_at_it() {
    let machine = start("web");
    for (name, path) in [("site", "/"), ("status", "/_status")] {
        for (form, size) in [("desktop", "1280,1400"), ("phone", "390,1600")] {
            let file = artefacts().join(format!("{name}-{form}.png"));
            _ = std::fs::remove_file(&file);
            let profile = tempfile::tempdir().expect("a folder for the browser");
            let own = format!("--user-data-dir={}", profile.path().display());
            let (size, shot) = (format!("--window-size={size}"), format!("--screenshot={}", file.display()));
            let options = ["--hide-scrollbars", "--virtual-time-budget=6000", &own, &size, &shot, &machine.url(path)];
            run(120, "chromium", &[&HEADLESS[..], &options].concat());
            let picture = std::fs::read(&file).expect("the browser made a picture");
            assert!(picture.len() > 20_000, "{} is nearly empty", file.display());
        }
    }
}
