//! Watches over the other protection domains: reports faults, restarts, stops.
fn main() {}
