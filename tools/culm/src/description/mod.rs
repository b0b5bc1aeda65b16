//! The files that people write: systems and boards, read as they stand, each value with its place.

pub mod board;
mod board_checks;
pub mod catalogue;
pub mod guest;
pub mod resources;
pub mod slots;
pub mod system;
pub mod workspace;
