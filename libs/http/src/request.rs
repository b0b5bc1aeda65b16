//! A request's head, parsed where it was received, line by line as lines become complete.
//!
//! The parser keeps offsets, never references, so its state outlives the buffer's borrow, and each
//! byte is looked at once however the transport splits the input. What it decides depends on the
//! bytes alone: a line is judged when it is complete, a control character or a limit when it is
//! met.

use crate::fields;
use crate::limits;
use crate::response::{Refusal, Status};
use crate::scan::{self, classes};

/// A part of the head, as offsets from the request's first byte. Heads are below 64 KiB
/// ([`limits::HEAD`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadRange {
    start: u16,
    end: u16,
}

impl HeadRange {
    /// The bytes of this part in the buffer that begins with the request.
    pub fn of(self, head: &[u8]) -> &[u8] {
        head.get(usize::from(self.start)..usize::from(self.end)).unwrap_or(&[])
    }

    /// Returns what is left of this part after its first `count` bytes.
    #[must_use]
    pub fn skip(self, count: usize) -> Self {
        Self { start: self.start.saturating_add(offset(count)).min(self.end), end: self.end }
    }
}

/// The value of a field that is a list, and so may stand on several lines (RFC 9110 §5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum List {
    /// The request has no such field.
    #[default]
    Absent,
    /// It has one, with this value.
    One(HeadRange),
    /// It has several: `lines` finds them again.
    Several,
}

impl List {
    fn add(&mut self, value: HeadRange) {
        *self = if *self == Self::Absent { Self::One(value) } else { Self::Several };
    }

    /// Whether the request has the field.
    pub fn is_present(self) -> bool {
        self != Self::Absent
    }

    /// Whether `is_meant` says so of the value of any of the field's lines. `name` is the field's,
    /// and `head` the request's.
    pub fn any(self, name: &[u8], head: &[u8], mut is_meant: impl FnMut(&[u8]) -> bool) -> bool {
        match self {
            Self::Absent => false,
            Self::One(value) => is_meant(value.of(head)),
            Self::Several => lines(name, head).any(is_meant),
        }
    }
}

/// The values of all fields called `name` in a head that was found to be good.
fn lines<'h>(name: &'h [u8], head: &'h [u8]) -> impl Iterator<Item = &'h [u8]> {
    head.split(|&byte| byte == b'\n').filter_map(move |line| {
        let (start, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        start.eq_ignore_ascii_case(name).then_some(value.trim_ascii())
    })
}

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Send the resource.
    #[default]
    Get,
    /// Send the head that GET would have.
    Head,
    /// Store the content as the resource.
    Put,
    /// Remove the resource.
    Delete,
    /// A method that HTTP knows and this server's resources do not allow.
    NotAllowed,
    /// A method that this server does not know.
    Unknown,
}

/// Whether and how a request announces a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    #[default]
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// A transfer coding that this server does not know.
    Unknown,
}

/// The response that the client waits for before it sends a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    #[default]
    None,
    /// `100-continue`.
    Continue,
    /// Something else.
    Unknown,
}

/// The content of a request's head, as far as a server of files cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// On what.
    pub target: HeadRange,
    /// Whether the client speaks HTTP/1.0.
    pub old: bool,
    /// Whether the connection stays open after the response.
    pub keep: bool,
    /// The body.
    pub framing: Framing,
    /// The response that the client waits for.
    pub expect: Expect,
    /// `If-Match`.
    pub if_match: List,
    /// `If-None-Match`.
    pub if_none_match: List,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<HeadRange>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<HeadRange>,
    /// `Accept-Encoding`.
    pub accept_encoding: List,
    /// `If-Range`.
    pub if_range: Option<HeadRange>,
    /// `Range`.
    pub range: Option<HeadRange>,
    /// `Authorization`.
    pub authorization: Option<HeadRange>,
    /// Whether there is a `Content-Range`: the content is a part of the resource.
    pub is_partial: bool,
    /// Whether there is a `Content-Encoding` other than `identity`.
    pub is_encoded: bool,
    /// Bytes of the head.
    pub length: u16,
}

/// As many of a request's first bytes decide whether it is a HEAD: empty lines, the method and a
/// space.
pub const START: usize = 2 * limits::BLANK_LINES as usize + 5;

/// Whether a head is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Incomplete,
    /// The head is complete: see [`Parser::request`].
    Complete,
}

/// The state of parsing one head.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// First byte of the line that is not yet complete.
    line: usize,
    /// First byte that was not yet looked at.
    scanned: usize,
    stage: Stage,
    blank_lines: u8,
    fields: usize,
    hosts: u32,
    lengths: u32,
    codings: u32,
    close: bool,
    keep_alive: bool,
    request: Request,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    RequestLine,
    Fields,
    Done,
}

/// Where a line ends.
enum LineEnd {
    /// Its carriage return is here, and a line feed follows.
    At(usize),
    /// Not within the bytes so far.
    Beyond,
}

const BARE_CONTROL: Refusal = Refusal::new(Status::BadRequest, "A control character stands where none may stand.");
const BARE_LINE_FEED: Refusal = Refusal::new(Status::BadRequest, "Lines must end with CR LF.");
const LINE_TOO_LONG: Refusal = Refusal::new(Status::UriTooLong, "The request line is longer than this server takes.");
const HEAD_TOO_LONG: Refusal =
    Refusal::new(Status::FieldsTooLarge, "The request's fields are longer than this server takes.");
const TOO_MANY_FIELDS: Refusal =
    Refusal::new(Status::FieldsTooLarge, "The request has more fields than this server takes.");
const BAD_REQUEST_LINE: Refusal =
    Refusal::new(Status::BadRequest, "The request line is not METHOD, space, TARGET, space, HTTP/1.1.");
const BAD_FIELD: Refusal = Refusal::new(Status::BadRequest, "A field line is not NAME, colon, VALUE.");
const BAD_VERSION: Refusal = Refusal::new(Status::VersionNotSupported, "This server speaks HTTP/1.0 and HTTP/1.1.");
const BAD_HOST: Refusal = Refusal::new(Status::BadRequest, "A request must have one valid Host field.");
const BAD_LENGTH: Refusal =
    Refusal::new(Status::BadRequest, "Content-Length must be one number, and the only word about the body's length.");
const REPEATED: Refusal = Refusal::new(Status::BadRequest, "A field is repeated that may stand only once.");

impl Parser {
    /// Whether no byte of a request was seen yet (empty lines apart).
    pub fn is_fresh(&self) -> bool {
        self.stage == Stage::RequestLine && self.line == self.scanned
    }

    /// Whether the whole head was seen: see [`Self::request`].
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Whether nothing was taken note of yet, not even empty lines.
    #[inline]
    pub fn is_untouched(&self) -> bool {
        self.scanned == 0
    }

    /// The request, once [`Self::advance`] has said that it is complete.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Whether the request is a HEAD, so that no answer to it may have content, also where it is
    /// not complete or not good otherwise (RFC 9110 §9.3.2). `start` are its first bytes, [`START`]
    /// where there are as many.
    pub fn is_head(&self, start: &[u8]) -> bool {
        match self.stage {
            Stage::RequestLine => start.get(self.line..).is_some_and(|line| line.starts_with(b"HEAD ")),
            Stage::Fields | Stage::Done => self.request.method == Method::Head,
        }
    }

    /// Goes on with `bytes`, all bytes received since the request's first.
    #[inline]
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Progress, Refusal> {
        let bytes = &bytes[..bytes.len().min(limits::HEAD)];
        while self.stage != Stage::Done {
            let LineEnd::At(end) = self.line_end(bytes)? else { return Ok(Progress::Incomplete) };
            let start = self.line;
            let line = &bytes[start..end];
            let next = end + 2;
            self.scanned = next;
            match (self.stage, line.is_empty()) {
                (Stage::RequestLine, true) => self.blank_line()?,
                (Stage::RequestLine, false) => self.request_line(line, start)?,
                (_, false) => self.field(line, start)?,
                (_, true) => self.complete(next)?,
            }
            // Not before: a line that is refused is looked at again.
            self.line = next;
        }
        Ok(Progress::Complete)
    }

    fn line_end(&mut self, bytes: &[u8]) -> Result<LineEnd, Refusal> {
        let bytes = match self.stage {
            Stage::RequestLine => &bytes[..bytes.len().min(self.line + limits::REQUEST_LINE + 2)],
            _ => bytes,
        };
        if bytes.len() < self.scanned {
            // A ring's first piece may be shorter than what was looked at in its copy.
            return Ok(LineEnd::Beyond);
        }
        loop {
            let at = scan::find_control(bytes, self.scanned);
            self.scanned = at;
            match (bytes.get(at), bytes.get(at + 1)) {
                (Some(b'\r'), Some(b'\n')) => return Ok(LineEnd::At(at)),
                (Some(b'\t'), _) if self.stage == Stage::Fields => self.scanned = at + 1,
                (Some(b'\n'), _) => return Err(BARE_LINE_FEED),
                (Some(b'\r'), None) | (None, _) => break,
                (Some(_), _) => return Err(BARE_CONTROL),
            }
        }
        if bytes.len() >= limits::HEAD {
            Err(HEAD_TOO_LONG)
        } else if self.stage == Stage::RequestLine && bytes.len() >= self.line + limits::REQUEST_LINE + 2 {
            Err(LINE_TOO_LONG)
        } else {
            Ok(LineEnd::Beyond)
        }
    }

    fn blank_line(&mut self) -> Result<(), Refusal> {
        self.blank_lines += 1;
        if self.blank_lines > limits::BLANK_LINES { Err(BAD_REQUEST_LINE) } else { Ok(()) }
    }

    /// RFC 9112 §3: `request-line = method SP request-target SP HTTP-version`.
    fn request_line(&mut self, line: &[u8], start: usize) -> Result<(), Refusal> {
        let (rest, version) = line.split_last_chunk::<8>().ok_or(BAD_REQUEST_LINE)?;
        let old = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            // RFC 9110 §2.5: a higher minor version is answered as the highest one known.
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => false,
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => return Err(BAD_VERSION),
            _ => return Err(BAD_REQUEST_LINE),
        };
        let (method, skip) = match rest {
            [b'G', b'E', b'T', b' ', ..] => (Method::Get, 4),
            [b'H', b'E', b'A', b'D', b' ', ..] => (Method::Head, 5),
            _ => other_method(rest)?,
        };
        let target = rest[skip..].strip_suffix(b" ").ok_or(BAD_REQUEST_LINE)?;
        // The targets of GET and HEAD are looked at more closely, byte by byte, when they are
        // followed.
        let followed = matches!(method, Method::Get | Method::Head);
        if target.is_empty() || (!followed && target.contains(&b' ')) {
            return Err(BAD_REQUEST_LINE);
        }
        self.request.method = method;
        self.request.old = old;
        self.request.target = part(start + skip, target.len());
        self.stage = Stage::Fields;
        Ok(())
    }

    /// RFC 9112 §5: `field-line = field-name ":" OWS field-value OWS`, no white space before the
    /// colon, no folding.
    fn field(&mut self, line: &[u8], start: usize) -> Result<(), Refusal> {
        self.fields += 1;
        if self.fields > limits::FIELDS {
            return Err(TOO_MANY_FIELDS);
        }
        let colon = line.iter().position(|&byte| scan::class(byte) & classes::TOKEN == 0).ok_or(BAD_FIELD)?;
        if colon == 0 || line[colon] != b':' {
            return Err(BAD_FIELD);
        }
        let name = &line[..colon];
        let mut from = colon + 1;
        let mut to = line.len();
        while from < to && is_space(line[from]) {
            from += 1;
        }
        while from < to && is_space(line[to - 1]) {
            to -= 1;
        }
        self.known_field(name, &line[from..to], part(start + from, to - from))
    }

    /// Records a field that this server knows. Length and first letter tell nearly all others
    /// apart.
    fn known_field(&mut self, name: &[u8], value: &[u8], at: HeadRange) -> Result<(), Refusal> {
        let request = &mut self.request;
        match (name.len(), name[0] | 0x20) {
            (4, b'h') if name.eq_ignore_ascii_case(b"host") => {
                self.hosts += 1;
                if !fields::is_host(value) {
                    return Err(BAD_HOST);
                }
            }
            (10, b'c') if name.eq_ignore_ascii_case(b"connection") => {
                fields::each(value, |option| {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                });
            }
            (5, b'r') if name.eq_ignore_ascii_case(b"range") => once(&mut request.range, at)?,
            (8, b'i') if name.eq_ignore_ascii_case(b"if-match") => request.if_match.add(at),
            (8, b'i') if name.eq_ignore_ascii_case(b"if-range") => once(&mut request.if_range, at)?,
            (13, b'i') if name.eq_ignore_ascii_case(b"if-none-match") => request.if_none_match.add(at),
            (15, b'a') if name.eq_ignore_ascii_case(b"accept-encoding") => request.accept_encoding.add(at),
            (14, b'c') if name.eq_ignore_ascii_case(b"content-length") => {
                self.lengths += 1;
                request.framing = Framing::Length(fields::number(value).ok_or(BAD_LENGTH)?);
            }
            (17, b't') if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.codings += 1;
                let chunked = value.eq_ignore_ascii_case(b"chunked") && self.codings == 1;
                request.framing = if chunked { Framing::Chunked } else { Framing::Unknown };
            }
            (13, b'a') if name.eq_ignore_ascii_case(b"authorization") => once(&mut request.authorization, at)?,
            (13, b'c') if name.eq_ignore_ascii_case(b"content-range") => request.is_partial = true,
            (16, b'c') if name.eq_ignore_ascii_case(b"content-encoding") => {
                fields::each(value, |coding| request.is_encoded |= !coding.eq_ignore_ascii_case(b"identity"));
            }
            (17, b'i') if name.eq_ignore_ascii_case(b"if-modified-since") => {
                once(&mut request.if_modified_since, at)?;
            }
            (19, b'i') if name.eq_ignore_ascii_case(b"if-unmodified-since") => {
                once(&mut request.if_unmodified_since, at)?;
            }
            (6, b'e') if name.eq_ignore_ascii_case(b"expect") => {
                fields::each(value, |expectation| {
                    let known = expectation.eq_ignore_ascii_case(b"100-continue");
                    if !known || request.expect == Expect::None {
                        request.expect = if known { Expect::Continue } else { Expect::Unknown };
                    }
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Judges what can only be judged when all fields are known.
    fn complete(&mut self, end: usize) -> Result<(), Refusal> {
        let request = &mut self.request;
        // RFC 9112 §3.2: HTTP/1.1 requires exactly one Host.
        if self.hosts > 1 || (self.hosts == 0 && !request.old) {
            return Err(BAD_HOST);
        }
        // RFC 9112 §6.1, §6.3: two words about the length, or a coding in HTTP/1.0, are how
        // requests are smuggled.
        if self.lengths > 1 || (self.codings > 0 && (self.lengths > 0 || request.old)) {
            return Err(BAD_LENGTH);
        }
        // RFC 9110 §10.1.1: HTTP/1.0 does not know this expectation.
        if request.old && request.expect == Expect::Continue {
            request.expect = Expect::None;
        }
        // RFC 9112 §9.3; HTTP/1.0 clients ask for it (appendix C.2.2).
        request.keep = !self.close && (!request.old || self.keep_alive);
        request.length = offset(end);
        self.stage = Stage::Done;
        Ok(())
    }
}

/// A method other than GET and HEAD, and the bytes up to its target.
#[cold]
fn other_method(rest: &[u8]) -> Result<(Method, usize), Refusal> {
    const KNOWN: [&[u8]; 5] = [b"POST", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT"];
    let end = rest.iter().position(|&byte| scan::class(byte) & classes::TOKEN == 0).ok_or(BAD_REQUEST_LINE)?;
    if end == 0 || rest[end] != b' ' {
        return Err(BAD_REQUEST_LINE);
    }
    let method = match &rest[..end] {
        b"PUT" => Method::Put,
        b"DELETE" => Method::Delete,
        other if KNOWN.contains(&other) => Method::NotAllowed,
        _ => Method::Unknown,
    };
    Ok((method, end + 1))
}

fn once(field: &mut Option<HeadRange>, value: HeadRange) -> Result<(), Refusal> {
    if field.is_some() {
        return Err(REPEATED);
    }
    *field = Some(value);
    Ok(())
}

fn part(start: usize, length: usize) -> HeadRange {
    HeadRange { start: offset(start), end: offset(start + length) }
}

/// An offset within a head, which [`limits::HEAD`] keeps within 16 bits.
fn offset(at: usize) -> u16 {
    const { assert!(limits::HEAD <= u16::MAX as usize) };
    at as u16
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}
