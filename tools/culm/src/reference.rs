//! The reference of system files and of commands, from the code: names, defaults and limits come
//! from where they are decided, and a test holds the list of keys against those that the reader
//! asks for.

pub mod board;
pub mod component;
pub mod connections;
pub mod table;

use crate::class::{self, interface::Class};
use crate::description::guest::MAX_COMMAND_LINE;
use crate::description::system::{DEFAULT_BOARD, DEFAULT_RESTART};
use crate::expand::draft::Service;
use crate::expand::facts;
use crate::plan::{FaultAction, LogLevel};
use culm_abi::system::MIN_PERIOD;
use culm_manifest::MemoryKind;
use culm_manifest::units::{format_duration, format_size};
use std::fmt::Write as _;
use table::{Table, choices, key, write_tables};

/// Every table and key of a system file.
pub fn tables() -> Vec<Table> {
    let mut tables = vec![top(), domain(), device()];
    tables.extend(class::all().flat_map(Class::client_keys));
    tables.extend([
        channel(),
        region(),
        guest(),
        Table {
            heading: "[supervisor]",
            intro: "Options of the supervisor, which is always there; the table may be left out.".to_string(),
            keys: vec![key(
                "…",
                "",
                "priority 254, core 0",
                "`priority` to `log` as for `[pd.NAME]`; it has no supervisor of its own",
            )],
        },
    ]);
    tables
}

fn top() -> Table {
    Table {
        heading: "Top level",
        intro: "".to_string(),
        keys: vec![
            key("name", "text", "the file's name", "the system's name"),
            key("description", "text", "nothing", "what the system is, one sentence"),
            key(
                "board",
                "text",
                format!("`\"{DEFAULT_BOARD}\"`"),
                "the board: a file in `boards/`, or a path ending in `.toml`",
            ),
            key("pd", "tables", "", "protection domains, `[pd.NAME]`"),
            key("device", "tables", "", "devices in use, `[device.NAME]`"),
            key("channel", "tables", "", "channels, `[[channel]]`"),
            key("region", "tables", "", "shared memory, `[[region]]`"),
            key("guest", "tables", "", "virtual machines, `[guest.NAME]`"),
            key("supervisor", "table", "", "options of the supervisor, `[supervisor]`"),
        ],
    }
}

/// How restarts are limited where a system does not say, as it would write it.
fn default_restart() -> String {
    format!(
        "{{ limit = {}, window = \"{}\", backoff = \"{}\" }}",
        DEFAULT_RESTART.limit,
        format_duration(DEFAULT_RESTART.window),
        format_duration(DEFAULT_RESTART.backoff)
    )
}

fn domain() -> Table {
    let restart = format!("`{}`", default_restart());
    let up_to = |max: u64| format!("the component's; at most {}, rounded up to whole pages", format_size(max));
    Table {
        heading: "[pd.NAME]",
        intro:
            "A protection domain: an instance of a component with an address space of its own. Every other key is a \
                connection of the component's manifest; see below."
                .to_string(),
        keys: vec![
            key("component", "text", "required", "the component, by the name in its manifest"),
            key(
                "priority",
                "0 to 255",
                "required",
                "of the domains that can run, the one of the highest priority does",
            ),
            key("core", "number", "0", "the core that it runs on, always"),
            key(
                "passive",
                "true or false",
                "false",
                "it runs only while another domain calls it, its start included, on the caller's budget; it has no deadlines",
            ),
            key(
                "budget",
                "duration",
                "no limit",
                "how long it may run in each `period`; who runs more than 16 times in one may be throttled before that",
            ),
            key("period", "duration", "no limit", "how soon time that it used comes back; goes with `budget`"),
            key("stack", "size", up_to(facts::MAX_STACK), "its stack"),
            key("heap", "size", up_to(facts::MAX_HEAP), "its heap"),
            key("log", choices(LogLevel::NAMES), "`\"info\"`", format!("what it logs, to {}", log_device())),
            key("on_fault", choices(FaultAction::NAMES), "`\"restart\"`", "what the supervisor does when it faults"),
            key(
                "restart",
                "table",
                restart,
                "a restart is paid for by `window / limit` of service; at most `limit` that are not paid for. `backoff` before each, doubled for each that is not paid for",
            ),
            key("observe", "true or false", "false", "it may see the whole system: use of cores, queues, counters"),
            key("may_halt", "true or false", "false", "it may end the system"),
            key(
                "config",
                "table",
                "the manifest's defaults",
                "its configuration, as its component's manifest asks for it",
            ),
        ],
    }
}

fn device() -> Table {
    let virtualisers = |class: &dyn Class| {
        let names: Vec<String> =
            class.virtualisers().iter().map(|virtualiser| format!("`NAME_{}`", virtualiser.suffix)).collect();
        format!("{} for {}", names.join(" and "), class.name())
    };
    let shared = class::all().filter(|class| !class.virtualisers().is_empty());
    let virtualisers: Vec<String> = shared.map(virtualisers).collect();
    let bare = class::all().filter_map(|class| class.client_kind(Service::Bare));
    let bare: Vec<String> = bare.map(|kind| format!("`{}`", kind.name())).collect();
    let mut keys = vec![
        key("priority", "0 to 255", "required", "the driver's"),
        key("driver", "text", "the one whose manifest lists the device's `compatible`", "the driver's component"),
        key("virtualiser", "table", "one priority below the driver, on its core", "options of the virtualisers"),
        key(
            "bare",
            "true or false",
            "false",
            format!("it has no virtualisers: a single client has the driver's own queues ({})", bare.join(", ")),
        ),
    ];
    keys.push(key(
        "fused",
        "true or false",
        "false",
        "driver and virtualisers are one domain, `NAME_driver`, which is restarted as a whole",
    ));
    keys.extend(class::all().flat_map(Class::device_keys));
    keys.push(key("config", "table", "the manifest's defaults", "the driver's configuration"));
    Table {
        heading: "[device.NAME]",
        intro: format!(
            "A device of the board that the system uses, by its name in the board file. It brings its driver, the domain \
             `NAME_driver`, and its class's virtualisers: {}. `priority` to `restart` are the driver's, as for `[pd.NAME]`. \
             A driver that provides several classes, or one more than once, has a table in this one for the class's keys of \
             each, by the name of its connection; clients name `NAME.CONNECTION`.",
            virtualisers.join(", ")
        ),
        keys,
    }
}

fn channel() -> Table {
    Table {
        heading: "[[channel]]",
        intro: "A channel between connections of the kind `channel`.".to_string(),
        keys: vec![
            key("ends", "two texts", "required", "`[\"pd.connection\", \"pd.connection\"]`"),
            key("call", "text", "nobody", "the end that may call the other: on the same core, of lower priority"),
            key("notify", "texts", "both, but never a passive one", "the ends that may notify the other"),
        ],
    }
}

fn region() -> Table {
    Table {
        heading: "[[region]]",
        intro: "Memory shared by connections of the kind `region`.".to_string(),
        keys: vec![
            key("name", "text", "required", "its name"),
            key("size", "size", "required", "rounded up to whole pages"),
            key(
                "kind",
                choices(MemoryKind::NAMES),
                "`\"cached\"`",
                "`\"dma\"` is memory that devices reach too: cached where the board's devices see the caches",
            ),
            key("at", "number", "anywhere", "a physical address, the start of a page in the board's memory"),
            key("map", "table", "required", "who sees it: `{ \"pd.connection\" = \"rw\" }`, or `\"r\"`"),
        ],
    }
}

fn guest() -> Table {
    Table {
        heading: "[guest.NAME]",
        intro:
            "A virtual machine. A domain whose component has a connection of the kind `guest` runs it, such as `vmm`: \
                `guest = \"NAME\"`."
                .to_string(),
        keys: vec![
            key("kernel", "text", "required", "path of its kernel, an arm64 Image, or `\"debian:PACKAGE\"`"),
            key("initrd", "text", "none", "path of its initial RAM disk"),
            key(
                "files",
                "table",
                "none",
                "what to pack into an initial RAM disk in place of one: `{ \"bin/a\" = \"SOURCE\" }`, from a path or \
                    `debian:PACKAGE/FILE`, where `*` stands for a folder that is the only one there",
            ),
            key("memory", "size", "required", "its memory, a multiple of 2MiB"),
            key(
                "cores",
                "list of numbers",
                "that of the domain that runs it",
                "the core of each of its virtual CPUs, 1 to 4: `[0, 1]`; a core has one virtual CPU",
            ),
            key("priority", "0 to 255", "required", "its virtual CPUs', below that of the domain that runs it"),
            key(
                "command_line",
                "text",
                "nothing",
                format!("the kernel's command line, of {MAX_COMMAND_LINE} bytes at most"),
            ),
        ],
    }
}

/// The reference as a page of the book.
pub fn page() -> String {
    let mut out = String::from(
        "<!-- Written by `./culm reference system-file`: change tools/culm/src/reference.rs, then run the test with \
         CULM_BLESS=1. -->\n\n# System files\n\n\
         A system is a TOML file, `systems/NAME.toml`. Every name in it is checked before anything is built, and a \
         key that is not in these tables is a mistake.\n\n\
         - A **size** is a count of bytes, or text with a unit: `\"64KiB\"`, `\"4MiB\"`, `\"1GiB\"`.\n\
         - A **duration** is text with a unit: `\"1s\"`, `\"10ms\"`, `\"50us\"`, `\"200ns\"`.\n\
         - A **name** is a letter followed by letters, digits, `_` and `-`, all lower case.\n\
         - A **path** is relative to the system file.\n",
    );
    write_tables(&mut out, tables());
    let rules: String = class::all().flat_map(Class::rules).map(|rule| format!("- {rule}\n")).collect();
    out.push_str(
        &RULES
            .replace("{shortest period}", &format_duration(MIN_PERIOD))
            .replace("{log}", &log_device())
            .replace("{class rules}", &rules),
    );
    out
}

/// Where logs go.
fn log_device() -> String {
    let class = class::all().find(|class| class.log().is_some());
    class.map_or_else(|| "nobody".to_string(), |class| format!("the first {} device in use", class.name()))
}

/// Rules of no single key; what stands in braces is filled in.
const RULES: &str = "
## What is added

`./culm expand NAME` shows the result. In short:

- for each device: its driver, its virtualisers, its registers, interrupts and DMA memory;
- for each client of a device: queues, buffers, channels, and what its class puts before it, such as a copier;
- for each domain: a log queue to {log}, unless `log = \"off\"`; a page of counters, where its
  manifest names some;
- one `supervisor`, which is told of every other domain's faults.

## What is refused

Each rule has an example in `tests/bad/`, with the message.

- A device or an interrupt has one owner, and devices with different drivers do not share a page of registers.
- A call goes to a higher priority on the same core; calls make no cycle.
- A passive domain is called by somebody, notified by nobody, and has no budget.
- A budget is 1us at least and no longer than its period, which is {shortest period} at least and a day at most; a core exists on the board; a priority is 0 to 255.
- A queue's capacity is a power of two, and seven eighths of it hold all buffers that travel in it.
{class rules}- A stack and a heap are no less than the component's manifest says that it needs.
- A region at a fixed address lies in the board's memory, overlaps no other, and is not where the image is loaded.
- A connection is made once, between ends of its kind; one that is not optional is made.
- Components in devices' places are not clients of each other in a circle.
- A guest's kernel is an arm64 Image, kernel and initial RAM disk fit its memory, one domain runs it, and the board has a GICv3.
- Configuration is what the component's manifest asks for: every required field, no other, of its type, within its bounds.
- Two components on one network have no IP address in common: on one card, on switches that join it, in one VLAN.
- Everything fits the board's memory.
";

/// The reference of the command line as a page of the book.
pub fn commands(command_line: &clap::Command) -> String {
    let mut out = String::from(
        "<!-- Written by `./culm reference commands`: change the command line, then run its test with \
         CULM_BLESS=1. -->\n\n# Commands\n\n\
         `./culm COMMAND` sets up what is missing and hands over to the tool; `./culm setup --check` lists what is there \
         and what is missing, and changes nothing. `./culm COMMAND --help` says what stands here.\n\n\
         | Variable | Meaning |\n| --- | --- |\n\
         | `CULM_BUILD` | the folder for images, in place of `build/` |\n\
         | `CARGO_TARGET_DIR` | the folder for what cargo makes, in place of `target/` |\n\
         | `CULM_CARGO` | the cargo whose Rust builds, in place of the first one that serves |\n",
    );
    for command in command_line.get_subcommands().filter(|command| !command.is_hide_set()) {
        commands_of(&mut out, command, "./culm");
    }
    out
}

fn commands_of(out: &mut String, command: &clap::Command, before: &str) {
    let name = format!("{before} {}", command.get_name());
    if command.has_subcommands() {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            commands_of(out, inner, &name);
        }
        return;
    }
    let positional: String = command
        .get_positionals()
        .map(|argument| {
            let value = value_name(argument);
            let value = if is_repeated(argument) { format!("{value}…") } else { value };
            if argument.is_required_set() { format!(" {value}") } else { format!(" [{value}]") }
        })
        .collect();
    let _ = writeln!(
        out,
        "\n## `{name}{positional}`\n\n{}.",
        command.get_about().map_or_else(String::new, |about| about.to_string())
    );
    let arguments: Vec<&clap::Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str()))
        .collect();
    if arguments.is_empty() {
        return;
    }
    out.push_str("\n| Option | Meaning |\n| --- | --- |\n");
    for argument in arguments {
        let help = argument.get_help().map_or_else(String::new, |help| help.to_string());
        let _ = writeln!(out, "| {} | {} |", option_name(argument), help.trim_end_matches('.'));
    }
}

fn value_name(argument: &clap::Arg) -> String {
    match argument.get_value_names() {
        Some([name, ..]) => name.to_string(),
        _ => argument.get_id().as_str().to_uppercase(),
    }
}

fn is_repeated(argument: &clap::Arg) -> bool {
    matches!(argument.get_action(), clap::ArgAction::Append)
}

/// An option as it is written on the command line.
fn option_name(argument: &clap::Arg) -> String {
    let value = if argument.get_action().takes_values() { format!(" {}", value_name(argument)) } else { String::new() };
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("`-{short}`, `--{long}{value}`"),
        (None, Some(long)) => format!("`--{long}{value}`"),
        (Some(short), None) => format!("`-{short}{value}`"),
        (None, None) => format!("`{}`", value_name(argument)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// The keys that code asks a table for.
    pub(crate) fn asked(source: &str) -> BTreeSet<String> {
        let calls = [
            "take(\"",
            "require(\"",
            "require_like(\"",
            "named(\"",
            "table, \"",
            "flag(&mut table, \"",
            "options, \"",
            "keys, \"",
        ];
        let mut found = BTreeSet::new();
        for call in calls {
            for (at, _) in source.match_indices(call) {
                let rest = &source[at + call.len()..];
                found.extend(rest.split('"').next().map(str::to_string));
            }
        }
        found
    }

    fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("its entries can be read").path();
            match path.is_dir() {
                true => files_below(&path, found),
                false => found.push(path),
            }
        }
    }

    #[test]
    fn every_key_that_the_reader_asks_for_is_described() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = ["description/system.rs", "description/guest.rs", "expand/connections.rs"]
            .map(|file| source.join(file))
            .to_vec();
        files_below(&source.join("class"), &mut files);
        let sources = files.iter().map(|file| std::fs::read_to_string(file).expect("a source is text"));
        let asked: BTreeSet<String> = sources.flat_map(|source| asked(&source)).collect();
        let inner = ["limit", "window", "backoff"].map(str::to_string);
        let described: BTreeSet<String> =
            tables().iter().flat_map(|table| &table.keys).map(|key| key.name.to_string()).collect();
        let missing: Vec<&String> =
            asked.iter().filter(|key| !described.contains(*key) && !inner.contains(key)).collect();
        assert!(missing.is_empty(), "not in the reference: {missing:?}");
        let made_up: Vec<&String> = described.iter().filter(|key| *key != "…" && !asked.contains(*key)).collect();
        assert!(made_up.is_empty(), "nobody asks for {made_up:?}");
    }

    #[test]
    fn the_guide_shows_the_defaults_of_restarts() {
        let guide = include_str!("../../../docs/src/guides/system.md");
        let (action, _) = FaultAction::NAMES[0];
        let shown = format!("restart = {}\n```\n\nThese are the defaults.", default_restart());
        assert!(guide.contains(&shown), "the guide lacks\n{shown}");
        assert!(guide.contains(&format!("on_fault = \"{action}\" ")), "the guide lacks {action}");
    }

    #[test]
    fn the_page_in_the_book_is_this_one() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/system-file.md");
        if std::env::var_os("CULM_BLESS").is_some() {
            std::fs::write(&file, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page(), "run this test with CULM_BLESS=1");
    }
}
