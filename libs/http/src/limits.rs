//! The limits on what a client may ask for, and for how long. Each has a status that tells the
//! client which one it met.

/// Bytes of a request line, its end excluded: 414 beyond. As many as RFC 9112 §3 asks every server
/// to take.
pub const REQUEST_LINE: usize = 8000;

/// Bytes of a request's head, from its first byte to the empty line: 431 beyond. A transport's
/// receive buffer must hold at least as many, since a head is parsed where it was received.
pub const HEAD: usize = 12 * 1024;

/// Bytes of a query that a redirect carries on: 414 beyond. With the rest of its head it fits the
/// smallest send buffer.
pub const REDIRECTED_QUERY: usize = 1024;

/// Fields in a request's head: 431 beyond.
pub const FIELDS: usize = 64;

/// Empty lines before a request line (RFC 9112 §2.2 asks for one): 400 beyond.
pub const BLANK_LINES: u8 = 2;

/// Bytes of a request's body that are read and dropped so that the connection can go on: 413
/// beyond.
pub const BODY: u64 = 64 * 1024;

/// Bytes of all extensions of a request's chunks together: 400 beyond.
pub const CHUNK_EXTENSIONS: u16 = 1024;

/// Bytes of the trailers after a request's chunks, their line ends and colons excluded: 431 beyond.
pub const TRAILERS: u16 = 4096;

/// Bytes of a path that is looked for among [`Files`](crate::Files): 404 or 414 beyond.
pub const STORED_PATH: usize = 1024;

/// Bytes of an upload that a client must send within the time for a request, so that it does not
/// hold its place for ever.
pub const UPLOAD_PIECE: u64 = 16 * 1024;

/// Bytes of a head that is remembered for the case that it comes again: what browsers send fits.
pub const REMEMBERED: usize = 512;

/// How long a connection may be at what it does, in the caller's unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the acknowledgement of a whole response to the next request, and before the first: the
    /// connection is closed.
    pub idle: u64,
    /// From a request's first byte to the end of its head: 408; and as long again for its body.
    pub request: u64,
    /// Without any acknowledgement while a response, or the end of this side, is not wholly
    /// acknowledged: reset. Each byte acknowledged gives as long again.
    pub response: u64,
    /// Without a byte from the client after it has acknowledged the end of this side: reset.
    pub linger: u64,
    /// From that acknowledgement to the end of the client's side, whatever comes: reset.
    pub farewell: u64,
    /// How long one rendering of a document serves.
    pub fresh: u64,
}
