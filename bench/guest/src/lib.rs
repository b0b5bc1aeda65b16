//! Shared by programs in the guest in benchmarks, on Culm and on Linux: marks at which the counting
//! plugin records its counters, and loops in assembly that are the same instructions on both sides.

#![cfg_attr(target_os = "none", no_std)]

pub mod loops;
pub mod mark;
