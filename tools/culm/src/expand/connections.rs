//! A domain's own keys: connections by class, each the name of a device, checked against its
//! component's manifest.

use super::draft::{Client, Device, Draft, DraftDomain};
use crate::class::{self, interface::NewClient};
use crate::description::system::{DomainTable, TOP_LEVEL};
use crate::plan::{LogLevel, Origin};
use culm_abi::connection::{Channel, Region};
use culm_manifest::problem::{nearest, suggest};
use culm_manifest::reader::{Entry, Problems};
use culm_manifest::{Connection, ConnectionKind, DeviceClass, Located, Manifest};

/// Resolves the connections of all `[pd]` tables, and gives every domain its log.
pub fn resolve(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.domains {
        // A table that could not be made a domain has been reported.
        let Some(domain) =
            draft.domains.iter().position(|domain| domain.origin == Origin::Description && domain.name == table.name)
        else {
            // Of a component that is not known, only what is near to a domain's own keys is known
            // to be wrong.
            for entry in &table.connections {
                if nearest(&entry.key.value, table.known.iter().copied()).is_some() {
                    unknown_key(draft, table, entry, None);
                }
            }
            continue;
        };
        for entry in &table.connections {
            resolve_entry(draft, table, domain, entry);
        }
        check_passive(draft, table, domain);
    }
}

fn resolve_entry<'a>(draft: &mut Draft<'a>, table: &DomainTable<'a>, domain: DraftDomain, entry: &Entry<'a>) {
    let manifest = draft.domains[domain].manifest;
    let Some((slot, connection)) = manifest.connection(&entry.key.value) else {
        let classes = manifest.connections.iter().filter(|connection| connection.kind.client_class().is_some());
        draft.unsure.extend(classes.clone().map(|connection| connection.kind));
        unknown_key(draft, table, entry, Some(manifest));
        return;
    };
    draft.named.insert((domain, slot));
    let Some(class) = connection.kind.client_class() else {
        let help = match connection.kind {
            kind if kind.is::<Channel>() => format!(
                "add a `[[channel]]` with `ends = [\"{}.{}\", \"pd.connection\"]`",
                table.name.value, connection.name
            ),
            kind if kind.is::<Region>() => {
                format!("add a `[[region]]` with `map = {{ \"{}.{}\" = \"rw\" }}`", table.name.value, connection.name)
            }
            _ => "expansion makes it".to_string(),
        };
        let message =
            format!("`{}` is of the kind `{}`: it leads to no device", entry.key.value, connection.kind.name());
        let diagnostic = draft.at(&entry.key.span, message).help(help);
        draft.error(diagnostic);
        return;
    };
    resolve_client(draft, table, (domain, slot), connection, class, entry);
}

fn unknown_key(draft: &mut Draft<'_>, table: &DomainTable<'_>, entry: &Entry<'_>, manifest: Option<&Manifest>) {
    let connections = manifest.map_or(&[][..], |manifest| &manifest.connections);
    let classes = connections.iter().filter(|connection| connection.kind.client_class().is_some());
    let names = classes.map(|connection| connection.name.as_str()).chain(table.known.iter().copied());
    let message = format!("unknown key `{}` in [pd.{}]", entry.key.value, table.name.value);
    if let Some((_, advice)) = TOP_LEVEL.iter().find(|(key, _)| *key == entry.key.value) {
        let diagnostic = draft.at(&entry.key.span, message).help(*advice);
        draft.error(diagnostic);
        return;
    }
    let help = suggest(&entry.key.value, names.clone()).unwrap_or_default();
    let help = match manifest {
        Some(manifest) if nearest(&entry.key.value, names).is_none() => {
            format!("{help}\n`{}` has these connections: {}", manifest.name, list(connections))
        }
        _ => help,
    };
    let diagnostic = draft.at(&entry.key.span, message).help(help.trim_start());
    draft.error(diagnostic);
}

fn list(connections: &[Connection]) -> String {
    if connections.is_empty() {
        return "none".to_string();
    }
    let all: Vec<String> =
        connections.iter().map(|connection| format!("`{}` ({})", connection.name, connection.kind.name())).collect();
    all.join(", ")
}

/// `connection = "device"`, or a table with `device` and options.
fn resolve_client<'a>(
    draft: &mut Draft<'a>,
    table: &DomainTable<'a>,
    (domain, slot): (DraftDomain, usize),
    connection: &Connection,
    class: DeviceClass,
    entry: &Entry<'a>,
) {
    if !entry.is_text() && !entry.is_table() {
        let in_use = draft.devices.iter().map(|device| device.board).filter(|device| device.class == class);
        let on_board = draft.board.board.devices.iter().filter(|device| device.class == class);
        let device = in_use.chain(on_board).next().map_or("…", |device| &device.name);
        let problem = entry.wrong("the name of a device, or a table with its options");
        let problem = problem.help(format!("write `{} = \"{device}\"`", entry.key.value));
        draft.diagnostics.extend(draft.source, [problem]);
        return;
    }
    let mut problems = Problems::new();
    let mut options = if entry.is_text() { None } else { entry.table(format!("`{}`", entry.key.value), &mut problems) };
    let name = match &mut options {
        Some(options) => options.require("device").and_then(|entry| entry.text(&mut problems)),
        None if problems.is_empty() => entry.text(&mut problems),
        None => None,
    };
    let device = name.as_ref().and_then(|name| find_device(draft, name, class, connection));
    let client = NewClient { table, domain, entry, device };
    let of_class = class::of(class).read_client(draft, &client, options.as_mut(), &mut problems);
    if let Some(options) = options {
        options.finish(&mut problems);
    }
    draft.diagnostics.extend(draft.source, problems);
    if let (Some(device), Some(of_class)) = (device, of_class) {
        let client = Client { domain, slot: Some(slot), connection: connection.name.clone(), device, of_class };
        draft.clients.push(client);
    }
}

/// The device in use that a connection names.
fn find_device(
    draft: &mut Draft<'_>,
    name: &Located<String>,
    class: DeviceClass,
    connection: &Connection,
) -> Option<usize> {
    if let Some(device) = draft.devices.iter().position(|device| device.board.name == name.value) {
        let found = draft.devices[device].board.class;
        if found != class {
            let message = format!(
                "`{}` is of the class `{}`, but `{}` is a connection of the kind `{}`",
                name.value,
                found.name(),
                connection.name,
                connection.kind.name()
            );
            let names = draft.devices.iter().filter(|device| device.board.class == class);
            let help = suggest("", names.map(|device| device.board.name.as_str()));
            let diagnostic = draft.at(&name.span, message).maybe_help(help);
            draft.error(diagnostic);
            return None;
        }
        return Some(device);
    }
    // A device whose table is there, but could not be resolved, has been reported.
    if draft.file.devices.iter().any(|table| table.name.value == name.value) {
        return None;
    }
    let on_board = draft.board.board.devices.iter().filter(|device| device.class == class);
    let names: Vec<&str> = on_board.map(|device| device.name.as_str()).collect();
    let diagnostic = if names.contains(&name.value.as_str()) {
        draft
            .at(&name.span, format!("the system does not use the device `{}`", name.value))
            .help(format!("add `[device.{}]` with the `priority` of its driver", name.value))
    } else {
        let message = format!("the board `{}` has no device `{}`", draft.board.board.name, name.value);
        draft.at(&name.span, message).maybe_help(suggest(&name.value, names.iter().copied()))
    };
    draft.error(diagnostic);
    None
}

/// A passive domain runs when it is called, so that nobody may notify it.
fn check_passive(draft: &mut Draft<'_>, table: &DomainTable<'_>, domain: DraftDomain) {
    if !draft.domains[domain].passive {
        return;
    }
    let manifest = draft.domains[domain].manifest;
    for entry in &table.connections {
        let class = manifest.connection(&entry.key.value).and_then(|(_, connection)| connection.kind.client_class());
        let (Some(class), Some(passive)) = (class, &table.passive) else { continue };
        let message = format!(
            "`{}` is passive: nobody may notify it, but the {} class would over `{}`",
            table.name.value,
            class.name(),
            entry.key.value
        );
        let diagnostic = draft
            .at(&entry.key.span, message)
            .related(draft.source, passive.span.clone(), "passive here")
            .help("leave out `passive`, or move the connection to an active domain that calls this one");
        draft.error(diagnostic);
    }
}

/// After everything that connects: what has not been connected must be optional.
pub fn check_complete(draft: &mut Draft<'_>) {
    add_logs(draft);
    if draft.file.channels_unsure {
        draft.unsure.insert(ConnectionKind::of::<Channel>());
    }
    if draft.file.regions_unsure {
        draft.unsure.insert(ConnectionKind::of::<Region>());
    }
    for index in 0..draft.domains.len() {
        let domain = draft.domains[index].clone();
        for (slot, connection) in domain.manifest.connections.iter().enumerate() {
            let is_known = draft.named.contains(&(index, slot)) || draft.unsure.contains(&connection.kind);
            if connection.optional || connection.kind.made_by_expansion() || is_known {
                continue;
            }
            let what = if connection.description.is_empty() {
                String::new()
            } else {
                format!(" ({})", connection.description)
            };
            let help = match connection.kind {
                kind if kind.is::<Channel>() => {
                    format!("add a `[[channel]]` with `ends = [\"{}.{}\", …]`", domain.name.value, connection.name)
                }
                kind if kind.is::<Region>() => {
                    format!("add a `[[region]]` with `map = {{ \"{}.{}\" = … }}`", domain.name.value, connection.name)
                }
                _ => format!("add `{} = \"…\"`, the name of a device", connection.name),
            };
            let message = format!("`{}` is not connected: `{}` is missing{what}", domain.name.value, connection.name);
            let diagnostic = draft.at(&domain.name.span, message).help(help);
            draft.error(diagnostic);
        }
    }
}

/// Logs go to the first device whose class takes them; its own virtualiser has none, for it would
/// talk to itself.
fn add_logs(draft: &mut Draft<'_>) {
    let takes_logs = |device: &Device<'_>| class::of(device.board.class).log().is_some();
    let Some(device) = draft.devices.iter().position(takes_logs) else { return };
    let class = class::of(draft.devices[device].board.class);
    for domain in 0..draft.domains.len() {
        if draft.domains[domain].log == LogLevel::Off || draft.devices[device].virtualisers.contains(&domain) {
            continue;
        }
        let Some(of_class) = class.log() else { continue };
        draft.clients.push(Client { domain, slot: None, connection: "log".to_string(), device, of_class });
    }
}
