//! What a router does with packets, by public items only.

mod answers;
mod make;
mod packets;
mod rewriting;
