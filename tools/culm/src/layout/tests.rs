//! Tests of the layout: plans of any shape, and a walker of the translation tables that are made of
//! them.

pub(crate) mod fixture;
mod walk;
