//! TCP without input or output: segments and time in, segments and deadlines out.
//!
//! Nothing here touches a byte of payload, waits, or allocates. What it needs to remember is in
//! slices that whoever makes a connection hands in: their lengths are the bounds. What a peer sends
//! is checked once, and is never a panic.
//!
//! # Using a connection
//!
//! ```text
//! segment comes:     Header::parse → connection.receive(…) → keep what Placement says
//! application sends: connection.send(Piece { token, length })   … close()
//! application reads: connection.read(bytes)
//! at deadline():     connection.pass_time(now)
//! after each:        while let Some(sent) = connection.transmit(now) {
//!                        header, then connection.parts(&sent, …) as payload
//!                    }
//! ```
//!
//! What listens is no connection: whoever finds no connection for a segment answers a SYN for a
//! port that is listened on by [`Connection::accept`], and anything else by [`reset_for`]. Who
//! keeps nothing of a SYN answers by [`answer_to`], and begins with [`Connection::resume`]. Of a
//! connection in TIME-WAIT, or in FIN-WAIT-2 where nobody reads on, a [`TimeWait`] is enough.
//!
//! # Parts
//!
//! - [`Header`] reads and writes headers with their [`Options`].
//! - [`Outgoing`] has what the application sends, by reference; [`Incoming`] knows what has arrived
//!   out of order.
//! - [`RoundTrip`] knows the round trip and the retransmission timeout, [`Congestion`] how much may
//!   be on the way, [`ReductionRate`] how that comes down after a loss.
//! - [`Connection`] joins them by the rules of RFC 9293. It finds losses by RACK-TLP (RFC 8985)
//!   from SACK blocks (RFC 2018), or by three duplicates and NewReno (RFC 6582), and takes back
//!   what it did for a loss that was none (RFC 3522, RFC 5682).
//!
//! # Limits
//!
//! A segment with CWR is no train, connections that begin by [`Connection::resume`] use ECN only
//! with peers that have timestamps, and without timestamps a spurious timeout is known only where
//! there is new data to be sent. Segments get shorter where a path asks for it or swallows longer
//! ones, and longer again with peers that have SACK (RFC 8899). Urgent data is data like any other
//! (RFC 6093).

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod congestion;
mod connection;
mod header;
mod incoming;
mod options;
mod outgoing;
mod ring;
mod round_trip;
mod scoreboard;
mod sequence;
mod time;

pub use congestion::{Algorithm, Congestion, ReductionRate};
pub use connection::{
    Connection, Ending, KeepAlive, SMALLEST_SEGMENT, Settings, State, Storage, TimeWait, Transmission, answer_to,
    reset_for,
};
pub use header::{Flags, Header, LONGEST as LONGEST_HEADER, Malformed, SHORTEST as SHORTEST_HEADER};
pub use incoming::{Incoming, Island, Placement};
pub use options::{Blocks, LARGEST_SCALE, MOST_BLOCKS, Options, Timestamps};
pub use outgoing::{Full, MOST_BYTES, Outgoing, Part, Piece};
pub use round_trip::{FIRST_TIMEOUT, LONGEST_TIMEOUT, RoundTrip, SHORTEST_TIMEOUT};
pub use scoreboard::{FEWEST_RECORDS, Sent};
pub use sequence::{Range, Sequence};
pub use time::{Instant, Span};
