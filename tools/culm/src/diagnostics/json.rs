//! Diagnostics as JSON, for editors and other programs. The shape is documented in the book
//! (`docs/src/guides/system.md`); what is there stays as it is within one `format`, new fields may
//! be added.

use super::{Diagnostic, Diagnostics, Location, SHOWN, Severity};
use culm_manifest::problem::position;
use serde_json::{Value, json};

/// The version of the shape.
pub const FORMAT: u32 = 1;

/// The answer of a check, of `file` or of all that there is: one document.
pub fn document(file: Option<&str>, found: &Diagnostics) -> Value {
    let sorted = found.sorted();
    json!({
        "format": FORMAT,
        "file": file,
        "errors": found.count(Severity::Error),
        "warnings": found.count(Severity::Warning),
        "diagnostics": sorted.iter().take(SHOWN).map(|diagnostic| one(diagnostic)).collect::<Vec<_>>(),
    })
}

fn one(diagnostic: &Diagnostic) -> Value {
    let related = diagnostic.related.iter().map(|(place, message)| json!({ "message": message, "place": spot(place) }));
    json!({
        "severity": diagnostic.severity.name(),
        "message": diagnostic.message,
        "place": diagnostic.place.as_ref().map(spot),
        "help": diagnostic.help,
        "note": diagnostic.note,
        "related": related.collect::<Vec<_>>(),
    })
}

/// Where something stands: lines and columns count from 1, columns in characters, offsets in bytes
/// from 0.
fn spot(place: &Location) -> Value {
    let text = &place.source.text;
    let end = place.span.end.max(place.span.start);
    let point = |offset: usize| {
        let (line, column) = position(text, offset);
        json!({ "line": line, "column": column, "offset": offset.min(text.len()) })
    };
    json!({ "file": place.source.path, "start": point(place.span.start), "end": point(end) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Source;

    #[test]
    fn the_document_has_the_shape_that_the_book_gives() {
        let source = Source::new("x.toml", "ä = 1\nb = 2\n");
        let mut found = Diagnostics::default();
        found.push(Diagnostic::at(&source, 7..8, "wrong").related(&source, 0..2, "the other").help("do this"));
        found.push(Diagnostic::general("odd").warning());
        let start = json!({ "line": 2, "column": 1, "offset": 7 });
        let end = json!({ "line": 2, "column": 2, "offset": 8 });
        let first = json!({ "line": 1, "column": 1, "offset": 0 });
        let second = json!({ "line": 1, "column": 2, "offset": 2 });
        let wrong = json!({
            "severity": "error", "message": "wrong", "help": "do this", "note": null,
            "place": { "file": "x.toml", "start": start, "end": end },
            "related": [{ "message": "the other", "place": { "file": "x.toml", "start": first, "end": second } }],
        });
        let odd = json!({
            "severity": "warning", "message": "odd", "help": null, "note": null, "place": null, "related": [],
        });
        let expected = json!({ "format": 1, "file": "x", "errors": 1, "warnings": 1, "diagnostics": [odd, wrong] });
        assert_eq!(document(Some("x"), &found), expected);
    }
}
