//! Cases of conformance: a request and the status that it asks for.
//!
//! Beyond its status, each answer must keep what all answers have to: see [`check`]. And each case
//! is asked three times over: as it is, as a HEAD where it is a GET, and byte by byte.

#![allow(dead_code, reason = "each test file uses some of it")]

use crate::common::exchange;

/// A request that asks for something sound, and whose answer tells that the connection went on.
const PROBE: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: probe\r\n\r\n";

/// A response, taken apart by a parser that shares nothing with the server.
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a field, which no response has twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut all = self.fields.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        let value = all.next().map(|(_, value)| value.as_str());
        assert!(all.next().is_none(), "{name} twice");
        value
    }

    /// The first response in `bytes`, and what follows it.
    pub fn read(bytes: &[u8], to_head: bool) -> Option<(Self, &[u8])> {
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
pub fn check(request: &[u8]) -> Response {
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
    // The connection goes on exactly if the answer does not say otherwise; nothing is sent that was
    // not asked for.
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

/// Checks `request`, and the same as a HEAD where it is a GET (RFC 9110 §9.3.2: the same head,
/// without content).
pub fn case(expected: u16, request: &[u8]) -> Response {
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
pub fn get(target: &str, fields: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: culm\r\n{fields}\r\n").into_bytes()
}

/// The entity tag of what is at `target`.
pub fn tag(target: &str) -> String {
    check(&get(target, "")).field("ETag").expect("a tag").to_owned()
}
