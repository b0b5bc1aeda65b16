//! The kernel.
fn main() {}
