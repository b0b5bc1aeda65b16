//! HTTP server with the system's status page.
fn main() {}
