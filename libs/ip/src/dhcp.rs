//! DHCP (RFC 2131, with options of RFC 2132). [`server`] leases addresses; the rest is the client:
//! an address from a server, and what comes with it, kept as long as the server says.
//!
//! [`Client`] decides what is sent when, and what an answer changes; `message` has the format.
//! Neither sends anything: whoever owns the client puts its messages into datagrams, from and to
//! where each [`Step::Send`] says, and gives it the payloads of those for port [`CLIENT_PORT`].
//!
//! The format is read here and not by smoltcp's `wire`, for the reasons of all formats of this
//! crate, and because that one passes over options that stand in the fields for names (RFC 2132
//! §9.3), and over the servers' times of renewal where one of both is missing.

mod client;
mod message;
pub mod server;

pub use client::{Client, Outcome, Step};
pub use message::{Answer, Kind, LONGEST, Lease, NAME_SERVERS, Request};

/// The port that servers listen on (RFC 2131 §4.1).
pub const SERVER_PORT: u16 = 67;

/// The port that clients listen on (RFC 2131 §4.1).
pub const CLIENT_PORT: u16 = 68;

#[cfg(test)]
mod tests;
