//! The manifest itself: reading `component.toml` and checking what can be checked without a system.

use crate::connection::{Connection, ConnectionKind, FileSystem, MemoryKind};
use crate::driver::{Driver, check_driver, read_driver};
use crate::kind::Kind;
use crate::need::Need;
use crate::needs::{Needs, read_needs};
use crate::problem::{Located, Problem, suggest};
use crate::reader::{Entry, Problems, TableReader, check_name, parse_table};
use crate::relations::{self, Relations};
use crate::units::format_size;
use crate::value::{ConfigField, ConfigType, Value};
use core::ops::Range;
use culm_abi::connection::{BlockClient, Device, MAX_COUNTERS, NetClient, Region};
use std::collections::BTreeMap;

/// The most that a stack or a heap can have: the address space has no room for more.
const MAX_MEMORY: u64 = 256 * 1024 * 1024 - 4096;

/// The least that a stack can have: it is made of whole pages.
const MIN_STACK: u64 = 4096;

/// Stack of a component whose manifest names none.
pub const DEFAULT_STACK: u64 = 64 * 1024;

/// Keys of a protection domain in a system file. A connection of such a name could not be made.
pub const RESERVED: &[&str] = &[
    "budget",
    "component",
    "config",
    "core",
    "heap",
    "log",
    "may_halt",
    "observe",
    "on_fault",
    "passive",
    "period",
    "priority",
    "restart",
    "stack",
];

/// A component, as its `component.toml` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its name, which is also that of its crate.
    pub name: String,
    /// Where the name stands.
    pub name_span: Range<usize>,
    /// Its description, one sentence.
    pub description: String,
    /// Bytes of stack.
    pub stack: u64,
    /// Bytes of heap, 0 for none.
    pub heap: u64,
    /// Least stack that a system may give it.
    pub min_stack: u64,
    /// Least heap that a system may give it.
    pub min_heap: Need,
    /// Whether it uses floating-point and vector registers.
    pub vectors: bool,
    /// Names of the counters that observers see.
    pub counters: Vec<String>,
    /// Set where the component is a driver.
    pub driver: Option<Driver>,
    /// The connections it asks for, in the order in which its start block lists them.
    pub connections: Vec<Connection>,
    /// Its configuration, in the order in which its start block lists the values.
    pub config: Vec<ConfigField>,
}

impl Manifest {
    /// Reads a manifest. All problems found are returned, in the order of the file.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let manifest = read(text, &mut problems);
        problems.sort_by_key(|problem| problem.span.start);
        match manifest {
            Some(manifest) if problems.is_empty() => Ok(manifest),
            _ => Err(problems),
        }
    }

    /// The name that a manifest gives, whatever else may be wrong with it.
    pub fn name_in(text: &str) -> Option<Located<String>> {
        let mut problems = Problems::new();
        let document = parse_table(text, &mut problems);
        let name = TableReader::new("the manifest", 0..0, document.get_ref()).take("name")?.text(&mut problems)?;
        check_name(&name, "component", "-_", &mut Problems::new()).then_some(name)
    }

    /// Gives a driver that fuses another one the classes and needs of that one. All problems found
    /// are returned: what it lacks of a driver of these classes.
    pub fn fuse(&mut self, other: &Driver) -> Result<(), Problems> {
        let Some(driver) = &mut self.driver else { return Ok(()) };
        let span = driver.needs.span.clone();
        driver.classes.clone_from(&other.classes);
        driver.needs = Needs { span, ..other.needs.clone() };
        let mut problems = Problems::new();
        check_driver(Some(driver), &self.connections, &mut problems);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// The connection of this name and its position.
    pub fn connection(&self, name: &str) -> Option<(usize, &Connection)> {
        self.connections.iter().enumerate().find(|(_, connection)| connection.name == name)
    }

    /// The first connection of this kind and its position.
    pub fn connection_of_kind(&self, kind: ConnectionKind) -> Option<(usize, &Connection)> {
        self.connections.iter().enumerate().find(|(_, connection)| connection.kind == kind)
    }
}

fn read(text: &str, problems: &mut Problems) -> Option<Manifest> {
    let document = parse_table(text, problems);
    if !problems.is_empty() {
        return None;
    }
    let mut table = TableReader::new("the manifest", 0..text.len().min(1), document.get_ref());
    if Kind::Component.is_another(&table, problems) {
        return None;
    }
    let name = table.require("name").and_then(|entry| entry.text(problems));
    if let Some(name) = &name {
        check_name(name, "component", "-_", problems);
    }
    let description = table.require("description").and_then(|entry| entry.text(problems));
    let stack = table.take("stack").map_or(Some(DEFAULT_STACK), |entry| read_memory(&entry, MIN_STACK, problems));
    let heap = table.take("heap").map_or(Some(0), |entry| read_memory(&entry, 0, problems));
    let min_stack = read_least(&mut table, "min_stack", stack, problems);
    let min_heap = read_need(&mut table, "min_heap", heap, problems);
    let vectors = table.take("vectors").map_or(Some(false), |entry| Some(entry.boolean(problems)?.value));
    let counters = read_counters(&mut table, problems);
    let driver = match table.take("driver") {
        Some(entry) => read_driver(&entry, problems).map(Some),
        None => Some(None),
    };
    let connections = read_list(&mut table, "connection", problems, read_connection);
    let config = read_list(&mut table, "config", problems, read_field);
    table.finish(problems);
    unique(connections.iter().map(|(name, _)| name), problems);
    unique(config.iter().map(|(name, _)| name), problems);
    let connections: Vec<_> = connections.into_iter().map(|(_, connection)| connection).collect();
    let config: Vec<_> = config.into_iter().map(|(_, field)| field).collect();
    if let Some(need) = &min_heap {
        check_need(need, heap, &config, problems);
    }
    for need in connections.iter().filter_map(|connection| connection.min_size.as_ref()) {
        check_need(need, None, &config, problems);
    }
    relations::check(&config, &connections, problems);
    let driver = driver?;
    // Which classes a fused driver provides is known when the one that it fuses is.
    if driver.as_ref().is_none_or(|driver| driver.fuses.is_none()) {
        check_driver(driver.as_ref(), &connections, problems);
    }
    let name = name?;
    Some(Manifest {
        name: name.value,
        name_span: name.span,
        description: description?.value,
        stack: stack?,
        heap: heap?,
        min_stack: min_stack?,
        min_heap: min_heap?.value,
        vectors: vectors?,
        counters,
        driver,
        connections,
        config,
    })
}

/// Bytes of stack or heap. That it fits the address space depends on the system too, which may give
/// another size.
fn read_memory(entry: &Entry<'_>, least: u64, problems: &mut Problems) -> Option<u64> {
    let size = entry.size(problems)?;
    if !(least..=MAX_MEMORY).contains(&size.value) {
        let (key, given) = (&entry.key.value, format_size(size.value));
        let help = if (1..least).contains(&size.value) && !entry.is_text() {
            format!("without a unit it is a count of bytes; did you mean \"{}KiB\"?", size.value)
        } else {
            let (least, most) = (format_size(least), format_size(MAX_MEMORY));
            format!("it has {least} to {most}; leave `{key}` out for the usual")
        };
        problems.push(Problem::new(size.span, format!("a {key} of {given} is none")).help(help));
        return None;
    }
    Some(size.value)
}

/// The least of something: `usual` where the manifest does not say that less will do.
fn read_least<'a>(
    table: &mut TableReader<'a>,
    key: &'a str,
    usual: Option<u64>,
    problems: &mut Problems,
) -> Option<u64> {
    let Some(entry) = table.take(key) else { return usual };
    let least = entry.size(problems)?;
    if usual.is_some_and(|usual| least.value > usual) {
        let without = key.trim_start_matches("min_");
        problems.push(
            Problem::new(least.span, format!("`{key}` is above `{without}`, which systems get that say nothing"))
                .help(format!("raise `{without}`, or lower `{key}`")),
        );
        return None;
    }
    Some(least.value)
}

/// The least of something, a size or text by which it is counted from the configuration.
fn read_need<'a>(
    table: &mut TableReader<'a>,
    key: &'a str,
    usual: Option<u64>,
    problems: &mut Problems,
) -> Option<Located<Need>> {
    let Some(entry) = table.take(key) else { return usual.map(|usual| Located::new(Need::of(usual), 0..0)) };
    if !entry.counts_from_names() {
        return entry.size(problems).map(|size| size.map(Need::of));
    }
    let text = entry.text(problems)?;
    match Need::parse(&text) {
        Ok(need) => Some(Located::new(need, text.span)),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

/// Checks that what the least heap is counted from is in the configuration, and the usual heap is
/// no less.
fn check_need(need: &Located<Need>, usual: Option<u64>, config: &[ConfigField], problems: &mut Problems) {
    let before = problems.len();
    let is_counted = |field: &&ConfigField| field.kind.is_unsigned();
    for name in need.fields() {
        let problem = match config.iter().find(|field| field.name == name.value) {
            Some(field) if !field.kind.is_unsigned() => {
                Problem::new(name.span.clone(), format!("`{}` is no number and no size", name.value))
                    .help(format!("nothing can be counted from a field of the type {}", field.kind.name()))
            }
            Some(field) if field.optional => {
                Problem::new(name.span.clone(), format!("`{}` may be left out", name.value))
                    .help("give it a `default`: what is counted from it is not known otherwise")
            }
            Some(_) => continue,
            None => {
                let names = config.iter().filter(is_counted).map(|field| field.name.as_str());
                let message = format!("the configuration has no field `{}`", name.value);
                Problem::new(name.span.clone(), message)
                    .help(suggest(&name.value, names).unwrap_or_else(|| "add it as a `[[config]]`".into()))
            }
        };
        problems.push(problem);
    }
    let default = |name: &str| match config.iter().find(|field| field.name == name)?.default {
        Some(Value::Unsigned(value)) => Some(value),
        _ => None,
    };
    // Without a default it is not known before a system gives a value.
    let is_known = need.fields().iter().all(|name| default(name).is_some());
    let least = need.bytes(|name| default(name).unwrap_or_default());
    if let Some(usual) = usual.filter(|usual| problems.len() == before && is_known && least > *usual) {
        problems.push(
            Problem::new(need.span.clone(), "`min_heap` is above `heap`, which systems get that say nothing").help(
                format!("raise `heap` from {} to {}, or lower `min_heap`", format_size(usual), format_size(least)),
            ),
        );
    }
}

fn read_counters(table: &mut TableReader<'_>, problems: &mut Problems) -> Vec<String> {
    let Some(entry) = table.take("counters") else { return Vec::new() };
    let counters = entry.texts(problems).unwrap_or_default();
    for counter in &counters {
        check_name(counter, "counter", "_", problems);
    }
    unique(counters.iter(), problems);
    if counters.len() > MAX_COUNTERS {
        problems.push(
            Problem::new(entry.span(), format!("{} counters do not fit", counters.len()))
                .help(format!("a component has {MAX_COUNTERS} at most")),
        );
    }
    counters.into_iter().map(|counter| counter.value).collect()
}

/// Reads what follows the name in a named table.
type Read<T> = fn(String, &mut TableReader<'_>, &mut Problems) -> Option<T>;

/// The named tables of an array of tables, each with the place of its name.
fn read_list<'a, T>(
    table: &mut TableReader<'a>,
    key: &'a str,
    problems: &mut Problems,
    read: Read<T>,
) -> Vec<(Located<String>, T)> {
    let Some(entry) = table.take(key) else { return Vec::new() };
    let mut all = Vec::new();
    for element in entry.list(problems).unwrap_or_default() {
        let Some(mut table) = element.table(format!("[[{key}]]"), problems) else { continue };
        let name = table.require("name").and_then(|entry| entry.text(problems));
        if let Some(name) = &name {
            check_field_name(name, key, problems);
        }
        let value = read(name.as_ref().map(|name| name.value.clone()).unwrap_or_default(), &mut table, problems);
        table.finish(problems);
        if let (Some(name), Some(value)) = (name, value) {
            all.push((name, value));
        }
    }
    all
}

fn read_connection(name: String, table: &mut TableReader<'_>, problems: &mut Problems) -> Option<Connection> {
    let kind = table.require("kind").and_then(|entry| entry.choice(ConnectionKind::names(), problems));
    let optional = table.take("optional").map_or(Some(false), |entry| entry.boolean(problems).map(|value| value.value));
    let memory = table.take("memory");
    let min_size = read_need(table, "min_size", None, problems);
    let writes = table.take("writes");
    let compatible = table.take("compatible");
    let needs = match compatible {
        Some(compatible) => read_needs(table, Some(compatible), table.span.clone(), problems).map(Some),
        None => Some(None),
    };
    let requires = table.take("requires");
    let file_system = table.take("file_system");
    let (takes_pieces, mirrored) = (table.take("takes_pieces"), table.take("mirrored"));
    let count = table.take("count");
    let description = read_description(table, problems);
    if RESERVED.contains(&name.as_str()) {
        problems.push(
            Problem::new(table.span.clone(), format!("a connection cannot be called `{name}`"))
                .help("in a system file that is another key of the protection domain; choose another name"),
        );
    }
    let kind = kind?;
    if let Some(memory) = memory.as_ref().filter(|_| !kind.value.is::<Region>()) {
        problems.push(
            Problem::new(memory.key.span.clone(), "only a region has a kind of memory")
                .help("leave `memory` out, or make the connection's kind `region`"),
        );
    }
    for entry in writes.iter().filter(|_| !kind.value.is::<Region>()) {
        problems.push(
            Problem::new(entry.key.span.clone(), "only a region is written")
                .help("leave `writes` out, or make the connection's kind `region`"),
        );
    }
    if let Some(size) = min_size.as_ref().filter(|_| !kind.value.is::<Region>()) {
        problems.push(
            Problem::new(size.span.clone(), "only a region has a size")
                .help("leave `min_size` out, or make the connection's kind `region`"),
        );
    }
    let writes = writes.and_then(|entry| entry.boolean(problems)).is_some_and(|writes| writes.value);
    let memory = memory.and_then(|entry| entry.choice(MemoryKind::NAMES, problems)).map(|memory| memory.value);
    let needs = needs?;
    if needs.is_some() && !kind.value.is::<Device>() {
        problems.push(
            Problem::new(table.span.clone(), "only a device is of a kind that boards name")
                .help("leave `compatible` out, or make the connection's kind `device`"),
        );
    }
    if let Some(requires) = requires.as_ref().filter(|_| kind.value.client_class().is_none()) {
        problems.push(
            Problem::new(requires.key.span.clone(), "only the client of a class has keys that it can require")
                .help("leave `requires` out, or make the connection's kind one by which a class is used"),
        );
    }
    let requires = requires.and_then(|entry| entry.texts(problems)).unwrap_or_default();
    if let Some(file_system) = file_system.as_ref().filter(|_| !kind.value.is::<BlockClient>()) {
        problems.push(
            Problem::new(file_system.key.span.clone(), "only a disk has a file system")
                .help("leave `file_system` out, or make the connection's kind `block-client`"),
        );
    }
    let file_system = file_system.and_then(|entry| entry.choice(FileSystem::NAMES, problems)).map(|one| one.value);
    if let Some(pieces) = takes_pieces.as_ref().filter(|_| !kind.value.is::<NetClient>()) {
        problems.push(
            Problem::new(pieces.key.span.clone(), "only a client of a network receives packets in pieces")
                .help("leave `takes_pieces` out, or make the connection's kind `net-client`"),
        );
    }
    let takes_pieces = takes_pieces.and_then(|entry| entry.boolean(problems)).is_some_and(|pieces| pieces.value);
    if let Some(mirrored) = mirrored.as_ref().filter(|_| !kind.value.is::<NetClient>()) {
        problems.push(
            Problem::new(mirrored.key.span.clone(), "only a network's frames are mirrored")
                .help("leave `mirrored` out, or make the connection's kind `net-client`"),
        );
    }
    let mirrored = mirrored.and_then(|entry| entry.boolean(problems)).is_some_and(|mirrored| mirrored.value);
    if let Some(count) = count.as_ref().filter(|_| kind.value.provided_class().is_none()) {
        problems.push(
            Problem::new(count.key.span.clone(), "only a provider has a count of what its clients name")
                .help("leave `count` out, or make the connection's kind one by which a class is provided"),
        );
    }
    let count = count.and_then(|entry| entry.integer(1..=u32::MAX.into(), problems)).map(|count| count.value as u32);
    let (kind, optional, span) = (kind.value, optional?, table.span.clone());
    Some(Connection {
        name,
        kind,
        optional,
        memory,
        min_size,
        writes,
        needs,
        requires,
        file_system,
        takes_pieces,
        mirrored,
        count,
        description,
        span,
    })
}

fn read_field(name: String, table: &mut TableReader<'_>, problems: &mut Problems) -> Option<ConfigField> {
    let kind = table.require("type").and_then(|entry| entry.choice(ConfigType::NAMES, problems));
    let optional = table.take("optional").map_or(Some(false), |entry| entry.boolean(problems).map(|value| value.value));
    let relations = Relations::read(table, problems);
    // The count of a range's addresses is a number.
    let of = kind.as_ref().map(|kind| if relations.from.is_some() { ConfigType::U32 } else { kind.value });
    let (min, max) = (read_bound(table, "min", of, problems), read_bound(table, "max", of, problems));
    let gzip = table.take("gzip");
    let description = read_description(table, problems);
    let default = table.take("default");
    let kind = kind?;
    if let Some(gzip) = gzip.as_ref().filter(|_| kind.value != ConfigType::Folder) {
        problems.push(Problem::new(gzip.key.span.clone(), "only a folder's files are packed with their gzip form"));
    }
    let gzip = gzip.is_some_and(|entry| entry.boolean(problems).is_some_and(|value| value.value));
    let optional = optional?;
    let mut field =
        ConfigField { name, kind: kind.value, default: None, optional, min, max, gzip, relations, description };
    if let Some(entry) = default {
        if field.optional {
            problems.push(
                Problem::new(entry.key.span.clone(), "a field with a default is never absent")
                    .help("leave out either `default` or `optional`"),
            );
        }
        if matches!(field.kind, ConfigType::File | ConfigType::Folder) {
            problems.push(
                Problem::new(entry.key.span.clone(), "files and folders have no default")
                    .help("their paths are relative to the system file, which a manifest does not know"),
            );
        }
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            // No default can be right.
            (field.min, field.max) = (None, None);
        }
        field.default = field.read(&entry, problems).map(|value| value.value);
    }
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        problems.push(
            Problem::new(table.span.clone(), format!("`min` of `{}` is above its `max`", field.name))
                .help("no value would do; put the lesser of the two in `min`"),
        );
    }
    Some(field)
}

/// `min` or `max`, as a value of the field's type is written; of text and lists, the length.
fn read_bound<'a>(
    table: &mut TableReader<'a>,
    key: &'a str,
    of: Option<ConfigType>,
    problems: &mut Problems,
) -> Option<i128> {
    let entry = table.take(key)?;
    let bound = match of? {
        ConfigType::Duration => entry.duration(problems)?.value.into(),
        ConfigType::Size => entry.size(problems)?.value.into(),
        ConfigType::String => entry.unsigned(problems)?.value.into(),
        kind if kind.is_list() => entry.unsigned(problems)?.value.into(),
        kind => {
            let Some((least, greatest)) = kind.limits() else {
                problems.push(
                    Problem::new(
                        entry.key.span.clone(),
                        format!("`{key}` means nothing for the type `{}`", kind.name()),
                    )
                    .help("numbers, durations and sizes have bounds, and the length of text and lists has"),
                );
                return None;
            };
            entry.integer(least..=greatest, problems)?.value
        }
    };
    Some(bound)
}

fn read_description(table: &mut TableReader<'_>, problems: &mut Problems) -> String {
    table.take("description").and_then(|entry| entry.text(problems)).map_or_else(String::new, |text| text.value)
}

/// Connections and configuration fields become fields of Rust structures.
fn check_field_name(name: &Located<String>, what: &str, problems: &mut Problems) {
    const KEYWORDS: &[&str] = &[
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
        "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
        "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
        "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    ];
    if check_name(name, what, "_", problems) && KEYWORDS.contains(&name.value.as_str()) {
        problems.push(
            Problem::new(name.span.clone(), format!("`{}` is a word of Rust and cannot name a field", name.value))
                .help("choose another name: it becomes a field of a structure"),
        );
    }
}

/// Reports each name that is used again.
fn unique<'a>(names: impl Iterator<Item = &'a Located<String>>, problems: &mut Problems) {
    let mut seen = BTreeMap::new();
    for name in names {
        if let Some(first) = seen.insert(&name.value, &name.span) {
            problems.push(
                Problem::new(name.span.clone(), format!("the name `{}` is used twice", name.value))
                    .related(first.clone(), "it is here already")
                    .help("choose another name for one of them"),
            );
        }
    }
}
