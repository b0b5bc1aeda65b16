//! The schema of component files.

use super::{boolean, choice, list, name, number, one_or_several, size, table, text};
use culm_manifest::{ConfigType, ConnectionKind, DeviceClass, MAX_COUNTERS, MAX_INTERRUPTS, MemoryKind, Trigger};
use serde_json::{Value, json};

/// The schema.
pub fn schema() -> Value {
    let driver = table(
        vec![
            ("class", one_or_several(choice(DeviceClass::names())), "the class of its devices, or classes"),
            ("compatible", list(text()), "what boards write for its devices"),
            ("registers", size(), "bytes of registers that it uses: boards must give that many"),
            ("trigger", choice(Trigger::NAMES), "how its devices interrupt: boards that say otherwise get a warning"),
            (
                "interrupts",
                number(0, MAX_INTERRUPTS),
                "how many interrupts of the device it uses: boards must list that many",
            ),
            ("dma", size(), "bytes of memory for the device's own structures: boards must give that many"),
        ],
        &["class", "compatible"],
    );
    let mut counters = list(name("_"));
    counters["maxItems"] = json!(MAX_COUNTERS);
    counters["uniqueItems"] = json!(true);
    table(
        vec![
            ("name", name("_-"), "the component's name, which is its crate's"),
            ("description", text(), "what it does, one sentence"),
            ("stack", size(), "its stack"),
            ("heap", size(), "its heap: only a component with one can use `alloc`"),
            ("min_stack", size(), "the least stack that a system may give it"),
            ("min_heap", size(), "the least heap that a system may give it"),
            ("counters", counters, "names of counters that observers see"),
            ("driver", driver, "only drivers: what it drives"),
            ("connection", list(connection()), "what it wants to be connected to"),
            ("config", list(field()), "what it can be told"),
        ],
        &["name", "description"],
    )
}

fn connection() -> Value {
    table(
        vec![
            ("name", name("_"), "the key in a system file, and the field in `Connections`"),
            ("kind", choice(ConnectionKind::names()), "what it is"),
            ("optional", boolean(), "it may be left out"),
            ("memory", choice(MemoryKind::NAMES), "regions only: the kind of memory that it must be"),
            ("compatible", list(text()), "only a device that the component owns: what boards write for it"),
            ("registers", size(), "of such a device: as in `[driver]`"),
            ("trigger", choice(Trigger::NAMES), "of such a device: as in `[driver]`"),
            ("interrupts", number(0, MAX_INTERRUPTS), "of such a device: as in `[driver]`"),
            ("dma", size(), "of such a device: as in `[driver]`"),
            ("description", text(), "what it is for"),
        ],
        &["name", "kind"],
    )
}

fn field() -> Value {
    let bound = json!({ "type": ["integer", "string"] });
    table(
        vec![
            ("name", name("_"), "the key in `config`, and the field in `Config`"),
            ("type", choice(ConfigType::NAMES), "its type"),
            (
                "default",
                json!({ "type": ["boolean", "integer", "string", "array", "object"] }),
                "the value where a system gives none",
            ),
            ("optional", boolean(), "it may be left out"),
            ("gzip", boolean(), "folders only: files are packed with their gzip form besides"),
            ("min", bound.clone(), "the least value, or the least length of text and lists"),
            ("max", bound, "the greatest value, or the greatest length"),
            ("description", text(), "what it is for"),
        ],
        &["name", "type"],
    )
}
