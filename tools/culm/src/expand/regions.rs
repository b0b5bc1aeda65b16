//! `[[region]]`: memory that the description names itself.

use super::draft::{Draft, Region};
use crate::description::board::in_words;
use crate::description::system::RegionTable;
use crate::plan::PhysicalRange;
use culm_abi::memory::{IMAGE_OFFSET, PAGE_SIZE};
use culm_manifest::ConnectionKind;
use culm_manifest::units::format_size;

/// Resolves the regions and checks the fixed addresses.
pub fn resolve(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.regions {
        resolve_region(draft, table);
    }
    check_overlaps(draft);
}

fn resolve_region<'a>(draft: &mut Draft<'a>, table: &'a RegionTable) {
    if table.size.value == 0 {
        let diagnostic = draft.at(&table.size.span, "a region of no bytes").help("give it at least 4KiB");
        draft.error(diagnostic);
    }
    let memory = draft.board.board.memory;
    if table.size.value > memory.size {
        let message = format!("a region of {} is larger than the board's memory", format_size(table.size.value));
        let diagnostic = draft.at(&table.size.span, message).help(format!(
            "the memory of `{}` has {}",
            draft.board.board.name,
            format_size(memory.size)
        ));
        draft.error(diagnostic);
    }
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
        mappings.push((domain, slot, *writable));
    }
    if let Some(at) = &table.at {
        let range = PhysicalRange { address: at.value, size: table.size.value }.pages();
        let board = &draft.board.board;
        if !at.value.is_multiple_of(PAGE_SIZE) {
            let below = at.value / PAGE_SIZE * PAGE_SIZE;
            let diagnostic = draft.at(&at.span, format!("{:#x} is not the start of a page", at.value)).help(format!(
                "pages are 4 KiB; the nearest are {below:#x} and {:#x}",
                below.saturating_add(PAGE_SIZE)
            ));
            draft.error(diagnostic);
        } else if image(draft).overlaps(range) {
            let image = image(draft);
            let diagnostic = draft
                .at(&at.span, format!("`{}` at {} lies where the image is loaded", table.name.value, in_words(range)))
                .help(format!(
                    "the image takes {} and more; put the region higher, or leave `at` out",
                    in_words(image)
                ));
            draft.error(diagnostic);
        } else if !board.memory.contains(range) {
            let diagnostic = draft
                .at(&at.span, format!("`{}` at {} is not in the board's memory", table.name.value, in_words(range)))
                .help(format!("the memory of `{}` is {}", board.name, in_words(board.memory)));
            draft.error(diagnostic);
        }
    }
    draft.regions.push(Region { table, mappings });
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
