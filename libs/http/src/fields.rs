//! Values of fields: lists, numbers, entity tags, ranges.

use crate::scan::{self, classes};

/// Calls `take` with each element of a comma-separated list (RFC 9110 §5.6.1), empty ones left out.
pub fn each(list: &[u8], mut take: impl FnMut(&[u8])) {
    for element in list.split(|&byte| byte == b',') {
        let element = element.trim_ascii();
        if !element.is_empty() {
            take(element);
        }
    }
}

/// Whether `value` can be a `Host` field's value: `uri-host [ ":" port ]` or empty (RFC 9110 §7.2).
pub fn is_host(value: &[u8]) -> bool {
    let end = value.iter().position(|&byte| scan::class(byte) & classes::NAME == 0).unwrap_or(value.len());
    match &value[end..] {
        [] => true,
        [b':', port @ ..] => end > 0 && is_port(port),
        rest => is_unusual_host(value, rest),
    }
}

/// RFC 3986 §3.2.3 lets a port be empty.
fn is_port(port: &[u8]) -> bool {
    port.iter().all(u8::is_ascii_digit)
}

/// A host with escapes, or an address in brackets. `rest` begins with what made it unusual.
#[cold]
fn is_unusual_host(value: &[u8], mut rest: &[u8]) -> bool {
    if let Some(literal) = value.strip_prefix(b"[") {
        let Some(end) = literal.iter().position(|&byte| byte == b']') else { return false };
        let (address, after) = (&literal[..end], &literal[end + 1..]);
        return is_literal(address) && (after.is_empty() || after.strip_prefix(b":").is_some_and(is_port));
    }
    loop {
        rest = match rest {
            [] => return true,
            [b':', port @ ..] => return is_port(port),
            [b'%', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => tail,
            [byte, tail @ ..] if scan::class(*byte) & classes::NAME != 0 => tail,
            _ => return false,
        }
    }
}

/// Returns whether this may stand between brackets: an IPv6 address, or one of a version to come
/// (RFC 3986 §3.2.2).
fn is_literal(address: &[u8]) -> bool {
    if let [b'v' | b'V', future @ ..] = address {
        let Some(dot) = future.iter().position(|&byte| byte == b'.') else { return false };
        let (version, rest) = (&future[..dot], &future[dot + 1..]);
        let may_stand = |&byte: &u8| byte == b':' || scan::class(byte) & classes::NAME != 0;
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !rest.is_empty()
            && rest.iter().all(may_stand);
    }
    core::str::from_utf8(address).is_ok_and(|address| address.parse::<core::net::Ipv6Addr>().is_ok())
}

/// A number of decimal digits and nothing else that fits in 64 bits.
pub fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |number, &digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// How two entity tags are compared (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Weak tags match nothing.
    Strong,
    /// Weakness is ignored.
    Weak,
}

/// Whether a list of entity tags, as `If-Match` and `If-None-Match` have it, contains `tag` (quotes
/// included) or is `*`. From the first malformed element on, the list is taken to be at its end.
pub fn tags_contain(list: &[u8], tag: &[u8], comparison: Comparison) -> bool {
    if list == b"*" {
        return true;
    }
    let mut rest = list;
    loop {
        while let [b' ' | b'\t' | b',', tail @ ..] = rest {
            rest = tail;
        }
        let (weak, quoted) = match rest.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let Some(length) = tag_length(quoted) else { return false };
        if quoted[..length] == *tag && !(weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = &quoted[length..];
    }
}

/// Whether `If-Range` names exactly this strong tag. A date never matches: files have none here
/// (RFC 9110 §13.1.5).
pub fn tag_is(value: &[u8], tag: &[u8]) -> bool {
    value == tag
}

/// Bytes of the quoted string that `bytes` begin with, both quotes included.
fn tag_length(bytes: &[u8]) -> Option<usize> {
    let inner = bytes.strip_prefix(b"\"")?;
    inner.iter().position(|&byte| byte == b'"').map(|end| end + 2)
}

/// The token of an `Authorization` field with the scheme `Bearer` (RFC 6750, "Authorization Request
/// Header Field"); none where the field has another scheme or no token.
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    let token = rest.trim_ascii();
    let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_good = scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty() && token.iter().all(is_token);
    is_good.then_some(token)
}

/// A moment, comparable with others: the fields of its date, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment([u16; 6]);

/// Reads a date in any of HTTP's three forms (RFC 9110 §5.6.7). That it is a day of the calendar is
/// not checked: nothing but the order matters.
pub fn date(value: &[u8]) -> Option<Moment> {
    let mut words = value.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let (first, second) = (words.next()?, words.next()?);
    let (day, month, year, time) = if !first.ends_with(b",") {
        // asctime: Sun Nov  6 08:49:37 1994
        let (day, time, year) = (words.next()?, words.next()?, words.next()?);
        (day, second, digits(year, 4..=4)?, time)
    } else if let Some([day, month, year]) = parts(second, b'-') {
        // RFC 850: Sunday, 06-Nov-94 08:49:37 GMT. The century is the one that makes the year one
        // of the Unix epoch.
        let year = digits(year, 2..=2)?;
        (day, month, if year < 70 { 2000 + year } else { 1900 + year }, words.next()?)
    } else {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let (month, year, time) = (words.next()?, words.next()?, words.next()?);
        (second, month, digits(year, 4..=4)?, time)
    };
    if first.ends_with(b",") && words.next()? != b"GMT" || words.next().is_some() {
        return None;
    }
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.chunks(3).position(|name| name == month)? as u16;
    let [hour, minute, second] = parts(time, b':')?;
    let two = |text, most| digits(text, 2..=2).filter(|number| *number <= most);
    let day = digits(day, 1..=2).filter(|day| (1..=31).contains(day))?;
    // A minute may have a leap second.
    Some(Moment([year, month, day, two(hour, 23)?, two(minute, 59)?, two(second, 60)?]))
}

fn digits(text: &[u8], lengths: core::ops::RangeInclusive<usize>) -> Option<u16> {
    if !lengths.contains(&text.len()) {
        return None;
    }
    number(text).and_then(|number| u16::try_from(number).ok())
}

/// The three parts of `text` between two separators.
fn parts(text: &[u8], separator: u8) -> Option<[&[u8]; 3]> {
    let mut parts = text.split(|&byte| byte == separator);
    let all = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(all)
}

/// The wishes of `Accept-Encoding` (RFC 9110 §12.5.3), as far as this server has a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codings {
    gzip: Option<u16>,
    identity: Option<u16>,
    other: Option<u16>,
}

impl Codings {
    /// Takes in the value of one line of the field.
    pub fn add(&mut self, value: &[u8]) {
        each(value, |element| {
            let mut parts = element.splitn(2, |&byte| byte == b';').map(<[u8]>::trim_ascii);
            let coding = parts.next().unwrap_or(b"");
            let Some(weight) = parts.next().map_or(Some(1000), weight) else { return };
            if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
                self.gzip = Some(weight);
            } else if coding.eq_ignore_ascii_case(b"identity") {
                self.identity = Some(weight);
            } else if coding == b"*" {
                self.other = Some(weight);
            }
        });
    }

    /// Whether gzip is acceptable, and no less welcome than the content as it is.
    pub fn prefer_gzip(&self) -> bool {
        let gzip = self.gzip.or(self.other).unwrap_or(0);
        gzip > 0 && gzip >= self.identity.unwrap_or(0)
    }
}

/// A weight like `q=0.5`, in thousandths (RFC 9110 §12.4.2).
fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), fraction @ ..] = parameter else { return None };
    let digits = match fraction {
        [] => fraction,
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    let mut thousandths = u16::from(*whole - b'0') * 1000;
    for (digit, scale) in digits.iter().zip([100, 10, 1]) {
        thousandths += u16::from(digit.is_ascii_digit().then(|| digit - b'0')?) * scale;
    }
    (thousandths <= 1000).then_some(thousandths)
}

/// The bytes that a `Range` field asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// Everything: the field is none that this server understands, or has several ranges (RFC 9110
    /// §14.2 allows both).
    Whole,
    /// These bytes: the first and the one after the last.
    Part(usize, usize),
    /// Nothing that there is.
    Unsatisfiable,
}

/// Reads a `Range` field's value for content of `length` bytes (RFC 9110 §14.1.2).
pub fn range(value: &[u8], length: usize) -> Range {
    read_range(value, length).unwrap_or(Range::Whole)
}

fn read_range(value: &[u8], length: usize) -> Option<Range> {
    let (unit, set) = value.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    // RFC 9110 §5.6.1.2: empty elements of a list are to be ignored.
    let mut specs = set.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty());
    let (Some(set), None) = (specs.next(), specs.next()) else { return None };
    let dash = set.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&set[..dash], &set[dash + 1..]);
    if first.is_empty() {
        return match position(last)? {
            0 => Some(Range::Unsatisfiable),
            // All of nothing: it can be satisfied, but no `Content-Range` could say by which bytes.
            _ if length == 0 => None,
            suffix => Some(Range::Part(length - suffix.min(length), length)),
        };
    }
    let first = position(first)?;
    let end = if last.is_empty() { length } else { position(last)?.saturating_add(1) };
    if end <= first && !last.is_empty() {
        return None;
    }
    let outcome = if first >= length { Range::Unsatisfiable } else { Range::Part(first, end.min(length)) };
    Some(outcome)
}

/// A position in content; one that does not fit is beyond all content.
fn position(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(number(digits).and_then(|number| usize::try_from(number).ok()).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ten_bytes() {
        let read = |value: &str| range(value.as_bytes(), 10);
        assert_eq!(read("bytes=0-4"), Range::Part(0, 5));
        assert_eq!(read("Bytes=3-"), Range::Part(3, 10));
        assert_eq!(read("bytes=-3"), Range::Part(7, 10));
        assert_eq!(read("bytes=-30"), Range::Part(0, 10));
        assert_eq!(read("bytes=9-99999999999999999999999"), Range::Part(9, 10));
        assert_eq!(read("bytes=10-"), Range::Unsatisfiable);
        assert_eq!(read("bytes=99999999999999999999999-"), Range::Unsatisfiable);
        assert_eq!(read("bytes=-0"), Range::Unsatisfiable);
        for whole in
            ["bytes=4-2", "bytes=0-1,3-4", "lines=0-1", "bytes=", "bytes=-", "bytes=a-b", "bytes=0", "bytes=1--2"]
        {
            assert_eq!(read(whole), Range::Whole, "{whole}");
        }
        assert_eq!(read("bytes= 0-4 ,"), Range::Part(0, 5));
        assert_eq!(range(b"bytes=0-", 0), Range::Unsatisfiable);
        assert_eq!(range(b"bytes=-0", 0), Range::Unsatisfiable);
        assert_eq!(range(b"bytes=-5", 0), Range::Whole);
    }

    #[test]
    fn tags_in_lists() {
        let weak = |list: &str| tags_contain(list.as_bytes(), b"\"a\"", Comparison::Weak);
        let strong = |list: &str| tags_contain(list.as_bytes(), b"\"a\"", Comparison::Strong);
        assert!(weak("*") && weak("\"a\"") && weak("W/\"a\"") && weak("\"x,\", W/\"y\",\"a\""));
        assert!(strong("\"a\"") && strong("W/\"a\", \"a\"") && !strong("W/\"a\""));
        for none in ["", "a", "\"a", "\"b\"", "W/", "\"b\" x \"a\"", ", ,"] {
            assert!(!weak(none), "{none}");
        }
    }

    #[test]
    fn dates() {
        let read = |text: &str| date(text.as_bytes());
        let moment = read("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(moment, Some(Moment([1994, 10, 6, 8, 49, 37])));
        assert_eq!(read("Sunday, 06-Nov-94 08:49:37 GMT"), moment);
        assert_eq!(read("Sun Nov  6 08:49:37 1994"), moment);
        for later in
            ["Sun, 06 Nov 1994 08:49:38 GMT", "Thu, 01 Dec 1994 00:00:00 GMT", "Saturday, 01-Jan-00 00:00:00 GMT"]
        {
            assert!(read(later) > moment, "{later}");
        }
        for bad in [
            "",
            "0",
            "Sun",
            "Sun,",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37:1 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 94",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn bearers() {
        for (value, token) in [("Bearer abc", "abc"), ("bearer  a-._~+/= ", "a-._~+/=")] {
            assert_eq!(bearer(value.as_bytes()), Some(token.as_bytes()));
        }
        for none in ["", "Bearer", "Bearer ", "Bearer a b", "Basic abc", "Bearerabc", "Bearer a,b", "Bearer é"] {
            assert_eq!(bearer(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn codings() {
        for (expected, value) in [
            (true, "gzip"),
            (true, "deflate, gzip;q=1.0, *;q=0.5"),
            (true, "gzip, deflate, br, zstd"),
            (true, "X-GZIP ; q=0.001"),
            (true, "*"),
            (true, "identity;q=0.5, gzip;q=0.5"),
            (true, "br;q=1, *;q=0.1"),
            (false, ""),
            (false, "identity"),
            (false, "br"),
            (false, "gzip;q=0"),
            (false, "gzip;q=0.000, *"),
            (false, "*;q=0"),
            (false, "gzip;q=0.5, identity"),
            (false, "gzip;q=0.5, identity;q=0.7"),
            (false, "gzip;q=2"),
            (false, "gzip;q=1.001"),
            (false, "gzip;q=0.1234"),
            (false, "gzip;q=x"),
            (false, "gzip;q=0.-"),
            (false, "gzip;"),
            (false, "gzipped"),
        ] {
            let mut codings = Codings::default();
            codings.add(value.as_bytes());
            assert_eq!(codings.prefer_gzip(), expected, "{value}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"18446744073709551616", b"-1", b"+1", b"1,1", b"0x1", b" 1"] {
            assert_eq!(number(bad), None);
        }
    }

    #[test]
    fn hosts() {
        for good in [
            "",
            "localhost",
            "10.0.2.15:8080",
            "a:",
            "[::1]",
            "[::1]:80",
            "[::1]:",
            "[2001:db8::10.0.0.1]",
            "[v1.a:b]",
            "a%20b",
            "a%2Fb:80",
            "a-b_c.d~e",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "a b",
            "a/b",
            "a@b",
            "a#b",
            "é",
            "::1",
            "[::1",
            "::1]",
            "]",
            "[]",
            "[zz]",
            "[::1]x",
            "[::1]:x",
            "[1]",
            "[::1%25eth0]",
            "[v.a]",
            "[v1.]",
            "[v1]",
            "[vx.a]",
            "a:b",
            "a:80:80",
            "a:-1",
            "a:+1",
            ":80",
            ":",
            "%zz",
            "%",
            "%2",
            "a%20:x",
            "a[::1]",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
