//! A driver and its virtualisers in one domain (`fused = true`).
//!
//! The component for it is a driver whose manifest lists the connections of its classes'
//! virtualisers too. It gets what each of them would get in a domain of its own, without the queues
//! and channels between them.

use super::draft::Draft;
use crate::class;
use crate::description::system::DeviceTable;
use culm_manifest::{ConnectionKind, Manifest};

/// Whether the device's table asks for it.
pub fn is_asked_for(table: &DeviceTable<'_>) -> bool {
    table.fused.as_ref().is_some_and(|fused| fused.value)
}

/// Whether a component does the work of its classes' virtualisers besides the driver's.
pub fn is_fused(manifest: &Manifest) -> bool {
    let classes = manifest.driver.as_ref().map_or(&[][..], |driver| &driver.classes);
    let mut kinds: Vec<ConnectionKind> = Vec::new();
    for class in classes {
        kinds.extend(class::of(*class).virtualisers().iter().map(|virtualiser| virtualiser.connection));
    }
    !kinds.is_empty() && kinds.iter().all(|kind| manifest.connection_of_kind(*kind).is_some())
}

/// Checks that the driver that the table names is of the sort that it asks for.
pub fn check_driver(draft: &mut Draft<'_>, table: &DeviceTable<'_>, manifest: &Manifest) -> bool {
    let Some(driver) = &table.driver else { return true };
    let (message, help) = match (is_asked_for(table), is_fused(manifest)) {
        (true, false) => (
            format!("`{}` does not do the work of virtualisers", driver.value),
            "its manifest would have to list their connections; leave out `driver`, or `fused`",
        ),
        (false, true) => (
            format!("`{}` does the work of virtualisers too", driver.value),
            "leave out `driver` for the one without, or write `fused = true`",
        ),
        (true, true) | (false, false) => return true,
    };
    let diagnostic = draft.at(&driver.span, message).help(help);
    draft.error(diagnostic);
    false
}

/// Checks that nothing is said of virtualisers that are no domains of their own.
pub fn check(draft: &mut Draft<'_>, table: &DeviceTable<'_>) {
    let Some(fused) = table.fused.as_ref().filter(|fused| fused.value) else { return };
    let bare = table.bare.as_ref().filter(|bare| bare.value).map(|bare| ("bare", bare.span.clone()));
    let given = table.virtualiser_at.clone().map(|span| ("virtualiser", span));
    for (key, span) in bare.into_iter().chain(given) {
        let message =
            format!("`{key}` means nothing for `{}`: its driver does its virtualisers' work", table.name.value);
        let diagnostic = draft
            .at(&span, message)
            .related(draft.source, fused.span.clone(), "fused here")
            .help("leave out one of the two");
        draft.error(diagnostic);
    }
}
