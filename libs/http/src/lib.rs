//! HTTP/1.1 without input or output: parsing requests, making responses, and the state of every
//! connection.
//!
//! The server is a state machine over two small traits, [`Stream`] (one transport connection) and
//! [`Transport`] (all of them), and a number that stands for the time. So the same code serves from
//! a component over Culm's network classes, from a host over its sockets, and in tests from a
//! vector of bytes.
//!
//! * [`request`] reads a request's head, incrementally and in place; [`fields`] has the values of
//!   its fields, [`target`] the way from a request's target to a path.
//! * [`site`] holds the files, each with its response head rendered once at start ([`caching`] says
//!   what caches may do), and [`response`] renders the others.
//! * [`files`] is the way to files that are not in memory, [`stored`] what a connection does with
//!   them, and [`content`] how an upload is told from what frames it.
//! * [`decision`] is about what to answer; [`connection`] takes one connection from request to
//!   response; [`server`] is fair among many, ends those that took too long, and tells the
//!   transport which ones rest; [`documents`] holds what is rendered on request.
//!
//! Everything a peer can ask for is bounded: see [`limits`]. Nothing is allocated per request or
//! per connection after start. HTTP's rules are cited from RFC 9110 (semantics) and RFC 9112
//! (HTTP/1.1).

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod caching;
pub mod connection;
pub mod content;
pub mod decision;
pub mod documents;
pub mod fields;
pub mod files;
pub mod limits;
pub mod media;
pub mod request;
pub mod response;
pub mod scan;
pub mod server;
pub mod site;
pub mod stored;
pub mod target;
pub mod transport;

pub use caching::Caching;
pub use documents::Renderer;
pub use files::Files;
pub use limits::Timeouts;
pub use server::Server;
pub use site::Site;
pub use transport::{Stream, Transport};
