//! The kernel's binary: supplies the machine that the logic in `kernel/core` needs, and no more.
//!
//! `arch/` enters and leaves the kernel; [`image`] turns the image's tables into slices;
//! [`processor`] joins both with [`culm_kernel_core::Core`].

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod arch;
#[cfg(any(target_os = "none", test))]
mod guest_device;
#[cfg(any(target_os = "none", test))]
mod guest_page;
#[cfg(target_os = "none")]
mod image;
#[cfg(any(target_os = "none", test))]
mod poll_limit;
#[cfg(target_os = "none")]
mod processor;
#[cfg(any(target_os = "none", test))]
mod redistributor;
#[cfg(any(target_os = "none", test))]
mod seeds;
#[cfg(any(target_os = "none", test))]
mod trng;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("The kernel runs on the bare machine: build it for aarch64-unknown-none-softfloat.");
}
