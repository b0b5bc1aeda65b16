//! Files that are not in memory: sent, replaced, removed.

mod cases;
mod common;

use cases::Response;
use common::shelf::{LIMIT, MODIFIED, Shelf, TOKEN};
use common::{BIG, Pipe, Pipes, TIMEOUTS};
use culm_http::files::{Permission, Trouble};
use culm_http::limits;
use proptest::prelude::*;

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// All responses in `output` to requests of which none is a HEAD.
fn responses(mut output: &[u8]) -> Vec<Response> {
    let mut all = Vec::new();
    while !output.is_empty() {
        if let Some(rest) = output.strip_prefix(CONTINUE.as_bytes()) {
            output = rest;
            continue;
        }
        let (response, rest) = Response::read(output, false)
            .unwrap_or_else(|| panic!("no response: {:?}", String::from_utf8_lossy(output)));
        all.push(response);
        output = rest;
    }
    all
}

/// The one response to `request`. Nothing may be left under way.
fn one(shelf: &Shelf, request: impl AsRef<[u8]>) -> Response {
    let request = request.as_ref();
    let output = shelf.exchange(request, &[], usize::MAX, usize::MAX);
    assert_eq!(shelf.under_way(), 0);
    let text = String::from_utf8_lossy(&request[..request.len().min(200)]);
    if request.starts_with(b"HEAD ") {
        let (response, rest) = Response::read(&output, true).unwrap_or_else(|| panic!("no response to {text}"));
        assert!(rest.is_empty(), "content for {text}");
        return response;
    }
    let mut all = responses(&output);
    assert_eq!(all.len(), 1, "{text}: {}", String::from_utf8_lossy(&output));
    all.remove(0)
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// A request of somebody who has the token.
fn change(method: &str, target: &str, fields: &str, content: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n{fields}\r\n{content}")
}

fn put(target: &str, content: &str) -> String {
    change("PUT", target, &format!("Content-Length: {}\r\n", content.len()), content)
}

fn content_of(shelf: &Shelf, path: &str) -> Option<Vec<u8>> {
    shelf.contents.borrow().get(path).cloned()
}

#[test]
fn files_are_sent() {
    let shelf = Shelf { delay: 3, grasp: 1000, ..Shelf::default() };
    for (target, expected) in [
        ("/kept.txt", &b"hello, shelf"[..]),
        ("/hello.txt", b"hello, world"),
        ("/album/", b"<p>album"),
        ("/album/large.bin", &BIG),
        ("/alb%75m/large.bin?x", &BIG),
        ("/empty", b""),
        ("/", b"<p>start"),
    ] {
        let response = one(&shelf, get(target, ""));
        assert_eq!((response.status, &response.body[..]), (200, expected), "{target}");
        let head = one(&shelf, get(target, "").replace("GET", "HEAD"));
        assert_eq!((head.status, &head.fields), (200, &response.fields), "{target}");
    }
    let response = one(&shelf, get("/kept.txt", ""));
    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(response.field("Last-Modified").map(str::as_bytes), Some(&MODIFIED[..]));
    assert_eq!(response.field("Cache-Control"), Some("no-cache"));
    for target in ["/missing", "/album/missing/x", "//kept.txt", "/kept.txt/", "/album//large.bin", "/%ff", "/a%2F%2Fb"]
    {
        let response = one(&shelf, get(target, ""));
        assert_eq!((response.status, &response.body[..]), (404, &b"nothing here\n"[..]), "{target}");
        assert_eq!(one(&shelf, get(target, "").replace("GET", "HEAD")).status, 404, "{target}");
    }
    let long = "x".repeat(limits::STORED_PATH + 1);
    assert_eq!(one(&shelf, get(&format!("/{long}"), "")).status, 404);
}

#[test]
fn a_folder_without_its_slash_is_redirected() {
    for (target, location) in [
        ("/album", "/album/"),
        ("/album?q=1", "/album/?q=1"),
        ("/alb%75m?", "/alb%75m/?"),
        ("http://a/album?q", "/album/?q"),
    ] {
        let response = one(&Shelf::default(), get(target, ""));
        assert_eq!((response.status, response.field("Location")), (301, Some(location)), "{target}");
    }
    assert_eq!(one(&Shelf::default(), get("//album", "")).status, 404, "no other host is named");
    let long = format!("/album?{}", "q".repeat(limits::REDIRECTED_QUERY));
    assert_eq!(one(&Shelf::default(), get(&long, "")).status, 414);
}

#[test]
fn parts_and_conditions() {
    let shelf = Shelf::default();
    let tag = one(&shelf, get("/album/large.bin", "")).field("ETag").unwrap().to_owned();
    let date = std::str::from_utf8(MODIFIED).unwrap();
    let later = "Mon, 07 Nov 1994 00:00:00 GMT";
    let earlier = "Saturday, 05-Nov-94 00:00:00 GMT";
    for (status, fields) in [
        (206, "Range: bytes=5-9".to_owned()),
        (206, "Range: bytes=-1".into()),
        (206, format!("Range: bytes=0-\r\nIf-Range: {tag}")),
        (206, format!("Range: bytes=0-0\r\nIf-Range: {date}")),
        (200, "Range: bytes=0-0\r\nIf-Range: \"other\"".into()),
        (200, format!("Range: bytes=0-0\r\nIf-Range: W/{tag}")),
        (200, format!("Range: bytes=0-0\r\nIf-Range: {later}")),
        (200, "Range: bytes=0-1,3-4".into()),
        (416, "Range: bytes=100000-".into()),
        (304, format!("If-None-Match: {tag}")),
        (304, format!("If-None-Match: \"x\", W/{tag}")),
        (304, "If-None-Match: *".into()),
        (304, format!("If-Modified-Since: {date}")),
        (304, format!("If-Modified-Since: {later}")),
        (200, format!("If-Modified-Since: {earlier}")),
        (200, "If-Modified-Since: nonsense".into()),
        (200, format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}")),
        (412, "If-Match: \"x\"".into()),
        (412, format!("If-Match: W/{tag}")),
        (200, format!("If-Match: {tag}")),
        (200, "If-Match: *".into()),
        (412, format!("If-Unmodified-Since: {earlier}")),
        (200, format!("If-Unmodified-Since: {date}")),
        (200, "If-Unmodified-Since: nonsense".into()),
        (200, format!("If-Match: {tag}\r\nIf-Unmodified-Since: {earlier}")),
        (400, format!("If-Modified-Since: {date}\r\nIf-Modified-Since: {date}")),
    ] {
        let response = one(&shelf, get("/album/large.bin", &format!("{fields}\r\n")));
        assert_eq!(response.status, status, "{fields}");
        match status {
            206 => assert!(response.field("Content-Range").is_some() && response.field("ETag") == Some(&tag)),
            304 => assert!(response.field("Content-Length").is_none() && response.field("ETag") == Some(&tag)),
            416 => assert_eq!(response.field("Content-Range"), Some("bytes */100000")),
            200 => assert_eq!(response.body, BIG),
            _ => {}
        }
    }
    let part = one(&shelf, get("/album/large.bin", "Range: bytes=70000-70009\r\n"));
    assert_eq!((part.field("Content-Range"), &part.body[..]), (Some("bytes 70000-70009/100000"), &BIG[70000..70010]));
    assert_eq!(one(&shelf, get("/empty", "Range: bytes=0-\r\n")).status, 416);
}

#[test]
fn a_version_that_may_stay_is_weak() {
    let shelf = Shelf { is_strong: false, ..Shelf::default() };
    let tag = one(&shelf, get("/kept.txt", "")).field("ETag").unwrap().to_owned();
    let strong = tag.strip_prefix("W/").expect("a weak tag");
    let date = std::str::from_utf8(MODIFIED).unwrap();
    for fields in [format!("If-None-Match: {tag}\r\n"), format!("If-Modified-Since: {date}\r\n")] {
        assert_eq!(one(&shelf, get("/kept.txt", &fields)).status, 200, "{fields}");
    }
    assert_eq!(one(&shelf, get("/kept.txt", "If-None-Match: *\r\n")).status, 304);
    let unmodified = format!("Content-Length: 1\r\nIf-Unmodified-Since: {date}\r\n");
    assert_eq!(one(&shelf, change("PUT", "/kept.txt", &unmodified, "x")).status, 412);
    for fields in [format!("If-Match: {tag}\r\n"), format!("If-Match: {strong}\r\n")] {
        assert_eq!(one(&shelf, get("/kept.txt", &fields)).status, 412, "{fields}");
    }
    for range in [tag.as_str(), strong, std::str::from_utf8(MODIFIED).unwrap()] {
        let fields = format!("Range: bytes=0-0\r\nIf-Range: {range}\r\n");
        assert_eq!(one(&shelf, get("/kept.txt", &fields)).status, 200, "{range}");
    }
}

#[test]
fn uploads() {
    let shelf = Shelf { delay: 2, grasp: 7, ..Shelf::default() };
    let created = one(&shelf, put("/new.txt", "some content that is longer than a grasp"));
    assert_eq!((created.status, created.field("Content-Length")), (201, Some("0")));
    assert_eq!(content_of(&shelf, "new.txt").unwrap(), b"some content that is longer than a grasp");
    let replaced = one(&shelf, put("/new.txt", ""));
    assert_eq!((replaced.status, replaced.field("Content-Length")), (204, None));
    assert_eq!(content_of(&shelf, "new.txt").unwrap(), b"");
    let chunks = "4\r\nthis\r\n10;x=y\r\n is put together\r\n0\r\nX-Sum: 1\r\n\r\n";
    assert_eq!(one(&shelf, change("PUT", "/new.txt", "Transfer-Encoding: chunked\r\n", chunks)).status, 204);
    assert_eq!(content_of(&shelf, "new.txt").unwrap(), b"this is put together");
    assert_eq!(one(&shelf, change("DELETE", "/new.txt", "", "")).status, 204);
    assert_eq!(content_of(&shelf, "new.txt"), None);
    assert_eq!(one(&shelf, change("DELETE", "/new.txt", "", "")).status, 404);
}

#[test]
fn a_request_after_an_upload_is_answered() {
    let shelf = Shelf::default();
    let chunks = "3\r\nabc\r\n0\r\n\r\n";
    let input = [
        put("/new.txt", "first"),
        get("/new.txt", ""),
        change("PUT", "/new.txt", "Transfer-Encoding: chunked\r\n", chunks),
        get("/new.txt", ""),
        change("DELETE", "/new.txt", "Content-Length: 3\r\n", "abc"),
        get("/new.txt", ""),
    ];
    for (delay, grasp) in [(0, usize::MAX), (3, 2)] {
        let shelf = Shelf { delay, grasp, ..shelf.clone() };
        let output = shelf.exchange(input.concat().as_bytes(), &[], usize::MAX, usize::MAX);
        let all: Vec<_> = responses(&output).into_iter().map(|it| (it.status, it.body)).collect();
        let expected: [(u16, &[u8]); 6] =
            [(201, b""), (200, b"first"), (204, b""), (200, b"abc"), (204, b""), (404, b"nothing here\n")];
        assert_eq!(all, expected.map(|(status, body)| (status, body.to_vec())));
    }
}

/// Refusals come before the content: nobody has to send it for nothing.
#[test]
fn refused_by_the_head() {
    let long = "x".repeat(limits::STORED_PATH + 1);
    let authorized = format!("Authorization: Bearer {TOKEN}\r\n");
    let length = "Content-Length: 100000\r\n";
    for (status, line, fields) in [
        (401, "PUT /x", length.to_owned()),
        (401, "PUT /x", format!("{length}Authorization: Bearer wrong\r\n")),
        (401, "PUT /x", format!("{length}Authorization: Basic {TOKEN}\r\n")),
        (401, "PUT /x", "Transfer-Encoding: chunked\r\n".into()),
        (401, "DELETE /kept.txt", String::new()),
        (401, "PUT /x", "Content-Length: 99999999999\r\n".into()),
        (400, "PUT /x", format!("{length}{authorized}{authorized}")),
        (413, "PUT /x", format!("{authorized}Content-Length: {}\r\n", LIMIT + 1)),
        (411, "PUT /x", authorized.clone()),
        (400, "PUT /x", format!("{authorized}{length}Content-Range: bytes 0-99999/200000\r\n")),
        (415, "PUT /x", format!("{authorized}{length}Content-Encoding: gzip\r\n")),
        (405, "PUT /hello.txt", format!("{authorized}{length}")),
        (405, "PUT /now", format!("{authorized}{length}")),
        (405, "DELETE /", authorized.clone()),
        (405, "POST /kept.txt", format!("{authorized}Content-Length: 0\r\n")),
        (409, "PUT /album", format!("{authorized}{length}")),
        (409, "DELETE /album", authorized.clone()),
        (400, "PUT /album/", format!("{authorized}{length}")),
        (400, "PUT //x", format!("{authorized}{length}")),
        (400, "PUT /%ff", format!("{authorized}{length}")),
        (400, "PUT /../x", format!("{authorized}{length}")),
        (400, &format!("PUT /{long}"), format!("{authorized}{length}")),
        (412, "PUT /kept.txt", format!("{authorized}{length}If-None-Match: *\r\n")),
        (412, "PUT /kept.txt", format!("{authorized}{length}If-Match: \"x\"\r\n")),
        (412, "PUT /x", format!("{authorized}{length}If-Match: *\r\n")),
        (412, "DELETE /kept.txt", format!("{authorized}If-Match: \"x\"\r\n")),
        (417, "PUT /x", format!("{authorized}{length}Expect: magic\r\n")),
        (501, "PUT /x", format!("{authorized}Transfer-Encoding: gzip, chunked\r\n")),
        // RFC 9112 §6.1 and §6.3: two words about the length.
        (400, "PUT /x", format!("{authorized}{length}Transfer-Encoding: chunked\r\n")),
        (400, "PUT /x", format!("{authorized}Transfer-Encoding: chunked\r\n{length}")),
        (400, "PUT /x", format!("{authorized}{length}Content-Length: 100000\r\n")),
        (400, "PUT /x", format!("{authorized}Content-Length: 5, 5\r\n")),
        (411, "DELETE /x", format!("{authorized}Transfer-Encoding: chunked\r\n")),
    ] {
        for expect in ["", "Expect: 100-continue\r\n"] {
            let fields = if fields.contains("Expect") { fields.clone() } else { format!("{fields}{expect}") };
            let shelf = Shelf { delay: 1, ..Shelf::default() };
            let before = shelf.contents.borrow().clone();
            let response = one(&shelf, format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            assert_eq!(response.status, status, "{line} {fields}");
            assert!(response.field("WWW-Authenticate").is_some() == (status == 401), "{line} {fields}");
            assert!(response.field("Allow").is_some() == (status == 405), "{line} {fields}");
            let is_left = fields.contains("Length: 1000") || fields.contains("chunked");
            assert!(!is_left || response.field("Connection") == Some("close"), "{line} {fields}");
            assert_eq!(*shelf.contents.borrow(), before, "{line} {fields}");
        }
    }
    let shelf = Shelf::default();
    shelf.permission.set(Permission::Later);
    let response = one(&shelf, put("/x", "abc"));
    assert!(response.status == 429 && response.field("Retry-After").is_some());
    for (trouble, status) in [
        (Trouble::Busy, 503),
        (Trouble::BadName, 400),
        (Trouble::NoFolder, 409),
        (Trouble::Full, 507),
        (Trouble::TooLarge, 413),
        (Trouble::ReadOnly, 403),
        (Trouble::Failed, 500),
        (Trouble::Unknown, 503),
    ] {
        let shelf = Shelf { trouble: Some(trouble), ..Shelf::default() };
        assert_eq!(one(&shelf, put("/x", "abc")).status, status);
        let read = one(&shelf, get("/kept.txt", "")).status;
        assert_eq!(read, if matches!(trouble, Trouble::BadName | Trouble::NoFolder) { 404 } else { status });
        let shelf = Shelf { late_trouble: Some(trouble), ..Shelf::default() };
        assert_eq!(one(&shelf, put("/x", "abc")).status, status);
    }
}

#[test]
fn a_client_that_waits_is_told_to_go_on() {
    let shelf = Shelf { delay: 2, ..Shelf::default() };
    let head = change("PUT", "/x", "Content-Length: 5\r\nExpect: 100-continue\r\n", "");
    let input = format!("{head}abcde");
    let output = shelf.exchange(input.as_bytes(), &[head.len()], usize::MAX, usize::MAX);
    let text = String::from_utf8(output).unwrap();
    assert!(text.strip_prefix(CONTINUE).is_some_and(|rest| rest.starts_with("HTTP/1.1 201 ")), "{text}");
    // One that has begun knows it.
    let output = shelf.exchange(input.as_bytes(), &[], usize::MAX, usize::MAX);
    assert!(output.starts_with(b"HTTP/1.1 204 "));
    // HTTP/1.0 does not know it.
    let old = input.replace("HTTP/1.1", "HTTP/1.0");
    let output = shelf.exchange(old.as_bytes(), &[head.len()], usize::MAX, usize::MAX);
    assert!(output.starts_with(b"HTTP/1.1 204 "));
}

#[test]
fn an_upload_that_breaks_off_leaves_the_old_file() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    let large = format!("{:x}\r\n{}", LIMIT + 1, "x".repeat(LIMIT as usize + 1));
    for (status, request) in [
        (None, put("/kept.txt", "abcde").strip_suffix("e").unwrap().to_owned()),
        (None, change("PUT", "/kept.txt", chunked, "5\r\nabcde\r\n")),
        (None, change("PUT", "/kept.txt", chunked, "5\r\nabcde\r\n0\r\n")),
        (Some(400), change("PUT", "/kept.txt", chunked, "5\r\nabcdef\r\n0\r\n\r\n")),
        (Some(400), change("PUT", "/kept.txt", chunked, "5\nabcde\r\n0\r\n\r\n")),
        (Some(400), change("PUT", "/kept.txt", chunked, "-5\r\nabcde\r\n0\r\n\r\n")),
        (Some(413), change("PUT", "/kept.txt", chunked, &large)),
    ] {
        let shelf = Shelf::default();
        let output = shelf.exchange(request.as_bytes(), &[], usize::MAX, usize::MAX);
        let all = responses(&output);
        assert_eq!(all.first().map(|response| response.status), status, "{:?}", &request[..request.len().min(200)]);
        assert!(all.iter().all(|response| response.field("Connection") == Some("close")));
        assert_eq!(content_of(&shelf, "kept.txt").unwrap(), b"hello, shelf");
        assert_eq!(shelf.under_way(), 0);
    }
    let fitting = format!("{LIMIT:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(LIMIT as usize));
    assert_eq!(one(&Shelf::default(), change("PUT", "/kept.txt", chunked, &fitting)).status, 204);
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_ends_in_a_reset() {
    let shelf = Shelf::default();
    let mut server = shelf.server(1);
    let input = get("/album/large.bin", "").into();
    let mut pipes = Pipes(vec![Some(Pipe { input, buffer: Some(32 * 1024), ..Pipe::default() })]);
    server.opened(0, 0);
    while server.run(&mut pipes, 0, 1) {}
    let pipe = pipes.0[0].as_mut().unwrap();
    assert!(!pipe.aborted && pipe.output.starts_with(b"HTTP/1.1 200 "));
    pipe.unacknowledged = 0;
    server.files().late_trouble = Some(Trouble::Failed);
    server.ready(0);
    while server.run(&mut pipes, 0, 1) {}
    assert!(pipes.0[0].as_ref().unwrap().aborted);
    assert_eq!((server.open(), shelf.under_way()), (0, 0));
}

#[test]
fn a_file_that_cannot_be_read_at_all_is_refused() {
    for (trouble, status) in [(Trouble::Failed, 500), (Trouble::Busy, 503)] {
        let shelf = Shelf { late_trouble: Some(trouble), ..Shelf::default() };
        assert_eq!(one(&shelf, get("/kept.txt", "")).status, status);
        assert_eq!(one(&shelf, get("/kept.txt", "").replace("GET", "HEAD")).status, 200, "nothing is read");
    }
}

#[test]
fn a_file_that_is_another_one_before_its_answer_begins_is_looked_up_anew() {
    let shelf = Shelf { late_trouble: Some(Trouble::Changed), ..Shelf::default() };
    let mut server = shelf.server(1);
    let mut pipes = Pipes(vec![Some(Pipe { input: get("/kept.txt", "").into(), ..Pipe::default() })]);
    server.opened(0, 0);
    for _ in 0..3 {
        assert!(server.run(&mut pipes, 0, 1), "it has more to do");
        assert_eq!(shelf.under_way(), 1);
    }
    shelf.contents.borrow_mut().insert("kept.txt".into(), b"another".to_vec());
    assert!(server.run(&mut pipes, 0, 1));
    server.files().late_trouble = None;
    while server.run(&mut pipes, 0, 1) {}
    assert!(pipes.0[0].as_ref().unwrap().output.ends_with(b"\r\n\r\nanother"));
}

/// Who pipelines and takes nothing holds no bytes of a file, and is reset when its time is up.
#[test]
fn a_client_that_takes_nothing_has_nothing_read_for_it() {
    let shelf = Shelf::default();
    let mut server = shelf.server(1);
    let pipe = Pipe { input: get("/kept.txt", "").into(), buffer: Some(32 * 1024), ..Pipe::default() };
    let mut pipes = Pipes(vec![Some(Pipe { unacknowledged: 32 * 1024 - 500, ..pipe })]);
    server.opened(0, 0);
    while server.run(&mut pipes, 0, 1) {}
    assert_eq!(server.files().fetched, 0);
    for now in [TIMEOUTS.response - 1, 2 * TIMEOUTS.response - 2] {
        server.expire(&mut pipes, now);
        let pipe = pipes.0[0].as_mut().unwrap();
        assert!(!pipe.aborted, "it goes on");
        pipe.unacknowledged -= 1;
        server.ready(0);
        while server.run(&mut pipes, now, 1) {}
    }
    server.expire(&mut pipes, 4 * TIMEOUTS.response);
    assert!(pipes.0[0].as_ref().unwrap().aborted && pipes.0[0].as_ref().unwrap().output.is_empty());
    assert_eq!((server.open(), shelf.under_way()), (0, 0));
}

/// Data is sent to a client that takes nothing, and not kept for it, even if the head leaves little
/// space, in several pieces.
#[test]
fn what_was_asked_for_is_sent_to_a_client_that_takes_nothing() {
    const ASKED: usize = 3000;
    for piece in [usize::MAX, 700] {
        let mut server = Shelf { delay: 1, grasp: ASKED, ..Shelf::default() }.server(1);
        let input = get("/album/large.bin", "").into();
        let mut pipes = Pipes(vec![Some(Pipe { input, piece, buffer: Some(4096), ..Pipe::default() })]);
        server.opened(0, 0);
        for _ in 0..50 {
            server.ready(0);
            while server.run(&mut pipes, 0, 1) {}
        }
        let output = &pipes.0[0].as_ref().unwrap().output;
        let head = output.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert!(output.len() >= head + ASKED, "{} bytes in pieces of {piece}", output.len() - head);
    }
}

/// Two at once, and what becomes of them if the time runs out.
#[test]
fn times() {
    const NEVER: u32 = u32::MAX;
    let open = |shelf: &Shelf, inputs: &[String]| {
        let mut server = shelf.server(inputs.len());
        let pipe = |input: &String| Some(Pipe { input: input.clone().into_bytes(), ..Pipe::default() });
        let mut pipes = Pipes(inputs.iter().map(pipe).collect());
        (0..inputs.len()).for_each(|slot| server.opened(slot, 0));
        while server.run(&mut pipes, 0, 1) {}
        (server, pipes)
    };
    let cut = |text: String| text.strip_suffix("cde").unwrap().to_owned();
    let status = |pipes: &Pipes, slot: usize| {
        let output = String::from_utf8_lossy(&pipes.0[slot].as_ref().unwrap().output).into_owned();
        output.get(9..12).map(str::to_owned)
    };

    let shelf = Shelf::default();
    let (mut server, mut pipes) = open(&shelf, &[cut(put("/x", "abcde")), put("/x", "other"), put("/y", "z")]);
    assert_eq!(status(&pipes, 0), None);
    assert_eq!(status(&pipes, 1).as_deref(), Some("503"), "one upload at a time");
    assert_eq!(status(&pipes, 2).as_deref(), Some("201"));
    server.expire(&mut pipes, TIMEOUTS.request - 1);
    assert_eq!(status(&pipes, 0), None);
    server.expire(&mut pipes, TIMEOUTS.request);
    assert_eq!(status(&pipes, 0).as_deref(), Some("408"));
    assert_eq!((shelf.under_way(), content_of(&shelf, "x")), (0, None));

    let shelf = Shelf { delay: NEVER, ..Shelf::default() };
    let (mut server, mut pipes) = open(&shelf, &[get("/kept.txt", ""), put("/x", "abcde")]);
    server.expire(&mut pipes, TIMEOUTS.response - 1);
    assert_eq!((status(&pipes, 0), shelf.under_way()), (None, 2));
    server.expire(&mut pipes, TIMEOUTS.response);
    assert_eq!([0, 1].map(|slot| status(&pipes, slot)), [Some("503".to_owned()), Some("503".to_owned())]);
    assert_eq!(shelf.under_way(), 0);
}

#[test]
fn a_trickle_does_not_hold_an_upload_for_ever() {
    let shelf = Shelf::default();
    let mut server = shelf.server(1);
    let head = change("PUT", "/x", "Content-Length: 100000\r\n", "");
    let mut pipes = Pipes(vec![Some(Pipe { input: head.into_bytes(), ..Pipe::default() })]);
    server.opened(0, 0);
    let mut run = |now: u64, bytes: usize| {
        let pipe = pipes.0[0].as_mut().unwrap();
        pipe.input.extend(vec![b'x'; bytes]);
        server.ready(0);
        while server.run(&mut pipes, now, 1) {}
        server.expire(&mut pipes, now);
        pipes.0[0].as_ref().unwrap().finished
    };
    let piece = limits::UPLOAD_PIECE as usize;
    assert!((1..4).all(|turn| !run(turn * (TIMEOUTS.request - 1), piece)), "one that is fast enough goes on");
    let start = 3 * (TIMEOUTS.request - 1);
    let end = (start + 1..start + 1000).find(|now| run(*now, 1));
    assert_eq!(end, Some(start + TIMEOUTS.request));
}

/// A request, and what must become of it: its status, and the content at the path after it.
#[derive(Clone, Debug)]
struct Step {
    request: String,
    path: &'static str,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Get,
    Put(String),
    Delete,
    Denied,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let path = prop::sample::select(vec!["a", "album/b", "kept.txt"]);
    let content = prop::collection::vec("[a-z\r\n0]{1,30}", 0..4);
    let step = (path, content, 0..5u8).prop_map(|(path, pieces, kind)| {
        let content = pieces.concat();
        let target = format!("/{path}");
        let chunks: String = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
        let (request, kind) = match kind {
            0 => (get(&target, ""), Kind::Get),
            1 => (put(&target, &content), Kind::Put(content)),
            2 => {
                let chunked = change("PUT", &target, "Transfer-Encoding: chunked\r\n", &format!("{chunks}0\r\n\r\n"));
                (chunked, Kind::Put(content))
            }
            3 => (change("DELETE", &target, "", ""), Kind::Delete),
            _ => (put(&target, &content).replace(TOKEN, "guess"), Kind::Denied),
        };
        Step { request, path, kind }
    });
    prop::collection::vec(step, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_on_one_connection_do_what_they_say(
        steps in steps(),
        mut cuts in prop::collection::vec(0usize..2_000, 0..12),
        piece in prop_oneof![Just(usize::MAX), 0usize..200],
        room in 2048usize..5000,
        delay in 0..4u32,
        grasp in prop_oneof![Just(usize::MAX), 1usize..10],
    ) {
        cuts.sort_unstable();
        let shelf = Shelf { delay, grasp, ..Shelf::default() };
        let mut model = shelf.contents.borrow().clone();
        let expected: Vec<(u16, Vec<u8>)> = steps.iter().map(|step| match &step.kind {
            Kind::Get => match model.get(step.path) {
                Some(content) => (200, content.clone()),
                None => (404, b"nothing here\n".to_vec()),
            },
            Kind::Put(content) => match model.insert(step.path.into(), content.clone().into()) {
                Some(_) => (204, Vec::new()),
                None => (201, Vec::new()),
            },
            Kind::Delete => match model.remove(step.path) {
                Some(_) => (204, Vec::new()),
                None => (404, b"nothing here\n".to_vec()),
            },
            Kind::Denied => (401, b"401 Unauthorized\nThis is not the token.\n".to_vec()),
        }).collect();
        let input: String = steps.iter().map(|step| step.request.as_str()).collect();
        let output = shelf.exchange(input.as_bytes(), &cuts, piece, room);
        let answers: Vec<_> = responses(&output).into_iter().map(|it| (it.status, it.body)).collect();
        prop_assert_eq!(answers, expected);
        prop_assert_eq!(&*shelf.contents.borrow(), &model);
        prop_assert_eq!(shelf.under_way(), 0);
    }
}
