//! Names to addresses: DNS (RFC 1034, RFC 1035), without input or output.
//!
//! [`message`] reads and writes messages, [`Resolver`] finds a host's addresses by asking name
//! servers, and [`Forwarder`] answers the questions of a network by asking such servers on its
//! behalf, with a [`cache`]. Datagrams and time go in, datagrams and deadlines come out; whoever
//! owns the link sends them.
//!
//! Nothing allocates, and every bound is stated where it holds. Whatever a peer sends, nothing
//! panics or works without end: a name is read in at most [`name::LONGEST`] steps, since each of
//! its pointers has to lead further to the front.
//!
//! # Against forged answers
//!
//! An answer is taken only from the server that was asked, at the port that asked, with the number
//! and the question that were sent (RFC 5452 §9). Port and number are drawn anew for each message,
//! from a generator that nobody can predict who does not know its seed, and no question is under
//! way twice at a time (§5). Signatures (RFC 4033) are not checked; they are passed on to clients
//! that ask for them.
//!
//! # Why a reader of its own
//!
//! `domain` 0.12 of NLnet Labs builds without the standard library too. It does not say where in a
//! message a record's time to live stands, which a cache has to rewrite, and brings a library for
//! dates. So it serves as the oracle of this reader's tests instead.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod cache;
mod forwarder;
pub mod message;
pub mod name;
mod resolver;
pub mod stream;
#[cfg(test)]
mod tests;
mod upstream;

pub use forwarder::{Forwarder, Memory, Pending, Tally};
pub use message::{Malformed, Message, Question};
pub use name::{InvalidName, Name};
pub use resolver::{Addresses, Failure, Family, LOOKUPS, Lookup, Outcome, Resolver, Step};
pub use upstream::{SERVERS, Servers};

use core::net::SocketAddr;

/// The port of name servers (RFC 1035 §4.2).
pub const PORT: u16 = 53;

/// Bytes of the longest message that is sent or taken: what fits everywhere into a packet that is
/// in one piece (DNS flag day 2020).
pub const LONGEST: usize = 1232;

/// Bytes of the longest message for who has not said that it takes more (RFC 1035 §2.3.4).
pub const SHORTEST_LIMIT: usize = 512;

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Whom it is for.
    pub to: SocketAddr,
    /// The port that it is sent from.
    pub source_port: u16,
    /// What it brings.
    pub payload: &'a [u8],
}
