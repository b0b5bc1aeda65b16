//! Driver for virtio network devices.
fn main() {}
