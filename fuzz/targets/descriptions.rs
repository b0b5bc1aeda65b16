//! Any bytes in place of a system, a board or a component file: nothing panics, hangs or eats
//! memory, and what is found wrong has a place within its file.
//!
//! The first byte of the input says which kind of file the rest is. Systems are checked against the
//! miniature tree of `tests/bad/world`, so that names can be right as well as wrong; what passes is
//! expanded to the end.

#![no_main]

use culm_manifest::Manifest;
use culm_tool::description::board::BoardFile;
use culm_tool::description::catalogue::Catalogue;
use culm_tool::diagnostics::{Diagnostics, Source, json};
use culm_tool::{expand, show};
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::OnceLock;

/// The miniature tree.
const WORLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/bad/world");

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let path = Path::new(WORLD).join("systems/fuzzed.toml");
    let source = match Source::from_bytes(&path, bytes.to_vec()) {
        Ok(source) => source,
        Err(diagnostic) => return check(&diagnostic.into()),
    };
    match kind % 3 {
        0 => {
            static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
            let catalogue = CATALOGUE.get_or_init(|| Catalogue::read(Path::new(WORLD)));
            match expand::check_source(catalogue, &path, &source, Some("virt")) {
                Ok(checked) => {
                    check(&checked.warnings);
                    assert!(!show::expanded(&checked.plan).is_empty(), "a plan of nothing");
                }
                Err(mistakes) => {
                    assert!(!mistakes.is_empty(), "refused without a word");
                    check(&mistakes);
                }
            }
        }
        1 => {
            let mut found = Diagnostics::default();
            let board = BoardFile::read(&source, &mut found);
            assert_eq!(board.is_none(), !found.is_empty(), "refused without a word, or taken with mistakes");
            check(&found);
        }
        _ => {
            let mut found = Diagnostics::default();
            found.extend(&source, Manifest::parse(&source.text).err().unwrap_or_default());
            check(&found);
        }
    }
});

/// Each has a place, which lies within its file, and can be shown in both ways.
fn check(found: &Diagnostics) {
    for diagnostic in found.sorted() {
        let place = diagnostic.place.as_ref().expect("a mistake without a place");
        let places = diagnostic.related.iter().map(|(place, _)| place).chain([place]);
        for place in places {
            let (span, length) = (&place.span, place.source.text.len());
            assert!(
                span.start <= span.end && span.end <= length.max(1),
                "{}: {span:?} of {length}",
                diagnostic.message
            );
        }
    }
    found.render(true);
    json::document(Some("fuzzed"), found);
}
