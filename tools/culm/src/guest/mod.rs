//! Guests: the files that they boot from, and the device tree that tells them of their machine.

pub mod kernel;
mod tree;

pub use tree::device_tree;

use crate::failure::Failure;
use crate::folder;
use crate::plan::{Guest, GuestMemory};
use std::path::Path;

/// What stands in a guest's memory when it starts.
#[derive(Clone, Debug)]
pub struct Content {
    /// Its kernel.
    pub kernel: Vec<u8>,
    /// Its device tree, and behind that its initial RAM disk.
    pub end: Vec<u8>,
}

impl Content {
    /// Reads a guest's files and makes its device tree.
    pub fn read(guest: &Guest) -> Result<Self, Failure> {
        let mut end = device_tree(guest)?;
        end.resize(GuestMemory::TREE as usize, 0);
        if let Some(initrd) = &guest.initrd {
            end.extend(read(initrd, guest.memory.initrd)?);
        }
        let kernel = read(&guest.kernel, guest.memory.kernel)?;
        Ok(Self { kernel, end })
    }
}

/// Reads a file for which there is room for `most` bytes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    folder::copy(path, &mut content)?;
    if content.len() as u64 > most {
        return Err(
            Failure::new(format!("{} has grown while the system was built", path.display())).help("build it again")
        );
    }
    Ok(content)
}
