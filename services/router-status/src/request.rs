//! What is asked for: the page and its parts, the state, the rules; and new rules with their token.

use core::net::{Ipv4Addr, Ipv6Addr};
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

/// The status for who asks by another name.
pub(crate) const MISDIRECTED: &str = "421 Misdirected Request";

/// Returns whether a request that was read names this host (RFC 9110 §7.2): by an address, as
/// `localhost`, or by one of `names`.
///
/// A browser lets a page read what comes from where the page does, by name. Whoever has that name
/// lead to an address of this network (DNS rebinding) would read with the browser of somebody
/// inside; but the request says the name.
pub(crate) fn is_for_us<'a>(head: &[u8], mut names: impl Iterator<Item = &'a str>) -> bool {
    let fields = head.split(|byte| *byte == b'\n').skip(1);
    let mut hosts = fields.filter_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
        name.eq_ignore_ascii_case(b"host").then(|| value.get(1..).unwrap_or_default().trim_ascii())
    });
    // Without one it is of HTTP/1.0, which browsers do not speak.
    let Some(host) = hosts.next() else { return true };
    let Ok(host) = str::from_utf8(host) else { return false };
    if let Some(address) = host.strip_prefix('[') {
        return address.split_once(']').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
    }
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let host = host.strip_suffix('.').unwrap_or(host);
    host.parse::<Ipv4Addr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || names.any(|name| name.eq_ignore_ascii_case(host))
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
