//! The machine that a guest finds, without input or output: what its exits mean ([`exit`]), its
//! interrupt controller ([`controller`]), its serial port ([`serial`]), its power ([`power`]), its
//! network card, disk and source of random bytes ([`virtio`]), and all of them together
//! ([`machine`]); and what a debugger sees of it ([`debug`]).
//!
//! A guest is hostile: it may access any address in any size, write anything anywhere, and call
//! with any number. Each exit is dealt with in bounded time, and nothing that a guest does is a
//! panic.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod controller;
pub mod debug;
pub mod exit;
pub mod machine;
pub mod power;
pub mod serial;
pub mod virtio;

pub use machine::{Machine, Outcome, Registers};
