//! A walker of translation tables that shares nothing with the code that writes them, and what it
//! must find: for every plan, each address shows exactly what was laid out, and nothing else is
//! mapped.
//!
//! Bits are written as in the Arm ARM (DDI 0487, D8.3, 4 KiB granule, stage 1), so that both sides
//! can be compared with the manual and not with each other.

use super::fixture::{self, Shape};
use crate::layout::translation::{Mapping, Owner, Permissions};
use crate::layout::{Inputs, Layout};
use crate::plan::{
    DomainConnection, Guest, GuestMemory, Mapping as PlannedMapping, Memory as PlannedMemory, PhysicalRange, Purpose,
    Region, RegionKind, VirtualCpu,
};
use culm_abi::connection;
use culm_abi::memory::{KERNEL_BASE, KERNEL_STACKS, PAGE_SIZE, REGION_BASE, STACK_BASE};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The result of a walk for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    physical: u64,
    attribute: u64,
    user: bool,
    write: bool,
    user_execute: bool,
    kernel_execute: bool,
    global: bool,
}

/// Reads the tables in `memory`, which stands at physical address `base`.
struct Walker<'a> {
    base: u64,
    memory: &'a [u8],
}

impl Walker<'_> {
    fn entry(&self, table: u64, index: u64) -> u64 {
        assert_eq!(table % 4096, 0, "a table stands on a page");
        let offset = (table - self.base + index * 8) as usize;
        u64::from_le_bytes(self.memory[offset..offset + 8].try_into().expect("eight bytes"))
    }

    /// Every page that the table at `root` maps, by virtual address; `top` is added to each
    /// address.
    fn pages(&self, root: u64, top: u64) -> BTreeMap<u64, Page> {
        let mut pages = BTreeMap::new();
        for first in 0..512 {
            let one = self.entry(root, first);
            if one & 1 == 0 {
                assert_eq!(one, 0);
                continue;
            }
            assert_eq!(one & 0b11, 0b11, "no blocks of 1 GiB");
            for second in 0..512 {
                let two = self.entry(one & 0x0000_ffff_ffff_f000, second);
                let address = top + (first << 30) + (second << 21);
                match two & 0b11 {
                    0b00 => assert_eq!(two, 0),
                    0b01 => {
                        assert_eq!(two & 0x001f_f000, 0, "2 MiB stand on 2 MiB");
                        pages.extend((0..512).map(|n| (address + n * 4096, decode(two, n * 4096))));
                    }
                    0b11 => self.third(two & 0x0000_ffff_ffff_f000, address, &mut pages),
                    _ => panic!("reserved descriptor {two:#x}"),
                }
            }
        }
        pages
    }

    fn third(&self, table: u64, address: u64, pages: &mut BTreeMap<u64, Page>) {
        for third in 0..512 {
            let three = self.entry(table, third);
            match three & 0b11 {
                0b11 => assert!(pages.insert(address + third * 4096, decode(three, 0)).is_none()),
                _ => assert_eq!(three, 0),
            }
        }
    }
}

fn decode(descriptor: u64, offset: u64) -> Page {
    assert_ne!(descriptor & 1 << 10, 0, "the access flag is set");
    assert_eq!(descriptor >> 8 & 0b11, 0b11, "inner shareable");
    assert_eq!(descriptor & 1 << 5, 0, "NS is of no use here");
    assert_eq!(descriptor & 0xff98_0000_0000_0000, 0, "no bits that are not ours");
    Page {
        physical: (descriptor & 0x0000_ffff_ffff_f000) + offset,
        attribute: descriptor >> 2 & 0b111,
        user: descriptor & 1 << 6 != 0,
        write: descriptor & 1 << 7 == 0,
        user_execute: descriptor & 1 << 54 == 0,
        kernel_execute: descriptor & 1 << 53 == 0,
        global: descriptor & 1 << 11 == 0,
    }
}

fn expected(mappings: &[Mapping]) -> BTreeMap<u64, Page> {
    let mut pages = BTreeMap::new();
    for mapping in mappings {
        let execute = mapping.permissions == Permissions::ReadExecute;
        let user = mapping.owner == Owner::Domain;
        for offset in (0..mapping.size).step_by(PAGE_SIZE as usize) {
            let page = Page {
                physical: mapping.physical + offset,
                attribute: mapping.attribute,
                user,
                write: mapping.permissions == Permissions::ReadWrite,
                user_execute: execute && user,
                kernel_execute: execute && !user,
                global: mapping.owner == Owner::Kernel,
            };
            assert!(pages.insert(mapping.address + offset, page).is_none(), "mapped twice: {mapping:?}");
        }
    }
    pages
}

/// Walks every table of the layout and compares it with what was planned.
fn check(shape: &Shape) -> Layout {
    let parts = fixture::parts(shape);
    let layout = Layout::new(&parts.inputs()).expect("fits");
    let tables = layout.physical.tables;
    let walker = Walker { base: tables.address, memory: &layout.table_bytes };
    let spaces = layout.address_spaces();
    let mut roots = vec![(layout.roots.kernel, KERNEL_BASE), (layout.roots.boot, 0)];
    roots.extend(layout.roots.domains.iter().map(|&root| (root, 0)));
    assert_eq!(roots.len(), spaces.len());
    for (number, ((root, top), mappings)) in roots.into_iter().zip(&spaces).enumerate() {
        let found = walker.pages(root, top);
        assert_eq!(found, expected(mappings), "address space {number}");
        assert!(found.values().all(|page| !(page.write && (page.user_execute || page.kernel_execute))), "W^X");
        assert!(found.values().all(|page| !(page.user && page.kernel_execute)), "the kernel runs no user code");
        assert!(!found.contains_key(&0), "page zero");
        // Arm ARM D8.13.3: a global entry of the lower half hits in every domain, whoever's table
        // it came from.
        assert!(
            found.iter().all(|(&address, page)| page.global == (address >= KERNEL_BASE)),
            "global is the kernel's half"
        );
    }
    check_domains(&parts, &layout, &walker);
    check_kernel(&layout, &walker);
    check_physical(&parts.inputs(), &layout);
    layout
}

fn check_domains(parts: &fixture::Parts, layout: &Layout, walker: &Walker<'_>) {
    for (id, domain) in parts.plan.domains.iter().enumerate() {
        let pages = walker.pages(layout.roots.domains[id], 0);
        assert!(pages.range(..culm_abi::memory::PROGRAM_BASE).next().is_none());
        assert!(!pages.contains_key(&(STACK_BASE - PAGE_SIZE)), "guard below the stack");
        assert!(!pages.contains_key(&(STACK_BASE + domain.stack)), "guard above the stack");
        for view in layout.domains[id].views.iter().filter(|view| view.address >= REGION_BASE) {
            assert!(
                !pages.contains_key(&(view.address - PAGE_SIZE)) && !pages.contains_key(&(view.address + view.size))
            );
        }
        for (region, &object) in parts.plan.regions.iter().zip(&layout.objects.regions) {
            let mapping = region.mappings.iter().find(|mapping| mapping.domain == id);
            let address = layout.domains[id].address(object);
            if let Some(mapping) = mapping {
                let (offset, size) = mapping.only.unwrap_or((0, region.size));
                let first = layout.domains[id].address_within(object, offset).expect("mapped");
                let page = pages[&first];
                assert_eq!((page.physical, page.write), (layout.physical(object) + offset, mapping.writable));
                assert_eq!(page.attribute, region.kind.attribute(&parts.plan.board));
                assert!(!pages.contains_key(&(first - PAGE_SIZE)) && !pages.contains_key(&(first + size)), "no more");
                assert!(offset == 0 || layout.domains[id].address_within(object, offset - 1).is_none());
            } else if let Some(address) = address {
                assert!(!pages[&address].write, "observers only read");
            }
        }
    }
}

fn check_kernel(layout: &Layout, walker: &Walker<'_>) {
    let pages = walker.pages(layout.roots.kernel, KERNEL_BASE);
    for view in layout.kernel.space.views.iter().filter(|view| view.address >= KERNEL_STACKS) {
        assert!(!pages.contains_key(&(view.address - PAGE_SIZE)), "guard below a kernel stack");
    }
    let registers = &layout.kernel.registers;
    for address in registers.interfaces.iter().copied().chain([registers.distributor, registers.console]) {
        assert_eq!(pages[&(address / PAGE_SIZE * PAGE_SIZE)].attribute, 0);
    }
}

/// Nothing overlaps in physical memory, nothing leaves it, and what is zeroed is not in the file.
fn check_physical(inputs: &Inputs<'_>, layout: &Layout) {
    let range = |id: usize| PhysicalRange { address: layout.physical(id), size: layout.objects.get(id).size };
    let mut ranges: Vec<_> = (0..layout.objects.list.len()).map(range).collect();
    ranges.push(layout.physical.tables);
    ranges.sort_by_key(|range| range.address);
    for pair in ranges.windows(2) {
        assert!(pair[0].end() <= pair[1].address, "{pair:?}");
    }
    let memory = inputs.plan.board.memory;
    for (id, object) in layout.objects.list.iter().enumerate() {
        let device = object.attribute == RegionKind::Device.attribute(&inputs.plan.board);
        match object.placement {
            crate::layout::objects::Placement::File => assert!(range(id).end() <= layout.physical.file_end),
            _ if device => assert!(!memory.overlaps(range(id))),
            _ => assert!(layout.physical.zeroed.contains(range(id)) && memory.contains(range(id))),
        }
    }
    assert_eq!(layout.physical.zeroed.address, layout.physical.file_end);
}

/// Pages of a stage 2 table by guest-physical address, each with its physical address. Bits as in
/// Arm ARM D8.3.1.2 and D8.4: `AF`, `SH` inner, `S2AP` read and write, `MemAttr` write-back, `XN`
/// zero.
fn stage_2(walker: &Walker<'_>, root: u64) -> BTreeMap<u64, u64> {
    let mut pages = BTreeMap::new();
    let physical = |entry: u64| {
        assert_eq!(entry & !0x0000_ffff_ffff_f003, 1 << 10 | 0b11 << 8 | 0b11 << 6 | 0b1111 << 2, "{entry:#x}");
        entry & 0x0000_ffff_ffff_f000
    };
    for (first, second) in (0..512).flat_map(|first| (0..512).map(move |second| (first, second))) {
        let one = walker.entry(root, first);
        let two = if one & 1 == 0 { 0 } else { walker.entry(one & 0x0000_ffff_ffff_f000, second) };
        let address = (first << 30) + (second << 21);
        match two & 0b11 {
            0b00 => {}
            0b01 => pages.extend((0..512).map(|page| (address + page * 4096, physical(two) + page * 4096))),
            _ => panic!("a guest's memory is whole blocks: {two:#x}"),
        }
    }
    pages
}

#[test]
fn a_guest_sees_its_own_memory_and_nothing_else() {
    let mut parts = fixture::parts(&Shape::default());
    let memory = GuestMemory { size: 32 << 20, kernel: 5 << 20, initrd: 3 << 20 };
    let region = |name: &str, size: u64, purpose| Region {
        name: name.into(),
        size,
        purpose,
        mappings: vec![PlannedMapping { domain: 0, writable: true, only: None }],
        ..parts.plan.regions[0].clone()
    };
    let made = [region("page", PAGE_SIZE, Purpose::VirtualCpu), region("memory", memory.size, Purpose::Guest)];
    let page = parts.plan.regions.len();
    parts.plan.regions.extend(made);
    parts.plan.guests.push(Guest {
        name: "linux".into(),
        monitor: 0,
        cpus: vec![VirtualCpu { core: 0, channel: 0, page }],
        priority: 1,
        kernel: "kernel".into(),
        initrd: None,
        command_line: String::new(),
        memory,
        region: page + 1,
    });
    let runs = connection::Guest {
        memory: PlannedMemory::region(page + 1, memory.size),
        kernel: PlannedMemory::GuestKernel(0),
        end: PlannedMemory::GuestEnd(0),
        device_tree: memory.tree_at(),
        name: "guest".to_string(),
        cpus: vec![connection::GuestCpu { page: PlannedMemory::region(page, PAGE_SIZE), channel: 0, reserved: 0 }],
    };
    parts.plan.domains[0].connections.push(DomainConnection::implicit("guest", runs.into()));
    let layout = Layout::new(&parts.inputs()).expect("fits");
    let walker = Walker { base: layout.physical.tables.address, memory: &layout.table_bytes };
    let found = stage_2(&walker, layout.roots.guests[0]);
    let objects = &layout.objects;
    let at = layout.physical(objects.regions[page + 1]);
    let wanted = (0..memory.size).step_by(4096).map(|offset| (0x4000_0000 + offset, at + offset)).collect();
    assert_eq!(found, wanted);
    let pages = walker.pages(layout.roots.domains[0], 0);
    let flags = |object| {
        let address = layout.domains[0].address(object).expect("its monitor sees it");
        let page = &pages[&address];
        (page.user, page.write, page.user_execute)
    };
    assert_eq!(flags(objects.regions[page + 1]), (true, true, false));
    for content in [objects.guests[0].kernel, objects.guests[0].end] {
        assert_eq!(flags(content), (true, false, false), "what it begins with stays as it is");
        for other in 1..layout.domains.len() {
            assert!(layout.domains[other].address(content).is_none(), "nobody else sees it");
        }
    }
    check_physical(&parts.inputs(), &layout);
    assert!(layout.kernel.space.address(objects.regions[page]).is_some(), "the kernel has the page too");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_address_shows_what_was_planned(shape in fixture::shapes()) {
        check(&shape);
    }
}

#[test]
fn a_large_region_takes_few_tables() {
    let small = Shape { region_pages: vec![1], ..Shape::default() };
    let large = Shape { region_pages: vec![4 * 512], ..Shape::default() };
    let tables = |shape: &Shape| check(shape).physical.tables.size;
    // Blocks of 2 MiB: even with the table used while booting no table of level 3 is added.
    assert!(tables(&large) <= tables(&small) + PAGE_SIZE);
}

#[test]
fn what_does_not_fit_is_answered_with_a_map() {
    let shape = Shape { region_pages: vec![3, 100_000], memory: 64 << 20, ..Shape::default() };
    let parts = fixture::parts(&shape);
    let failure = Layout::new(&parts.inputs()).expect_err("too large").to_string();
    assert!(failure.contains("does not fit into the memory of board `test`"), "{failure}");
    let lines: Vec<&str> = failure.lines().collect();
    assert!(lines[1].contains("region region1"), "the greatest first: {failure}");
}

#[test]
fn a_fixed_region_keeps_its_place_and_others_go_around_it() {
    let shape = Shape { region_pages: vec![8; 6], fixed: Some((2, 0x4073_0000)), ..Shape::default() };
    let layout = check(&shape);
    assert_eq!(layout.physical(layout.objects.regions[2]), 0x4073_0000);
    let inside_image = Shape { region_pages: vec![8], fixed: Some((0, 0x4020_0000)), ..Shape::default() };
    let failure = Layout::new(&fixture::parts(&inside_image).inputs()).expect_err("in the way").to_string();
    assert!(failure.contains("lies where the image is loaded"), "{failure}");
}
