//! A debugger's view of a guest: gdb's remote serial protocol, without input or output.
//!
//! Whoever speaks it may be anybody: each byte is dealt with in bounded time and memory, and none
//! is a panic. The guest stands still while a debugger is attached and has not let it go on, and
//! only then is it looked at or changed. Each of its CPUs that is on is a thread of gdb's, the
//! first one's number being 1.

pub mod packet;
pub mod session;
pub mod translation;

pub use session::Session;
pub use translation::Translation;

/// General registers, the stack pointer and the program counter: those of 64 bits.
pub const REGISTERS: usize = 33;

/// The program counter's place among them.
pub const PC: usize = 32;

/// A guest that stands still.
pub trait Guest {
    /// Returns whether a CPU is on.
    fn is_on(&self, cpu: usize) -> bool;
    /// Returns one of the [`REGISTERS`] of a CPU: `x0` to `x30`, `sp`, `pc`.
    fn register(&self, cpu: usize, number: usize) -> u64;
    /// Changes one; returns whether it can be changed.
    fn set_register(&mut self, cpu: usize, number: usize, value: u64) -> bool;
    /// Returns `PSTATE` of a CPU.
    fn state(&self, cpu: usize) -> u32;
    /// Returns how a CPU translates addresses.
    fn translation(&self, cpu: usize) -> Translation;
    /// Reads memory at a guest-physical address, if there is as much.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()>;
    /// Changes it.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()>;
}
