//! The logic of the kernel.
#![no_std]
#![forbid(unsafe_code)]
