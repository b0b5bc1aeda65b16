//! HTTP server with the system's status page.
//!
//! The protocol is in `culm-http-protocol`; here are the status pages ([`status`]), and for hosts the same server over
//! sockets (`host`). The component itself, in `main.rs`, ties them to the network.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(not(target_os = "none"))]
pub mod host;
pub mod status;
