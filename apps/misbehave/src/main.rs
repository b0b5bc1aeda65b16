//! Breaks one rule of the kernel at a time, for the isolation tests.
fn main() {}
