//! The host tool: checks, builds, draws and runs systems.
//!
//! A description becomes an image in steps, each of which is plain data for the next: files are
//! read, expanded into a [`plan`] and checked, laid out in memory, and written as an image.

#![forbid(unsafe_code)]

pub mod bench;
pub mod build;
pub mod check;
pub mod child;
pub mod class;
pub mod command_line;
pub mod commands;
pub mod completion;
pub mod create;
pub mod debian;
pub mod description;
pub mod diagnostics;
pub mod disk;
pub mod disk_image;
pub mod expand;
pub mod failure;
pub mod folder;
pub mod graph;
pub mod guest;
pub mod image;
pub mod layout;
pub mod output;
pub mod plan;
pub mod reference;
pub mod run;
pub mod schema;
pub mod show;
pub mod test;
pub mod tree;
