//! A driver and its virtualisers in one domain (`fused = true`).
//!
//! The component for it is a driver whose manifest lists the connections of its classes'
//! virtualisers too. It gets what each of them would get in a domain of its own, without the queues
//! and channels between them.

use super::draft::Draft;
use crate::class;
use crate::description::system::DeviceTable;
use crate::diagnostics::{Diagnostic, Diagnostics, Source};
use culm_manifest::{ConnectionKind, Manifest};
use std::sync::Arc;

/// Whether the device's table asks for it.
pub fn is_asked_for(table: &DeviceTable<'_>) -> bool {
    table.fused.as_ref().is_some_and(|fused| fused.value)
}

/// The kinds of connection by which a driver's manifest lists its classes' virtualisers.
fn virtualisers(manifest: &Manifest) -> Vec<ConnectionKind> {
    let classes = manifest.driver.as_ref().map_or(&[][..], |driver| &driver.classes);
    let virtualisers = classes.iter().flat_map(|class| class::of(*class).virtualisers());
    virtualisers.map(|virtualiser| virtualiser.connection).collect()
}

/// Whether a component does the work of its classes' virtualisers besides the driver's.
pub fn is_fused(manifest: &Manifest) -> bool {
    let kinds = virtualisers(manifest);
    let says_so = manifest.driver.as_ref().is_some_and(|driver| driver.fuses.is_some());
    says_so || !kinds.is_empty() && kinds.iter().all(|kind| manifest.connection_of_kind(*kind).is_some())
}

/// Returns the mistakes in the manifest of a driver that fuses another one: virtualisers of its
/// classes that it does not list.
pub fn mistakes(source: &Arc<Source>, manifest: &Manifest) -> Diagnostics {
    let mut found = Diagnostics::default();
    let Some(fuses) = manifest.driver.as_ref().and_then(|driver| driver.fuses.as_ref()) else { return found };
    for kind in virtualisers(manifest) {
        if manifest.connection_of_kind(kind).is_none() {
            let message = format!(
                "`{}` fuses `{}` without a connection of the kind `{}`",
                manifest.name,
                fuses.value,
                kind.name()
            );
            let help = format!("add a `[[connection]]` with `kind = \"{}\"`", kind.name());
            found.push(Diagnostic::at(source, fuses.span.clone(), message).help(help));
        }
    }
    found
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
