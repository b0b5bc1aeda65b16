//! The schema of board files, from the tables of the reference.

use super::{address, boolean, choice, list, name, named, number, object, one_or_several, size, text};
use crate::description::board::MAX_CORES;
use crate::description::slots::{MAX_BAR, MAX_SLOT, MIN_SLOT};
use crate::reference::board::{self, BRIDGE, DEVICE, GIC, INTERRUPTS, MEMORY, QEMU, RANGE, RANGES, SLOT, TOP_LEVEL};
use crate::reference::table::Key;
use culm_abi::system::{END_INTERRUPT, FIRST_INTERRUPT};
use culm_manifest::{DeviceClass, Trigger};
use serde_json::{Value, json};

/// The schema.
pub fn schema() -> Value {
    table(TOP_LEVEL)
}

fn table(heading: &str) -> Value {
    let tables = board::tables();
    let found = tables.iter().find(|table| table.heading == heading);
    object(found.map_or(&[][..], |table| &table.keys), value)
}

/// Returns the schema of a key's value: by its name where the book needs words, by the book's word
/// for it otherwise.
fn value(key: &Key) -> Value {
    match (key.name, key.value.as_str()) {
        ("cores", _) => number(1, MAX_CORES),
        ("mpidr", _) => list(address()),
        ("asid_bits", _) => json!({ "type": "integer", "enum": [8, 16] }),
        ("gic", _) => table(GIC),
        ("qemu", "table") => table(QEMU),
        ("device", _) => named(table(DEVICE), "_"),
        ("version", _) => number(2, 3),
        ("class", _) => one_or_several(choice(DeviceClass::names())),
        (_, MEMORY) => range("base"),
        (_, RANGE) => range("address"),
        (_, RANGES) => one_or_several(range("address")),
        (_, SLOT) => slot(),
        (_, BRIDGE) => bridge(),
        (_, INTERRUPTS) => list(interrupt()),
        (_, "name") => name("_-"),
        (_, "size") => size(),
        (_, "true or false") => boolean(),
        (_, "texts") => list(text()),
        _ => text(),
    }
}

fn range(key: &'static str) -> Value {
    super::table(vec![(key, address(), "its first address"), ("size", size(), "its bytes")], &[key, "size"])
}

fn slot() -> Value {
    super::table(
        vec![
            ("bridge", text(), "the bridge's device"),
            ("number", number(MIN_SLOT as u64, MAX_SLOT as u64), "the slot's number"),
            ("vendor", number(0, 0xfffe), "the device's vendor"),
            ("product", number(0, 0xffff), "the device's number among its vendor's"),
            ("bar", number(0, MAX_BAR as u64), "the base address register of its driver's registers"),
        ],
        &["bridge", "number", "vendor", "product"],
    )
}

fn bridge() -> Value {
    super::table(
        vec![
            ("window", range("address"), "the addresses that it passes on"),
            ("aside", range("address"), "those for memory that no driver uses"),
            ("interrupts", list(interrupt()), "the lines INTA to INTD of slot 0"),
        ],
        &["window", "aside", "interrupts"],
    )
}

fn interrupt() -> Value {
    let numbers = number(FIRST_INTERRUPT.into(), u64::from(END_INTERRUPT) - 1);
    super::table(
        vec![
            ("number", numbers, "INTID: an SPI's number plus 32"),
            ("trigger", choice(Trigger::NAMES), "what raises it"),
        ],
        &["number", "trigger"],
    )
}
