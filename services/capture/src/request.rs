//! What is asked for: `GET /capture.pcap`, with the count of frames after which the capture ends
//! behind it if it is to end, `GET /capture.pcap?frames=100`.
//!
//! Nothing else of a request means anything here, so its header is passed over and not read.

/// Bytes of a request at most.
pub(crate) const LONGEST: usize = 4096;

/// What has come of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// More of it is to come.
    Partial,
    /// A capture of so many frames; of all that come if it says none.
    Capture(Option<u64>),
    /// Something else, with the status that answers it.
    Refused(&'static str),
}

/// Reads the first bytes of a connection.
pub(crate) fn read(bytes: &[u8]) -> Request {
    let line_end = bytes.iter().position(|byte| *byte == b'\n');
    let is_whole = bytes.windows(4).any(|end| end == b"\r\n\r\n") || bytes.windows(2).any(|end| end == b"\n\n");
    let (Some(line_end), true) = (line_end, is_whole) else {
        return if bytes.len() < LONGEST {
            Request::Partial
        } else {
            Request::Refused("431 Request Header Fields Too Large")
        };
    };
    let line = bytes.get(..line_end).unwrap_or_default().trim_ascii_end();
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Request::Refused("400 Bad Request");
    };
    if !version.starts_with(b"HTTP/1.") {
        return Request::Refused("505 HTTP Version Not Supported");
    }
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (target.get(..at).unwrap_or_default(), target.get(at + 1..)),
        None => (target, None),
    };
    match (path, method) {
        (b"/capture.pcap", b"GET") => {}
        (b"/capture.pcap", _) => return Request::Refused("405 Method Not Allowed\r\nAllow: GET"),
        _ => return Request::Refused("404 Not Found"),
    }
    let Some(query) = query else { return Request::Capture(None) };
    let count = query.strip_prefix(b"frames=").and_then(|count| str::from_utf8(count).ok());
    match count.filter(|count| !count.starts_with('+')).and_then(|count| count.parse().ok()) {
        Some(count) => Request::Capture(Some(count)),
        None => Request::Refused("400 Bad Request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    #[test]
    fn requests_are_told_apart() {
        let ask = |line: &str| read(format!("{line}\r\nHost: gateway\r\n\r\n").as_bytes());
        assert_eq!(ask("GET /capture.pcap HTTP/1.1"), Request::Capture(None));
        assert_eq!(ask("GET /capture.pcap?frames=20 HTTP/1.0"), Request::Capture(Some(20)));
        let status = |line: &str| match ask(line) {
            Request::Refused(status) => status.get(..3),
            _ => None,
        };
        assert_eq!(status("GET / HTTP/1.1"), Some("404"));
        assert_eq!(status("POST /capture.pcap HTTP/1.1"), Some("405"));
        assert_eq!(status("GET /capture.pcap HTTP/2"), Some("505"));
        assert_eq!(status("GET /capture.pcap"), Some("400"));
        for query in ["", "frames=", "frames=-1", "frames=+1", "frames=99999999999999999999", "bytes=1"] {
            assert_eq!(status(&format!("GET /capture.pcap?{query} HTTP/1.1")), Some("400"), "{query}");
        }
        assert_eq!(read(b"GET /capture.pcap HTTP/1.1\r\nHost:"), Request::Partial);
        assert_eq!(read(&[b'a'; LONGEST]), Request::Refused("431 Request Header Fields Too Large"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
        }
    }
}
