//! The answer to each kind of request.

mod common;

use common::{BIG, Clock, TIMEOUTS, exchange, exchange_with, get, status};
use culm_http::{Caching, Server, Site, limits};

fn field<'r>(response: &'r str, name: &str) -> Option<&'r str> {
    let head = response.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn a_file_comes_with_its_head() {
    let response = get("GET /hello.txt HTTP/1.1\r\nHost: culm\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert_eq!(field(&response, "Content-Length"), Some("12"));
    assert_eq!(field(&response, "Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(field(&response, "Accept-Ranges"), Some("bytes"));
    assert_eq!(field(&response, "Connection"), None);
    assert_eq!(field(&response, "Date"), None);
    assert_eq!(body(&response), "hello, world");
}

#[test]
fn paths_find_their_files() {
    for (path, expected) in [
        ("/", "<p>start"),
        ("/index.html", "<p>start"),
        ("/?x=1", "<p>start"),
        ("/docs/", "<p>docs"),
        ("/a%20b.txt", "spaced"),
        ("/%68ello.txt", "hello, world"),
        ("http://any/hello.txt", "hello, world"),
        ("/empty.css", ""),
        ("/missing", "nothing here\n"),
    ] {
        let response = get(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(body(&response), expected, "{path}");
    }
}

/// Programs that read a page aloud find its content by `main`.
#[test]
fn a_site_without_a_page_for_missing_paths_gets_a_whole_one() {
    let files: [(&str, &[u8]); 1] = [("a.txt", b"a")];
    let site = Site::new(files.into_iter(), &Caching::default(), &[], &[]);
    let server = Server::new(site, Clock, 1, TIMEOUTS);
    let response = exchange_with(server, b"GET /missing HTTP/1.1\r\nHost: x\r\n\r\n", &[], usize::MAX, usize::MAX);
    let response = String::from_utf8_lossy(&response);
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    let text = body(&response);
    let (_, main) = text.split_once("<main>").expect("it has a main part");
    assert!(main.contains("<h1>Not found</h1>") && main.trim_end().ends_with("</main>"), "{text}");
}

#[test]
fn a_folder_without_its_slash_is_redirected() {
    let response = get("GET /docs HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 301 "));
    assert_eq!(field(&response, "Location"), Some("/docs/"));
    assert_eq!(field(&response, "Content-Length"), Some("0"));
}

#[test]
fn head_has_no_body() {
    for path in ["/hello.txt", "/missing", "/now", "/docs", "/../x"] {
        let head = get(&format!("HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let full = get(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(body(&head), "", "{path}");
        assert_eq!(head.split("\r\n\r\n").next(), full.split("\r\n\r\n").next(), "{path}");
        let length: usize = field(&full, "Content-Length").unwrap().parse().unwrap();
        assert_eq!(length, body(&full).len(), "{path}");
    }
}

#[test]
fn persistence_follows_version_and_field() {
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Some("close")),
        ("GET / HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive, Close\r\n\r\n", Some("close")),
        ("GET / HTTP/1.0\r\n\r\n", Some("close")),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Some("keep-alive")),
        ("GET / HTTP/1.2\r\nHost: x\r\n\r\n", None),
    ] {
        assert_eq!(field(&get(request), "Connection"), expected, "{request}");
    }
    let two = "GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n";
    assert_eq!(get(two).matches("HTTP/1.1 ").count(), 1, "what follows the last request is dropped");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let input = "GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\nGET /missing HTTP/1.1\r\nHost: x\r\n\r\nGET /docs/ HTTP/1.1\r\nHost: x\r\n\r\n";
    let response = get(input);
    let statuses: Vec<_> = response.match_indices("HTTP/1.1 ").map(|(at, _)| &response[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "404", "200"]);
}

#[test]
fn conditions() {
    let tag = field(&get("GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n"), "ETag").unwrap().to_owned();
    assert!(tag.starts_with('"'), "a strong tag");
    let with = |fields: String| status(&format!("GET /hello.txt HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
    assert_eq!(with(format!("If-None-Match: {tag}\r\n")), 304);
    assert_eq!(with(format!("If-None-Match: \"x\", W/{tag}\r\n")), 304);
    assert_eq!(with("If-None-Match: *\r\n".into()), 304);
    assert_eq!(with("If-None-Match: \"x\"\r\n".into()), 200);
    assert_eq!(with(format!("If-Match: {tag}\r\n")), 200);
    assert_eq!(with("If-Match: \"x\"\r\n".into()), 412);
    assert_eq!(with(format!("If-Match: W/{tag}\r\n")), 412);
    assert_eq!(with("If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT\r\n".into()), 200);
    assert_eq!(with(format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n")), 206);
    assert_eq!(with("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n".into()), 200);
    let unchanged = get(&format!("GET /hello.txt HTTP/1.1\r\nHost: x\r\nIf-None-Match: {tag}\r\n\r\n"));
    assert_eq!(field(&unchanged, "ETag"), Some(tag.as_str()));
    assert_eq!(body(&unchanged), "");
}

#[test]
fn ranges() {
    let with = |range: &str| get(&format!("GET /hello.txt HTTP/1.1\r\nHost: x\r\nRange: {range}\r\n\r\n"));
    let part = with("bytes=7-");
    assert!(part.starts_with("HTTP/1.1 206 "));
    assert_eq!(field(&part, "Content-Range"), Some("bytes 7-11/12"));
    assert_eq!(field(&part, "Content-Length"), Some("5"));
    assert_eq!(body(&part), "world");
    assert_eq!(body(&with("bytes=-5")), "world");
    assert!(with("bytes=0-1,3-4").starts_with("HTTP/1.1 200 "));
    let beyond = with("bytes=12-");
    assert!(beyond.starts_with("HTTP/1.1 416 "));
    assert_eq!(field(&beyond, "Content-Range"), Some("bytes */12"));
    assert_eq!(status("HEAD /hello.txt HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\n\r\n"), 200);
}

#[test]
fn what_is_refused() {
    let long = "a".repeat(limits::REQUEST_LINE);
    let many = "X: y\r\n".repeat(65);
    let wide = format!("X: {}\r\n", "y".repeat(limits::HEAD / 2)).repeat(3);
    for (expected, request) in [
        (400, "GET /\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"),
        (400, "GET / HTTP/1.1\nHost: a\n\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n"),
        (400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET /../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "G\x16T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "\x16\x03\x01\x02\0\x01"),
        (400, "GET / HTTP/1.1\r\nHo"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (400, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (200, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (200, "GET / HTTP/1.1\r\nhOST:a\r\nX-Odd: \t\u{e9} \t\r\n\r\n"),
        (200, "GET / HTTP/1.0\r\n\r\n"),
        (404, "GET /missing HTTP/1.1\r\nHost: a\r\n\r\n"),
        (404, "GET /hello.txt/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        (405, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
        (405, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        (405, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
        (405, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (411, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (413, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"),
        (414, &format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")),
        (417, "GET / HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n"),
        (431, &format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")),
        (431, &format!("GET / HTTP/1.1\r\nHost: a\r\n{wide}\r\n")),
        (501, "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n"),
        (501, "get / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (501, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        (505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ] {
        assert_eq!(status(request), expected, "{:?}", &request[..request.len().min(90)]);
    }
}

#[test]
fn a_refused_method_names_the_allowed_ones() {
    let response = get("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(field(&response, "Allow"), Some("GET, HEAD"));
    assert_eq!(body(&response), "405 Method Not Allowed\nOnly GET and HEAD are allowed here.\n");
}

#[test]
fn a_body_is_dropped_and_the_next_request_answered() {
    let input = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nGET /missing HTTP/1.1GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let response = get(&input.replace("/missing HTTP/1.1", "/missing HTTP/1."));
    let statuses: Vec<_> = response.match_indices("HTTP/1.1 ").map(|(at, _)| &response[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["405", "200"]);
}

#[test]
fn a_large_file_passes_through_a_small_send_buffer() {
    let request = b"GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\nGET /now HTTP/1.1\r\nHost: x\r\n\r\n";
    let output = exchange(request, &[], 7, 700);
    let start = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(output[start..start + BIG.len()], BIG);
    assert!(output.ends_with(b"document 0 at 0"));
}
