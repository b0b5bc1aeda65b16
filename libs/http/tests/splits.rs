//! However the transport cuts the input and whatever its buffers hold, the answer is the same.

mod common;

use common::exchange;
use culm_http::limits;
use proptest::prelude::*;

/// Requests, good and bad, that follow each other on one connection.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /hello.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n",
            "HEAD /docs HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a%20b.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde",
            "GET /missing HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "GET /packed.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\nAccept-Encoding: gzip\r\nRange: bytes=1-2\r\n\r\n",
            "GET /docs?q=1 HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
            "GET /now HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\nIf-Match: *\r\n\r\n",
            "\r\nGET /docs/ HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::sample::select(vec![
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET / HTTP/3.0\r\n\r\n",
            "G E T",
            "HEAD / HTTP/2.0\r\n\r\n",
            "HEAD / HTTP/1.1\r\nHost: [\r\n\r\n",
            "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: \u{7f}\r\n\r\n",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (limits::REQUEST_LINE - 16..limits::REQUEST_LINE + 16).prop_map(|length| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(length)).into_bytes()),
        1 => (limits::HEAD - 90..limits::HEAD + 10).prop_map(|length| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(length - 34)).into_bytes()),
    ];
    prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn splits_do_not_matter(
        input in requests(),
        mut cuts in prop::collection::vec(0usize..13_000, 0..12),
        piece in prop_oneof![Just(usize::MAX), 0usize..200],
        room in 2048usize..5000,
    ) {
        cuts.sort_unstable();
        let whole = exchange(&input, &[], usize::MAX, usize::MAX);
        prop_assert_eq!(&exchange(&input, &cuts, piece, room), &whole);
        // The head of the input is where the decisions fall: cut it at every byte.
        let bytewise: Vec<usize> = (0..input.len().min(300)).collect();
        prop_assert_eq!(&exchange(&input, &bytewise, usize::MAX, usize::MAX), &whole);
    }

    #[test]
    fn what_is_accepted_is_http(input in requests()) {
        // An independent parser must agree wherever this one accepts.
        use culm_http::request::{Method, Parser, Progress};
        let mut parser = Parser::default();
        if let Ok(Progress::Complete) = parser.advance(&input) {
            let request = parser.request();
            // A space in a target is refused when the target is followed.
            prop_assume!(!request.target.of(&input).contains(&b' '));
            let mut fields = [httparse::EMPTY_HEADER; 64];
            let mut other = httparse::Request::new(&mut fields);
            let status = other.parse(&input).expect("the other parser refuses");
            prop_assert_eq!(status, httparse::Status::Complete(usize::from(request.length)));
            prop_assert_eq!(request.target.of(&input), other.path.unwrap().as_bytes());
            match request.method {
                Method::Get => prop_assert_eq!(other.method, Some("GET")),
                Method::Head => prop_assert_eq!(other.method, Some("HEAD")),
                _ => {}
            }
        }
    }
}
