//! The report of a build, for programs (`report.json` beside the image) and for people (a table of
//! sizes).

use crate::build::elf::Program;
use crate::failure::Failure;
use crate::layout::{Layout, physical};
use crate::plan::{DomainId, End, Order, Plan};
use culm_manifest::units::format_size;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// `report.json`: everything that a debugger, a benchmark or a test wants to know of an image.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The system's name.
    pub system: String,
    /// The board's name.
    pub board: String,
    /// `release` or `debug`.
    pub profile: String,
    /// The image.
    pub image: Image,
    /// The kernel's program.
    pub kernel: Sizes,
    /// The components' programs.
    pub components: Vec<Component>,
    /// The protection domains in image order.
    pub domains: Vec<Domain>,
    /// Regions of memory.
    pub regions: Vec<Region>,
    /// Queues.
    pub rings: Vec<Ring>,
    /// The bytes of main memory that each part takes, the greatest first.
    pub memory: Vec<(String, u64)>,
}

/// The image.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is documented at its namesake in culm_abi::system::SystemHeader")]
pub struct Image {
    pub path: PathBuf,
    pub file_bytes: u64,
    pub memory_bytes: u64,
    pub load_address: u64,
    pub zero_start: u64,
    pub zero_end: u64,
    pub translation_tables: u64,
}

/// Sizes of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sizes {
    /// Its ELF file.
    pub elf: PathBuf,
    /// Bytes of code.
    pub text: u64,
    /// Bytes of constants.
    pub rodata: u64,
    /// Bytes of variables.
    pub data: u64,
}

/// A component.
#[derive(Debug, Serialize, Deserialize)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Its program.
    #[serde(flatten)]
    pub sizes: Sizes,
    /// How many domains run it.
    pub domains: usize,
}

/// A protection domain.
#[derive(Debug, Serialize, Deserialize)]
pub struct Domain {
    /// Its index in the image.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its component.
    pub component: String,
    /// The component's ELF file.
    pub elf: PathBuf,
    /// Its core.
    pub core: u32,
    /// Its priority.
    pub priority: u8,
    /// Address-space identifier, by which a tracer knows it.
    pub asid: u64,
    /// Physical address of its root translation table.
    pub table: u64,
    /// Bytes of stack.
    pub stack: u64,
    /// Bytes of heap.
    pub heap: u64,
    /// Its channel ends, in the order of their numbers.
    pub ends: Vec<String>,
    /// The memory that it sees.
    pub views: Vec<View>,
}

/// Memory as a domain sees it.
#[derive(Debug, Serialize, Deserialize)]
pub struct View {
    /// The name of what it shows.
    pub name: String,
    /// Virtual address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Physical address.
    pub physical: u64,
    /// `r`, `rw` or `rx`.
    pub permissions: String,
}

/// A region.
#[derive(Debug, Serialize, Deserialize)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Physical address.
    pub physical: u64,
    /// Bytes.
    pub size: u64,
    /// Kind of memory.
    pub kind: String,
    /// Names of the domains that have it, `!` behind those that may write.
    pub domains: Vec<String>,
}

/// A queue.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ring {
    /// The name of what travels.
    pub name: String,
    /// Physical address of its header.
    pub physical: u64,
    /// Entries.
    pub capacity: u32,
    /// Bytes of an entry.
    pub entry_size: u32,
    /// The domain that produces entries.
    pub producer: String,
    /// The domain that consumes entries.
    pub consumer: String,
}

impl Sizes {
    fn of(program: &Program) -> Self {
        Self {
            elf: program.path.clone(),
            text: program.text_size(),
            rodata: program.rodata_size(),
            data: program.data_size(),
        }
    }
}

impl Report {
    /// Describes the image at `path`.
    pub fn new(
        plan: &Plan,
        layout: &Layout,
        kernel: &Program,
        programs: &[Program],
        profile: &str,
        path: &Path,
    ) -> Self {
        let physical = &layout.physical;
        let components =
            plan.components.iter().zip(programs).enumerate().map(|(number, (component, program))| Component {
                name: component.manifest.name.clone(),
                sizes: Sizes::of(program),
                domains: plan.domains.iter().filter(|domain| domain.component == number).count(),
            });
        let name = |id: DomainId| plan.domains[id].name.clone();
        let rings = plan.rings.iter().map(|ring| Ring {
            name: ring.name.clone(),
            physical: layout.physical(layout.objects.regions[ring.region]) + ring.offset,
            capacity: ring.capacity,
            entry_size: ring.entry_size,
            producer: name(ring.producer),
            consumer: name(ring.consumer),
        });
        let takers = physical::takers(&layout.objects, physical);
        Self {
            system: plan.name.clone(),
            board: plan.board.name.clone(),
            profile: profile.into(),
            image: Image {
                path: path.into(),
                file_bytes: physical.file_end - physical.load_address,
                memory_bytes: layout.image_size(),
                load_address: physical.load_address,
                zero_start: physical.zeroed.address,
                zero_end: physical.zeroed.end(),
                translation_tables: physical.tables.size,
            },
            kernel: Sizes::of(kernel),
            components: components.collect(),
            domains: (0..plan.domains.len()).map(|id| domain(plan, layout, programs, id)).collect(),
            regions: regions(plan, layout),
            rings: rings.collect(),
            memory: takers.into_iter().map(|(taker, size)| (taker.to_string(), size)).collect(),
        }
    }

    /// Reads the report of an earlier build.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::io(format_args!("read {}", path.display()), &error))?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::new(format!("{} is not a report of this version: {error}", path.display()))
                .help("build the system again")
        })
    }

    /// The table of sizes for people.
    pub fn table(&self) -> String {
        let mut rows = vec![["", "text", "rodata", "data", "stack", "heap", "domains"].map(String::from)];
        let size = |bytes: u64| if bytes == 0 { "-".into() } else { format_size_short(bytes) };
        let row = |name: &str, sizes: &Sizes| {
            [
                name.into(),
                size(sizes.text),
                size(sizes.rodata),
                size(sizes.data),
                String::new(),
                String::new(),
                String::new(),
            ]
        };
        rows.push(row("kernel", &self.kernel));
        for component in &self.components {
            let of = |get: fn(&Domain) -> u64| {
                let domains = self.domains.iter().filter(|domain| domain.component == component.name);
                size(domains.map(get).sum())
            };
            let mut row = row(&component.name, &component.sizes);
            row[4] = of(|domain| domain.stack);
            row[5] = of(|domain| domain.heap);
            row[6] = component.domains.to_string();
            rows.push(row);
        }
        let mut table = align(&rows);
        let regions: u64 = self.regions.iter().filter(|region| region.kind != "device").map(|region| region.size).sum();
        let _ = writeln!(
            table,
            "image {}: {} in the file, {} in memory (regions {}, translation tables {})",
            self.image.path.display(),
            format_size_short(self.image.file_bytes),
            format_size_short(self.image.memory_bytes),
            format_size_short(regions),
            format_size_short(self.image.translation_tables),
        );
        table
    }
}

/// Three digits or so and a unit.
fn format_size_short(bytes: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * 1024;
    match bytes {
        0..KIB => format!("{bytes} B"),
        _ if bytes.is_multiple_of(MIB) => format_size(bytes),
        KIB..MIB => format!("{} KiB", bytes.div_ceil(KIB)),
        _ => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}

/// Columns as wide as their widest cell: the first to the left, the others to the right.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = format!("{:width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn domain(plan: &Plan, layout: &Layout, programs: &[Program], id: DomainId) -> Domain {
    let domain = &plan.domains[id];
    let views = layout.domains[id].views.iter().map(|view| View {
        name: layout.objects.get(view.object).name.clone(),
        address: view.address,
        size: view.size,
        physical: layout.physical(view.object) + view.offset,
        permissions: view.permissions.to_string(),
    });
    Domain {
        index: Order::new(plan).domain(id),
        name: domain.name.clone(),
        component: plan.component_of(id).manifest.name.clone(),
        elf: programs[domain.component].path.clone(),
        core: domain.core,
        priority: domain.priority,
        asid: id as u64 + 1,
        table: layout.roots.domains[id],
        stack: domain.stack,
        heap: domain.heap,
        ends: domain.ends.iter().map(|end| end_in_words(plan, end)).collect(),
        views: views.collect(),
    }
}

fn end_in_words(plan: &Plan, end: &End) -> String {
    match end {
        End::Peer { domain, label, .. } => format!("{label} with {}", plan.domains[*domain].name),
        End::Interrupt { device, interrupt } => {
            format!("interrupt {} of {}", interrupt.number, plan.devices[*device].board.name)
        }
        End::VirtualCpu { guest, cpu } => format!("runs {}, CPU {cpu}", plan.guests[*guest].name),
        End::Child { domain } => format!("supervises {}", plan.domains[*domain].name),
    }
}

fn regions(plan: &Plan, layout: &Layout) -> Vec<Region> {
    let describe = |(region, &object): (&crate::plan::Region, &usize)| Region {
        name: region.name.clone(),
        physical: layout.physical(object),
        size: region.size,
        kind: region.kind.name().into(),
        domains: region
            .mappings
            .iter()
            .map(|mapping| format!("{}{}", plan.domains[mapping.domain].name, if mapping.writable { "!" } else { "" }))
            .collect(),
    };
    plan.regions.iter().zip(&layout.objects.regions).map(describe).collect()
}
