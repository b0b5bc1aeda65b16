//! Address spaces: which object each address space shows, where, and with what permissions.

use super::objects::{ObjectId, Objects, Placement};
use super::program::ProgramPages;
use super::translation::{LEVEL_2_SIZE, Permissions};
use crate::failure::Failure;
use crate::plan::{ConfigValue, DomainId, Fields, GuestId, Memory, Plan};
use culm_abi::guest::MEMORY;
use culm_abi::memory::{ADDRESS_BITS, HEAP_BASE, PAGE_SIZE, REGION_BASE, STACK_BASE, START_BASE};

/// A part of an object, as an address space shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The object.
    pub object: ObjectId,
    /// Offset of the first byte shown, whole pages.
    pub offset: u64,
    /// Virtual address of that byte.
    pub address: u64,
    /// Bytes, whole pages.
    pub size: u64,
    /// The permissions.
    pub permissions: Permissions,
}

/// One address space.
#[derive(Clone, Debug)]
pub struct Space {
    /// Its views; none overlap.
    pub views: Vec<View>,
    /// The next free address of the part that is given out in order.
    next: u64,
}

impl Space {
    /// An address space that gives out addresses from `base` on.
    pub fn new(base: u64) -> Self {
        Self { views: Vec::new(), next: base }
    }

    /// Returns the address at which the whole of `object` is shown.
    pub fn address(&self, object: ObjectId) -> Option<u64> {
        self.views.iter().find(|view| view.object == object && view.offset == 0).map(|view| view.address)
    }

    /// Returns the address at which the byte of `object` at `offset` is shown.
    pub fn address_within(&self, object: ObjectId, offset: u64) -> Option<u64> {
        let shows = |view: &&View| view.object == object && (view.offset..view.offset + view.size).contains(&offset);
        self.views.iter().find(shows).map(|view| view.address + (offset - view.offset))
    }

    /// Shows the whole of `object` at `address`.
    pub fn place(&mut self, objects: &Objects, object: ObjectId, address: u64, permissions: Permissions) {
        let size = objects.get(object).size;
        self.views.push(View { object, offset: 0, address, size, permissions });
    }

    /// Shows the whole of `object` at the next free address.
    pub fn allocate(&mut self, objects: &Objects, object: ObjectId, permissions: Permissions) -> u64 {
        let Object { size, physical } = Object::of(objects, object);
        let address = self.reserve(size, physical);
        self.place(objects, object, address, permissions);
        address
    }

    /// Shows a part of `object`, whole pages, at the next free address.
    pub fn allocate_part(&mut self, objects: &Objects, object: ObjectId, part: (u64, u64), permissions: Permissions) {
        let (offset, size) = part;
        let physical = Object::of(objects, object).physical.unwrap_or(0) + offset;
        let address = self.reserve(size, Some(physical));
        self.views.push(View { object, offset, address, size, permissions });
    }

    /// Takes `size` bytes with an unmapped page behind them. Memory of 2 MiB and more lies as its
    /// physical address does in 2 MiB, so that blocks can map it; where the layout chooses the
    /// physical address, it is aligned.
    pub fn reserve(&mut self, size: u64, physical: Option<u64>) -> u64 {
        let mut address = self.next;
        if size >= LEVEL_2_SIZE {
            let within = physical.unwrap_or(0) % LEVEL_2_SIZE;
            address = address.next_multiple_of(LEVEL_2_SIZE) + within;
        }
        self.next = address + size + PAGE_SIZE;
        address
    }
}

struct Object {
    size: u64,
    physical: Option<u64>,
}

impl Object {
    fn of(objects: &Objects, object: ObjectId) -> Self {
        let object = objects.get(object);
        let physical = match object.placement {
            Placement::Fixed(address) => Some(address),
            _ => None,
        };
        Self { size: object.size, physical }
    }
}

/// Lays out the address space of domain `id`, whose program is `program`.
pub fn domain_space(plan: &Plan, objects: &Objects, program: &ProgramPages, id: DomainId) -> Result<Space, Failure> {
    let domain = &plan.domains[id];
    let own = &objects.domains[id];
    let mut space = Space::new(REGION_BASE);
    for (content, &object) in program.contents.iter().zip(&objects.programs[domain.component]) {
        space.place(objects, object, content.address, content.permissions);
    }
    for (zeroed, &object) in program.zeroed.iter().zip(&own.zeroed) {
        space.place(objects, object, zeroed.address, Permissions::ReadWrite);
    }
    let check = |what: &str, size: u64, limit: u64| {
        if size <= limit {
            return Ok(());
        }
        Err(Failure::new(format!("the {what} of `{}` takes {size} bytes; it can have {limit}", domain.name)))
    };
    check("stack", domain.stack, START_BASE - STACK_BASE - PAGE_SIZE)?;
    check("start block", objects.get(own.start).size, HEAP_BASE - START_BASE - PAGE_SIZE)?;
    check("heap", domain.heap, REGION_BASE - HEAP_BASE - PAGE_SIZE)?;
    space.place(objects, own.stack, STACK_BASE, Permissions::ReadWrite);
    space.place(objects, own.start, START_BASE, Permissions::Read);
    if let Some(heap) = own.heap {
        space.place(objects, heap, HEAP_BASE, Permissions::ReadWrite);
    }
    for (region, &object) in plan.regions.iter().zip(&objects.regions) {
        let mappings = region.mappings.iter().filter(|mapping| mapping.domain == id);
        let writable = mappings.clone().any(|mapping| mapping.writable);
        let permissions = if writable { Permissions::ReadWrite } else { Permissions::Read };
        if mappings.clone().any(|mapping| mapping.only.is_none()) {
            space.allocate(objects, object, permissions);
        } else {
            for part in mappings.filter_map(|mapping| mapping.only) {
                space.allocate_part(objects, object, part, permissions);
            }
        }
    }
    for object in read_only(plan, objects, id) {
        if space.address(object).is_none() {
            space.allocate(objects, object, Permissions::Read);
        }
    }
    check("address space", space.next - REGION_BASE, (1 << ADDRESS_BITS) - REGION_BASE)?;
    Ok(space)
}

/// Lays out the memory of guest `id`, by guest-physical address. A guest makes of its memory what
/// it wants: stage 1, which is its own, says what is code.
pub fn guest_space(plan: &Plan, objects: &Objects, id: GuestId) -> Space {
    let guest = &plan.guests[id];
    let mut space = Space::new(MEMORY + guest.memory.size);
    space.place(objects, objects.regions[guest.region], MEMORY, Permissions::ReadWrite);
    space
}

/// Returns the objects that domain `id` may read besides its regions: files of its configuration,
/// and memory of its connections.
fn read_only(plan: &Plan, objects: &Objects, id: DomainId) -> Vec<ObjectId> {
    let domain = &plan.domains[id];
    let mut shown = Vec::new();
    for value in &domain.config {
        if let ConfigValue::File(path) | ConfigValue::Folder(path) = value {
            shown.extend(objects.files.get(path));
        }
    }
    for connection in &domain.connections {
        for memory in Fields::from(&connection.data).memory() {
            shown.extend(match memory {
                // A region's own list says which domains see it.
                Memory::Region(_) => None,
                Memory::Stack(domain) => Some(objects.domains[domain].stack),
                Memory::CoreAccounts => Some(objects.core_accounts),
                Memory::DomainAccounts => Some(objects.domain_accounts),
                Memory::Picture => objects.picture,
                Memory::GuestKernel(guest) => Some(objects.guests[guest].kernel),
                Memory::GuestEnd(guest) => Some(objects.guests[guest].end),
            });
        }
    }
    shown
}
