//! Whether everything fits the board's memory, and who takes what where it does not.

use super::draft::{Draft, Region};
use crate::diagnostics::{Diagnostic, Source};
use crate::plan::PhysicalRange;
use culm_manifest::units::format_size;
use std::ops::Range;
use std::sync::Arc;

/// Someone who takes memory.
#[derive(Clone, Debug)]
struct Taker {
    /// Who, and for what.
    what: String,
    /// Bytes.
    size: u64,
    /// Where the file says so, if it does.
    said_at: Option<Range<usize>>,
}

/// The mistake of a system that does not fit, with a map of who takes what, the largest first. It
/// is at the largest if the file says how large that is; else at `span`.
fn does_not_fit(source: &Arc<Source>, span: Range<usize>, mut takers: Vec<Taker>, memory: PhysicalRange) -> Diagnostic {
    const SHOWN: usize = 12;
    takers.sort_by_key(|taker| std::cmp::Reverse(taker.size));
    let others = takers.iter().skip(1).fold(0u64, |total, taker| total.saturating_add(taker.size));
    let largest = takers.first().and_then(|largest| Some((largest.what.clone(), largest.said_at.clone()?)));
    let total = takers.first().map_or(0, |largest| largest.size).saturating_add(others);
    let rest: u64 = takers.iter().skip(SHOWN).fold(0, |rest, taker| rest.saturating_add(taker.size));
    let count = takers.len().saturating_sub(SHOWN);
    takers.truncate(SHOWN);
    if count > 0 {
        takers.push(Taker { what: format!("{count} others"), size: rest, said_at: None });
    }
    takers.push(Taker { what: "together".to_string(), size: total, said_at: None });
    let width = takers.iter().map(|taker| in_words(taker.size).len()).max().unwrap_or(0);
    let map: String =
        takers.iter().map(|taker| format!("{:>width$}  {}\n", in_words(taker.size), taker.what)).collect();
    let message = format!(
        "the system does not fit: it takes {}, the board's memory has {}",
        in_words(total),
        in_words(memory.size)
    );
    let help = match (&largest, memory.size.checked_sub(others)) {
        (Some((what, _)), Some(left)) => {
            format!("the others leave less than {} for the {what}; or choose a board with more memory", in_words(left))
        }
        _ => "make the largest smaller, or choose a board with more memory".to_string(),
    };
    Diagnostic::at(source, largest.map_or(span, |(_, said_at)| said_at), message)
        .help(help)
        .note(format!("who takes what\n{map}"))
}

/// A size to one digit behind the point: exact figures would only blur a map.
pub fn in_words(size: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, factor)| size >= *factor) {
        Some((_, factor)) if size.is_multiple_of(*factor) => format_size(size),
        Some((unit, factor)) => format!("{:.1}{unit}", size as f64 / *factor as f64),
        None => format_size(size),
    }
}

/// Each protection domain has an address-space identifier of its own: two with the same would see
/// each other's memory.
pub fn check_address_spaces(draft: &mut Draft<'_>) {
    let (count, most) = (draft.domains.len(), draft.board.board.address_spaces());
    if count > most {
        let message = format!("the system has {count} protection domains, the board can tell {most} apart");
        draft
            .error(Diagnostic::at(draft.source, draft.file.first_line.clone(), message).help(
                "have fewer, drivers, virtualisers and copiers counted, or choose a board with `asid_bits = 16`",
            ));
    }
}

/// A first look, without programs and tables: what cannot fit is reported before anything is built.
/// The layout, which knows of all, looks again.
pub fn check_draft(draft: &mut Draft<'_>) {
    let mut takers = Vec::new();
    let mut take = |what: String, size: u64, said_at: Option<&Range<usize>>| {
        takers.push(Taker { what, size, said_at: said_at.cloned() });
    };
    for domain in &draft.domains {
        let name = &domain.name.value;
        let own = draft.file.domains.iter().find(|table| table.name.value == *name).map(|table| &table.options);
        let stack = own.and_then(|own| own.stack.as_ref()).map(|stack| &stack.span);
        let heap = own.and_then(|own| own.heap.as_ref()).map(|heap| &heap.span);
        take(format!("stack of {name}"), domain.stack, stack);
        take(format!("heap of {name}"), domain.heap, heap);
    }
    for Region { table, .. } in &draft.regions {
        take(format!("region {}", table.name.value), table.size.value, Some(&table.size.span));
    }
    for guest in &draft.guests {
        let (name, memory) = (&guest.table.name.value, guest.memory);
        let said_at = guest.table.memory.as_ref().map(|memory| &memory.span);
        take(format!("memory of guest {name}"), memory.size, said_at);
        take(format!("what guest {name} begins with"), memory.kernel.saturating_add(memory.end()), None);
    }
    for (path, size) in &draft.packed {
        take(format!("content of {}", path.value), *size, Some(&path.span));
    }
    takers.retain(|taker| taker.size > 0);
    let memory = draft.board.board.memory;
    let total = takers.iter().fold(0u64, |total, taker| total.saturating_add(taker.size));
    if total > memory.size {
        let diagnostic = does_not_fit(draft.source, draft.file.first_line.clone(), takers, memory);
        draft.error(diagnostic);
    }
}
