//! System files: which components a system is made of, and how they are connected.
//!
//! This reads the file as it stands. What its names refer to is not known here: that is for
//! [`crate::expand`].

use super::board::MAX_CORES;
use super::guest::{self, GuestTable};
use crate::plan::{FaultAction, LogLevel, RestartPolicy};
use culm_manifest::Kind;
use culm_manifest::reader::{Entry, Problems, TableReader, check_name, parse_table};
use culm_manifest::{Located, MemoryKind, Problem};
use std::ops::Range;
use toml::Spanned;
use toml::de::DeTable;

/// The board of a system that names none.
pub const DEFAULT_BOARD: &str = "virt";

/// How often a domain is restarted by default: for ever, if it serves for a quarter of a second
/// each time. One that faults again at once is stopped for good after two and a half seconds.
pub const DEFAULT_RESTART: RestartPolicy = RestartPolicy { limit: 8, window: 2_000_000_000, backoff: 10_000_000 };

/// Keys of the system itself. Below a header they belong to its table, for TOML.
pub const TOP_LEVEL: &[(&str, &str)] = &[
    ("board", "it is a key of the system: write it above the first `[header]`"),
    ("description", "it is a key of the system: write it above the first `[header]`"),
    ("name", "it is a key of the system: write it above the first `[header]`"),
];

/// A system file's text, parsed as TOML.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    table: Spanned<DeTable<'a>>,
    problems: Problems,
}

impl<'a> Document<'a> {
    /// Parses the text.
    pub fn parse(text: &'a str) -> Self {
        let mut problems = Problems::new();
        let table = parse_table(text, &mut problems);
        Self { text, table, problems }
    }
}

/// A system file.
pub struct SystemFile<'a> {
    /// The system's name, if the file gives one.
    pub name: Option<Located<String>>,
    /// The board, if the file gives one.
    pub board: Option<Located<String>>,
    /// The description of the system.
    pub description: String,
    /// Devices in use.
    pub devices: Vec<DeviceTable<'a>>,
    /// Protection domains.
    pub domains: Vec<DomainTable<'a>>,
    /// Guests.
    pub guests: Vec<GuestTable>,
    /// Channels.
    pub channels: Vec<ChannelTable>,
    /// Regions.
    pub regions: Vec<RegionTable>,
    /// Some `[[channel]]` could not be read: what it would have connected is not known.
    pub channels_unsure: bool,
    /// Some `[[region]]` could not be read.
    pub regions_unsure: bool,
    /// Options for the supervisor.
    pub supervisor: DomainOptions,
    /// The file has neither `pd` nor `device`, rightly or wrongly written.
    pub is_empty: bool,
    /// First line of the file, for what has no better place.
    pub first_line: Range<usize>,
}

/// The options of every domain, whatever it comes from.
#[derive(Clone, Debug, Default)]
pub struct DomainOptions {
    /// `priority`.
    pub priority: Option<Located<u8>>,
    /// `core`.
    pub core: Option<Located<u32>>,
    /// `budget`, in nanoseconds.
    pub budget: Option<Located<u64>>,
    /// `period`, in nanoseconds.
    pub period: Option<Located<u64>>,
    /// `stack`, in bytes.
    pub stack: Option<Located<u64>>,
    /// `heap`, in bytes.
    pub heap: Option<Located<u64>>,
    /// `log`.
    pub log: Option<LogLevel>,
    /// `on_fault`.
    pub on_fault: Option<Located<FaultAction>>,
    /// `restart`.
    pub restart: Option<Located<RestartPolicy>>,
}

/// `[device.NAME]`.
pub struct DeviceTable<'a> {
    /// The device's name.
    pub name: Located<String>,
    /// The table's place.
    pub span: Range<usize>,
    /// Options of the driver.
    pub options: DomainOptions,
    /// There is no `priority`, nor anything that is likely to be meant for it.
    pub lacks_priority: bool,
    /// Options of the virtualisers.
    pub virtualiser: DomainOptions,
    /// Where those are given.
    pub virtualiser_at: Option<Range<usize>>,
    /// The table of those, of which every other key is a connection of theirs.
    pub virtualiser_keys: Option<TableReader<'a>>,
    /// `bare`: the one client has the driver's own queues.
    pub bare: Option<Located<bool>>,
    /// `fused`: driver and virtualisers are one domain.
    pub fused: Option<Located<bool>>,
    /// `driver`: the component that drives it.
    pub driver: Option<Located<String>>,
    /// `config` of the driver.
    pub config: Option<TableReader<'a>>,
    /// The table, of which every other key is left to the device's class, or is a connection of the
    /// driver's.
    pub keys: TableReader<'a>,
}

/// `[pd.NAME]`.
pub struct DomainTable<'a> {
    /// The domain's name.
    pub name: Located<String>,
    /// The table's place.
    pub span: Range<usize>,
    /// `component`.
    pub component: Option<Located<String>>,
    /// Options.
    pub options: DomainOptions,
    /// There is no `priority`, nor anything that is likely to be meant for it.
    pub lacks_priority: bool,
    /// `passive`.
    pub passive: Option<Located<bool>>,
    /// `observe`.
    pub observe: bool,
    /// `may_halt`.
    pub may_halt: bool,
    /// `config`.
    pub config: Option<TableReader<'a>>,
    /// Every other key: connections, to be checked against the component's manifest.
    pub connections: Vec<Entry<'a>>,
    /// The keys that are no connections.
    pub known: Vec<&'a str>,
}

/// `[[channel]]`.
#[derive(Clone, Debug)]
pub struct ChannelTable {
    /// The table's place.
    pub span: Range<usize>,
    /// `ends`, each `pd.connection`.
    pub ends: [Located<(String, String)>; 2],
    /// `call`: which end may call.
    pub call: Option<Located<String>>,
    /// `notify`: which ends may notify; `None` for both.
    pub notify: Option<Vec<Located<String>>>,
}

/// `[[region]]`.
#[derive(Clone, Debug)]
pub struct RegionTable {
    /// `name`.
    pub name: Located<String>,
    /// `size`, in bytes.
    pub size: Located<u64>,
    /// `kind`.
    pub kind: Located<MemoryKind>,
    /// `at`: a fixed physical address.
    pub at: Option<Located<u64>>,
    /// `map`: `pd.connection` and whether it may write.
    pub map: Vec<(Located<(String, String)>, bool)>,
}

impl<'a> SystemFile<'a> {
    /// Reads a system file; what is wrong with it goes to `problems`. What could be read is
    /// returned all the same, unless the file is not even TOML.
    pub fn read(document: &'a Document<'a>, problems: &mut Problems) -> Option<Self> {
        problems.extend(document.problems.iter().cloned());
        if !document.problems.is_empty() {
            return None;
        }
        let first_line = 0..document.text.lines().next().map_or(0, str::len);
        let mut table = TableReader::new("the system", first_line.clone(), document.table.get_ref());
        if Kind::System.is_another(&table, problems) {
            return None;
        }
        let name = table.take("name").and_then(|entry| entry.text(problems));
        if let Some(name) = &name {
            check_name(name, "system", "-_", problems);
        }
        let board = table.take("board").and_then(|entry| entry.text(problems));
        let description = table.take("description").and_then(|entry| entry.text(problems));
        let is_empty = !["pd", "device"].iter().any(|key| table.has(key));
        let devices = named_tables(&mut table, "device", problems, read_device);
        let domains = named_tables(&mut table, "pd", problems, read_domain);
        let guests = named_tables(&mut table, "guest", problems, guest::read);
        let (channels, channels_unsure) = listed_tables(&mut table, "channel", problems, read_channel);
        let (regions, regions_unsure) = listed_tables(&mut table, "region", problems, read_region);
        let supervisor =
            table.take("supervisor").and_then(|entry| read_supervisor(&entry, problems)).unwrap_or_default();
        table.finish(problems);
        Some(Self {
            name,
            board,
            description: description.map_or_else(String::new, |text| text.value),
            devices,
            domains,
            guests,
            channels,
            regions,
            channels_unsure,
            regions_unsure,
            supervisor,
            is_empty,
            first_line,
        })
    }
}

/// `[KEY.NAME]` tables, in the order of the file.
fn named_tables<'a, T>(
    table: &mut TableReader<'a>,
    key: &'a str,
    problems: &mut Problems,
    read: fn(&Entry<'a>, &mut Problems) -> Option<T>,
) -> Vec<T> {
    table.named(key, problems).iter().filter_map(|entry| read(entry, problems)).collect()
}

/// `[[KEY]]` tables, in the order of the file, and whether some could not be read.
fn listed_tables<'a, T>(
    table: &mut TableReader<'a>,
    key: &'a str,
    problems: &mut Problems,
    read: fn(&mut TableReader<'a>, &mut Problems) -> Option<T>,
) -> (Vec<T>, bool) {
    let Some(entry) = table.take(key) else { return (Vec::new(), false) };
    let Some(entries) = entry.list(problems) else { return (Vec::new(), true) };
    let count = entries.len();
    let mut all = Vec::new();
    for entry in entries {
        let Some(mut table) = entry.table(format!("[[{key}]]"), problems) else { continue };
        all.extend(read(&mut table, problems));
        table.finish(problems);
    }
    let unsure = all.len() < count;
    (all, unsure)
}

fn read_options(table: &mut TableReader<'_>, problems: &mut Problems) -> DomainOptions {
    let priority = table.take("priority").and_then(|entry| entry.integer(0..=255, problems));
    let core = table.take("core").and_then(|entry| entry.unsigned_up_to(MAX_CORES - 1, problems));
    let (budget, period) = (table.take("budget"), table.take("period"));
    let is_pair = budget.is_some() && period.is_some();
    let budget = budget.and_then(|entry| entry.duration(problems));
    let period = period.and_then(|entry| entry.duration(problems));
    // Where one of a pair cannot be read, that is said; the other one does not lack it.
    let (budget, period) =
        if is_pair && !(budget.is_some() && period.is_some()) { (None, None) } else { (budget, period) };
    DomainOptions {
        // Both are within their types by the ranges above.
        priority: priority.map(|priority| priority.map(|priority| priority as u8)),
        core: core.map(|core| core.map(|core| core as u32)),
        budget,
        period,
        stack: table.take("stack").and_then(|entry| entry.size(problems)),
        heap: table.take("heap").and_then(|entry| entry.size(problems)),
        log: table.take("log").and_then(|entry| entry.choice(LogLevel::NAMES, problems)).map(|log| log.value),
        on_fault: table.take("on_fault").and_then(|entry| entry.choice(FaultAction::NAMES, problems)),
        restart: table.take("restart").and_then(|entry| read_restart(&entry, problems)),
    }
}

fn read_options_table(entry: &Entry<'_>, what: &str, problems: &mut Problems) -> Option<DomainOptions> {
    let mut table = entry.table(what, problems)?;
    let options = read_options(&mut table, problems);
    table.finish(problems);
    Some(options)
}

/// Nobody is told of the supervisor's own faults.
fn read_supervisor(entry: &Entry<'_>, problems: &mut Problems) -> Option<DomainOptions> {
    let options = read_options_table(entry, "[supervisor]", problems)?;
    let spans = [
        ("on_fault", options.on_fault.as_ref().map(|action| action.span.clone())),
        ("restart", options.restart.as_ref().map(|restart| restart.span.clone())),
    ];
    for (key, span) in spans {
        let Some(span) = span else { continue };
        problems.push(
            Problem::new(span, format!("`{key}` means nothing for the supervisor: it has no supervisor of its own"))
                .help(format!("leave `{key}` out; if the supervisor faults, the system halts")),
        );
    }
    Some(options)
}

fn read_restart(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<RestartPolicy>> {
    let mut table = entry.table("`restart`", problems)?;
    let limit = table.take("limit").and_then(|entry| entry.unsigned_up_to(u32::MAX.into(), problems));
    let window = table.take("window").and_then(|entry| entry.duration(problems));
    let backoff = table.take("backoff").and_then(|entry| entry.duration(problems));
    table.finish(problems);
    let policy = RestartPolicy {
        limit: limit.map_or(DEFAULT_RESTART.limit, |limit| limit.value as u32),
        window: window.map_or(DEFAULT_RESTART.window, |window| window.value),
        backoff: backoff.map_or(DEFAULT_RESTART.backoff, |backoff| backoff.value),
    };
    Some(Located::new(policy, entry.key.span.clone()))
}

fn read_device<'a>(entry: &Entry<'a>, problems: &mut Problems) -> Option<DeviceTable<'a>> {
    let mut table = entry.table(format!("[device.{}]", entry.key.value), problems)?.with_elsewhere(TOP_LEVEL);
    let options = read_options(&mut table, problems);
    let virtualiser = table.take("virtualiser");
    let virtualiser_at = virtualiser.as_ref().map(|entry| entry.key.span.clone());
    let mut virtualiser_keys = virtualiser.and_then(|entry| entry.table("`virtualiser`", problems));
    let virtualiser = virtualiser_keys.as_mut().map(|keys| read_options(keys, problems));
    let bare = table.take("bare").and_then(|entry| entry.boolean(problems));
    let fused = table.take("fused").and_then(|entry| entry.boolean(problems));
    let driver = table.take("driver").and_then(|entry| entry.text(problems));
    let config = table.take("config").and_then(|entry| entry.table("`config`", problems));
    Some(DeviceTable {
        name: entry.key.clone(),
        span: table.span.clone(),
        options,
        lacks_priority: table.lacks("priority"),
        virtualiser: virtualiser.unwrap_or_default(),
        virtualiser_at,
        virtualiser_keys,
        bare,
        fused,
        driver,
        config,
        keys: table,
    })
}

/// Greatest count of buffers: 32 MiB of payload per device.
pub const MAX_BUFFERS: i128 = 16384;

/// Most entries of a queue: so many buffers have room in it.
pub const MAX_QUEUE: i128 = 2 * MAX_BUFFERS;

/// A count of buffers.
pub fn read_buffers(table: &mut TableReader<'_>, problems: &mut Problems) -> Option<Located<u32>> {
    let count = table.take("buffers")?.integer(1..=MAX_BUFFERS, problems)?;
    Some(count.map(|count| count as u32))
}

/// The capacity of queues.
pub fn read_queue(table: &mut TableReader<'_>, problems: &mut Problems) -> Option<Located<u32>> {
    let queue = table.take("queue")?.integer(1..=MAX_QUEUE, problems)?.map(|count| count as u32);
    if !queue.value.is_power_of_two() {
        let above = queue.value.next_power_of_two();
        problems.push(
            Problem::new(queue.span.clone(), format!("a queue of {} entries: not a power of two", queue.value))
                .help(format!("the nearest are {} and {above}", above / 2)),
        );
        return None;
    }
    Some(queue)
}

/// A boolean option, `default` where it is not there.
pub fn read_flag<'a>(table: &mut TableReader<'a>, key: &'a str, default: bool, problems: &mut Problems) -> bool {
    table.take(key).and_then(|entry| entry.boolean(problems)).map_or(default, |flag| flag.value)
}

fn read_domain<'a>(entry: &Entry<'a>, problems: &mut Problems) -> Option<DomainTable<'a>> {
    check_name(&entry.key, "protection domain", "-_", problems);
    let mut table = entry.table(format!("[pd.{}]", entry.key.value), problems)?;
    let mut flag = |table: &mut TableReader<'a>, key| table.take(key).and_then(|entry| entry.boolean(problems));
    let passive = flag(&mut table, "passive");
    let observe = flag(&mut table, "observe").is_some_and(|flag| flag.value);
    let may_halt = flag(&mut table, "may_halt").is_some_and(|flag| flag.value);
    let component = table.require("component").and_then(|entry| entry.text(problems));
    let options = read_options(&mut table, problems);
    let config = table.take("config").and_then(|entry| entry.table("`config`", problems));
    let known = table.asked().to_vec();
    let span = table.span.clone();
    let lacks_priority = table.lacks("priority");
    let connections = table.rest(problems);
    Some(DomainTable {
        name: entry.key.clone(),
        span,
        component,
        options,
        lacks_priority,
        passive,
        observe,
        may_halt,
        config,
        connections,
        known,
    })
}

/// `pd.connection`.
fn read_end(text: Located<String>, problems: &mut Problems) -> Option<Located<(String, String)>> {
    let parts: Vec<&str> = text.value.split('.').collect();
    if let [domain, connection] = parts[..]
        && !domain.is_empty()
        && !connection.is_empty()
    {
        return Some(Located::new((domain.to_string(), connection.to_string()), text.span));
    }
    problems.push(
        Problem::new(text.span, format!("`{}` does not name a connection", text.value)).help(
            "write the protection domain, a dot, and the connection in its component's manifest: \"pd.connection\"",
        ),
    );
    None
}

fn read_channel(table: &mut TableReader<'_>, problems: &mut Problems) -> Option<ChannelTable> {
    let span = table.span.clone();
    let ends = table.require("ends");
    let call = table.take("call").and_then(|entry| entry.text(problems));
    let notify = table.take("notify").and_then(|entry| entry.texts(problems));
    let entry = ends?;
    let texts = entry.texts(problems)?;
    let count = texts.len();
    let ends: Vec<_> = texts.into_iter().filter_map(|text| read_end(text, problems)).collect();
    if count != 2 {
        problems.push(
            Problem::new(entry.span(), format!("a channel has two ends, not {count}"))
                .help("write `ends = [\"pd.connection\", \"pd.connection\"]`"),
        );
    }
    Some(ChannelTable { span, ends: ends.try_into().ok()?, call, notify })
}

fn read_region(table: &mut TableReader<'_>, problems: &mut Problems) -> Option<RegionTable> {
    let name = table.require("name").and_then(|entry| entry.text(problems));
    if let Some(name) = &name {
        check_name(name, "region", "-_", problems);
    }
    let size = table.require("size").and_then(|entry| entry.size(problems));
    let kind = match table.take("kind") {
        Some(entry) => entry.choice(MemoryKind::NAMES, problems),
        None => Some(Located::new(MemoryKind::Cached, table.span.clone())),
    };
    let at = table.take("at").map(|entry| entry.unsigned(problems));
    let map = table.require("map").and_then(|entry| entry.table("`map`", problems));
    let map = map.map(|map| map.unknown()).unwrap_or_default();
    let count = map.len();
    let map: Vec<_> = map.iter().filter_map(|entry| read_mapping(entry, problems)).collect();
    if map.len() < count {
        return None;
    }
    let at = match at {
        Some(at) => Some(at?),
        None => None,
    };
    Some(RegionTable { name: name?, size: size?, kind: kind?, at, map })
}

fn read_mapping(entry: &Entry<'_>, problems: &mut Problems) -> Option<(Located<(String, String)>, bool)> {
    const PERMISSIONS: &[(&str, bool)] = &[("r", false), ("rw", true)];
    let end = read_end(entry.key.clone(), problems);
    let writable = entry.choice(PERMISSIONS, problems);
    Some((end?, writable?.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_know_the_keys_of_a_domain() {
        let document = Document::parse("[pd.a]\ncomponent = \"a\"\npriority = 1\n");
        let file = SystemFile::read(&document, &mut Problems::new()).expect("it is well");
        let mut known = file.domains[0].known.clone();
        known.sort_unstable();
        assert_eq!(known, culm_manifest::RESERVED);
    }
}
