//! Virtualiser of the serial class.
fn main() {}
