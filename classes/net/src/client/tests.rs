//! Tests of the client whatever is at the far end of its queues.

mod bare;
mod linked;
