//! Requests by the hundred, in tables by the sections of RFC 9110 and RFC 9112, each with the status that they ask for.
//!
//! Beyond its status, each answer must keep what all answers have to: see [`check`]. And each case is asked three times
//! over: as it is, as a HEAD where it is a GET, and byte by byte.

mod common;

use common::{PACKED, PLAIN, exchange};
use culm_http_protocol::limits;

/// A request that asks for something sound, and whose answer tells that the connection went on.
const PROBE: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: probe\r\n\r\n";

/// A response, taken apart by a parser that shares nothing with the server.
struct Response {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    fn field(&self, name: &str) -> Option<&str> {
        let mut all = self.fields.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        let value = all.next().map(|(_, value)| value.as_str());
        assert!(all.next().is_none(), "{name} twice");
        value
    }

    /// The first response in `bytes`, and what follows it.
    fn read(bytes: &[u8], to_head: bool) -> Option<(Self, &[u8])> {
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut fields);
        let Ok(httparse::Status::Complete(length)) = head.parse(bytes) else { return None };
        let field = |it: &httparse::Header| (it.name.to_owned(), String::from_utf8_lossy(it.value).into_owned());
        let fields = head.headers.iter().map(field).collect();
        let mut response = Self { status: head.code?, fields, body: Vec::new() };
        let length_of_body = match response.field("Content-Length") {
            Some(number) if !to_head && response.status != 304 => number.parse().expect("a number"),
            _ => 0,
        };
        let (body, rest) = bytes[length..].split_at_checked(length_of_body)?;
        response.body = body.to_vec();
        Some((response, rest))
    }
}

fn is_head(request: &[u8]) -> bool {
    let start = request.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(0);
    request[start..].starts_with(b"HEAD ")
}

/// The answer to `request`, after all that must hold for whatever is asked was checked.
fn check(request: &[u8]) -> Response {
    let text = String::from_utf8_lossy(&request[..request.len().min(120)]).into_owned();
    let input = [request, PROBE].concat();
    let output = exchange(&input, &[], usize::MAX, usize::MAX);
    let (response, rest) = Response::read(&output, is_head(request)).unwrap_or_else(|| panic!("no response: {text:?}"));
    let has = |name: &str| assert!(response.field(name).is_some(), "{} without {name}: {text:?}", response.status);
    has("Server");
    assert_eq!(response.field("Date"), None, "a server without a clock sends none: {text:?}");
    match response.status {
        304 => assert!(response.body.is_empty()),
        _ => has("Content-Length"),
    }
    match response.status {
        // RFC 9110 §15.3.7 and §15.4.5: what a 200 would have said to caches.
        200 | 206 | 304 => has("Cache-Control"),
        301 => has("Location"),
        405 => has("Allow"),
        416 => has("Content-Range"),
        _ => {}
    }
    assert_eq!(response.field("Content-Range").is_some(), matches!(response.status, 206 | 416), "{text:?}");
    if !is_head(request) && response.status >= 400 && !matches!(response.status, 404 | 416) {
        let reason = String::from_utf8_lossy(&response.body).into_owned();
        assert!(reason.starts_with(&response.status.to_string()), "the reason: {reason:?} to {text:?}");
    }
    // The connection goes on exactly if the answer does not say otherwise; nothing is sent that was not asked for.
    let probed = Response::read(rest, false);
    assert_eq!(probed.is_none(), response.field("Connection") == Some("close"), "{text:?}");
    match probed {
        Some((probed, end)) => assert!(probed.status == 200 && end.is_empty(), "after {text:?}"),
        None => assert!(rest.is_empty(), "{} bytes after {text:?}", rest.len()),
    }
    let bytewise: Vec<usize> = (0..input.len().min(200)).collect();
    assert!(exchange(&input, &bytewise, 64, 4096) == output, "pieces change the answer to {text:?}");
    response
}

/// Checks `request`, and the same as a HEAD where it is a GET (RFC 9110 §9.3.2: the same head, without content).
fn case(expected: u16, request: &[u8]) -> Response {
    let text = String::from_utf8_lossy(&request[..request.len().min(120)]).into_owned();
    let response = check(request);
    assert_eq!(response.status, expected, "{text:?}");
    if let Some(rest) = request.strip_prefix(b"GET ") {
        let head = check(&[b"HEAD ", rest].concat());
        // RFC 9110 §14.2: a range is for GET only.
        if matches!(expected, 206 | 416) {
            assert_eq!(head.status, 200, "HEAD of {text:?}");
        } else if expected != 414 && expected != 431 {
            assert_eq!((head.status, head.fields), (expected, response.fields.clone()), "HEAD of {text:?}");
        }
    }
    response
}

/// A GET of `target` with these fields besides `Host`, each ended.
fn get(target: &str, fields: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: culm\r\n{fields}\r\n").into_bytes()
}

fn tag(target: &str) -> String {
    check(&get(target, "")).field("ETag").expect("a tag").to_owned()
}

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

/// RFC 9110 §9 and §15.5.6, §15.6.2: what is known is not allowed, what is not known is not implemented.
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

/// RFC 9112 §9.3 and §9.6, RFC 9110 §7.6.1. Whether the connection goes on is what [`check`] has seen.
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

/// RFC 9110 §14: ranges, of 12 bytes.
#[test]
fn ranges() {
    const CONTENT: &str = "hello, world";
    for (range, expected) in [
        ("bytes=0-4", Some((0, 4))),
        ("bytes=0-0", Some((0, 0))),
        ("bytes=11-11", Some((11, 11))),
        ("bytes=7-", Some((7, 11))),
        ("bytes=7-99", Some((7, 11))),
        ("bytes=0-99999999999999999999", Some((0, 11))),
        ("bytes=-5", Some((7, 11))),
        ("bytes=-12", Some((0, 11))),
        ("bytes=-99", Some((0, 11))),
        ("bytes=-99999999999999999999", Some((0, 11))),
        ("BYTES=3-4", Some((3, 4))),
        ("bytes= 3-4 ", Some((3, 4))),
        ("bytes=,3-4,", Some((3, 4))),
        ("bytes=003-004", Some((3, 4))),
    ] {
        let response = case(206, &get("/hello.txt", &format!("Range: {range}\r\n")));
        let (first, last) = expected.expect("a range");
        assert_eq!(response.field("Content-Range"), Some(format!("bytes {first}-{last}/12").as_str()), "{range}");
        assert_eq!(response.body, CONTENT.as_bytes()[first..=last], "{range}");
        assert_eq!(response.field("ETag"), Some(tag("/hello.txt").as_str()));
    }
    for range in ["bytes=12-", "bytes=12-13", "bytes=99999999999999999999-", "bytes=-0"] {
        let response = case(416, &get("/hello.txt", &format!("Range: {range}\r\n")));
        assert_eq!(response.field("Content-Range"), Some("bytes */12"), "{range}");
    }
    // RFC 9110 §14.2: what is not understood, and several ranges, may be ignored.
    for range in [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=,",
        "bytes=a-b",
        "bytes=4-2",
        "bytes=1",
        "bytes=1--2",
        "bytes=-1-2",
        "bytes=+1-2",
        "bytes=0x1-2",
        "bytes:0-1",
        "bytes =0-1",
        "lines=0-1",
        "bytes=0-1,3-4",
        "bytes=0-0,-1",
        "bytes=0- 1",
        "0-1",
    ] {
        let response = case(200, &get("/hello.txt", &format!("Range: {range}\r\n")));
        assert_eq!(response.body, CONTENT.as_bytes(), "{range:?}");
    }
    case(400, &get("/hello.txt", "Range: bytes=0-1\r\nRange: bytes=2-3\r\n"));
    // RFC 9110 §14.1.2: the last bytes of nothing are all of it, the first ones are none.
    case(200, &get("/empty.css", "Range: bytes=-5\r\n"));
    case(416, &get("/empty.css", "Range: bytes=0-\r\n"));
    case(416, &get("/empty.css", "Range: bytes=-0\r\n"));
    // Ranges are of what has a length and stays the same.
    for target in ["/missing", "/docs", "/now"] {
        let plain = case(check(&get(target, "")).status, &get(target, "Range: bytes=0-1\r\n"));
        assert_ne!(plain.status, 206);
    }
}

/// RFC 9110 §13: conditions, in their order.
#[test]
fn conditions() {
    let tag = tag("/hello.txt");
    let weak = format!("W/{tag}");
    for (expected, fields) in [
        (304, format!("If-None-Match: {tag}\r\n")),
        (304, format!("If-None-Match: {weak}\r\n")),
        (304, format!("If-None-Match: \"x\", {tag}\r\n")),
        (304, format!("If-None-Match: \"a,b\",,\t{weak} , \"c\"\r\n")),
        (304, "If-None-Match: *\r\n".into()),
        (304, format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}\r\n")),
        (304, format!("If-None-Match: {tag}\r\nIf-None-Match: \"x\"\r\n")),
        (304, format!("If-None-Match: \"x\"\r\nX: y\r\nIF-NONE-MATCH:{weak}\r\nIf-None-Match:\r\n")),
        (200, "If-None-Match: \"x\"\r\nIf-None-Match: \"y\"\r\n".into()),
        (200, "If-None-Match:\r\n".into()),
        (200, "If-None-Match: \"\"\r\n".into()),
        (200, "If-None-Match: \"x\"\r\n".into()),
        (200, format!("If-None-Match: {}\r\n", tag.trim_matches('"'))),
        (200, format!("If-None-Match: w/{tag}\r\n")),
        (200, format!("If-None-Match: {}\r\n", tag.to_uppercase().replace('"', "'"))),
        (200, format!("If-None-Match-Not: {tag}\r\n")),
        (200, format!("If-Match: {tag}\r\n")),
        (200, format!("If-Match: \"x\", {tag}\r\n")),
        (200, format!("If-Match: \"x\"\r\nIf-Match: {tag}\r\n")),
        (200, format!("if-match: {tag}\r\nIF-MATCH: \"x\"\r\n")),
        (200, "If-Match: *\r\n".into()),
        (412, "If-Match: \"x\"\r\n".into()),
        (412, format!("If-Match: {weak}\r\n")),
        (412, "If-Match: \"x\"\r\nIf-Match: \"y\"\r\n".into()),
        (412, "If-Match:\r\n".into()),
        (412, format!("If-Match: \"x\"\r\nIf-None-Match: {tag}\r\n")),
        (304, format!("If-Match: {tag}\r\nIf-None-Match: {tag}\r\n")),
        (412, "If-Match: \"x\"\r\nRange: bytes=0-1\r\n".into()),
        (304, format!("If-None-Match: {tag}\r\nRange: bytes=0-1\r\n")),
        (304, format!("If-None-Match: {tag}\r\nRange: bytes=99-\r\n")),
        (206, "If-None-Match: \"x\"\r\nRange: bytes=0-1\r\n".into()),
        (206, format!("If-Match: {tag}\r\nRange: bytes=0-1\r\n")),
        (206, format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n")),
        (200, format!("Range: bytes=0-1\r\nIf-Range: {weak}\r\n")),
        (200, "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n".into()),
        (200, "Range: bytes=99-\r\nIf-Range: \"x\"\r\n".into()),
        (200, "Range: bytes=0-1\r\nIf-Range: Sat, 29 Oct 1994 19:43:31 GMT\r\n".into()),
        (200, "Range: bytes=0-1\r\nIf-Range:\r\n".into()),
        (200, format!("If-Range: {tag}\r\n")),
        (400, format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\nIf-Range: {tag}\r\n")),
        // There are no dates of modification, so conditions on them must be ignored (§13.1.3, §13.1.4).
        (200, "If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT\r\n".into()),
        (200, "If-Unmodified-Since: Sat, 29 Oct 1994 19:43:31 GMT\r\n".into()),
        (200, "If-Modified-Since: whenever\r\n".into()),
    ] {
        case(expected, &get("/hello.txt", &fields));
    }
    // §13.2.1: conditions count only where the answer would be a success.
    for fields in ["If-Match: \"x\"\r\n", "If-None-Match: *\r\n"] {
        case(404, &get("/missing", fields));
        case(301, &get("/docs", fields));
        case(405, format!("POST / HTTP/1.1\r\nHost: culm\r\n{fields}\r\n").as_bytes());
    }
    // What is rendered has no tag, but it is there.
    for (expected, fields) in [
        (412, "If-Match: \"x\"\r\n"),
        (412, "If-Match: \"x\"\r\nIf-Match: \"y\"\r\n"),
        (200, "If-Match: *\r\n"),
        (200, "If-None-Match: \"x\"\r\n"),
        (304, "If-None-Match: *\r\n"),
    ] {
        case(expected, &get("/now", fields));
    }
}

/// RFC 9110 §12.5.3, §8.8.3.3 and §14: the form that a client takes is a representation of its own.
#[test]
fn codings() {
    let with = |fields: &str| get("/packed.txt", fields);
    let plain = case(200, &with(""));
    let gzip = case(200, &with("Accept-Encoding: gzip\r\n"));
    assert_eq!((plain.body.as_slice(), plain.field("Content-Encoding")), (PLAIN, None));
    assert_eq!((gzip.body.as_slice(), gzip.field("Content-Encoding")), (PACKED, Some("gzip")));
    assert_eq!(plain.field("Content-Type"), gzip.field("Content-Type"));
    assert_ne!(plain.field("ETag"), gzip.field("ETag"), "strong tags differ by form");
    let tags = [&plain, &gzip].map(|response| response.field("ETag").expect("a tag").to_owned());

    for (is_gzip, fields) in [
        (true, "Accept-Encoding: br, gzip;q=0.8, *;q=0\r\n"),
        (true, "accept-encoding: X-GZIP\r\n"),
        (true, "Accept-Encoding: *\r\n"),
        (true, "Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n"),
        (false, "Accept-Encoding:\r\n"),
        (false, "Accept-Encoding: br, zstd, deflate\r\n"),
        (false, "Accept-Encoding: identity\r\n"),
        (false, "Accept-Encoding: gzip;q=0\r\n"),
        (false, "Accept-Encoding: gzip;q=0, *\r\n"),
        (false, "Accept-Encoding: gzip;q=0.4, identity;q=0.5\r\n"),
        (false, "Accept-Encoding: gzip;q=nonsense\r\n"),
        // Nothing is acceptable: RFC 9110 §12.5.3 lets a server send what it has.
        (false, "Accept-Encoding: identity;q=0, gzip;q=0\r\n"),
    ] {
        let (tag, other) = if is_gzip { (&tags[1], &tags[0]) } else { (&tags[0], &tags[1]) };
        let body = if is_gzip { PACKED } else { PLAIN };
        let whole = case(200, &with(fields));
        assert_eq!(whole.body, body, "{fields:?}");
        let unchanged = case(304, &with(&format!("{fields}If-None-Match: {tag}\r\n")));
        case(200, &with(&format!("{fields}If-None-Match: {other}\r\n")));
        case(412, &with(&format!("{fields}If-Match: {other}\r\n")));
        let part = case(206, &with(&format!("{fields}Range: bytes=-4\r\nIf-Range: {tag}\r\n")));
        case(200, &with(&format!("{fields}Range: bytes=-4\r\nIf-Range: {other}\r\n")));
        case(416, &with(&format!("{fields}Range: bytes={}-\r\n", body.len())));
        assert_eq!(part.body, body[body.len() - 4..], "{fields:?}");
        for response in [&whole, &unchanged, &part] {
            assert_eq!(response.field("ETag"), Some(tag.as_str()));
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
            let coding = (is_gzip && response.status != 304).then_some("gzip");
            assert_eq!(response.field("Content-Encoding"), coding);
        }
    }
    // Where there is no choice, nothing varies.
    assert_eq!(case(200, &get("/hello.txt", "Accept-Encoding: gzip\r\n")).field("Vary"), None);
}

/// RFC 9111 §5.2.2: what the site's author says of a file stands in each answer with some of it.
#[test]
fn caching() {
    for (target, value) in
        [("/hello.txt", "no-cache"), ("/big.bin", "public, max-age=31536000, immutable"), ("/packed.txt", "no-store")]
    {
        let tag = tag(target);
        for (status, fields) in
            [(200, String::new()), (206, "Range: bytes=0-1\r\n".into()), (304, format!("If-None-Match: {tag}\r\n"))]
        {
            assert_eq!(case(status, &get(target, &fields)).field("Cache-Control"), Some(value), "{target} {status}");
        }
    }
    assert_eq!(check(&get("/missing", "")).field("Cache-Control"), None);
}

/// RFC 9110 §15.4.2: the address that a redirect names is for the same request.
#[test]
fn redirects() {
    for (target, location) in [
        ("/docs", "/docs/"),
        ("/docs?", "/docs/?"),
        ("/docs?a=b&c", "/docs/?a=b&c"),
        ("/docs?a?b", "/docs/?a?b"),
        ("/%64ocs?%zz", "/docs/?%zz"),
        ("http://other/docs?x=1", "/docs/?x=1"),
    ] {
        assert_eq!(case(301, &get(target, "")).field("Location"), Some(location), "{target}");
    }
    let query = |length: usize| format!("/docs?{}", "q".repeat(length - 1));
    let longest = case(301, &get(&query(limits::REDIRECTED_QUERY), ""));
    assert_eq!(longest.field("Location").map(str::len), Some("/docs/".len() + limits::REDIRECTED_QUERY));
    case(414, &get(&query(limits::REDIRECTED_QUERY + 1), ""));
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
