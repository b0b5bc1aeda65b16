//! Greets over TCP: the tutorial's component.
fn main() {}
