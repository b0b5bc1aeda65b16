//! Where instructions go, by function: the plugin's executions of each block, joined with the names
//! in the ELF files.

use crate::culm::{domain_of, has_guest};
use anyhow::{Context, Result};
use culm_tool::image::report::Report;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

/// Executions of blocks: (address space, address, instructions) to executions.
#[derive(Clone, Debug, Default)]
pub struct Blocks(BTreeMap<(u64, u64, u64), u64>);

impl Blocks {
    /// Reads what the plugin wrote: lines of address space, address, instructions and executions.
    pub fn read(path: &Path) -> Result<Blocks> {
        let text = std::fs::read_to_string(path).with_context(|| format!("no profile at {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not a profile", path.display()))
    }

    fn parse(text: &str) -> Option<Blocks> {
        let mut blocks = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            let mut hexadecimal = || u64::from_str_radix(words.next()?, 16).ok();
            let (space, address) = (hexadecimal()?, hexadecimal()?);
            let (instructions, executions) = (words.next()?.parse().ok()?, words.next()?.parse::<u64>().ok()?);
            *blocks.entry((space, address, instructions)).or_default() += executions;
        }
        Some(Blocks(blocks))
    }

    /// Returns the blocks that were executed since `earlier`.
    pub fn since(&self, earlier: &Blocks) -> Blocks {
        let left = self.0.iter().map(|(key, count)| (*key, count - earlier.0.get(key).unwrap_or(&0)));
        Blocks(left.filter(|(_, count)| *count > 0).collect())
    }
}

/// Functions of one ELF file by address.
struct Functions(BTreeMap<u64, (u64, String)>);

impl Functions {
    fn read(path: &Path) -> Result<Functions> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = object::File::parse(bytes.as_slice())?;
        let mut functions = BTreeMap::new();
        for symbol in file.symbols() {
            // Assembly's labels carry no type; mapping symbols ($x, $d) are none.
            let named = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label);
            if let (true, Ok(name)) = (named && symbol.is_definition(), symbol.name())
                && !name.is_empty()
                && !name.starts_with('$')
            {
                let sized = symbol.size() > 0 || !functions.contains_key(&symbol.address());
                if sized {
                    functions.insert(symbol.address(), (symbol.size(), demangle(name)));
                }
            }
        }
        Ok(Functions(functions))
    }

    fn name_of(&self, address: u64) -> Option<&str> {
        let (start, (size, name)) = self.0.range(..=address).next_back()?;
        (*size == 0 || address < start + size).then_some(name.as_str())
    }
}

/// Returns the address of the vector table by which a guest leaves its core, if the system has one.
pub fn exits(image: &Report) -> Option<u64> {
    let kernel = has_guest(image).then(|| Functions::read(&image.kernel.elf).ok()).flatten()?;
    kernel.0.into_iter().find(|(_, (_, name))| name == "culm_guest_vectors").map(|(address, _)| address)
}

/// Returns the addresses of the kernel's instructions, if the system has a guest, whose kernel is
/// in the upper half too.
pub fn own(image: &Report) -> Option<Range<u64>> {
    let bytes = has_guest(image).then(|| std::fs::read(&image.kernel.elf).ok()).flatten()?;
    let file = object::File::parse(bytes.as_slice()).ok()?;
    let text = file.sections().filter(|section| section.kind() == SectionKind::Text && section.size() > 0);
    let ranges: Vec<_> = text.map(|section| section.address()..section.address() + section.size()).collect();
    Some(ranges.iter().map(|range| range.start).min()?..ranges.iter().map(|range| range.end).max()?)
}

/// Readable names without the hashes that the compiler appends.
fn demangle(name: &str) -> String {
    let name = format!("{:#}", addr2line::demangle_auto(name.into(), None));
    match name.rfind("::h") {
        Some(at) if name.len() - at == 19 => name[..at].to_owned(),
        _ => name,
    }
}

/// One function's share.
#[derive(Clone, Debug)]
struct Entry {
    /// Kernel or protection domain.
    part: String,
    function: String,
    instructions: f64,
    /// Executions of its first block.
    entries: f64,
}

/// Instructions by function, the largest first.
fn by_function(blocks: &Blocks, image: &Report) -> Vec<Entry> {
    let kernel = Functions::read(&image.kernel.elf).ok();
    let mut files: BTreeMap<String, Option<Functions>> = BTreeMap::new();
    for domain in &image.domains {
        files.insert(domain.name.clone(), Functions::read(&domain.elf).ok());
    }
    let mut sums: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
    for ((space, address, instructions), executions) in &blocks.0 {
        let in_kernel = address >> 63 == 1;
        let part = if in_kernel { "kernel".to_owned() } else { domain_of(image, *space) };
        let functions = if in_kernel { kernel.as_ref() } else { files.get(&part).and_then(Option::as_ref) };
        let function = functions.and_then(|functions| functions.name_of(*address));
        let first = functions.is_some_and(|functions| functions.0.contains_key(address));
        let name = function.map_or_else(|| format!("{:#x}", address & !0xfff), str::to_owned);
        let sum = sums.entry((part, name)).or_default();
        sum.0 += *instructions as f64 * *executions as f64;
        if first {
            sum.1 += *executions as f64;
        }
    }
    let to_entry = |((part, function), (instructions, entries))| Entry { part, function, instructions, entries };
    let mut entries: Vec<_> = sums.into_iter().map(to_entry).collect();
    entries.sort_by(|a, b| b.instructions.total_cmp(&a.instructions));
    entries
}

/// A profile for people: by part, by function, and the most expensive blocks.
pub fn text(blocks: &Blocks, image: &Report, operations: f64, what: &str) -> String {
    table(&by_function(blocks, image), operations, what) + &hottest(blocks, image, operations, 80)
}

fn table(entries: &[Entry], operations: f64, what: &str) -> String {
    let total: f64 = entries.iter().map(|entry| entry.instructions).sum();
    let mut text = format!("{:.1} instructions per {what}, {operations} {what}s\n\n", total / operations);
    let mut parts: BTreeMap<&str, f64> = BTreeMap::new();
    for entry in entries {
        *parts.entry(&entry.part).or_default() += entry.instructions;
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (part, instructions) in parts {
        let _ = writeln!(text, "{:>10.1} {:>5.1} %  {part}", instructions / operations, instructions / total * 100.0);
    }
    let _ = writeln!(text, "\n{:>10} {:>7} {:>9}  function", format!("per {what}"), "share", "entered");
    for entry in entries.iter().filter(|entry| entry.instructions >= total / 2000.0) {
        let (share, own) = (entry.instructions / total * 100.0, entry.instructions / operations);
        let entered = entry.entries / operations;
        let _ = writeln!(text, "{own:>10.1} {share:>5.1} % {entered:>9.3}  {} {}", entry.part, entry.function);
    }
    text
}

/// Addresses of the most expensive blocks, for a look at the disassembly.
fn hottest(blocks: &Blocks, image: &Report, operations: f64, count: usize) -> String {
    let mut sorted: Vec<_> = blocks.0.iter().collect();
    sorted.sort_by_key(|((_, _, instructions), executions)| std::cmp::Reverse(instructions * **executions));
    let mut text = String::from("\nper operation  executions  instructions  address\n");
    for ((space, address, instructions), executions) in sorted.into_iter().take(count) {
        let part = if address >> 63 == 1 { "kernel".to_owned() } else { domain_of(image, *space) };
        let cost = (instructions * executions) as f64 / operations;
        let times = *executions as f64 / operations;
        let _ = writeln!(text, "{cost:>13.1} {times:>11.3} {instructions:>13}  {part} {address:#x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_summed_and_subtracted() {
        let earlier = Blocks::parse("0 ffff000000001000 5 10\n1000 200000 3 1\n").unwrap();
        let later = Blocks::parse("0 ffff000000001000 5 14\n1000 200000 3 1\n0 20 1 2\n").unwrap();
        let delta = later.since(&earlier);
        assert_eq!(delta.0.into_iter().collect::<Vec<_>>(), [((0, 0x20, 1), 2), ((0, 0xffff_0000_0000_1000, 5), 4)]);
        assert!(Blocks::parse("0 xyz 1 2").is_none());
    }

    #[test]
    fn names_lose_their_hashes() {
        assert_eq!(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(demangle("vector_table"), "vector_table");
    }
}
