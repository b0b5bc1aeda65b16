//! The limits on what a client may ask for. Each has a status that tells the client which one it met.

/// Bytes of a request line, its end excluded: 414 beyond.
pub const REQUEST_LINE: usize = 4096;

/// Bytes of a request's head, from its first byte to the empty line: 431 beyond. A transport's receive buffer
/// must hold at least as many, since a head is parsed where it was received.
pub const HEAD: usize = 8192;

/// Fields in a request's head: 431 beyond.
pub const FIELDS: usize = 64;

/// Empty lines before a request line (RFC 9112 §2.2 asks for one): 400 beyond.
pub const BLANK_LINES: u8 = 2;

/// Bytes of a request's body that are read and dropped so that the connection can go on: 413 beyond.
pub const BODY: u64 = 64 * 1024;

/// Bytes that are read and dropped after the last response, so that it is not lost to a reset (RFC 9112 §9.6).
pub const LINGER: u64 = 256 * 1024;

/// Bytes of a head that is remembered for the case that it comes again: what browsers send fits.
pub const REMEMBERED: usize = 512;
