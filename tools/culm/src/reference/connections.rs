//! The reference of connections, from their declarations in `culm-abi`.

use culm_abi::connection::{Field, FieldKind, KINDS, Kind, Role};
use std::fmt::Write as _;

/// Returns the page of the book on what each kind of connection gives to a component.
pub fn page() -> String {
    let mut out = String::from(
        "<!-- Written by `./culm reference connections`: change abi/src/connection/, then run the test with \
         CULM_BLESS=1. -->\n\n# Connections\n\n\
         What a component is given of each connection that its manifest asks for. A kind's structure is declared once, in \
         `abi/src/connection/`; a component finds it in `culm::connection`.\n\n\
         - A **ring** is a queue, for `culm::queue`; a **memory** is for `culm::Region`; a **channel** is the number of the \
         component's own end, for `culm::Channel`.\n\
         - A **list** is read by `culm::start::list`, a **text** by `culm::start::text`. A **flag** is 1 or 0.\n\
         - What is **optional** may be absent: it is all zero then.\n",
    );
    for kind in KINDS {
        connection(&mut out, kind);
    }
    out
}

fn connection(out: &mut String, kind: &Kind) {
    let origin = match kind.role {
        Role::Described => "a table of the system file connects it",
        Role::Client => "in a system file, a key of the domain names the provider",
        Role::Driver => "it comes with a device, for its driver",
        Role::Provider => "it comes with the clients that name the component",
        Role::Made => "the tool adds the component that has it",
        Role::Granted => "the system file grants it, no manifest asks for it",
    };
    let _ = writeln!(out, "\n## {}\n\n{} `{}`; {origin}.\n", kind.name, plain(kind.documentation), kind.structure);
    out.push_str("| Field | Type | Meaning |\n| --- | --- | --- |\n");
    rows(out, "", kind.fields);
}

/// The fields of a structure, each followed by those of the structures in it.
fn rows(out: &mut String, before: &str, fields: &[Field]) {
    for field in fields {
        let within = match field.kind {
            FieldKind::List(fields) => fields,
            _ => &[],
        };
        let optional = if field.optional { ", optional" } else { "" };
        let exclusive = if field.exclusive { ", exclusive" } else { "" };
        let name = format!("{before}{}", field.name);
        let meaning = plain(field.documentation);
        let _ = writeln!(out, "| `{name}` | {}{optional}{exclusive} | {meaning} |", type_name(field.kind));
        rows(out, &format!("{name}[]."), within);
    }
}

fn type_name(kind: FieldKind) -> String {
    match kind {
        FieldKind::Ring => "ring".to_string(),
        FieldKind::Memory => "memory".to_string(),
        FieldKind::Channel => "channel".to_string(),
        FieldKind::Rights => "rights".to_string(),
        FieldKind::Text => "text".to_string(),
        FieldKind::Flag => "flag".to_string(),
        FieldKind::Number { bytes } => format!("u{}", bytes * 8),
        FieldKind::Mac => "hardware address".to_string(),
        FieldKind::List(_) => "list".to_string(),
    }
}

/// Documentation without the links that only rustdoc follows.
pub fn plain(documentation: &str) -> String {
    documentation.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_book_is_this_one() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/connections.md");
        if std::env::var_os("CULM_BLESS").is_some() {
            std::fs::write(&file, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page(), "run this test with CULM_BLESS=1");
    }

    /// Fields lie one behind another, each at a multiple of its alignment, and nothing is told
    /// without words.
    #[test]
    fn every_field_has_its_place_and_its_meaning() {
        fn check(kind: &str, fields: &[Field]) {
            let mut end = 0;
            for field in fields {
                let (size, alignment) = match field.kind {
                    FieldKind::Ring => (16, 8),
                    FieldKind::Memory => (24, 8),
                    FieldKind::Channel | FieldKind::Rights | FieldKind::Flag => (4, 4),
                    FieldKind::Text | FieldKind::List(_) => (8, 4),
                    FieldKind::Number { bytes } => (bytes, bytes),
                    FieldKind::Mac => (6, 1),
                };
                assert_eq!(field.offset, usize::next_multiple_of(end, alignment), "{kind}.{}", field.name);
                assert!(field.documentation.ends_with('.'), "{kind}.{} says nothing", field.name);
                end = field.offset + size;
                if let FieldKind::List(fields) = field.kind {
                    check(kind, fields);
                }
            }
        }
        for kind in KINDS {
            check(kind.name, kind.fields);
        }
    }
}
