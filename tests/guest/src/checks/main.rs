//! A guest that checks what it is given: interrupt controller, virtual timer and firmware, each
//! answer compared with what the architecture says. It prints a line for each check that fails, and
//! in the end how many did; it ends by switching itself off, in its second life.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod firmware;
#[cfg(target_os = "none")]
mod interrupts;
#[cfg(target_os = "none")]
mod other;
#[cfg(target_os = "none")]
mod program;
#[cfg(target_os = "none")]
mod timer;
#[cfg(target_os = "none")]
mod vectors;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("The guest runs on the bare virtual machine: build it for aarch64-unknown-none-softfloat.");
}
