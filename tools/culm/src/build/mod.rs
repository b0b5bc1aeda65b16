//! From crates to an image: finds a Rust that can build for the target, runs cargo for the kernel
//! and for all components of a system, and has what comes out laid out and written.

mod cargo;
pub mod command;
pub mod elf;
mod system;
mod toolchain;

pub use cargo::{Built, Cargo, Profile, Target};
pub use system::{BuiltSystem, build_system, output_folder};
pub use toolchain::{TargetSupport, Toolchain, Version, ask, find_program, minimum_rust};
