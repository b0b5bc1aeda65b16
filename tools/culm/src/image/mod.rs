//! From a plan and a layout to the bytes that boot.
//!
//! The image file holds the kernel, its tables, the translation tables, each component's program
//! once, start blocks and packed files. Everything that is zero at the beginning lies behind it and
//! is not in the file.

pub mod archive;
mod connections;
mod header;
mod places;
pub mod report;
mod start;
mod system;
mod writer;

pub use archive::Contents;
pub use places::{Item, Nowhere, Places};
pub use start::start_block;

use crate::build::elf::Program;
use crate::guest;
use crate::layout::Layout;
use crate::layout::objects::{KERNEL, ObjectId};
use crate::plan::{DomainId, Plan};
use culm_abi::memory::KERNEL_BASE;

/// The parts that an image is written from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The system.
    pub plan: &'a Plan,
    /// Its memory.
    pub layout: &'a Layout,
    /// The kernel's program.
    pub kernel: &'a Program,
    /// Files and packed folders.
    pub contents: &'a Contents,
    /// The content of the guests' memory.
    pub guests: &'a [guest::Content],
    /// The system's picture, an SVG file.
    pub picture: &'a [u8],
}

impl Places for Layout {
    fn address(&self, domain: DomainId, item: Item<'_>) -> Option<u64> {
        self.domains[domain].address(self.object(item)?)
    }

    fn address_within(&self, domain: DomainId, item: Item<'_>, offset: u64) -> Option<u64> {
        self.domains[domain].address_within(self.object(item)?, offset)
    }

    fn physical(&self, item: Item<'_>) -> u64 {
        self.object(item).map_or(0, |object| self.physical(object))
    }
}

impl Layout {
    fn object(&self, item: Item<'_>) -> Option<ObjectId> {
        let objects = &self.objects;
        match item {
            Item::Region(region) => Some(objects.regions[region]),
            Item::Stack(domain) => Some(objects.domains[domain].stack),
            Item::Heap(domain) => objects.domains[domain].heap,
            Item::File(path) => objects.files.get(path).copied(),
            Item::Picture => objects.picture,
            Item::CoreAccounts => Some(objects.core_accounts),
            Item::DomainAccounts => Some(objects.domain_accounts),
            Item::GuestKernel(guest) => Some(objects.guests[guest].kernel),
            Item::GuestEnd(guest) => Some(objects.guests[guest].end),
        }
    }
}

/// Writes the image.
pub fn write(inputs: &Inputs<'_>) -> Vec<u8> {
    let Inputs { plan, layout, .. } = *inputs;
    let base = layout.physical.load_address;
    let mut image = vec![0; (layout.physical.file_end - base) as usize];
    let mut put = |physical: u64, bytes: &[u8]| {
        let offset = (physical - base) as usize;
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    for segment in &inputs.kernel.segments {
        put(layout.physical(KERNEL) + (segment.address - KERNEL_BASE), &segment.content);
    }
    put(layout.physical(layout.objects.system_tables), &system::tables(plan, layout));
    put(layout.physical.tables.address, &layout.table_bytes);
    for (program, objects) in layout.programs.iter().zip(&layout.objects.programs) {
        for (content, &object) in program.contents.iter().zip(objects) {
            put(layout.physical(object), &content.bytes);
        }
    }
    for (id, objects) in layout.objects.domains.iter().enumerate() {
        put(layout.physical(objects.start), &start_block(plan, inputs.contents, inputs.picture.len(), layout, id));
    }
    for (path, &object) in &layout.objects.files {
        put(layout.physical(object), inputs.contents.get(path));
    }
    for (content, objects) in inputs.guests.iter().zip(&layout.objects.guests) {
        put(layout.physical(objects.kernel), &content.kernel);
        put(layout.physical(objects.end), &content.end);
    }
    if let Some(picture) = layout.objects.picture {
        put(layout.physical(picture), inputs.picture);
    }
    header::patch(&mut image, plan, layout);
    image
}

#[cfg(test)]
mod tests;
