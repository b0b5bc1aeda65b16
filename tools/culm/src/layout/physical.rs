//! Physical memory: a place for every object, or a map that shows why there is none.

use super::objects::{KERNEL, Objects, Placement, Taker};
use super::translation::LEVEL_2_SIZE;
use crate::failure::Failure;
use crate::plan::{PhysicalRange, Plan};
use culm_abi::memory::{IMAGE_OFFSET, PAGE_SIZE};
use culm_manifest::units::format_size;
use std::collections::BTreeMap;

/// Where everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Physical {
    /// By object.
    pub addresses: Vec<u64>,
    /// First byte of the image.
    pub load_address: u64,
    /// The translation tables.
    pub tables: PhysicalRange,
    /// First address behind the image file's content.
    pub file_end: u64,
    /// The range that is zeroed at boot; it begins where the file's content ends.
    pub zeroed: PhysicalRange,
}

/// Gives out addresses from low to high, around ranges that are taken.
struct Cursor<'a> {
    next: u64,
    taken: &'a [PhysicalRange],
}

impl Cursor<'_> {
    fn take(&mut self, size: u64) -> u64 {
        let alignment = if size >= LEVEL_2_SIZE { LEVEL_2_SIZE } else { PAGE_SIZE };
        let mut range = PhysicalRange { address: self.next.next_multiple_of(alignment), size };
        while let Some(taken) = self.taken.iter().find(|taken| taken.overlaps(range)) {
            range.address = taken.end().next_multiple_of(alignment);
        }
        self.next = range.end();
        range.address
    }
}

/// Places all objects and `table_size` bytes of translation tables.
pub fn place(plan: &Plan, objects: &Objects, table_size: u64) -> Result<Physical, Failure> {
    let memory = plan.board.memory;
    let load_address = memory.address + IMAGE_OFFSET;
    let mut addresses = vec![0; objects.list.len()];
    let mut taken = Vec::new();
    for (id, object) in objects.list.iter().enumerate() {
        if let Placement::Fixed(address) = object.placement {
            addresses[id] = address;
            let range = PhysicalRange { address, size: object.size };
            if range.overlaps(memory) {
                taken.push(range);
            }
        }
    }
    // The file is loaded in one piece: nothing in it can make way for a fixed range.
    let mut file = Cursor { next: load_address, taken: &[] };
    let mut each = |placement: Placement, cursor: &mut Cursor<'_>| {
        for (id, object) in objects.list.iter().enumerate().filter(|(_, object)| object.placement == placement) {
            addresses[id] = cursor.take(object.size);
        }
    };
    each(Placement::File, &mut file);
    let tables = PhysicalRange { address: file.next.next_multiple_of(PAGE_SIZE), size: table_size };
    let file_end = tables.end();
    let mut zeroed = Cursor { next: file_end, taken: &taken };
    each(Placement::Zeroed, &mut zeroed);
    let last_fixed = taken.iter().map(|range| range.end()).max().unwrap_or(0);
    let end = zeroed.next.max(last_fixed);
    let physical = Physical {
        addresses,
        load_address,
        tables,
        file_end,
        zeroed: PhysicalRange { address: file_end, size: end - file_end },
    };
    debug_assert_eq!(physical.addresses[KERNEL], load_address);
    check_size(plan, objects, &physical)?;
    Ok(physical)
}

/// Refuses a system that takes more memory than the board has.
fn check_size(plan: &Plan, objects: &Objects, physical: &Physical) -> Result<(), Failure> {
    let memory = plan.board.memory;
    if physical.zeroed.end() <= memory.end() {
        return Ok(());
    }
    let needed = physical.zeroed.end() - memory.address;
    let failure = Failure::new(format!(
        "the system `{}` does not fit into the memory of board `{}`: it takes {}, the board has {}",
        plan.name,
        plan.board.name,
        format_size(needed.next_multiple_of(PAGE_SIZE)),
        format_size(memory.size)
    ));
    let failure = memory_map(objects, physical).into_iter().fold(failure, Failure::detail);
    Err(failure.help("make heaps, stacks, queues or files smaller, beginning with the first lines"))
}

/// Refuses fixed ranges where the image is loaded or where the boot loader works, below it.
pub fn check_fixed(plan: &Plan, objects: &Objects, physical: &Physical) -> Result<(), Failure> {
    let memory = plan.board.memory;
    let image = PhysicalRange { address: memory.address, size: physical.file_end - memory.address };
    for (id, object) in objects.list.iter().enumerate() {
        let Placement::Fixed(address) = object.placement else { continue };
        if image.overlaps(PhysicalRange { address, size: object.size }) {
            let region = objects.regions.iter().position(|region| *region == id);
            let place = region.and_then(|region| plan.regions[region].place.as_ref());
            let failure = Failure::new(format!(
                "{} at {address:#x} lies where the image is loaded, {:#x} to {:#x}",
                object.name,
                image.address,
                image.end()
            ));
            let failure = place
                .into_iter()
                .fold(failure, |failure, place| place.to_string().lines().fold(failure, Failure::detail));
            return Err(
                failure.help(format!("put it at {:#x} or above, or let the tool choose its address", image.end()))
            );
        }
    }
    Ok(())
}

/// Returns the bytes of main memory that each part takes, the greatest first.
pub fn takers(objects: &Objects, physical: &Physical) -> Vec<(Taker, u64)> {
    let mut sums: BTreeMap<Taker, u64> = BTreeMap::new();
    for object in objects.list.iter().filter(|object| !matches!(object.placement, Placement::Fixed(_))) {
        *sums.entry(object.taker.clone()).or_default() += object.size;
    }
    sums.insert(Taker::TranslationTables, physical.tables.size);
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    sums
}

/// The lines of a map: the greatest takers, and the rest in one line.
fn memory_map(objects: &Objects, physical: &Physical) -> Vec<String> {
    const LINES: usize = 16;
    let takers = takers(objects, physical);
    let line = |size: u64, what: &str| format!("{:>12}  {what}", format_size(size));
    let mut lines: Vec<_> = takers.iter().take(LINES).map(|(taker, size)| line(*size, &taker.to_string())).collect();
    if takers.len() > LINES {
        let rest = takers[LINES..].iter().map(|(_, size)| size).sum();
        lines.push(line(rest, &format!("{} others", takers.len() - LINES)));
    }
    lines
}

impl std::fmt::Display for Taker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel => formatter.write_str("kernel"),
            Self::TranslationTables => formatter.write_str("translation tables"),
            Self::Component(name) => write!(formatter, "component {name}: code and constants"),
            Self::Domain(name) => write!(formatter, "pd {name}: variables, stack, heap, start block"),
            Self::Guest(name) => write!(formatter, "guest {name}: kernel, device tree, initial RAM disk"),
            Self::Region(name) => write!(formatter, "region {name}"),
            Self::Files => formatter.write_str("files and folders"),
        }
    }
}
