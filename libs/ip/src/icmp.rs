//! ICMP (RFC 792) and ICMPv6 (RFC 4443) as a host has them: answers to echo requests, errors that
//! it sends and those that it receives.
//!
//! Errors are sent only where the rules allow it (RFC 1122 §3.2.2, RFC 4443 §2.4), and not more
//! often than a [`Limiter`] lets them. One that is received says nothing by itself: whoever owns
//! the flow that it quotes decides whether it is to be believed (RFC 5927).

mod quote;
mod receive;
mod send;

pub use quote::Quoted;
pub use receive::{Message, Report, Severity, message_of_ipv4, message_of_ipv6};
pub use send::{
    LONGEST_IPV4, LONGEST_IPV6, Limiter, Problem, answer_ipv4, answer_ipv6, error_about_ipv4, error_about_ipv6,
    fragments_missing,
};

pub use culm_packet::wire::protocols::{ICMP, ICMPV6};

/// Types of ICMP's messages (RFC 792).
mod ipv4_kind {
    pub const ECHO_REPLY: u8 = 0;
    pub const UNREACHABLE: u8 = 3;
    pub const ECHO_REQUEST: u8 = 8;
    pub const TIME_EXCEEDED: u8 = 11;
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Types of ICMPv6's messages (RFC 4443).
mod ipv6_kind {
    pub const UNREACHABLE: u8 = 1;
    pub const TOO_BIG: u8 = 2;
    pub const TIME_EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const ECHO_REQUEST: u8 = 128;
    pub const ECHO_REPLY: u8 = 129;
    pub const REDIRECT: u8 = 137;
}

#[cfg(test)]
mod tests;
