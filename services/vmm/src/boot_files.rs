//! The files that a guest boots from, and how they come into its memory.

use culm::Region;
use culm::connection::Guest;
use culm::guest::MEMORY;

/// The files, and the memory.
pub struct BootFiles {
    memory: Region,
    kernel: Region,
    end: Region,
    device_tree: u64,
}

impl BootFiles {
    /// Takes the connection.
    pub fn new(guest: &Guest) -> Self {
        Self {
            memory: Region::new(guest.memory),
            kernel: Region::read_only(guest.kernel),
            end: Region::read_only(guest.end),
            device_tree: guest.device_tree,
        }
    }

    /// Puts there what the guest begins with, and returns the guest-physical addresses of its first
    /// instruction and of its device tree. What else an earlier run has left there stays.
    pub fn load(&self) -> (u64, u64) {
        self.put(&self.kernel, MEMORY);
        self.put(&self.end, self.device_tree);
        (MEMORY, self.device_tree)
    }

    fn put(&self, from: &Region, to: u64) {
        let offset = (to - MEMORY) as usize;
        from.copy(0, &self.memory, offset, from.len()).expect("the build tool has made room for it");
        self.memory.clean(offset, from.len()).expect("it was just copied there");
    }
}
