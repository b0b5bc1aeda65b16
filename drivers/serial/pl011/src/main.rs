//! Driver for Arm PL011 serial ports.
fn main() {}
