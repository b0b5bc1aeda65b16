//! Heads of responses, and the responses to what cannot be served.
//!
//! There is a `Date` where the server has a clock; without one it must send none (RFC 9110 §6.6.1).

use crate::media;
use core::fmt::{self, Write};

/// The statuses that this server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// 200
    Ok = 200,
    /// 201
    Created = 201,
    /// 204
    NoContent = 204,
    /// 206
    PartialContent = 206,
    /// 301
    MovedPermanently = 301,
    /// 304
    NotModified = 304,
    /// 400
    BadRequest = 400,
    /// 401
    Unauthorized = 401,
    /// 403
    Forbidden = 403,
    /// 404
    NotFound = 404,
    /// 405
    MethodNotAllowed = 405,
    /// 408
    RequestTimeout = 408,
    /// 409
    Conflict = 409,
    /// 411
    LengthRequired = 411,
    /// 412
    PreconditionFailed = 412,
    /// 413
    ContentTooLarge = 413,
    /// 414
    UriTooLong = 414,
    /// 415
    UnsupportedMediaType = 415,
    /// 416
    RangeNotSatisfiable = 416,
    /// 417
    ExpectationFailed = 417,
    /// 429
    TooManyRequests = 429,
    /// 431
    FieldsTooLarge = 431,
    /// 500
    InternalError = 500,
    /// 501
    NotImplemented = 501,
    /// 503
    Unavailable = 503,
    /// 505
    VersionNotSupported = 505,
    /// 507
    InsufficientStorage = 507,
}

impl Status {
    /// The number and its reason phrase.
    pub fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::Created => "201 Created",
            Self::NoContent => "204 No Content",
            Self::PartialContent => "206 Partial Content",
            Self::MovedPermanently => "301 Moved Permanently",
            Self::NotModified => "304 Not Modified",
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::Conflict => "409 Conflict",
            Self::LengthRequired => "411 Length Required",
            Self::PreconditionFailed => "412 Precondition Failed",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::UriTooLong => "414 URI Too Long",
            Self::UnsupportedMediaType => "415 Unsupported Media Type",
            Self::RangeNotSatisfiable => "416 Range Not Satisfiable",
            Self::ExpectationFailed => "417 Expectation Failed",
            Self::TooManyRequests => "429 Too Many Requests",
            Self::FieldsTooLarge => "431 Request Header Fields Too Large",
            Self::InternalError => "500 Internal Server Error",
            Self::NotImplemented => "501 Not Implemented",
            Self::Unavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
            Self::InsufficientStorage => "507 Insufficient Storage",
        }
    }
}

/// Bytes of a refusal's reason.
pub const REASON: usize = 160;

/// A request that is not served, and what would have been right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: Status,
    /// One sentence for whoever wrote the request.
    pub reason: &'static str,
    /// A field that the answer has besides, with its line's end; or nothing.
    pub field: &'static str,
}

impl Refusal {
    /// A refusal.
    ///
    /// # Panics
    ///
    /// Where the reason is longer than [`REASON`]. Refusals are constants, so the compiler finds
    /// it.
    pub const fn new(status: Status, reason: &'static str) -> Self {
        assert!(reason.len() <= REASON, "a reason is one short sentence");
        Self { status, reason, field: "" }
    }

    /// The same with a field, whose line ends with CR LF.
    pub const fn with(self, field: &'static str) -> Self {
        Self { field, ..self }
    }
}

/// The connection's persistence, as a response says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It goes on, as HTTP/1.1 does by itself.
    Keep,
    /// It goes on, which an HTTP/1.0 client wants to be told.
    KeepOld,
    /// It ends after this response.
    Close,
}

impl Persistence {
    /// All, each at the place that its number says.
    pub(crate) const ALL: [Self; 3] = [Self::Keep, Self::KeepOld, Self::Close];

    /// The end of a head: the field where there is one, and the empty line.
    pub fn tail(self) -> &'static [u8] {
        match self {
            Self::Keep => b"\r\n",
            Self::KeepOld => b"Connection: keep-alive\r\n\r\n",
            Self::Close => b"Connection: close\r\n\r\n",
        }
    }
}

/// Bytes of the field `Date` with its line's end: the time has 29 (RFC 9110 §5.6.7).
const DATE_SIZE: usize = 37;

/// The field `Date`, which every response of a server with a clock has.
#[derive(Clone, Copy, Debug)]
pub struct Date {
    bytes: [u8; DATE_SIZE],
    length: usize,
}

impl Default for Date {
    fn default() -> Self {
        Self { bytes: [0; DATE_SIZE], length: 0 }
    }
}

impl Date {
    /// Sets the time, as HTTP writes it; one of another length leaves the field out.
    pub fn set(&mut self, time: fmt::Arguments) {
        self.length = 0;
        let is_whole = write!(self, "Date: {time}\r\n").is_ok() && self.length == DATE_SIZE;
        self.length = if is_whole { DATE_SIZE } else { 0 };
    }

    /// The field with its line's end; nothing before it was set.
    #[inline(always)]
    pub fn field(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Date {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Bytes of a [`Head`]: the longest is that of a stored file with a long `Cache-Control`.
const HEAD_SIZE: usize = 1024;

/// A head under construction, and a short body with it, in a buffer of fixed size. What does not
/// fit is cut off, but all that is written here is short: fields of this crate, numbers, a media
/// type, a reason of at most [`REASON`] bytes, a bounded `Cache-Control`.
pub struct Head {
    bytes: [u8; HEAD_SIZE],
    length: usize,
}

impl Head {
    /// A head with its status line and the fields that all have.
    pub fn new(status: Status) -> Self {
        let mut head = Self { bytes: [0; HEAD_SIZE], length: 0 };
        begin(&mut head, status);
        head
    }

    /// Adds text as it is.
    pub fn push(&mut self, text: &[u8]) {
        let free = &mut self.bytes[self.length..];
        let count = text.len().min(free.len());
        free[..count].copy_from_slice(&text[..count]);
        self.length += count;
    }

    /// Adds a number in decimal digits.
    pub fn push_number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(&digits[start..]);
    }

    /// Adds formatted text.
    pub fn format(&mut self, text: fmt::Arguments) {
        // Writing to a head cannot fail.
        let _ = self.write_fmt(text);
    }

    /// Returns the bytes that were written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Head {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Writes a status line and the fields that every response has.
pub fn begin(into: &mut impl Write, status: Status) {
    // Heads and strings take everything.
    let _ = write!(into, "HTTP/1.1 {}\r\nServer: Culm\r\n", status.line());
}

/// The whole response to a request that is not served. `with_body` is false where the request was a
/// HEAD.
#[cold]
pub fn refusal(refusal: Refusal, date: &Date, persistence: Persistence, with_body: bool) -> Head {
    let mut head = Head::new(refusal.status);
    head.push(refusal.field.as_bytes());
    let line = refusal.status.line();
    let length = line.len() + 1 + refusal.reason.len() + 1;
    head.format(format_args!("Content-Type: {}\r\nContent-Length: {length}\r\n", media::TEXT));
    head.push(date.field());
    head.push(persistence.tail());
    if with_body {
        head.format(format_args!("{line}\n{}\n", refusal.reason));
    }
    head
}

/// The head of a response with some bytes of a file, without the fields that its other answers have
/// too, and its tail.
#[cold]
pub fn partial(start: usize, end: usize, whole: usize) -> Head {
    let mut head = Head::new(Status::PartialContent);
    let length = end - start;
    let last = end - 1;
    head.format(format_args!("Content-Length: {length}\r\nContent-Range: bytes {start}-{last}/{whole}\r\n"));
    head
}

/// The whole response to a range beyond a file (RFC 9110 §15.5.17).
#[cold]
pub fn unsatisfiable(whole: usize, date: &Date, persistence: Persistence) -> Head {
    let mut head = Head::new(Status::RangeNotSatisfiable);
    head.format(format_args!("Content-Range: bytes */{whole}\r\nContent-Length: 0\r\n"));
    head.push(date.field());
    head.push(persistence.tail());
    head
}

/// The head of a response that was rendered for the request, without its tail.
pub fn rendered(length: usize, media: &str) -> Head {
    let mut head = Head::new(Status::Ok);
    head.format(format_args!(
        "Content-Type: {media}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    ));
    head
}
