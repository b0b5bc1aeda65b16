//! What the guests share that tests run on the bare virtual machine: the way into Rust (`start.s`),
//! accesses of every kind (`machine`), the processor's part of the interrupt controller
//! (`controller`), a serial port (`console`), and random numbers ([`random`]).
//!
//! They are built for the target as flat Images, which the monitor starts like a Linux. On the host
//! there is nothing but the random numbers.

#![no_std]

#[cfg(target_os = "none")]
pub mod console;
#[cfg(target_os = "none")]
pub mod controller;
#[cfg(target_os = "none")]
pub mod machine;
pub mod random;
