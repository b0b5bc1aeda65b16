//! The rows, a file for each benchmark.

pub mod boot;
pub mod ipc;
pub mod net;
pub mod tcp;
pub mod web;

use crate::lab::Lab;
use crate::results::Results;
use anyhow::Result;

/// Runs one benchmark.
type Run = fn(&Lab, &mut Results) -> Result<()>;

/// All benchmarks, in the order in which they run.
pub const ALL: &[(&str, &str, Run)] = &[
    ("ipc", "calls, notifications and faults; Linux: futex, pipe, eventfd, getpid", ipc::run),
    ("net", "UDP echo by size and window, round trips, overload; Linux: our echo server", net::run),
    ("tcp", "bulk TCP in, out and both ways; Linux: the same servers, and iperf3", tcp::run),
    ("web", "HTTP by size and by requests per connection; Linux: nginx", web::run),
    ("boot", "from QEMU's start to the first echo and the first byte of HTTP", boot::run),
];
