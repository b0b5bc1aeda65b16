//! The reference of board files: their keys, with what each means. The page of the book and the
//! schema are made from it, and a test holds it against what the reader asks for.

use super::table::{Table, choices, key, write_tables};
use crate::description::board::{DEFAULT_ASID_BITS, MAX_CORES};
use crate::description::slots::{MAX_BAR, MAX_SLOT, MIN_SLOT};
use culm_abi::system::{END_INTERRUPT, FIRST_INTERRUPT};
use culm_manifest::{DeviceClass, Trigger};

/// How a table is written whose keys stand above all headers.
pub const TOP_LEVEL: &str = "Top level";
/// The interrupt controller.
pub const GIC: &str = "[gic]";
/// How QEMU makes the board.
pub const QEMU: &str = "[qemu]";
/// A device.
pub const DEVICE: &str = "[device.NAME]";

/// Main memory.
pub const MEMORY: &str = "`{ base, size }`";
/// A range of registers.
pub const RANGE: &str = "`{ address, size }`";
/// One range, or several.
pub const RANGES: &str = "`{ address, size }`, or a list of these";
/// Interrupts of a device.
pub const INTERRUPTS: &str = "list of `{ number, trigger }`";

/// Where a device behind a bridge sits.
pub const SLOT: &str = "`{ bridge, number, vendor, product, bar }`";
/// The form of a bridge's resources for the devices behind it.
pub const BRIDGE: &str = "`{ window, aside, interrupts }`";

/// Every table and key of a board file.
pub fn tables() -> Vec<Table> {
    vec![top(), gic(), qemu(), device()]
}

fn top() -> Table {
    let asid_bits = "bits of the processor's address-space identifiers: a system has at most 255 or 65,535 protection \
                     domains";
    Table {
        heading: TOP_LEVEL,
        intro: String::new(),
        keys: vec![
            key("name", "name", "required", "the board's name, which is its file's"),
            key("description", "text", "nothing", "what it is, one sentence"),
            key("cores", format!("1 to {MAX_CORES}"), "required", "count of cores; with a GICv2 8 at most"),
            key("mpidr", "list of numbers", "0, 1, 2, …", "affinity of each core, all different"),
            key("memory", MEMORY, "required", "RAM; `base` is a multiple of 2 MiB, `size` of 4 KiB"),
            key("asid_bits", "8 or 16", DEFAULT_ASID_BITS.to_string(), asid_bits),
            key("coherent_dma", "true or false", "required", "whether devices see the processor's caches"),
            key("console", "text", "none", "the device on which the kernel prints its last words: an `arm,pl011`"),
            key("gic", "table", "required", "the interrupt controller, `[gic]`"),
            key("qemu", "table", "QEMU does not have it", "how QEMU makes the board, `[qemu]`"),
            key("device", "tables", "none", "the devices, `[device.NAME]`"),
        ],
    }
}

fn gic() -> Table {
    Table {
        heading: GIC,
        intro: String::new(),
        keys: vec![
            key("version", "2 or 3", "required", "GICv2, or GICv3 and those that are compatible with it"),
            key("distributor", RANGE, "required", "the distributor's registers"),
            key(
                "interface",
                RANGES,
                "required",
                "GICv2: the processor's interface. GICv3: the redistributors, in up to four ranges",
            ),
        ],
    }
}

fn qemu() -> Table {
    Table {
        heading: QEMU,
        intro: "For boards that QEMU has.".to_string(),
        keys: vec![
            key("machine", "text", "required", "value of `-machine`"),
            key("cpu", "text", "required", "value of `-cpu`: a processor with 64 bits"),
            key("arguments", "texts", "none", "further arguments"),
        ],
    }
}

fn device() -> Table {
    let interrupts = format!(
        "its interrupts: {FIRST_INTERRUPT} to {} (INTID: an SPI's number plus 32), {}",
        END_INTERRUPT - 1,
        choices(Trigger::NAMES)
    );
    let slot = format!(
        "the bridge's slot in which it sits ({MIN_SLOT} to {MAX_SLOT}), what is expected there, and which base address register (0 \
         to {MAX_BAR}, else 0) is for `registers`, which are in the bridge's window; its interrupt follows from the slot"
    );
    let bridge = "of a PCI host bridge the addresses that it passes on, a part of them for memory that no driver uses, \
                  and the four interrupt lines of slot 0";
    Table {
        heading: DEVICE,
        intro: String::new(),
        keys: vec![
            key(
                "class",
                format!("{}, or a list", choices(DeviceClass::names())),
                "only a component can own it ([Providers](../guides/providers.md))",
                "its class, or those that its driver provides",
            ),
            key("compatible", "text", "required", "what the manifest of its driver or owner lists"),
            key("registers", RANGE, "required", "its registers, both multiples of 4"),
            key("interrupts", INTERRUPTS, "none", interrupts),
            key("dma", "size", "0", "bytes of memory for the device's own structures"),
            key("qemu", "texts", "none", "QEMU's arguments that make it; `{name}` and `{mac}` are filled in"),
            key("slot", SLOT, "its addresses are fixed", slot),
            key("bridge", BRIDGE, "it is none", bridge),
        ],
    }
}

/// The reference as a page of the book.
pub fn page() -> String {
    let mut out = String::from(
        "<!-- Written by `./culm reference board-file`: change tools/culm/src/reference/board.rs, then run the test with \
         CULM_BLESS=1. -->\n\n# Board files\n\n\
         A board is data; see [Add a board](../guides/board.md) for where to find it. Sizes and names are written \
         [as in system files](system-file.md).\n",
    );
    write_tables(&mut out, tables());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::tests::asked;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_that_the_reader_asks_for_is_described() {
        let mut asked = asked(include_str!("../description/board.rs"));
        // Keys in braces are described by the keys that have it.
        asked.retain(|key| !["base", "address", "size", "number", "trigger"].contains(&key.as_str()));
        let tables = tables();
        let described: BTreeSet<String> =
            tables.iter().flat_map(|table| &table.keys).map(|key| key.name.to_string()).collect();
        assert_eq!(asked, described);
    }

    #[test]
    fn the_page_in_the_book_is_this_one() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/board-file.md");
        if std::env::var_os("CULM_BLESS").is_some() {
            std::fs::write(&file, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page(), "run this test with CULM_BLESS=1");
    }
}
