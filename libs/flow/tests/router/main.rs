//! What a router does with packets, by public items only.

mod adoption;
mod answers;
mod connections;
mod fragments;
mod make;
mod packets;
mod rewriting;
mod tables;
mod translation;
