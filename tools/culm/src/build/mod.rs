//! From crates to ELF files: finds a Rust that can build for the target, and runs cargo for the kernel and for all
//! components of a system.

mod cargo;
pub mod elf;
mod toolchain;

pub use cargo::{Built, Cargo, Profile, TARGET};
pub use toolchain::{MINIMUM_RUST, TargetSupport, Toolchain, Version};
