//! What is asked for: the page and its parts, the state, the rules; and new rules with their token.

use culm_http::fields;
use culm_http::request::{Expect, Framing, Method, Request};

/// Bytes of a request's head at most.
pub(crate) const HEAD: usize = 8192;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask<'a> {
    /// A file that is always the same.
    Page(&'static str, &'static [u8]),
    /// The state as JSON.
    State,
    /// The rules in use.
    Rules,
    /// That these take their place: so many bytes behind the head, sent with this token.
    Exchange {
        /// Bytes of the text.
        length: usize,
        /// What the client says that it knows.
        token: Option<&'a [u8]>,
        /// Whether it waits for a word before it sends them.
        waits: bool,
    },
    /// Nothing that there is: the status line, and a word about it.
    Refused(&'static str, &'static str),
}

const HTML: &str = "text/html; charset=utf-8";

/// Decides what a request is about whose head was read.
pub(crate) fn read<'a>(request: &Request, head: &'a [u8]) -> Ask<'a> {
    let target = request.target.of(head);
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let ask = match path {
        b"/" | b"/index.html" => Ask::Page(HTML, include_bytes!("page/page.html")),
        b"/page.css" => Ask::Page("text/css; charset=utf-8", include_bytes!("page/page.css")),
        b"/page.js" => Ask::Page("text/javascript; charset=utf-8", include_bytes!("page/page.js")),
        b"/status.json" => Ask::State,
        b"/rules" => Ask::Rules,
        _ => return Ask::Refused("404 Not Found", "There are /, /status.json and /rules.\n"),
    };
    match (request.method, ask) {
        (Method::Get | Method::Head, _) => ask,
        (Method::Put, Ask::Rules) => match request.framing {
            Framing::Length(length) => Ask::Exchange {
                length: usize::try_from(length).unwrap_or(usize::MAX),
                token: request.authorization.and_then(|field| fields::bearer(field.of(head))),
                waits: request.expect == Expect::Continue,
            },
            _ => Ask::Refused("411 Length Required", "Rules are sent with their length.\n"),
        },
        (_, Ask::Rules) => Ask::Refused("405 Method Not Allowed\r\nAllow: GET, HEAD, PUT", "There are GET and PUT.\n"),
        _ => Ask::Refused("405 Method Not Allowed\r\nAllow: GET, HEAD", "There is GET.\n"),
    }
}
