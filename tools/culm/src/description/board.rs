//! Board files: what a board has. A board is data; no code asks which board it is on.

use super::board_checks as checks;
use super::resources::{INTERRUPT_FORM, in_words, read_interrupt, read_range};
use super::slots;
use crate::diagnostics::{Diagnostic, Diagnostics, Source};
use crate::plan::{Board, BoardDevice, Gic, Interrupt, PhysicalRange, Qemu};
use culm_abi::memory::PAGE_SIZE;
use culm_abi::system::GIC_INTERFACES;
use culm_manifest::problem::nearest;
use culm_manifest::reader::{Entry, Problems, TableReader, check_name, parse_table};
use culm_manifest::{Kind, Located, Problem, read_classes};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Most cores that a board can have.
pub const MAX_CORES: u64 = culm_abi::system::MAX_CORES as u64;

/// Bits of an address-space identifier where the board does not say: nearly all processors have
/// these.
pub const DEFAULT_ASID_BITS: u32 = 16;

const GIC_FORM: &str =
    "{ version = 3, distributor = { address = …, size = … }, interface = { address = …, size = … } }";

/// A board and where its parts stand in its file.
#[derive(Clone, Debug)]
pub struct BoardFile {
    /// The file.
    pub source: Arc<Source>,
    /// Its content.
    pub board: Board,
    /// Where each device's name stands, in the order of [`Board::devices`].
    pub device_spans: Vec<Range<usize>>,
    places: Places,
}

/// Where the board's own parts stand in its file.
#[derive(Clone, Debug)]
struct Places {
    name: Range<usize>,
    memory: Range<usize>,
    distributor: Range<usize>,
    interfaces: Vec<Range<usize>>,
}

impl BoardFile {
    /// Reads a board file; what is wrong with it goes to `diagnostics`.
    pub fn read(source: &Arc<Source>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let mut problems = Problems::new();
        let found = read(&source.text, &mut problems);
        let good = problems.is_empty();
        diagnostics.extend(source, problems);
        let (board, device_spans, places) = found.filter(|_| good)?;
        let file = Self { source: source.clone(), board, device_spans, places };
        file.check_ranges(diagnostics).then_some(file)
    }

    /// Warns of a board that calls itself otherwise than its file, as a copy does: systems find it
    /// by the file.
    pub fn is_called_otherwise(&self, file: &Path) -> Option<Diagnostic> {
        let stem = file.file_stem()?.to_str()?;
        let name = &self.board.name;
        let message = format!("the board calls itself `{name}`, its file is `{stem}.toml`");
        let diagnostic = Diagnostic::at(&self.source, self.places.name.clone(), message)
            .help("systems name it by its file: call it the same")
            .warning();
        (stem != name).then_some(diagnostic)
    }

    /// No two things may stand at one address.
    fn check_ranges(&self, diagnostics: &mut Diagnostics) -> bool {
        let board = &self.board;
        let before = diagnostics.len();
        let interfaces = board.gic.interfaces.iter().zip(&self.places.interfaces);
        let mut own = vec![
            ("memory", board.memory, &self.places.memory),
            ("the interrupt controller's distributor", board.gic.distributor, &self.places.distributor),
        ];
        own.extend(interfaces.map(|(range, place)| ("the interrupt controller's interface", *range, place)));
        for (index, (what, range, span)) in own.iter().enumerate() {
            for (other, taken, earlier) in own[..index].iter().filter(|(_, taken, _)| taken.overlaps(*range)) {
                diagnostics.push(
                    Diagnostic::at(&self.source, (*span).clone(), format!("{what} overlaps {other}"))
                        .related(&self.source, (*earlier).clone(), in_words(*taken))
                        .help(format!("{what} is {}", in_words(*range))),
                );
            }
        }
        for (index, device) in board.devices.iter().enumerate() {
            let span = &self.device_spans[index];
            for (what, range, _) in own.iter().filter(|(_, range, _)| range.overlaps(device.registers)) {
                diagnostics.push(
                    Diagnostic::at(
                        &self.source,
                        span.clone(),
                        format!("the registers of `{}` overlap {what}", device.name),
                    )
                    .help(format!("{what} is {}", in_words(*range))),
                );
            }
            self.check_bridge(index, &own, diagnostics);
            for (earlier, other) in board.devices[..index].iter().enumerate() {
                if other.registers.overlaps(device.registers) {
                    let message = format!("two owners of registers: `{}` and `{}` overlap", other.name, device.name);
                    diagnostics.push(
                        Diagnostic::at(&self.source, span.clone(), message)
                            .related(&self.source, self.device_spans[earlier].clone(), in_words(other.registers))
                            .help(format!("`{}` is at {}", device.name, in_words(device.registers))),
                    );
                }
            }
        }
        diagnostics.len() == before
    }

    /// The addresses that a bridge passes on are its own: nothing else stands there, but for what
    /// sits behind it.
    fn check_bridge(&self, index: usize, own: &[(&str, PhysicalRange, &Range<usize>)], diagnostics: &mut Diagnostics) {
        let devices = &self.board.devices;
        let (name, span) = (&devices[index].name, &self.device_spans[index]);
        let Some(window) = devices[index].bridge.as_ref().map(|bridge| bridge.window) else { return };
        let of_board = own.iter().map(|(what, range, place)| ((*what).to_string(), *range, (*place).clone()));
        let is_behind = |device: &BoardDevice| device.slot.as_ref().is_some_and(|slot| slot.bridge == *name);
        let registers = devices.iter().zip(&self.device_spans).filter(|(device, _)| !is_behind(device));
        let registers = registers
            .map(|(device, place)| (format!("the registers of `{}`", device.name), device.registers, place.clone()));
        let others = devices[..index].iter().zip(&self.device_spans);
        let windows = others.filter_map(|(device, place)| {
            Some((format!("the window of `{}`", device.name), device.bridge.as_ref()?.window, place.clone()))
        });
        for (what, range, place) in of_board.chain(registers).chain(windows) {
            if range.pages().overlaps(window) {
                diagnostics.push(
                    Diagnostic::at(&self.source, span.clone(), format!("the window of `{name}` overlaps {what}"))
                        .related(&self.source, place, in_words(range))
                        .help(format!("`{name}` passes on {}, and nothing else stands there", in_words(window))),
                );
            }
        }
    }
}

fn read(text: &str, problems: &mut Problems) -> Option<(Board, Vec<Range<usize>>, Places)> {
    let document = parse_table(text, problems);
    if !problems.is_empty() {
        return None;
    }
    let mut table = TableReader::new("the board", 0..text.lines().next().map_or(0, str::len), document.get_ref());
    if Kind::Board.is_another(&table, problems) {
        return None;
    }
    let name = table.require("name").and_then(|entry| entry.text(problems));
    if let Some(name) = &name {
        check_name(name, "board", "-_", problems);
    }
    let description = table.take("description").and_then(|entry| entry.text(problems));
    let cores = table.require_like("cores", "4").and_then(|entry| entry.integer(1..=MAX_CORES.into(), problems));
    let mpidr = table.take("mpidr").map(|entry| read_mpidr(&entry, cores.as_ref(), problems));
    let memory = table
        .require_like("memory", "{ base = 0x4000_0000, size = \"512MiB\" }")
        .and_then(|entry| checks::memory(read_range(&entry, "base", problems)?, problems));
    let asid_bits = table.take("asid_bits").map(|entry| checks::asid_bits(entry.integer(8..=16, problems)?, problems));
    let coherent_dma = table.require_like("coherent_dma", "true").and_then(|entry| entry.boolean(problems));
    let console = table.take("console").and_then(|entry| entry.text(problems));
    let gic = table.require_like("gic", GIC_FORM).and_then(|entry| read_gic(&entry, cores.as_ref(), problems));
    let qemu = table.take("qemu").map(|entry| read_qemu(&entry, problems));
    let tables = table.named("device", problems);
    let mut devices: Vec<(Located<String>, BoardDevice)> =
        tables.iter().filter_map(|entry| Some((entry.key.clone(), read_device(entry, problems)?))).collect();
    table.finish(problems);
    slots::resolve(&mut devices, &tables.iter().map(|table| table.key.value.as_str()).collect::<Vec<_>>(), problems);
    // A device that could not be read is there all the same.
    let is_unread = |name: &str| {
        tables.iter().any(|table| table.key.value == name) && !devices.iter().any(|(read, _)| read.value == name)
    };
    if let Some(console) = console.as_ref().filter(|console| !is_unread(&console.value)) {
        check_console(console, &devices, problems);
    }
    if let (Some(machine), Some(memory)) = (qemu.as_ref().and_then(Option::as_ref).map(|(_, machine)| machine), &memory)
    {
        checks::qemu_memory(machine, memory, problems);
    }
    if let (Some(machine), Some(gic)) = (qemu.as_ref().and_then(Option::as_ref).map(|(_, machine)| machine), &gic) {
        checks::qemu_gic(machine, &gic.version, problems);
    }
    let (memory, cores, gic) = (memory?, cores?.value as u64, gic?);
    let name = name?;
    let places =
        Places { name: name.span, memory: memory.span, distributor: gic.distributor, interfaces: gic.interfaces };
    let board = Board {
        name: name.value,
        description: description.map_or_else(String::new, |text| text.value),
        mpidr: mpidr.unwrap_or_else(|| Some((0..cores).collect()))?,
        memory: memory.value,
        asid_bits: asid_bits.unwrap_or(Some(DEFAULT_ASID_BITS))?,
        coherent_dma: coherent_dma?.value,
        console: console.map(|console| console.value),
        gic: gic.gic,
        qemu: qemu.map_or(Some(None), |qemu| qemu.map(|(qemu, _)| Some(qemu)))?,
        devices: devices.iter().map(|(_, device)| device.clone()).collect(),
    };
    Some((board, devices.into_iter().map(|(name, _)| name.span).collect(), places))
}

fn check_console(console: &Located<String>, devices: &[(Located<String>, BoardDevice)], problems: &mut Problems) {
    match devices.iter().find(|(name, _)| name.value == console.value) {
        None => {
            let near = nearest(&console.value, devices.iter().map(|(name, _)| name.value.as_str()));
            let problem = Problem::new(console.span.clone(), format!("the board has no device `{}`", console.value));
            problems.push(problem.help(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name one of its `[device.NAME]` tables, or leave `console` out".to_string(),
            }));
        }
        Some((_, device)) if device.compatible != "arm,pl011" => problems.push(
            Problem::new(console.span.clone(), format!("the kernel cannot print on `{}`", console.value))
                .help("its boot console is an `arm,pl011`; leave `console` out where there is none"),
        ),
        Some(_) => {}
    }
}

fn read_mpidr(entry: &Entry<'_>, cores: Option<&Located<i128>>, problems: &mut Problems) -> Option<Vec<u64>> {
    let elements = entry.list_of("0, 1, 2, 3", problems)?;
    let values: Vec<Located<u64>> = elements.iter().filter_map(|value| value.unsigned(problems)).collect();
    if values.len() < elements.len() || !checks::mpidr(&values, problems) {
        return None;
    }
    if let Some(cores) = cores
        && cores.value != values.len() as i128
    {
        problems.push(
            Problem::new(entry.span(), format!("`mpidr` lists {} cores, `cores` says {}", values.len(), cores.value))
                .help("list one value per core, that of its MPIDR_EL1"),
        );
        return None;
    }
    Some(values.into_iter().map(|value| value.value).collect())
}

/// `[gic]`: the interrupt controller, and where its parts stand.
struct GicTable {
    gic: Gic,
    version: Located<i128>,
    distributor: Range<usize>,
    interfaces: Vec<Range<usize>>,
}

fn read_gic(entry: &Entry<'_>, cores: Option<&Located<i128>>, problems: &mut Problems) -> Option<GicTable> {
    let mut table = entry.table("[gic]", problems)?;
    let version = table.require_like("version", "3").and_then(|entry| entry.integer(2..=3, problems));
    let distributor = table
        .require_like("distributor", "{ address = 0x0800_0000, size = 0x1_0000 }")
        .and_then(|entry| read_range(&entry, "address", problems));
    let interfaces = table
        .require_like("interface", "{ address = 0x080a_0000, size = 0xf6_0000 }")
        .and_then(|entry| read_interfaces(&entry, version.as_ref()?, problems));
    table.finish(problems);
    let (version, distributor, interfaces) = (version?, distributor?, interfaces?);
    checks::gic(&version, &distributor, &interfaces, cores, problems);
    let (ranges, spans) = interfaces.into_iter().map(|range| (range.value, range.span)).unzip();
    let gic = Gic { version: version.value as u32, distributor: distributor.value, interfaces: ranges };
    Some(GicTable { gic, version, distributor: distributor.span, interfaces: spans })
}

/// One range, or for a GICv3 several.
fn read_interfaces(
    entry: &Entry<'_>,
    version: &Located<i128>,
    problems: &mut Problems,
) -> Option<Vec<Located<PhysicalRange>>> {
    if !entry.is_list() {
        return Some(vec![read_range(entry, "address", problems)?]);
    }
    let ranges = entry.list(problems)?;
    let most = if version.value == 3 { GIC_INTERFACES } else { 1 };
    if ranges.is_empty() || ranges.len() > most {
        problems.push(
            Problem::new(entry.span(), format!("`interface` lists {} ranges", ranges.len()))
                .help(format!("with version {} it has from 1 to {most}", version.value)),
        );
        return None;
    }
    ranges.iter().map(|range| read_range(range, "address", problems)).collect()
}

/// How QEMU makes the board, and its machine with its place.
fn read_qemu(entry: &Entry<'_>, problems: &mut Problems) -> Option<(Qemu, Located<String>)> {
    let mut table = entry.table("[qemu]", problems)?;
    let machine = table.require("machine").and_then(|entry| entry.text(problems));
    let cpu = table.require("cpu").and_then(|entry| entry.text(problems));
    let arguments = table.take("arguments").and_then(|entry| entry.arguments(problems)).unwrap_or_default();
    table.finish(problems);
    if let Some(cpu) = &cpu {
        checks::qemu_cpu(cpu, problems);
    }
    let arguments = arguments.into_iter().map(|argument| argument.value).collect();
    let machine = machine?;
    Some((Qemu { machine: machine.value.clone(), cpu: cpu?.value, arguments }, machine))
}

fn read_device(entry: &Entry<'_>, problems: &mut Problems) -> Option<BoardDevice> {
    check_name(&entry.key, "device", "_", problems);
    let mut table = entry.table(format!("[device.{}]", entry.key.value), problems)?;
    let classes = table.take("class").map_or(Some(Vec::new()), |entry| read_classes(&entry, problems));
    let compatible = table.require_like("compatible", "\"virtio,net\"").and_then(|entry| entry.text(problems));
    let registers = table
        .require_like("registers", "{ address = 0x0900_0000, size = 0x1000 }")
        .and_then(|entry| read_range(&entry, "address", problems));
    let interrupts =
        table.take("interrupts").and_then(|entry| entry.list_of(INTERRUPT_FORM, problems)).unwrap_or_default();
    let interrupts: Vec<Located<Interrupt>> =
        interrupts.iter().filter_map(|interrupt| read_interrupt(interrupt, problems)).collect();
    let dma = table.take("dma").map_or(Some(0), |entry| checks::dma(entry.size(problems)?, problems));
    let qemu = table.take("qemu").and_then(|entry| entry.arguments(problems)).unwrap_or_default();
    let slot = table.take("slot").map_or(Some(None), |entry| slots::read_slot(&entry, problems).map(Some));
    let bridge = table.take("bridge").map_or(Some(None), |entry| slots::read_bridge(&entry, problems).map(Some));
    table.finish(problems);
    checks::device(registers.as_ref(), &interrupts, &qemu, problems);
    Some(BoardDevice {
        name: entry.key.value.clone(),
        classes: classes?,
        compatible: compatible?.value,
        registers: registers?.value,
        interrupts: interrupts.into_iter().map(|interrupt| interrupt.value).collect(),
        dma: dma?.next_multiple_of(PAGE_SIZE),
        qemu: qemu.into_iter().map(|argument| argument.value).collect(),
        slot: slot?,
        bridge: bridge?,
    })
}
