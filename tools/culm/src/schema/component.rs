//! The schema of component files, from the tables of the reference.

use super::{boolean, choice, list, name, number, object, one_or_several, size, text};
use crate::reference::component::{
    self, BOUND, CONFIG, CONNECTION, DRIVER, FIELD_NAME, NEED, REQUIRED_UNFUSED, TOP_LEVEL,
};
use crate::reference::table::Key;
use culm_abi::connection::MAX_COUNTERS;
use culm_manifest::{ConfigType, ConnectionKind, DeviceClass, MAX_INTERRUPTS, MemoryKind, Trigger};
use serde_json::{Value, json};

/// The schema.
pub fn schema() -> Value {
    table(TOP_LEVEL)
}

fn table(heading: &str) -> Value {
    let tables = component::tables();
    let found = tables.iter().find(|table| table.heading == heading);
    object(found.map_or(&[][..], |table| &table.keys), value)
}

/// Returns the schema of `[driver]`: with all that it must have, or with what it has that from.
fn driver() -> Value {
    let tables = component::tables();
    let keys = tables.iter().find(|table| table.heading == DRIVER).map_or(&[][..], |table| &table.keys);
    let required = keys.iter().filter(|key| key.default == REQUIRED_UNFUSED).map(|key| key.name);
    let mut schema = object(keys, value);
    schema["anyOf"] = json!([{ "required": required.collect::<Vec<_>>() }, { "required": ["fuses"] }]);
    schema
}

/// Returns the schema of a key's value: by its name where the book needs words, by the book's word
/// for it otherwise.
fn value(key: &Key) -> Value {
    match (key.name, key.value.as_str()) {
        ("driver", _) => driver(),
        ("connection", _) => list(table(CONNECTION)),
        ("config", _) => list(table(CONFIG)),
        ("counters", _) => {
            let mut counters = list(name("_"));
            counters["maxItems"] = json!(MAX_COUNTERS);
            counters["uniqueItems"] = json!(true);
            counters
        }
        ("class", _) => one_or_several(choice(DeviceClass::names())),
        ("trigger", _) => choice(Trigger::NAMES),
        ("count", _) => number(1, u32::MAX.into()),
        ("interrupts", _) => number(0, MAX_INTERRUPTS),
        ("kind", _) => choice(ConnectionKind::names()),
        ("memory", _) => choice(MemoryKind::NAMES),
        ("type", _) => choice(ConfigType::NAMES),
        ("default", _) => json!({ "type": ["boolean", "integer", "string", "array", "object"] }),
        (_, BOUND) => json!({ "type": ["integer", "string"] }),
        (_, NEED) => json!({ "anyOf": [size(), { "type": "string", "pattern": "^ *[a-z(]|[+*(]" }] }),
        (_, "name") => name("_-"),
        (_, FIELD_NAME) => name("_"),
        (_, "size") => size(),
        (_, "true or false") => boolean(),
        (_, "texts") => list(text()),
        _ => text(),
    }
}
