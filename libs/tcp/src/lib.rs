//! TCP without input or output: segments and time in, segments and deadlines out.
//!
//! Nothing here touches a byte of payload, waits, or allocates. What it needs to remember is in
//! slices that whoever makes a connection hands in: their lengths are the bounds. What a peer sends
//! is checked once, and is never a panic.
//!
//! What there is so far are the parts that a connection is made of:
//!
//! - [`Header`] reads and writes headers with their [`Options`].
//! - [`RoundTrip`] knows the round trip and the retransmission timeout, [`Congestion`] how much may
//!   be on the way, [`ReductionRate`] how that comes down after a loss.
//! - [`Outgoing`] has what the application sends, by reference; [`Incoming`] knows what has arrived
//!   out of order.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod congestion;
mod header;
mod incoming;
mod options;
mod outgoing;
mod ring;
mod round_trip;
mod sequence;
mod time;

pub use congestion::{Algorithm, Congestion, ReductionRate};
pub use header::{Flags, Header, LONGEST as LONGEST_HEADER, Malformed, SHORTEST as SHORTEST_HEADER};
pub use incoming::{Incoming, Island, Placement};
pub use options::{Blocks, LARGEST_SCALE, MOST_BLOCKS, Options, Timestamps};
pub use outgoing::{Full, MOST_BYTES, Outgoing, Part, Piece};
pub use round_trip::{FIRST_TIMEOUT, LONGEST_TIMEOUT, RoundTrip, SHORTEST_TIMEOUT};
pub use sequence::{Range, Sequence};
pub use time::{Instant, Span};
