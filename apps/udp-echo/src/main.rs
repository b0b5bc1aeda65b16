//! Echoes UDP datagrams: the benchmark's peer.
fn main() {}
