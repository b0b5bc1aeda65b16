//! Copies received frames into a client's own memory.
fn main() {}
