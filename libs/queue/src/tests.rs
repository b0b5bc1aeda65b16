//! Tests of rings and of links: by examples and at random, and in every interleaving, by loom.

#[cfg(loom)]
mod link_models;
#[cfg(not(loom))]
mod links;
#[cfg(loom)]
mod models;
#[cfg(not(loom))]
mod rings;
