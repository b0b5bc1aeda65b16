//! Checks of a board's values, without which the kernel does not boot: a board that breaks one of
//! these shows a black screen, and nothing else.

use crate::plan::{Interrupt, PhysicalRange};
use culm_abi::memory::{IMAGE_OFFSET, PAGE_SIZE};
use culm_abi::system::{AFFINITY, GICV2_CORES};
use culm_manifest::reader::Problems;
use culm_manifest::units::format_size;
use culm_manifest::{Located, Problem};

/// First address that no processor has: physical addresses have 48 bits (Arm ARM D8.1.9, without
/// FEAT_LPA).
pub const END_OF_ADDRESSES: u64 = 1 << 48;

/// Boot loaders put an arm64 image at a multiple of 2 MiB, plus its offset (Linux,
/// Documentation/arch/arm64/booting.rst).
const MEMORY_STEP: u64 = 0x20_0000;

/// Smallest memory that a kernel and its tables can be in, behind [`IMAGE_OFFSET`].
const MIN_MEMORY: u64 = 2 * IMAGE_OFFSET;

/// The most memory that a device's own structures can take: none has nearly as many.
const MAX_DMA: u64 = 1 << 30;

/// Main memory begins where a boot loader can put an image, and is whole pages.
pub fn memory(memory: Located<PhysicalRange>, problems: &mut Problems) -> Option<Located<PhysicalRange>> {
    let PhysicalRange { address, size } = memory.value;
    let problem = if !address.is_multiple_of(MEMORY_STEP) {
        let below = address / MEMORY_STEP * MEMORY_STEP;
        Problem::new(memory.span.clone(), format!("memory cannot begin at {address:#x}: no multiple of 2 MiB")).help(
            format!("an image is put at a step of 2 MiB; the nearest are {below:#x} and {:#x}", below + MEMORY_STEP),
        )
    } else if !size.is_multiple_of(PAGE_SIZE) {
        Problem::new(memory.span.clone(), format!("memory of {} is no count of pages", format_size(size)))
            .help("its size is a multiple of 4KiB")
    } else if size < MIN_MEMORY {
        Problem::new(memory.span.clone(), format!("memory of {} has no room for the kernel", format_size(size))).help(
            format!(
                "it needs {} at least: the image begins {} behind its start",
                format_size(MIN_MEMORY),
                format_size(IMAGE_OFFSET)
            ),
        )
    } else {
        return Some(memory);
    };
    problems.push(problem);
    None
}

/// Each core has affinity fields of its own.
pub fn mpidr(values: &[Located<u64>], problems: &mut Problems) -> bool {
    let before = problems.len();
    for (index, value) in values.iter().enumerate() {
        if value.value & !AFFINITY != 0 {
            problems.push(
                Problem::new(value.span.clone(), format!("{:#x} has bits that are no affinity", value.value)).help(
                    "affinity is in bits 0 to 23 and 32 to 39 of MPIDR_EL1, as the device tree's `reg` of a cpu has it",
                ),
            );
        }
        if let Some(first) = values[..index].iter().find(|first| first.value == value.value) {
            problems.push(
                Problem::new(value.span.clone(), format!("two cores have the affinity {:#x}", value.value))
                    .related(first.span.clone(), "the other core")
                    .help("each core has its own, that of its MPIDR_EL1: one of the two would never start"),
            );
        }
    }
    problems.len() == before
}

/// The ranges of the interrupt controller are those that its architecture asks for.
pub fn gic(
    version: &Located<i128>,
    distributor: &Located<PhysicalRange>,
    interfaces: &[Located<PhysicalRange>],
    cores: Option<&Located<i128>>,
    problems: &mut Problems,
) {
    const FRAME: u64 = 0x1_0000;
    let cores_count = cores.map_or(1, |cores| cores.value.clamp(1, 64) as u64);
    // GICv2: IHI 0048B 4.1.2 and 4.4. GICv3: IHI 0069H 12.1, two frames of 64 KiB for each
    // redistributor.
    let (alignment, distributor_size, interface_size, what) = match version.value {
        2 => (PAGE_SIZE, 0x1000, 0x2000, "the processor's interface"),
        _ => (FRAME, FRAME, 2 * FRAME * cores_count, "a redistributor for each core"),
    };
    // Of several ranges none needs to have all of it.
    let all = interfaces.iter().map(|range| range.value.size).sum::<u64>();
    let interfaces = interfaces.iter().map(|range| (range, all, interface_size, what));
    let distributor = (distributor, distributor.value.size, distributor_size, "the distributor");
    for (range, found, size, what) in std::iter::once(distributor).chain(interfaces) {
        let address = range.value.address;
        if !address.is_multiple_of(alignment) {
            problems.push(
                Problem::new(range.span.clone(), format!("{what} cannot be at {address:#x}"))
                    .help(format!("with version {} its address is a multiple of {alignment:#x}", version.value)),
            );
        }
        if found < size {
            problems.push(
                Problem::new(range.span.clone(), format!("{found:#x} bytes are too few for {what}"))
                    .help(format!("with version {} it has {size:#x}", version.value)),
            );
        }
    }
    if let (2, Some(cores)) = (version.value, cores.filter(|cores| cores.value > GICV2_CORES as i128)) {
        problems.push(
            Problem::new(cores.span.clone(), format!("a GICv2 cannot reach {} cores", cores.value))
                .related(version.span.clone(), "the interrupt controller's version")
                .help(format!("it has {GICV2_CORES} at most")),
        );
    }
}

/// There are processors with 8 and with 16 bits of address-space identifier (Arm ARM D24.2.65,
/// `ASIDBits`).
pub fn asid_bits(bits: Located<i128>, problems: &mut Problems) -> Option<u32> {
    if bits.value != 8 && bits.value != 16 {
        problems.push(
            Problem::new(bits.span, format!("no processor has address-space identifiers of {} bits", bits.value))
                .help("they have 8 or 16"),
        );
        return None;
    }
    Some(bits.value as u32)
}

/// Base of the memory of QEMU's `virt` machine (QEMU, hw/arm/virt.c).
const VIRT_MEMORY: u64 = 0x4000_0000;

/// The version of the interrupt controller of QEMU's `virt` machine, where `-machine`'s argument
/// decides it.
fn virt_gic(machine: &str) -> Option<i128> {
    let mut options = machine.split(',');
    if options.next() != Some("virt") {
        return None;
    }
    // QEMU takes the last of several, and has version 2 without any.
    match options.filter_map(|option| option.strip_prefix("gic-version=")).next_back() {
        None => Some(2),
        Some(version) => version.parse().ok(),
    }
}

/// An image for memory elsewhere than QEMU has it shows nothing at all.
pub fn qemu_memory(machine: &Located<String>, memory: &Located<PhysicalRange>, problems: &mut Problems) {
    let is_virt = machine.split(',').next() == Some("virt");
    if is_virt && memory.value.address != VIRT_MEMORY {
        problems.push(
            Problem::new(memory.span.clone(), format!("QEMU's `virt` has no memory at {:#x}", memory.value.address))
                .related(machine.span.clone(), "the machine")
                .help(format!("its memory begins at {VIRT_MEMORY:#x}: write `base = {VIRT_MEMORY:#x}`")),
        );
    }
}

/// With an interrupt controller of another version no interrupt comes.
pub fn qemu_gic(machine: &Located<String>, version: &Located<i128>, problems: &mut Problems) {
    let Some(made) = virt_gic(machine).filter(|made| *made != version.value) else { return };
    let what = format!("the board has a GICv{}, QEMU's `{}` has a GICv{made}", version.value, machine.value);
    problems.push(Problem::new(version.span.clone(), what).related(machine.span.clone(), "the machine").help(format!(
        "write `version = {made}` with the ranges of a GICv{made}, or `gic-version={}` in `machine`",
        version.value
    )));
}

/// A processor that runs no 64-bit code shows nothing at all.
pub fn qemu_cpu(cpu: &Located<String>, problems: &mut Problems) {
    const OF_32_BITS: &[&str] = &[
        "cortex-a7",
        "cortex-a8",
        "cortex-a9",
        "cortex-a15",
        "arm926",
        "arm946",
        "arm1026",
        "arm1136",
        "arm1176",
        "arm11mpcore",
        "sa1100",
        "sa1110",
        "ti925t",
    ];
    let mut words = cpu.split(',');
    let name = words.next().unwrap_or("");
    let of_32_bits =
        OF_32_BITS.contains(&name) || ["cortex-m", "cortex-r", "pxa"].iter().any(|family| name.starts_with(family));
    let turned_off = words.clone().any(|word| word == "aarch64=off" || word == "aarch64=false");
    if of_32_bits || turned_off {
        problems.push(
            Problem::new(cpu.span.clone(), format!("the processor `{}` has no 64 bits", cpu.value))
                .help("Culm is for AArch64: choose a `cortex-a53`, `cortex-a72`, `cortex-a76` or `max`, for example"),
        );
    }
    if name.is_empty() {
        problems
            .push(Problem::new(cpu.span.clone(), "no processor is named").help("for example `cpu = \"cortex-a76\"`"));
    }
}

/// Memory for a device's own structures, in whole pages.
pub fn dma(size: Located<u64>, problems: &mut Problems) -> Option<u64> {
    if size.value > MAX_DMA {
        problems.push(
            Problem::new(size.span, format!("{} are too much for a device's own structures", format_size(size.value)))
                .help(format!("at most {}; frames and blocks have memory of their own besides", format_size(MAX_DMA))),
        );
        return None;
    }
    Some(size.value.next_multiple_of(PAGE_SIZE))
}

/// A device's registers are words, its interrupts are different, and QEMU is told of nothing that
/// would not be filled in.
pub fn device(
    registers: Option<&Located<PhysicalRange>>,
    interrupts: &[Located<Interrupt>],
    qemu: &[Located<String>],
    problems: &mut Problems,
) {
    if let Some(registers) = registers
        && !(registers.value.address | registers.value.size).is_multiple_of(4)
    {
        let PhysicalRange { address, size } = registers.value;
        problems.push(
            Problem::new(
                registers.span.clone(),
                format!("registers at {address:#x}, {size:#x} bytes, are not aligned"),
            )
            .help("registers have 32 bits: address and size are multiples of 4"),
        );
    }
    for (index, interrupt) in interrupts.iter().enumerate() {
        let number = interrupt.value.number;
        if let Some(first) = interrupts[..index].iter().find(|first| first.value.number == number) {
            problems.push(
                Problem::new(interrupt.span.clone(), format!("the interrupt {number} is there twice"))
                    .related(first.span.clone(), "it is here already")
                    .help("list each interrupt of the device once"),
            );
        }
    }
    for argument in qemu {
        let mut rest = argument.value.as_str();
        while let Some((_, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            if !["name", "mac"].contains(&name) {
                problems.push(
                    Problem::new(argument.span.clone(), format!("nothing is filled in for `{{{name}}}`"))
                        .help("`{name}` stands for the device's name, `{mac}` for its hardware address"),
                );
            }
            rest = after;
        }
    }
}
