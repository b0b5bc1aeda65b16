//! `[[region]]`: memory that the description names itself.

use super::draft::{Draft, DraftDomain, Region};
use crate::description::resources::in_words;
use crate::description::system::RegionTable;
use crate::plan::PhysicalRange;
use culm_abi::memory::{IMAGE_OFFSET, PAGE_SIZE};
use culm_manifest::units::format_size;
use culm_manifest::{Connection, ConnectionKind, Located};

/// Resolves the regions and checks the fixed addresses.
pub fn resolve(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.regions {
        resolve_region(draft, table);
    }
    check_overlaps(draft);
}

fn resolve_region<'a>(draft: &mut Draft<'a>, table: &'a RegionTable) {
    check_size(draft, table);
    if table.map.is_empty() {
        let diagnostic = draft
            .at(&table.name.span, format!("the region `{}` is mapped to nobody", table.name.value))
            .help("say who sees it: `map = { \"pd.connection\" = \"rw\" }`");
        draft.error(diagnostic);
    }
    let mut mappings = Vec::new();
    for (end, writable) in &table.map {
        let Some((domain, slot, connection)) = draft.end(end, ConnectionKind::of::<culm_abi::connection::Region>())
        else {
            continue;
        };
        if let Some(needed) = connection.memory.filter(|needed| *needed != table.kind.value) {
            let message = format!(
                "a region of the wrong kind: `{}.{}` needs memory of the kind `{}`, `{}` is `{}`",
                end.value.0,
                end.value.1,
                needed.name(),
                table.name.value,
                table.kind.value.name()
            );
            let diagnostic = draft
                .at(&end.span, message)
                .related(draft.source, table.kind.span.clone(), "the region's kind")
                .help(format!("write `kind = \"{}\"`", needed.name()));
            draft.error(diagnostic);
        }
        check_writes(draft, connection, end, *writable);
        check_need(draft, table, domain, connection);
        mappings.push((domain, slot, *writable));
    }
    if let Some(at) = &table.at {
        check_address(draft, table, at);
    }
    draft.regions.push(Region { table, mappings });
}

/// Checks that a component that has to write may.
fn check_writes(draft: &mut Draft<'_>, connection: &Connection, end: &Located<(String, String)>, writable: bool) {
    if connection.writes && !writable {
        let (domain, name) = &end.value;
        let message = format!("`{domain}` has to write to its region `{name}`, and may only read it");
        let help = format!("write `\"{domain}.{name}\" = \"rw\"`");
        let diagnostic = draft.at(&end.span, message).help(help);
        draft.error(diagnostic);
    }
}

/// Checks that a region has what its component needs with its configuration.
fn check_need(draft: &mut Draft<'_>, table: &RegionTable, domain: DraftDomain, connection: &Connection) {
    let Some(need) = &connection.min_size else { return };
    let domain = &draft.domains[domain];
    let least = need.value.bytes(|name| domain.number(name));
    if table.size.value >= least {
        return;
    }
    let needs = format_size(least.checked_next_multiple_of(PAGE_SIZE).unwrap_or(least));
    let message = format!(
        "a region of {} is less than the {needs} that `{}` needs with its configuration",
        format_size(table.size.value),
        domain.name.value
    );
    let help = format!("write `size = \"{needs}\"`, or configure it for less; it needs {}", need.value);
    let diagnostic = draft.at(&table.size.span, message).help(help);
    draft.error(diagnostic);
}

/// Checks that a region has bytes, and no more than the board.
fn check_size(draft: &mut Draft<'_>, table: &RegionTable) {
    if table.size.value == 0 {
        let diagnostic = draft.at(&table.size.span, "a region of no bytes").help("give it at least 4KiB");
        draft.error(diagnostic);
    }
    let board = &draft.board.board;
    if table.size.value > board.memory.size {
        let message = format!("a region of {} is larger than the board's memory", format_size(table.size.value));
        let help = format!("the memory of `{}` has {}", board.name, format_size(board.memory.size));
        let diagnostic = draft.at(&table.size.span, message).help(help);
        draft.error(diagnostic);
    }
}

/// Checks that a region at a fixed address begins a page, in memory that the image leaves free.
fn check_address(draft: &mut Draft<'_>, table: &RegionTable, at: &Located<u64>) {
    let range = PhysicalRange { address: at.value, size: table.size.value }.pages();
    let (board, image) = (&draft.board.board, image(draft));
    let (message, help) = if !at.value.is_multiple_of(PAGE_SIZE) {
        let below = at.value / PAGE_SIZE * PAGE_SIZE;
        let above = below.saturating_add(PAGE_SIZE);
        let help = format!("pages are 4 KiB; the nearest are {below:#x} and {above:#x}");
        (format!("{:#x} is not the start of a page", at.value), help)
    } else if image.overlaps(range) {
        let help = format!("the image takes {} and more; put the region higher, or leave `at` out", in_words(image));
        (format!("`{}` at {} lies where the image is loaded", table.name.value, in_words(range)), help)
    } else if !board.memory.contains(range) {
        let help = format!("the memory of `{}` is {}", board.name, in_words(board.memory));
        (format!("`{}` at {} is not in the board's memory", table.name.value, in_words(range)), help)
    } else {
        return;
    };
    let diagnostic = draft.at(&at.span, message).help(help);
    draft.error(diagnostic);
}

/// The least that the image takes of the board's memory: what lies below it is the boot loader's,
/// and in it are the packed files besides programs and tables, whose size the build knows.
fn image(draft: &Draft<'_>) -> PhysicalRange {
    let packed = draft.packed.iter().fold(0u64, |sum, (_, size)| sum.saturating_add(*size));
    PhysicalRange {
        address: draft.board.board.memory.address,
        size: IMAGE_OFFSET.saturating_add(packed).saturating_add(PAGE_SIZE),
    }
}

/// Two regions at fixed addresses must not overlap.
fn check_overlaps(draft: &mut Draft<'_>) {
    let fixed = |region: &Region<'_>| {
        let at = region.table.at.as_ref()?;
        Some(PhysicalRange { address: at.value, size: region.table.size.value }.pages())
    };
    let mut found = Vec::new();
    for (index, region) in draft.regions.iter().enumerate() {
        let Some(range) = fixed(region) else { continue };
        for other in &draft.regions[..index] {
            let Some(taken) = fixed(other).filter(|taken| taken.overlaps(range)) else { continue };
            let span = |region: &Region<'_>| {
                region.table.at.as_ref().map_or(region.table.name.span.clone(), |at| at.span.clone())
            };
            let message =
                format!("fixed addresses overlap: `{}` and `{}`", other.table.name.value, region.table.name.value);
            found.push(draft.at(&span(region), message).related(draft.source, span(other), in_words(taken)).help(
                format!(
                    "`{}` takes {}; the next free address is {:#x}",
                    region.table.name.value,
                    in_words(range),
                    taken.end()
                ),
            ));
        }
    }
    for diagnostic in found {
        draft.error(diagnostic);
    }
}
