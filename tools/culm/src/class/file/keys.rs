//! Keys of the class in system files, for the reader, the book and the schema.

use super::options::{DEFAULT_MEMORY, QUEUE};
use crate::reference::table::{Table, key};
use culm_manifest::units::format_size;

/// Rules that concern no single key.
pub const RULES: &[&str] =
    &["Where a client may write files, no other client's folder is the same, within it or around it, unless both say \
     `shared = true`."];

/// Returns the keys of a client.
pub fn client_keys() -> Vec<Table> {
    vec![Table {
        heading: "Connections of the kind file-client",
        intro: "`files = \"files\"` for all of them, to read, or a table: \
                `files = { device = \"files\", folder = \"/site\", write = true }`."
            .to_string(),
        keys: vec![
            key("device", "text", "required", "the domain that provides the files"),
            key("folder", "text", "`\"/\"`", "the folder that is the client's root; it sees nothing outside"),
            key("write", "true or false", "false", "it may change what is there"),
            key(
                "shared",
                "true or false",
                "false",
                "others that say so too may have the folder, one within it or one around it, though one of them writes",
            ),
            key(
                "memory",
                "size",
                format!("`\"{}\"`", format_size(DEFAULT_MEMORY)),
                "the memory for paths and for what is read and written; the device reaches it",
            ),
            key("queue", "power of two", QUEUE.to_string(), "entries of its queues, 16 to 1024"),
        ],
    }]
}
