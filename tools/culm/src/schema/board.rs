//! The schema of board files.

use super::{address, boolean, choice, list, name, named, number, one_or_several, size, table, text};
use crate::description::board::MAX_CORES;
use culm_abi::system::{END_INTERRUPT, FIRST_INTERRUPT};
use culm_manifest::DeviceClass;
use serde_json::{Value, json};

/// The schema.
pub fn schema() -> Value {
    let range = |key: &'static str| {
        table(vec![(key, address(), "its first address"), ("size", size(), "its bytes")], &[key, "size"])
    };
    let interface = json!({ "anyOf": [range("address"), list(range("address"))] });
    let gic = table(
        vec![
            ("version", number(2, 3), "2 or 3"),
            ("distributor", range("address"), "its distributor's registers"),
            ("interface", interface, "GICv2: the processor's interface. GICv3: the redistributors"),
        ],
        &["version", "distributor", "interface"],
    );
    let qemu = table(
        vec![
            ("machine", text(), "value of `-machine`"),
            ("cpu", text(), "value of `-cpu`: a processor with 64 bits"),
            ("arguments", list(text()), "further arguments"),
        ],
        &["machine", "cpu"],
    );
    table(
        vec![
            ("name", name("_-"), "the board's name"),
            ("description", text(), "what it is, one sentence"),
            ("cores", number(1, MAX_CORES), "count of cores"),
            ("mpidr", list(address()), "affinity of each core; 0, 1, 2, … where left out"),
            ("memory", range("base"), "main memory: it begins at a multiple of 2 MiB"),
            (
                "asid_bits",
                json!({ "type": "integer", "enum": [8, 16] }),
                "bits of the processor's address-space identifiers",
            ),
            ("coherent_dma", boolean(), "whether devices see the processor's caches"),
            ("console", text(), "the device on which the kernel prints its last words: an `arm,pl011`"),
            ("gic", gic, "the interrupt controller"),
            ("qemu", qemu, "how QEMU emulates it"),
            ("device", named(device(range("address")), "_"), "the devices, `[device.NAME]`"),
        ],
        &["name", "cores", "memory", "coherent_dma", "gic"],
    )
}

fn device(range: Value) -> Value {
    let interrupt = table(
        vec![
            ("number", number(FIRST_INTERRUPT.into(), u64::from(END_INTERRUPT) - 1), "INTID: an SPI's number plus 32"),
            ("trigger", json!({ "type": "string", "enum": ["level", "edge"] }), "what raises it"),
        ],
        &["number", "trigger"],
    );
    table(
        vec![
            ("class", one_or_several(choice(DeviceClass::names())), "its class, or classes"),
            ("compatible", text(), "what a driver's manifest lists"),
            ("registers", range, "its registers: address and size are multiples of 4"),
            ("interrupts", list(interrupt), "its interrupts"),
            ("dma", size(), "memory for the device's own structures"),
            ("qemu", list(text()), "QEMU's arguments that make it; `{name}` and `{mac}` are filled in"),
        ],
        &["compatible", "registers"],
    )
}
