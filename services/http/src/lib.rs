//! HTTP server with the system's status page.
//!
//! The protocol is in `culm-http`; here are the way from it to the network ([`network`]),
//! the files of the file class ([`store`]) and who may change them ([`culm_guard`]), the status
//! pages ([`status`]) with the crash reports that are kept ([`crashes`]), and for hosts the same
//! server over sockets (`host`). The component itself is in `main.rs`.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod crashes;
#[cfg(not(target_os = "none"))]
pub mod host;
pub mod network;
pub mod status;
pub mod store;
