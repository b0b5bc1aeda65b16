//! What a router knows of packets and their flows, without input or output.
//!
//! * [`Packet`] reads and checks the headers of a packet: IPv4, IPv6 with extension headers, TCP,
//!   UDP, SCTP, ICMP and what an ICMP error quotes.
//! * [`rewrite`] changes a packet on its way: addresses and ports, the hop count, the maximum
//!   segment size. Checksums are corrected by the difference.
//! * [`Plain`] is the short way of most packets of known flows, which does what the general one
//!   does.
//! * [`answer()`] makes the ICMP errors by which a sender learns why its packet goes no further,
//!   and [`Limits`] bounds how often.
//! * [`Table`] knows the flows that packets belong to: in constant time, in memory that is bounded
//!   and that each source has its share of, and for as long as the standards ask. A flow of TCP is
//!   followed by its windows. Flows are in memory that outlives the router, whose next life
//!   believes what it has checked.
//! * [`Fragments`] knows which flow a later fragment belongs to, and lets no byte through twice.
//! * [`Nat`] gives flows of IPv4 their outer addresses and ports.
//!
//! Whatever a peer sends is no panic and no unbounded work.
//!
//! # Why no library of wire formats
//!
//! `smoltcp::wire`, which is in this tree for tests, is made for the end of a connection. A
//! router needs what an end does not: the transport header behind IPv6 extension headers and inside
//! an ICMP error that quotes as little as eight bytes of it; packets whose checksum stays as it is
//! or changes by a difference; refusals that differ by reason. Its views would be a second check of
//! each length in front of the same arithmetic.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod answer;
mod flow;
mod fragments;
mod hash;
mod header;
mod index;
mod limit;
mod nat;
mod packet;
mod plain;
mod record;
pub mod rewrite;
mod sources;
mod table;
mod tcp;
mod transport;
mod tuple;
mod watch;

pub use answer::{LONGEST_ANSWER, Problem, answer, may_be_answered};
pub use flow::{Direction, Flow, State, Timeouts};
pub use fragments::{Followed, Fragments};
pub use hash::Key;
pub use header::Fragment;
pub use limit::{Limits, Rate};
pub use nat::{Forward, Inward, Mistake, Nat, Pool};
pub use packet::{Malformed, Packet};
pub use plain::{Found, Onward, Plain};
pub use record::memory_words;
pub use table::{Adopted, Cause, Id, Refusal, Settings, Table, Tracked};
pub use transport::{Quoted, Segment, Transport, checksum_is_right, flags};
pub use tuple::{ICMP, ICMP6, SCTP, TCP, Tuple, UDP};
pub use watch::Watch;
