//! Made-up systems for tests: plans and programs of any shape, without files.

use crate::build::elf::{Program, Segment};
use crate::layout::Inputs;
use crate::plan::*;
use culm_abi::connection::Supervision;
use culm_abi::memory::{KERNEL_BASE, PROGRAM_BASE};
use culm_abi::system::KernelLayout;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The shape of a made-up system.
#[derive(Clone, Debug)]
pub struct Shape {
    /// By domain: its core, its component, pages of stack, pages of heap.
    pub domains: Vec<(u32, usize, u64, u64)>,
    /// By region: its pages. Region `n` is shared by domains `n` (writes) and `n + 1` (reads).
    pub region_pages: Vec<u64>,
    /// A region at a fixed address.
    pub fixed: Option<(usize, u64)>,
    /// By component: bytes of code, constants, initialised data, zeroed data.
    pub programs: Vec<(usize, usize, usize, u64)>,
    /// The first domain observes, the second supervises.
    pub privileged: bool,
    /// Bytes of main memory.
    pub memory: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            domains: vec![(0, 0, 4, 0), (0, 1, 16, 3)],
            region_pages: vec![2],
            fixed: None,
            programs: vec![(5000, 300, 16, 8000), (4096, 0, 0, 0)],
            privileged: true,
            memory: 512 << 20,
        }
    }
}

/// Shapes of all sorts.
pub fn shapes() -> impl Strategy<Value = Shape> {
    let program = (1usize..20_000, 0usize..10_000, 0usize..5_000, 0u64..50_000);
    let domain = (0u32..4, 0usize..3, 1u64..40, prop_oneof![Just(0u64), 1u64..1200]);
    let pages = prop_oneof![4 => 1u64..40, 1 => 500u64..1600];
    (
        prop::collection::vec(program, 3),
        prop::collection::vec(domain, 1..9),
        prop::collection::vec(pages, 0..9),
        any::<bool>(),
    )
        .prop_map(|(programs, mut domains, region_pages, privileged)| {
            domains.sort_by_key(|domain| domain.0);
            Shape { domains, region_pages, programs, privileged, ..Shape::default() }
        })
}

/// A made-up system.
pub struct Parts {
    /// The plan.
    pub plan: Plan,
    /// The kernel.
    pub kernel: Program,
    /// The components' programs.
    pub programs: Vec<Program>,
    /// By domain.
    pub start_sizes: Vec<u64>,
    /// Files of configurations.
    pub file_sizes: BTreeMap<PathBuf, u64>,
}

/// Sizes of a made-up kernel's state.
pub const KERNEL_LAYOUT: KernelLayout =
    KernelLayout { version: culm_abi::VERSION, local_state: 512, shared_state: 64, timer_slot: 16 };

impl Parts {
    /// Returns what the layout is made from.
    pub fn inputs(&self) -> Inputs<'_> {
        Inputs {
            plan: &self.plan,
            kernel: &self.kernel,
            kernel_layout: &KERNEL_LAYOUT,
            programs: &self.programs,
            start_sizes: &self.start_sizes,
            file_sizes: &self.file_sizes,
            picture_size: 3000,
        }
    }
}

fn segment(address: u64, load_address: u64, content: Vec<u8>, size: u64, write: bool, execute: bool) -> Segment {
    Segment { address, load_address, content, size, write, execute }
}

/// A program as the linker script makes it: code, constants with the initialised data behind them,
/// variables.
fn program(&(text, rodata, data, bss): &(usize, usize, usize, u64)) -> Program {
    let page = |address: u64| address.next_multiple_of(4096);
    let constants = page(PROGRAM_BASE + text as u64);
    let data_load = (constants + rodata as u64).next_multiple_of(16);
    let variables = page(data_load + data as u64);
    let mut segments = vec![segment(PROGRAM_BASE, PROGRAM_BASE, vec![0xaa; text], text as u64, false, true)];
    if rodata > 0 {
        segments.push(segment(constants, constants, vec![0xbb; rodata], rodata as u64, false, false));
    }
    if data as u64 + bss > 0 {
        segments.push(segment(variables, data_load, vec![0xcc; data], data as u64 + bss, true, false));
    }
    Program { path: "component.elf".into(), entry: PROGRAM_BASE, segments }
}

fn kernel() -> Program {
    let segments = vec![
        segment(KERNEL_BASE, KERNEL_BASE, kernel_code(), 0x2345, false, true),
        segment(KERNEL_BASE + 0x3000, KERNEL_BASE + 0x3000, vec![2; 100], 100, false, false),
        segment(KERNEL_BASE + 0x4000, KERNEL_BASE + 0x4000, vec![3; 50], 0x1800, true, false),
    ];
    Program { path: "kernel.elf".into(), entry: KERNEL_BASE, segments }
}

fn kernel_code() -> Vec<u8> {
    let mut code = vec![1; 0x2345];
    code[..1024].fill(0);
    code[56..60].copy_from_slice(b"ARM\x64");
    code
}

/// The made-up system of this shape.
pub fn parts(shape: &Shape) -> Parts {
    let domains: Vec<_> = shape.domains.iter().enumerate().map(|(id, domain)| domain_of(shape, id, domain)).collect();
    let regions = shape.region_pages.iter().enumerate().map(|(id, &pages)| region(shape, id, pages)).collect();
    let start_sizes = domains.iter().map(|domain| 100 + 5000 * (domain.core as u64)).collect();
    let components = (0..shape.programs.len()).map(component).collect();
    let mut plan = Plan {
        name: "made-up".into(),
        description: String::new(),
        file: "made-up.toml".into(),
        board: board(shape.memory),
        components,
        domains,
        regions,
        rings: Vec::new(),
        devices: Vec::new(),
        providers: Vec::new(),
        guests: Vec::new(),
    };
    if shape.privileged {
        give_privileges(&mut plan);
    }
    let programs = shape.programs.iter().map(program).collect();
    let file_sizes = [(PathBuf::from("site"), 10_000), (PathBuf::from("large"), 3 << 20)].into();
    Parts { plan, kernel: kernel(), programs, start_sizes, file_sizes }
}

/// The first domain observes all, the second, if there is one, supervises the first.
fn give_privileges(plan: &mut Plan) {
    let supervision = Supervision { children: vec![plan.domains[0].as_child(0, 0)] };
    let given = [plan.observation().into(), supervision.into()];
    for (domain, data) in plan.domains.iter_mut().zip(given) {
        domain.connections.push(DomainConnection::implicit("implicit", data));
    }
}

fn component(number: usize) -> Component {
    let text = format!("name = \"component{number}\"\ndescription = \"made up\"\n");
    Component { manifest: Manifest::parse(&text).expect("a sound manifest"), folder: "nowhere".into() }
}

fn domain_of(shape: &Shape, id: usize, &(core, component, stack, heap): &(u32, usize, u64, u64)) -> Domain {
    let file = if id.is_multiple_of(2) { "site" } else { "large" };
    Domain {
        name: format!("domain{id}"),
        component: component % shape.programs.len(),
        origin: Origin::Description,
        core,
        priority: 100,
        passive: false,
        budget: None,
        stack: stack * 4096,
        heap: heap * 4096,
        log: LogLevel::Info,
        may_halt: false,
        on_fault: FaultAction::Restart,
        restart: RestartPolicy { limit: 5, window: 10_000_000_000, backoff: 50_000_000 },
        supervisor: None,
        counters: None,
        config: vec![ConfigValue::File(file.into())],
        connections: Vec::new(),
        ends: Vec::new(),
    }
}

fn region(shape: &Shape, id: usize, pages: u64) -> Region {
    let count = shape.domains.len();
    let kinds = [RegionKind::Cached, RegionKind::Uncached, RegionKind::Dma];
    let writer = Mapping { domain: id % count, writable: true, only: None };
    // The reader sees all but the first page, where there are several.
    let only = (pages > 1).then_some((4096, (pages - 1) * 4096));
    let reader = Mapping { domain: (id + 1) % count, writable: false, only };
    Region {
        name: format!("region{id}"),
        size: pages * 4096,
        kind: kinds[id % kinds.len()],
        address: shape.fixed.and_then(|(fixed, address)| (fixed == id).then_some(address)),
        place: None,
        mappings: if count > 1 { vec![writer, reader] } else { vec![writer] },
        purpose: Purpose::Description,
    }
}

/// A device of no class, without interrupts.
pub fn device(name: &str, compatible: &str, registers: PhysicalRange) -> BoardDevice {
    BoardDevice {
        name: name.into(),
        classes: Vec::new(),
        compatible: compatible.into(),
        registers,
        interrupts: Vec::new(),
        dma: 0,
        qemu: Vec::new(),
        slot: None,
        bridge: None,
    }
}

/// A device of the board in a plan, with the first domain as its driver.
pub fn used(board: BoardDevice) -> Device {
    Device { board, driver: 0, registers: 0, offset: 0, dma: None, mac: None, file: None }
}

fn board(memory: u64) -> Board {
    let uart = BoardDevice {
        classes: vec![DeviceClass::names()[0].1],
        interrupts: vec![Interrupt { number: 33, trigger: Trigger::Level }],
        ..device("uart0", "arm,pl011", PhysicalRange { address: 0x0900_0000, size: 0x1000 })
    };
    Board {
        name: "test".into(),
        description: String::new(),
        mpidr: (0..8).collect(),
        memory: PhysicalRange { address: 0x4000_0000, size: memory },
        asid_bits: 16,
        coherent_dma: false,
        console: Some("uart0".into()),
        gic: Gic {
            version: 3,
            distributor: PhysicalRange { address: 0x0800_0000, size: 0x1_0000 },
            interfaces: vec![PhysicalRange { address: 0x080a_0000, size: 0xf6_0000 }],
        },
        qemu: None,
        devices: vec![uart],
    }
}
