//! Shared by programs in the guest in benchmarks, on Culm and on Linux: marks at which the counting
//! plugin records its counters, loops in assembly that are the same instructions on both sides, and
//! what is asked of disks and files, packets between two guests, Linux's ways to signal, and work
//! without devices.

#![cfg_attr(target_os = "none", no_std)]

pub mod disk;
pub mod file;
pub mod ipc;
pub mod loops;
pub mod mark;
pub mod pair;
pub mod rows;
pub mod work;
