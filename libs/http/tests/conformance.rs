//! Requests by the hundred, in tables by the sections of RFC 9110 and RFC 9112, each with the
//! status that they ask for.
//!
//! The rules that each answer has to keep beyond its status are in `cases/mod.rs`; which part and
//! form of a file is sent, in `selection.rs`.

mod cases;
mod common;

use cases::{case, check, get};
use common::exchange;
use culm_http::limits;

/// RFC 9112 §2.2 and §3: the line itself.
#[test]
fn request_lines() {
    for (expected, line) in [
        (200, "GET / HTTP/1.1"),
        (200, "\r\nGET / HTTP/1.1"),
        (200, "\r\n\r\nGET / HTTP/1.1"),
        (400, "\r\n\r\n\r\nGET / HTTP/1.1"),
        (400, " GET / HTTP/1.1"),
        (400, "GET  / HTTP/1.1"),
        (400, "GET /  HTTP/1.1"),
        (400, "GET / HTTP/1.1 "),
        (400, "GET /\tHTTP/1.1"),
        (400, "GET\t/ HTTP/1.1"),
        (400, "GET / HTTP/1.1\tx"),
        (400, "GET /"),
        (400, "GET"),
        (400, "GET HTTP/1.1"),
        (400, "GET  HTTP/1.1"),
        (400, "/ HTTP/1.1"),
        (400, "GET / "),
        (400, "GET / x HTTP/1.1"),
        (400, "GET / HTTP/1.1 x"),
        (400, "GET / http/1.1"),
        (400, "GET / HTTP/1"),
        (400, "GET / HTTP/11"),
        (400, "GET / HTTP/1.10"),
        (400, "GET / HTTP/01.1"),
        (400, "GET / HTTP/1,1"),
        (400, "GET / HTTP/1.x"),
        (400, "GET / HTTPS/1.1"),
        (400, "GET / HTTP /1.1"),
        (400, "GET / XTTP/1.1"),
        (400, "G\0T / HTTP/1.1"),
        (400, "GET /\u{7f} HTTP/1.1"),
        (400, "GET /\x0b HTTP/1.1"),
        (400, "GET /\rx HTTP/1.1"),
        (400, "GET /\nx HTTP/1.1"),
        (400, "G:T / HTTP/1.1"),
        (400, "GÉT / HTTP/1.1"),
        (400, "\u{16}\u{3}\u{1}\u{2}"),
        // RFC 9110 §2.5 and §15.6.6: versions.
        (200, "GET / HTTP/1.2"),
        (200, "GET / HTTP/1.9"),
        (505, "GET / HTTP/2.0"),
        (505, "GET / HTTP/0.9"),
        (505, "GET / HTTP/3.0"),
        (505, "GET / HTTP/9.9"),
        (505, "PRI * HTTP/2.0"),
    ] {
        case(expected, format!("{line}\r\nHost: culm\r\n\r\n").as_bytes());
    }
}

/// RFC 9110 §9 and §15.5.6, §15.6.2: what is known is not allowed, what is not known is not
/// implemented.
#[test]
fn methods() {
    for (expected, line) in [
        (405, "POST / HTTP/1.1"),
        (405, "PUT /hello.txt HTTP/1.1"),
        (405, "DELETE /missing HTTP/1.1"),
        (405, "PATCH / HTTP/1.1"),
        (405, "TRACE / HTTP/1.1"),
        (405, "OPTIONS / HTTP/1.1"),
        (405, "OPTIONS * HTTP/1.1"),
        (405, "CONNECT culm:80 HTTP/1.1"),
        (400, "POST /a b HTTP/1.1"),
        (400, "POST  HTTP/1.1"),
        (505, "POST / HTTP/2.0"),
        (501, "get / HTTP/1.1"),
        (501, "Get / HTTP/1.1"),
        (501, "GETT / HTTP/1.1"),
        (501, "GE / HTTP/1.1"),
        (501, "BREW /pot HTTP/1.1"),
        (501, "PROPFIND / HTTP/1.1"),
        (501, "M-SEARCH * HTTP/1.1"),
        (501, "!#$%&'*+-.^_`|~ / HTTP/1.1"),
        (400, "GET(1) / HTTP/1.1"),
        (400, "G[T / HTTP/1.1"),
        (400, "\"GET\" / HTTP/1.1"),
    ] {
        case(expected, format!("{line}\r\nHost: culm\r\n\r\n").as_bytes());
    }
}

/// RFC 9112 §3.2, RFC 3986 §3.3, and what browsers send of the URL standard.
#[test]
fn targets() {
    for (expected, target) in [
        (200, "/"),
        (200, "/?"),
        (200, "/?a=b&c=%zz"),
        (200, "/?a|b^[c]{d}\\`\"<>"),
        (200, "/?/../.."),
        (200, "/hello.txt"),
        (200, "/hello.txt?x"),
        (200, "/%68%65llo.txt"),
        (200, "/%68ello%2etxt"),
        (200, "/a%20b.txt"),
        (200, "/docs/"),
        (200, "/docs%2F"),
        (200, "/docs/index.html"),
        (301, "/docs"),
        (301, "/docs?q"),
        (404, "/Hello.txt"),
        (404, "/hello.txt/"),
        (404, "//"),
        (404, "//hello.txt"),
        (404, "/docs//"),
        (404, "/a|b"),
        (404, "/a^b"),
        (404, "/[a]"),
        (404, "/a;b=c,d"),
        (404, "/~a/(b)*'!$&+=:@"),
        (404, "/..."),
        (404, "/.hidden"),
        (404, "/a..b"),
        (404, "/404.htm"),
        (404, "/404.html"),
        (404, "/%C3%A9"),
        (404, "/%ff"),
        (404, "/%01"),
        (404, "/%25"),
        (400, "/."),
        (400, "/.."),
        (400, "/../"),
        (400, "/./hello.txt"),
        (400, "/docs/../hello.txt"),
        (400, "/docs/.."),
        (400, "/%2e%2e/x"),
        (400, "/%2E/x"),
        (400, "/.%2e/x"),
        (400, "/x%2f..%2fy"),
        (400, "/%"),
        (400, "/%4"),
        (400, "/%zz"),
        (400, "/%4g"),
        (400, "/%00"),
        (400, "/a%00b"),
        (400, "/a#b"),
        (400, "/#"),
        (400, "/?a#b"),
        (400, "/<a>"),
        (400, "/{a}"),
        (400, "/\"a\""),
        (400, "/`a`"),
        (400, "/a\\b"),
        (400, "/é"),
        (400, "/?é"),
        (400, "hello.txt"),
        (400, "?x"),
        (400, "*"),
        (400, "culm:80"),
        (400, "."),
        // RFC 9112 §3.2.2: the absolute form, which every server must take.
        (200, "http://culm/"),
        (200, "http://culm"),
        (200, "http://culm?x"),
        (200, "http://other:8080/hello.txt?x"),
        (200, "HTTP://CULM/"),
        (200, "http://[::1]/"),
        (200, "http://[::1]:80/"),
        (200, "http://culm:/"),
        (200, "http://a%20b/"),
        (301, "http://culm/docs?x"),
        (404, "http://culm/missing"),
        (400, "http://"),
        (400, "http:///"),
        (400, "http://?x"),
        (400, "http:/culm/"),
        (400, "http:culm"),
        (400, "https://culm/"),
        (400, "ftp://culm/"),
        (400, "http://user@culm/"),
        (400, "http://user:secret@culm/"),
        (400, "http://cu lm/"),
        (400, "http://culm:x/"),
        (400, "http://culm:80:80/"),
        (400, "http://[::1/"),
        (400, "http://::1/"),
        (400, "http://[zz]/"),
        (400, "http://%zz/"),
        (400, "http://culm/../x"),
        (400, "http://culm#x"),
    ] {
        case(expected, &get(target, ""));
    }
}

/// RFC 9112 §3.2: one Host, and one that can be a host.
#[test]
fn hosts() {
    for (expected, hosts) in [
        (200, "Host: culm\r\n"),
        (200, "Host: culm:80\r\n"),
        (200, "Host: culm:\r\n"),
        (200, "Host: culm:99999\r\n"),
        (200, "Host:\r\n"),
        (200, "Host: \t \r\n"),
        (200, "Host:culm\r\n"),
        (200, "hOsT: \t culm \t\r\n"),
        (200, "Host: 10.0.2.15\r\n"),
        (200, "Host: 10.0.2.15:8080\r\n"),
        (200, "Host: 1.2.3.4.5\r\n"),
        (200, "Host: [::1]\r\n"),
        (200, "Host: [::1]:80\r\n"),
        (200, "Host: [::1]:\r\n"),
        (200, "Host: [2001:DB8::1]\r\n"),
        (200, "Host: [::ffff:10.0.0.1]\r\n"),
        (200, "Host: [v1.fe80:x]\r\n"),
        (200, "Host: a_b.c-d~e\r\n"),
        (200, "Host: a%20b\r\n"),
        (200, "Host: xn--bcher-kva.example.\r\n"),
        (200, "Host: !$&'()*+,;=\r\n"),
        (400, ""),
        (400, "Host: a\r\nHost: a\r\n"),
        (400, "Host: a\r\nhost: b\r\n"),
        (400, "Host:\r\nHost:\r\n"),
        (400, "Host: a, b c\r\n"),
        (400, "Host: a b\r\n"),
        (400, "Host: a/b\r\n"),
        (400, "Host: a?b\r\n"),
        (400, "Host: a#b\r\n"),
        (400, "Host: user@a\r\n"),
        (400, "Host: http://a\r\n"),
        (400, "Host: a:b\r\n"),
        (400, "Host: a:80:80\r\n"),
        (400, "Host: a:-1\r\n"),
        (400, "Host: a:+1\r\n"),
        (400, "Host: a:8 0\r\n"),
        (400, "Host: :80\r\n"),
        (400, "Host: :\r\n"),
        (400, "Host: ::1\r\n"),
        (400, "Host: ::1:80\r\n"),
        (400, "Host: [::1\r\n"),
        (400, "Host: ::1]\r\n"),
        (400, "Host: []\r\n"),
        (400, "Host: []:80\r\n"),
        (400, "Host: [zz]\r\n"),
        (400, "Host: [1.2.3.4]\r\n"),
        (400, "Host: [::1]x\r\n"),
        (400, "Host: [::1]80\r\n"),
        (400, "Host: [::1]:x\r\n"),
        (400, "Host: [::1]:80:80\r\n"),
        (400, "Host: x[::1]\r\n"),
        (400, "Host: [[::1]]\r\n"),
        (400, "Host: [::1%eth0]\r\n"),
        (400, "Host: [:::1]\r\n"),
        (400, "Host: [1:2:3:4:5:6:7:8:9]\r\n"),
        (400, "Host: [v.x]\r\n"),
        (400, "Host: [v1.]\r\n"),
        (400, "Host: [vz.x]\r\n"),
        (400, "Host: ]\r\n"),
        (400, "Host: [\r\n"),
        (400, "Host: %\r\n"),
        (400, "Host: %2\r\n"),
        (400, "Host: %zz\r\n"),
        (400, "Host: a%2\r\n"),
        (400, "Host: a|b\r\n"),
        (400, "Host: a\\b\r\n"),
        (400, "Host: <a>\r\n"),
        (400, "Host: \"a\"\r\n"),
        (400, "Host: é\r\n"),
        (400, "Hos: a\r\n"),
        (400, "Host : a\r\n"),
        (400, " Host: a\r\n"),
    ] {
        case(expected, format!("GET / HTTP/1.1\r\n{hosts}\r\n").as_bytes());
    }
    for (expected, hosts) in [(200, ""), (200, "Host: a\r\n"), (400, "Host: a\r\nHost: a\r\n"), (400, "Host: [\r\n")] {
        case(expected, format!("GET / HTTP/1.0\r\n{hosts}\r\n").as_bytes());
    }
}

/// RFC 9112 §5: field lines.
#[test]
fn field_lines() {
    let long = format!("X: {}\r\n", "y".repeat(limits::HEAD));
    let (fitting, many) = ("X: y\r\n".repeat(limits::FIELDS - 1), "X: y\r\n".repeat(limits::FIELDS));
    for (expected, fields) in [
        (200, "X:\r\n"),
        (200, "X: y\r\n"),
        (200, "X:y\r\n"),
        (200, "X: \t y z \t \r\n"),
        (200, "X: é\r\n"),
        (200, "X: \"quoted, \\\" pair\"\r\n"),
        (200, "X: a:b\r\n"),
        (200, "!#$%&'*+-.^_`|~09azAZ: token\r\n"),
        (200, "X: 1\r\nX: 2\r\n"),
        (200, fitting.as_str()),
        (400, "X : y\r\n"),
        (400, "X\t: y\r\n"),
        (400, " X: y\r\n"),
        (400, "X y\r\n"),
        (400, "X\r\n"),
        (400, ": y\r\n"),
        (400, "X(c): y\r\n"),
        (400, "X@: y\r\n"),
        (400, "\"X\": y\r\n"),
        (400, "é: y\r\n"),
        (400, "X: a\0b\r\n"),
        (400, "X: a\u{7f}\r\n"),
        (400, "X: a\u{1b}[0m\r\n"),
        (400, "X: a\rb\r\n"),
        (400, "X: a\r\r\n"),
        (400, "X: a\nY: b\r\n"),
        (400, "X: a\n"),
        // RFC 9112 §5.2: folding.
        (400, "X: a\r\n b\r\n"),
        (400, "X: a\r\n\tb\r\n"),
        (400, "X:\r\n b\r\n"),
        (400, " \r\n"),
        (431, many.as_str()),
        (431, long.as_str()),
    ] {
        case(expected, &get("/", fields));
    }
}

/// RFC 9112 §6 and RFC 9110 §8.6, §10.1.1: content, its length, and what is expected.
#[test]
fn content() {
    let get = |fields: &str, content: &str| [get("/", fields), content.into()].concat();
    let post =
        |fields: &str, content: &str| format!("POST / HTTP/1.1\r\nHost: culm\r\n{fields}\r\n{content}").into_bytes();
    for (expected, request) in [
        (200, get("Content-Length: 0\r\n", "")),
        (200, get("Content-Length: 5\r\n", "abcde")),
        (200, get("content-length: 005\r\n", "abcde")),
        (200, get("Content-Length: \t5 \r\n", "GET /")),
        (400, get("Content-Length:\r\n", "")),
        (400, get("Content-Length: -1\r\n", "")),
        (400, get("Content-Length: +1\r\n", "a")),
        (400, get("Content-Length: 1.0\r\n", "a")),
        (400, get("Content-Length: 0x1\r\n", "a")),
        (400, get("Content-Length: 1 1\r\n", "a")),
        (400, get("Content-Length: 1,1\r\n", "a")),
        (400, get("Content-Length: 18446744073709551616\r\n", "")),
        (400, get("Content-Length: 1\r\nContent-Length: 1\r\n", "a")),
        (400, get("Content-Length: 1\r\nContent-Length: 2\r\n", "a")),
        (400, get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
        (400, get("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n")),
        (400, get("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n", "0\r\n\r\n")),
        (411, get("Transfer-Encoding: chunked\r\n", "0\r\n\r\n")),
        (411, get("Transfer-Encoding: Chunked\r\n", "0\r\n\r\n")),
        (501, get("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")),
        (501, get("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
        (501, get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
        (501, get("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n")),
        (501, get("Transfer-Encoding: identity\r\n", "")),
        (501, get("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")),
        (501, get("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n")),
        (501, get("Transfer-Encoding:\r\n", "")),
        (405, post("Content-Length: 5\r\n", "abcde")),
        (405, post("Content-Length: 65536\r\n", &"x".repeat(65536))),
        (405, post("Transfer-Encoding: chunked\r\n", "5\r\nabcde\r\n0\r\n\r\n")),
        (405, post("Content-Length: 0\r\nExpect: 100-continue\r\n", "")),
        (405, post("Content-Length: 5\r\nExpect: 100-continue\r\n", "")),
        (413, post("Content-Length: 65537\r\n", "")),
        (413, post("Content-Length: 18446744073709551615\r\n", "")),
        (413, post("Content-Length: 65537\r\nExpect: 100-continue\r\n", "")),
        (200, get("Expect: 100-continue\r\n", "")),
        (200, get("Expect: 100-CONTINUE\r\n", "")),
        (200, get("Expect:\r\n", "")),
        (200, get("Expect: 100-continue\r\nExpect: 100-continue\r\n", "")),
        (417, get("Expect: magic\r\n", "")),
        (417, get("Expect: 100-continue, magic\r\n", "")),
        (417, get("Expect: magic\r\nExpect: 100-continue\r\n", "")),
        (417, get("Expect: 100-continue\r\nExpect: magic\r\n", "")),
        (417, get("Expect: 100-continues\r\n", "")),
        (417, post("Content-Length: 5\r\nExpect: magic\r\n", "")),
        (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec()),
        (
            405,
            b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nabcde"
                .to_vec(),
        ),
    ] {
        case(expected, &request);
    }
}

/// RFC 9112 §9.3 and §9.6, RFC 9110 §7.6.1. Whether the connection goes on is what [`check`] has
/// seen.
#[test]
fn persistence() {
    for (expected, version, fields) in [
        (None, "1.1", ""),
        (None, "1.1", "Connection: keep-alive\r\n"),
        (None, "1.1", "Connection: upgrade, x\r\n"),
        (None, "1.1", "Connection:\r\n"),
        (None, "1.1", "Connection: closed\r\n"),
        (None, "1.1", "Connection: x-close\r\n"),
        (None, "1.1", "Proxy-Connection: close\r\n"),
        (None, "1.9", ""),
        (Some("close"), "1.1", "Connection: close\r\n"),
        (Some("close"), "1.1", "Connection: CLOSE\r\n"),
        (Some("close"), "1.1", "connection: ,, x ,close,\r\n"),
        (Some("close"), "1.1", "Connection: x\r\nConnection: close\r\n"),
        (Some("close"), "1.1", "Connection: close\r\nConnection: keep-alive\r\n"),
        (Some("close"), "1.1", "Connection: keep-alive, close\r\n"),
        (Some("close"), "1.0", ""),
        (Some("close"), "1.0", "Connection: close\r\n"),
        (Some("close"), "1.0", "Connection: keep-alive, close\r\n"),
        (Some("close"), "1.0", "Keep-Alive: timeout=5\r\n"),
        (Some("keep-alive"), "1.0", "Connection: keep-alive\r\n"),
        (Some("keep-alive"), "1.0", "Connection: x, Keep-Alive\r\n"),
    ] {
        for (status, target) in [(200, "/hello.txt"), (404, "/missing"), (301, "/docs"), (200, "/now"), (400, "/%zz")] {
            let request = format!("GET {target} HTTP/{version}\r\nHost: culm\r\n{fields}\r\n");
            let response = case(status, request.as_bytes());
            assert_eq!(response.field("Connection"), expected, "{request:?}");
        }
    }
}

/// RFC 9112 §3: request lines of 8,000 bytes are taken, and what is longer is told so.
#[test]
fn long_lines() {
    let target = |length: usize| format!("/{}", "x".repeat(length - "GET / HTTP/1.1".len()));
    assert_eq!(check(&get(&target(limits::REQUEST_LINE), "")).status, 404);
    case(414, &get(&target(limits::REQUEST_LINE + 1), ""));
    case(414, &get(&target(limits::HEAD * 3), ""));
    assert_eq!(check(&get(&format!("/?{}", &target(limits::REQUEST_LINE - 1)[1..]), "")).status, 200);
    const { assert!(limits::REQUEST_LINE >= 8000) };
}

/// RFC 9110 §9.3.2: no answer to a HEAD has content, however bad the request is.
#[test]
fn a_head_is_never_answered_with_content() {
    let long = format!("HEAD / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(limits::HEAD));
    let line = format!("HEAD /{} HTTP/1.1\r\n", "x".repeat(limits::REQUEST_LINE));
    for (expected, request) in [
        (400, "HEAD / HTTP/1.1 x\r\n\r\n"),
        (400, "HEAD  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "HEAD /\x01 HTTP/1.1\r\n\r\n"),
        (400, "HEAD / HTTP/1.1\nHost: a\n\n"),
        (400, "\r\nHEAD / HTTP/1.1\nHost: a\n\n"),
        (400, "HEAD / HTTP/1.1\r\n\r\n"),
        (400, "HEAD / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"),
        (400, "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        (505, "HEAD / HTTP/2.0\r\nHost: a\r\n\r\n"),
        (414, &line),
        (431, &long),
    ] {
        let response = check(request.as_bytes());
        assert_eq!(response.status, expected, "{:?}", &request[..request.len().min(60)]);
        assert!(response.field("Content-Length").is_some_and(|length| length != "0"), "as a GET would have");
    }
    for cut in ["HEAD ", "HEAD /", "HEAD / HTTP/1.1\r", "HEAD / HTTP/1.1\r\nHo", "\r\nHEAD / "] {
        let output = exchange(cut.as_bytes(), &[], usize::MAX, usize::MAX);
        let text = String::from_utf8_lossy(&output);
        assert!(text.starts_with("HTTP/1.1 400 ") && text.ends_with("\r\n\r\n"), "{cut:?}: {text}");
    }
}
