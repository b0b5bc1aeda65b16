//! The schema of what is on a disk, from the tables of the reference.

use super::{boolean, choice, list, object, size, text};
use crate::disk::keys::{disk_keys, partition_keys};
use crate::reference::table::Key;
use serde_json::{Value, json};

/// The schema of the table of a disk.
pub fn schema() -> Value {
    object(disk_keys().iter(), value)
}

fn value(key: &Key) -> Value {
    match (key.name, key.value.as_str()) {
        ("table", _) => choice(&[("gpt", ()), ("mbr", ())]),
        ("partition", _) => list(object(partition_keys().iter(), value)),
        ("fat", _) => json!({ "type": "integer", "enum": [16, 32] }),
        (_, "size") => size(),
        (_, "true or false") => boolean(),
        _ => text(),
    }
}
