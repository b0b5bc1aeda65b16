//! Which part and which form of a file answers a request: ranges, conditions, codings, and what
//! goes with them.

mod cases;
mod common;

use cases::{case, check, get, tag};
use common::{PACKED, PLAIN};
use culm_http::limits;

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
        // There are no dates of modification, so conditions on them must be ignored (§13.1.3,
        // §13.1.4).
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
    // A rendered page has no tag, but it is there.
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
