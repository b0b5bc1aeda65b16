//! Every protection domain has a name of its own, those that expansion makes included.

use super::draft::Draft;
use crate::plan::Origin;
use std::collections::BTreeMap;

/// Reports every name that is used twice.
pub fn check(draft: &mut Draft<'_>) {
    let mut seen = BTreeMap::new();
    for index in 0..draft.domains.len() {
        let name = draft.domains[index].name.clone();
        let Some(earlier) = seen.insert(name.value.clone(), index) else { continue };
        let (first, second) = (&draft.domains[earlier], &draft.domains[index]);
        // A name that the file does not have itself has no place of its own in it.
        let is_added = second.origin == Origin::Supervisor;
        let (first, second) = if is_added { (second, first) } else { (first, second) };
        let diagnostic = draft
            .at(&second.name.span, format!("the name `{}` is used twice", name.value))
            .related(draft.source, first.name.span.clone(), "the other protection domain of this name comes from here")
            .help("expansion names domains after the device or the client that they serve; choose another name");
        draft.error(diagnostic);
    }
    let mut seen = BTreeMap::new();
    for table in &draft.file.regions {
        let Some(earlier) = seen.insert(&table.name.value, &table.name.span) else { continue };
        let diagnostic = draft
            .at(&table.name.span, format!("the name `{}` is used twice", table.name.value))
            .related(draft.source, earlier.clone(), "the other region of this name")
            .help("choose another name");
        draft.error(diagnostic);
    }
}
