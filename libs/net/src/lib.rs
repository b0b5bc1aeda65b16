//! The net class: descriptors, buffers, and the client's side.
