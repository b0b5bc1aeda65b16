//! From a request's target to a path.

use crate::fields;
use crate::response::{Refusal, Status};
use crate::scan::{self, classes};

/// A path, decoded, always beginning with `/`, with the hash that [`crate::site`] looks it up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<'b> {
    /// Its bytes.
    pub bytes: &'b [u8],
    /// [`hash`] of them.
    pub hash: u32,
}

const BAD_TARGET: Refusal = Refusal::new(Status::BadRequest, "The request's target is not a path or an http URL.");
const BAD_ESCAPE: Refusal = Refusal::new(
    Status::BadRequest,
    "A percent sign in the target must be followed by two hexadecimal digits, not 00.",
);
const DOT_SEGMENT: Refusal = Refusal::new(Status::BadRequest, "The target's path has a segment of dots.");

const HASH_START: u32 = 0x811c_9dc5;

/// Steps of the FNV-1a hash, which is good enough for a table that a peer cannot fill.
const fn step(hash: u32, byte: u8) -> u32 {
    (hash ^ byte as u32).wrapping_mul(0x0100_0193)
}

/// The hash of a whole path.
pub fn hash(path: &[u8]) -> u32 {
    path.iter().fold(HASH_START, |hash, &byte| step(hash, byte))
}

/// The path that `target` names: query dropped, escapes decoded, dot segments refused (so nothing
/// above the root can be named, and no path has two spellings through them). `scratch` holds the
/// path where it had escapes.
pub fn path<'b>(target: &'b [u8], scratch: &'b mut [u8]) -> Result<Path<'b>, Refusal> {
    let target = if target[0] == b'/' { target } else { path_of_url(target)? };
    let mut hash = HASH_START;
    let mut last = b'/';
    for (at, &byte) in target.iter().enumerate() {
        if scan::class(byte) & classes::PATH == 0 {
            if byte == b'?' {
                check_query(&target[at..])?;
                return Ok(Path { bytes: &target[..at], hash });
            }
            if byte != b'.' || last == b'/' {
                return decode(target, scratch);
            }
        }
        hash = step(hash, byte);
        last = byte;
    }
    Ok(Path { bytes: target, hash })
}

/// A target's path, escapes as they are, and its query, which begins with `?`.
pub fn split(target: &[u8]) -> (&[u8], &[u8]) {
    let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let path = if path.starts_with(b"/") { path } else { path_of_url(path).unwrap_or(b"/") };
    (path, query)
}

/// RFC 9112 §3.2.2: servers must accept the absolute form.
#[cold]
fn path_of_url(target: &[u8]) -> Result<&[u8], Refusal> {
    let (scheme, rest) = target.split_at_checked(7).ok_or(BAD_TARGET)?;
    if !scheme.eq_ignore_ascii_case(b"http://") {
        return Err(BAD_TARGET);
    }
    let end = rest.iter().position(|&byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    if end == 0 || !fields::is_host(&rest[..end]) {
        return Err(BAD_TARGET);
    }
    let path = &rest[end..];
    if path.starts_with(b"/") { Ok(path) } else { check_query(path).map(|()| &b"/"[..]) }
}

/// The slow way, for paths with escapes or with a segment that begins with a dot.
#[cold]
fn decode<'b>(target: &[u8], scratch: &'b mut [u8]) -> Result<Path<'b>, Refusal> {
    let mut length = 0;
    let mut at = 0;
    while at < target.len() {
        let byte = match target[at] {
            b'%' => {
                let byte = escape(&target[at..]).ok_or(BAD_ESCAPE)?;
                at += 2;
                byte
            }
            b'?' => {
                check_query(&target[at..])?;
                break;
            }
            byte if byte == b'.' || scan::class(byte) & classes::PATH != 0 => byte,
            _ => return Err(BAD_TARGET),
        };
        // Decoding only shortens, and `scratch` is as large as a request line: this bound is for
        // the reader.
        *scratch.get_mut(length).ok_or(BAD_TARGET)? = byte;
        length += 1;
        at += 1;
    }
    let bytes = &scratch[..length];
    if bytes.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b"..")) {
        return Err(DOT_SEGMENT);
    }
    Ok(Path { bytes, hash: hash(bytes) })
}

fn escape(bytes: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let byte = (digit(1)? * 16 + digit(2)?) as u8;
    (byte != 0).then_some(byte)
}

/// Queries are not used, but a target with a space, a byte beyond ASCII or a fragment is none.
fn check_query(query: &[u8]) -> Result<(), Refusal> {
    if query.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'#') { Ok(()) } else { Err(BAD_TARGET) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(target: &str) -> Result<Vec<u8>, Status> {
        let mut scratch = [0; 4096];
        let path = path(target.as_bytes(), &mut scratch).map_err(|refusal| refusal.status)?;
        assert_eq!(path.hash, hash(path.bytes));
        Ok(path.bytes.to_vec())
    }

    #[test]
    fn good_targets() {
        for (target, expected) in [
            ("/", "/"),
            ("/index.html", "/index.html"),
            ("/a/b?c=%00&d=..", "/a/b"),
            ("/a%20b", "/a b"),
            ("/%7Euser/", "/~user/"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a..b/...", "/a..b/..."),
            ("http://host", "/"),
            ("HTTP://host:80/x?y", "/x"),
            ("http://[::1]?q", "/"),
            ("//x//", "//x//"),
            ("/a|b^[c]", "/a|b^[c]"),
            ("/%41|%5b", "/A|["),
        ] {
            assert_eq!(decoded(target), Ok(expected.into()), "{target}");
        }
    }

    #[test]
    fn bad_targets() {
        for target in [
            "*",
            "x",
            "host:80",
            "https://host/",
            "http:///x",
            "/%",
            "/%2",
            "/%zz",
            "/%00",
            "/../x",
            "/a/..",
            "/%2e%2e/x",
            "/.",
            "/a/./b",
            "/%2e",
            "/a b",
            "/a#b",
            "/é",
            "/?a b",
            "/?a#b",
            "/x%2f..%2fy",
            "http://a b/",
            "http://a:b/",
            "http://[::1/",
            "http://%zz/",
            "http://user@host/",
            "/<x>",
            "/\\",
            "/{x}",
            "/\"x\"",
        ] {
            assert_eq!(decoded(target), Err(Status::BadRequest), "{target}");
        }
    }

    proptest! {
        #[test]
        fn no_path_climbs(target in "/[a./%2eE?]{0,30}") {
            if let Ok(path) = decoded(&target) {
                prop_assert_eq!(path[0], b'/');
                prop_assert!(!path.split(|&byte| byte == b'/').any(|segment| segment == b".." || segment == b"."));
            }
        }

        #[test]
        fn escaping_does_not_change_the_path(name in "/[a-z0-9]{1,20}") {
            let escaped: String = name.bytes().map(|byte| if byte == b'/' { "/".into() } else { format!("%{byte:02x}") }).collect();
            prop_assert_eq!(decoded(&name), decoded(&escaped));
        }
    }
}
