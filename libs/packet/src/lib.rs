//! What everybody who reads or writes packets has to know, once.
//!
//! * [`wire`] says where the fields of headers are, and has views that read them by name.
//! * [`checksum`] is the Internet checksum, whole and by differences.
//! * [`ip`] checks the headers of IPv4 and IPv6, and walks along extension headers, as far as a
//!   host and a router agree. What only one of them refuses it does itself: `culm-ip` is a host's,
//!   `culm-flow` a router's.
//!
//! Whatever a peer sends is no panic and no unbounded work.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod checksum;
pub mod ip;
pub mod wire;
