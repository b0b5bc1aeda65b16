//! Guests: the files that they boot from, and the device tree that tells them of their machine.

pub mod cpio;
pub mod initrd;
pub mod kernel;
pub mod source;
mod source_text;
mod tree;

pub use source_text::source_text;
pub use tree::device_tree;

use crate::failure::Failure;
use crate::folder;
use crate::plan::{Guest, GuestMemory, Initrd, Plan};
use std::path::Path;

/// The content of a guest's memory when it starts.
#[derive(Clone, Debug)]
pub struct Content {
    /// Its kernel.
    pub kernel: Vec<u8>,
    /// Its device tree, and behind that its initial RAM disk.
    pub end: Vec<u8>,
}

impl Content {
    /// Reads a guest's files and makes its device tree.
    pub fn read(plan: &Plan, guest: &Guest) -> Result<Self, Failure> {
        let mut end = device_tree(plan, guest)?;
        end.resize(GuestMemory::TREE as usize, 0);
        if let Some(initrd) = &guest.initrd {
            let most = guest.memory.initrd;
            end.extend(match initrd {
                Initrd::File(path) => read(path, most)?,
                Initrd::Packed(files) => at_most(initrd::pack(files)?, most, "the initial RAM disk")?,
            });
        }
        let kernel = read(&guest.kernel, guest.memory.kernel)?;
        Ok(Self { kernel, end })
    }
}

/// Reads a file for which there is room for `most` bytes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    folder::copy(path, &mut content)?;
    at_most(content, most, &path.display().to_string())
}

/// Returns the content, if it is no more than when the system was checked.
fn at_most(content: Vec<u8>, most: u64, name: &str) -> Result<Vec<u8>, Failure> {
    if content.len() as u64 > most {
        return Err(Failure::new(format!("{name} has grown while the system was built")).help("build it again"));
    }
    Ok(content)
}
