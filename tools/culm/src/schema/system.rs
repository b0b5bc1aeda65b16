//! The schema of system files, from the tables of the reference.

use super::{address, boolean, choice, duration, list, mac, name, named, number, power_of_two, size, text};
use crate::class::{self, interface::Class};
use crate::description::board::MAX_CORES;
use crate::description::system::{MAX_BUFFERS, MAX_QUEUE};
use crate::plan::{FaultAction, LogLevel};
use crate::reference::table::{Key, Table};
use crate::reference::tables;
use culm_manifest::{ConnectionKind, MemoryKind};
use serde_json::{Value, json};

/// The schema.
pub fn schema() -> Value {
    let tables = tables();
    let find = |heading: &str| tables.iter().find(|table| table.heading == heading);
    let keys = |heading: &str| find(heading).map_or(&[][..], |table| &table.keys[..]);
    let domain = keys("[pd.NAME]");
    // A driver has what any domain has, from `priority` to `restart`, without those that only a
    // `[pd]` can have.
    let is_option = |key: &&Key| OPTIONS.contains(&key.name);
    let options: Vec<&Key> = domain.iter().filter(is_option).collect();
    let mut device: Vec<&Key> = keys("[device.NAME]").iter().collect();
    device.extend(options.iter().filter(|key| key.name != "priority"));
    let supervisor: Vec<&Key> =
        options.iter().copied().filter(|key| !["on_fault", "restart"].contains(&key.name)).collect();
    let mut pd = object(domain.iter());
    // Every other key is a connection of the component's manifest.
    let kinds: Vec<&str> = ConnectionKind::names()
        .iter()
        .filter(|(_, kind)| kind.client_class().is_some())
        .map(|(name, _)| *name)
        .collect();
    let clients = kinds.iter().map(|kind| json!({ "$ref": format!("#/definitions/{kind}") }));
    let named = std::iter::once(json!({ "type": "string" }));
    let connections: Vec<Value> = named.chain(clients).collect();
    pd["additionalProperties"] = json!({ "anyOf": connections });
    // The same for virtualisers, which have only one table for all their options.
    let mut virtualiser = without_required(object(options.clone()));
    virtualiser["additionalProperties"] = json!({ "anyOf": connections });
    // Classes that a driver provides besides its only one are told in a table of each; the other
    // keys are connections of its own.
    let mut device_schema = object(device);
    let port = std::iter::once(json!({ "$ref": "#/definitions/port" }));
    device_schema["additionalProperties"] = json!({ "anyOf": port.chain(connections).collect::<Vec<_>>() });
    let class_keys: Vec<Key> = class::all().flat_map(Class::device_keys).collect();
    let port = object(class_keys.iter());
    let mut root = find("Top level").map_or(json!({}), |table: &Table| object(table.keys.iter()));
    root["definitions"] = json!({
        "pd": pd,
        "device": device_schema,
        "port": port,
        "virtualiser": virtualiser,
        "supervisor": without_required(object(supervisor)),
        "channel": object(keys("[[channel]]")),
        "region": object(keys("[[region]]")),
        "guest": object(keys("[guest.NAME]")),
    });
    for kind in kinds {
        root["definitions"][kind] = object(keys(&format!("Connections of the kind {kind}")));
    }
    root
}

/// The keys of every domain, whatever it comes from.
const OPTIONS: &[&str] = &["priority", "core", "budget", "period", "stack", "heap", "log", "on_fault", "restart"];

/// The same table where each key may be left out: what adds the domain gives it a priority.
fn without_required(mut table: Value) -> Value {
    table["required"] = json!([]);
    table
}

fn object<'k>(keys: impl IntoIterator<Item = &'k Key>) -> Value {
    super::object(keys, value)
}

/// Returns the schema of a key's value: by its name where the book needs words, by the book's word
/// for it otherwise.
fn value(key: &Key) -> Value {
    match (key.name, key.value.as_str()) {
        ("name", _) => name("_-"),
        ("pd", _) => named(json!({ "$ref": "#/definitions/pd" }), "_-"),
        ("device", "tables") => named(json!({ "$ref": "#/definitions/device" }), "_"),
        ("guest", _) => named(json!({ "$ref": "#/definitions/guest" }), "_-"),
        ("channel", _) => list(json!({ "$ref": "#/definitions/channel" })),
        ("region", _) => list(json!({ "$ref": "#/definitions/region" })),
        ("supervisor", _) => json!({ "$ref": "#/definitions/supervisor" }),
        ("virtualiser", _) => json!({ "$ref": "#/definitions/virtualiser" }),
        ("restart", _) => super::table(
            vec![
                ("limit", number(0, u32::MAX.into()), "restarts within the window"),
                ("window", duration(), "in which restarts are counted"),
                ("backoff", duration(), "before the first restart"),
            ],
            &[],
        ),
        ("config", _) => json!({ "type": "object" }),
        ("files", _) => json!({ "type": "object", "additionalProperties": text() }),
        ("map", _) => json!({ "type": "object", "additionalProperties": { "type": "string", "enum": ["r", "rw"] } }),
        ("log", "true or false") => boolean(),
        ("log", _) => choice(LogLevel::NAMES),
        ("on_fault", _) => choice(FaultAction::NAMES),
        ("kind", _) => choice(MemoryKind::NAMES),
        ("image", _) => json!({ "anyOf": [text(), super::disk::schema()] }),
        ("mac", _) => mac(),
        ("at", _) => address(),
        ("cores", _) => list(number(0, MAX_CORES - 1)),
        ("core", _) => number(0, MAX_CORES - 1),
        ("buffers", _) => number(1, MAX_BUFFERS as u64),
        (_, "power of two") => power_of_two(MAX_QUEUE as u64),
        (_, "true or false") => boolean(),
        (_, "size") => size(),
        (_, "duration") => duration(),
        (_, "two texts") => json!({ "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 2 }),
        (_, "number or text") => json!({ "type": ["integer", "string"] }),
        (_, "texts" | "list of texts") => list(text()),
        (_, other) => bounds(other).map_or_else(text, |(least, most)| number(least, most)),
    }
}

/// The bounds of a number in words: `0 to 255`.
fn bounds(words: &str) -> Option<(u64, u64)> {
    let (least, most) = words.split_once(" to ")?;
    Some((least.parse().ok()?, most.parse().ok()?))
}
