//! Transmit virtualiser of the net class.
fn main() {}
