//! A hostile guest: on each of its CPUs it does at random what a guest can do, for ever. It writes
//! to its devices, gives them broken queues, and good ones that ask for what is not its own, calls
//! the firmware with any number, reads and writes any system register, executes random instructions
//! at EL1 and EL0, maps its memory at random, and waits, spins and interrupts itself.
//!
//! What it does follows from `seed=` on its command line, and from how many lives there were before
//! this one: it resets itself, switches itself off, and is stopped where it does what its machine
//! has not. Where one of its CPUs has got lost, another resets the guest.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod devices;
#[cfg(target_os = "none")]
mod processor;
#[cfg(target_os = "none")]
mod program;
#[cfg(target_os = "none")]
mod requests;
#[cfg(target_os = "none")]
mod steps;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("The guest runs on the bare virtual machine: build it for aarch64-unknown-none-softfloat.");
}
