//! The facts that kernel, build tool and runtime share, each stated once.
//!
//! * [`system`]: the tables that the build tool writes into an image and the kernel reads.
//! * [`start`]: the block that tells one protection domain its configuration and its connections.
//! * [`connection`]: the class-specific parts of a start block, each declared once.
//! * [`syscall`]: system-call numbers and the registers they use.
//! * [`lending`]: the layout of a virtualiser's account of the buffers that it lends.
//! * [`guest`]: the page that a guest's monitor shares with the kernel, and the guest's machine.
//! * [`accounting`]: the page in which the kernel publishes what each protection domain has used.
//! * [`memory`]: the address-space layout and the memory kinds.
//!
//! Everything here is plain data of fixed layout: `repr(C)`, no pointers, no padding that is not
//! named. An image is little-endian, as is every machine that Culm runs on.

#![no_std]
#![forbid(unsafe_code)]

pub mod accounting;
pub mod connection;
pub mod guest;
pub mod lending;
pub mod memory;
pub mod start;
pub mod syscall;
pub mod system;

/// Version of everything in this crate. Kernel, tool and components of one image carry the same
/// number; the kernel refuses an image of another version.
pub const VERSION: u32 = 5;
