//! The reference of component files: their keys, with what each means. The page of the book and the
//! schema are made from it, and a test holds it against what the reader asks for.

use super::table::{Key, Table, choices, key, write_tables};
use culm_abi::connection::MAX_COUNTERS;
use culm_abi::connection::{Device, Role};
use culm_manifest::units::format_size;
use culm_manifest::{ConfigType, ConnectionKind, DEFAULT_STACK, DeviceClass, FileSystem, MemoryKind, Trigger};
use std::fmt::Write as _;

/// How a table is written whose keys stand above all headers.
pub const TOP_LEVEL: &str = "Top level";
/// The table of a driver.
pub const DRIVER: &str = "[driver]";
/// A connection.
pub const CONNECTION: &str = "[[connection]]";
/// A field of the configuration.
pub const CONFIG: &str = "[[config]]";

/// A value that is counted from the configuration, or a size.
pub const NEED: &str = "size, or how it is counted";
/// A name that is a field of a type in the component's code too.
pub const FIELD_NAME: &str = "name of a field";
/// A key that a driver must have which does not say what it fuses.
pub const REQUIRED_UNFUSED: &str = "required without `fuses`";
/// A bound of a number, or of a length.
pub const BOUND: &str = "number or size";

/// Every table and key of a component file.
pub fn tables() -> Vec<Table> {
    vec![top(), driver(), connection(), config()]
}

fn top() -> Table {
    Table {
        heading: TOP_LEVEL,
        intro: String::new(),
        keys: vec![
            key("name", "name", "required", "the component's name, which is its crate's"),
            key("description", "text", "required", "what it does, one sentence"),
            key("stack", "size", format!("`\"{}\"`", format_size(DEFAULT_STACK)), "its stack"),
            key("heap", "size", "none", "its heap. Only a component with a heap can use `alloc`"),
            key("min_stack", "size", "what `stack` says", "the least stack that a system may give it"),
            key(
                "min_heap",
                NEED,
                "what `heap` says",
                "the least heap that a system may give it. Counted from numbers and sizes of the configuration by `+`, `*` and \
                 parentheses: `\"1MiB + connections * (send_buffer + 12KiB)\"`",
            ),
            key(
                "vectors",
                "true or false",
                "`false`",
                "it uses floating-point and vector registers: it is compiled for them, and the kernel lets it have them. \
                 Each of its turns then costs [an exception more](../decisions/vector-registers.md). Without this an \
                 instruction that uses one is a fault; `f32` and `f64` are computed in general registers, slowly",
            ),
            key(
                "counters",
                "names",
                "none",
                format!(
                    "counters that observers see, at most {MAX_COUNTERS}. On the [status page](http.md#the-systems-state) \
                     `packets` or `…_packets` count packets, but for `rx_packets` and `tx_packets`, and a name with the \
                     word `drops`, `dropped` or `refused` counts what is lost to somebody"
                ),
            ),
            key("driver", "table", "it is no driver", "what it drives, `[driver]`"),
            key("connection", "tables", "none", "what it wants to be connected to, `[[connection]]`"),
            key("config", "tables", "nothing", "what it can be told, `[[config]]`"),
        ],
    }
}

fn driver() -> Table {
    Table {
        heading: DRIVER,
        intro: "Only drivers. A device for which a board gives less than this asks for is refused.".to_string(),
        keys: vec![
            key(
                "class",
                format!("{}, or a list", choices(DeviceClass::names())),
                REQUIRED_UNFUSED,
                "the class of its devices, or those that they provide",
            ),
            key("compatible", "texts", REQUIRED_UNFUSED, "what boards write for its devices"),
            key("registers", "size", "0", "bytes of registers that it uses"),
            key("interrupts", "number", "0", "how many of the device's interrupts it uses"),
            key("dma", "size", "0", "bytes of memory for the device's own structures"),
            key(
                "trigger",
                choices(Trigger::NAMES),
                "either",
                "how all its devices interrupt; a board that says otherwise gets a warning",
            ),
            key(
                "fuses",
                "name of a driver",
                "it is no other driver's fused form",
                "the driver that this one puts into one domain with its virtualisers (`fused = true`). All other keys of this \
                 table are that driver's",
            ),
        ],
    }
}

/// A key of a device that the component owns, as a driver has it.
fn of_device(name: &'static str, value: impl Into<String>) -> Key {
    key(name, value, "as in `[driver]`", "of such a device, as in `[driver]`")
}

fn connection() -> Table {
    Table {
        heading: CONNECTION,
        intro: "What the component is given of each kind is in [Connections](connections.md).".to_string(),
        keys: vec![
            key("name", FIELD_NAME, "required", "the key in a system file, and the field in `Connections`"),
            key("kind", "kind", "required", "see below"),
            key("optional", "true or false", "false", "it may be left out, and the field is an `Option`"),
            key("memory", choices(MemoryKind::NAMES), "any kind", "regions only: the kind of memory that it must be"),
            key(
                "min_size",
                NEED,
                "any size",
                "regions only: the least size with which the component can do what it is configured for, counted like `min_heap`",
            ),
            key(
                "writes",
                "true or false",
                "false",
                "regions only: whether the component has to write to it, so that a system that lets it only read is refused",
            ),
            key(
                "compatible",
                "texts",
                "it owns no device",
                "devices that the component owns only: what boards write for them",
            ),
            of_device("registers", "size"),
            of_device("interrupts", "number"),
            of_device("dma", "size"),
            of_device("trigger", choices(Trigger::NAMES)),
            key(
                "requires",
                "texts",
                "nothing",
                "clients of a class only: keys of the class that a system must set to true, such as `\"write\"`",
            ),
            key(
                "file_system",
                choices(FileSystem::NAMES),
                "any content",
                "clients of a disk only: the file system that must be on it or on the partition, FAT16 or FAT32",
            ),
            key(
                "takes_pieces",
                "true or false",
                "false",
                "clients of a network only: whether the component takes a received packet in pieces, as it lies in a \
                 device's buffers, where it has no copier",
            ),
            key(
                "mirrored",
                "true or false",
                "false",
                "clients of a network only: it is for what a switch mirrors; one whose switch mirrors nothing to it is refused",
            ),
            key(
                "count",
                "number",
                "as many as the class has",
                "providers only: how many things it has that clients name by number, such as a chip's lines; a client \
                 that names another is refused",
            ),
            key("description", "text", "nothing", "what it is for"),
        ],
    }
}

fn config() -> Table {
    Table {
        heading: CONFIG,
        intro: String::new(),
        keys: vec![
            key("name", FIELD_NAME, "required", "the key in `config = { … }`, and the field in `Config`"),
            key("type", "type", "required", "see below"),
            key(
                "default",
                "as its type",
                "it must be given, unless `optional`",
                "the value where a system gives none. Files and folders have none",
            ),
            key("optional", "true or false", "false", "it may be left out, and the field is an `Option`"),
            key("min", BOUND, "no bound", "the least value, or the least length of text and lists"),
            key(
                "max",
                BOUND,
                "no bound",
                "the greatest value, or the greatest length; with `from`, the most addresses",
            ),
            key(
                "of",
                "name of a connection",
                "it is about none",
                "the connection that it is about: it is refused where that is not there. An address with its network is the component's own on that connection; without this, on the only one that leads to a network",
            ),
            key(
                "within",
                "texts",
                "anywhere",
                "addresses only, also those of lists: fields of networks (`ipv4-network`, `ipv6-network`), in one of which it has to be the address of \
                 another host, or link-local",
            ),
            key(
                "from",
                "name of a field",
                "it ends no range",
                "addresses only: the field with the first address of a range, whose last one it is. No other address of the \
                 configuration may be in the range",
            ),
            key("other_than", "texts", "any", "addresses only: fields with addresses that it must not have"),
            key(
                "at_most",
                "name of a field",
                "no bound",
                "numbers and sizes only: the field whose number it must not exceed",
            ),
            key(
                "same_by",
                "name of a connection",
                "it is nobody else's",
                "the channel at whose other end the component's field of the same name must have the same value, or none too",
            ),
            key(
                "needs",
                "texts",
                "nothing else",
                "fields that must be given where this one is, or is `true`: without them it does nothing",
            ),
            key(
                "needs_any",
                "texts",
                "nothing else",
                "fields of which one must be given, or be `true`, where this one is: without any it does nothing",
            ),
            key(
                "gzip",
                "true or false",
                "false",
                "folders only: files are packed with their gzip form besides, where they have 1 KiB or more and it saves a \
                 sixteenth",
            ),
            key("description", "text", "nothing", "what it is for"),
        ],
    }
}

/// How a value of a type is written in a system file, and what the component gets.
fn forms(of: ConfigType) -> (&'static str, &'static str) {
    match of {
        ConfigType::Bool => ("`true`", "`bool`"),
        ConfigType::U8 => ("`80`", "`u8`"),
        ConfigType::U16 => ("`8080`", "`u16`"),
        ConfigType::U32 => ("`100_000`", "`u32`"),
        ConfigType::U64 => ("`0x1_0000_0000`", "`u64`"),
        ConfigType::I64 => ("`-5`", "`i64`"),
        ConfigType::String => ("`\"text\"`", "`&'static str`"),
        ConfigType::Ipv4 => ("`\"10.0.0.1\"`", "`&'static str`"),
        ConfigType::Ipv4Network => {
            ("an address with the length of its network's prefix, `\"10.0.0.2/24\"`", "`&'static str`")
        }
        ConfigType::Ipv6 => ("`\"2001:db8::1\"`", "`&'static str`"),
        ConfigType::Ipv6Network => {
            ("an address with the length of its network's prefix, `\"2001:db8::1/64\"`", "`&'static str`")
        }
        ConfigType::Sha256 => ("64 hexadecimal digits, as `sha256sum` writes them", "`&'static str`"),
        ConfigType::Mac => ("`\"52:54:00:12:34:56\"`", "`[u8; 6]`"),
        ConfigType::Duration => ("`\"10ms\"` (s, ms, us, ns)", "`Duration`"),
        ConfigType::Size => ("`\"64KiB\"`, `\"4MiB\"`, or bytes", "`u64`"),
        ConfigType::File => ("a path, relative to the system file", "its content, `&'static [u8]`"),
        ConfigType::Folder => (
            "a path, relative to the system file; links out of it, pipes and devices in it are refused, names that begin with a \
             dot are left out",
            "its files, `culm::archive::Archive`",
        ),
        ConfigType::StringList => ("`[\"a\", \"b\"]`", "`culm::config::Strings`"),
        ConfigType::Ipv4List => ("`[\"10.0.0.1\", \"10.0.0.2\"]`", "`culm::config::Strings`"),
        ConfigType::IpList => ("`[\"10.0.0.1\", \"2001:db8::1\"]`", "`culm::config::Strings`"),
        ConfigType::ServiceList => (
            "a list of hosts' names or addresses, each with a port: `[\"www.example:7\", \"192.0.2.1:7\", \"[2001:db8::1]:7\"]`",
            "`culm::config::Strings`",
        ),
        ConfigType::StationList => (
            "a list of stations by their hardware addresses, with an IPv4 address for each: `[\"52:54:00:00:00:07 10.0.3.7\"]`",
            "`culm::config::Strings`",
        ),
        ConfigType::CacheControl => (
            "a table of patterns and directives for caches: `{ \"*.html\" = \"no-cache\", \"/assets/*\" = \
             \"max-age=31536000, immutable\" }`",
            "`culm::config::Pairs`",
        ),
        ConfigType::SwitchPorts => (
            "a table of the names of those behind a switch's ports, with words: `{ web = \"vlan 10 isolated\", uplink = \
             \"trunk 10,20-29 storm 1000\" }`",
            "`culm::config::Pairs`",
        ),
        ConfigType::FirewallRules => (
            "[rules](firewall.md), in several lines of text; or the path of a file of them, relative to the system file. Their \
             zones are the component's networks",
            "`&'static str`",
        ),
    }
}

/// Who writes connections of a kind into a system file.
fn writer(kind: ConnectionKind) -> String {
    let declaration = kind.declaration();
    match declaration.role {
        Role::Described => format!("`[[{}]]`", kind.name()),
        Role::Client => "the domain: its key names the provider".to_string(),
        Role::Provider => "its clients, whose keys name the domain ([Providers](../guides/providers.md))".to_string(),
        Role::Made if kind.is::<Device>() => {
            "a driver's: nobody, `[device.NAME]` makes it. With `compatible`: the domain, whose key names it"
                .to_string()
        }
        Role::Driver | Role::Made | Role::Granted => "nobody: it comes with a device or a client".to_string(),
    }
}

/// The reference as a page of the book.
pub fn page() -> String {
    let mut out = String::from(
        "<!-- Written by `./culm reference component-file`: change tools/culm/src/reference/component.rs, then run the test \
         with CULM_BLESS=1. -->\n\n# Component files\n\n\
         A component's crate has a `component.toml` beside its `Cargo.toml`. The macro `culm::component!` makes typed structures \
         from it (`Config`, `Connections`, `counters`), and the build tool checks systems against it. Both read it by \
         `libs/manifest`. Sizes, durations and names are written [as in system files](system-file.md).\n",
    );
    write_tables(&mut out, tables());
    out.push_str("\n## Kinds of connections\n\n| Kind | Is | Who writes it in a system file |\n| --- | --- | --- |\n");
    for (name, kind) in ConnectionKind::names() {
        let meaning = super::connections::plain(kind.declaration().documentation);
        let _ = writeln!(out, "| `{name}` | {meaning} | {} |", writer(*kind));
    }
    out.push_str(
        "\n## Types of configuration\n\n| Type | In a system file | In the component |\n| --- | --- | --- |\n",
    );
    for (name, kind) in ConfigType::NAMES {
        let (written, given) = forms(*kind);
        let _ = writeln!(out, "| `{name}` | {written} | {given} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::tests::asked;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_that_the_reader_asks_for_is_described() {
        let asked = asked(concat!(
            include_str!("../../../../libs/manifest/src/driver.rs"),
            include_str!("../../../../libs/manifest/src/manifest.rs"),
            include_str!("../../../../libs/manifest/src/needs.rs"),
            include_str!("../../../../libs/manifest/src/relations.rs")
        ));
        let tables = tables();
        let described: BTreeSet<String> =
            tables.iter().flat_map(|table| &table.keys).map(|key| key.name.to_string()).collect();
        assert_eq!(asked, described);
    }

    #[test]
    fn the_page_in_the_book_is_this_one() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/component-file.md");
        if std::env::var_os("CULM_BLESS").is_some() {
            std::fs::write(&file, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page(), "run this test with CULM_BLESS=1");
    }
}
