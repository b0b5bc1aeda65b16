//! A domain's own keys: connections by class, each the name of a provider, and devices that it
//! owns, checked against its component's manifest.

use super::devices;
use super::draft::{Client, Draft, DraftDomain, DraftProvider, Provider, Service};
use super::guests;
use super::providers;
use crate::class::{self, interface::NewClient};
use crate::description::system::{DomainTable, TOP_LEVEL};
use crate::plan::{LogLevel, Origin};
use culm_abi::connection::{Channel, Guest, Region};
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
    for (domain, slot, entry) in std::mem::take(&mut draft.pending) {
        connect(draft, domain, slot, &entry);
    }
}

fn resolve_entry<'a>(draft: &mut Draft<'a>, table: &DomainTable<'a>, domain: DraftDomain, entry: &Entry<'a>) {
    let manifest = draft.domains[domain].manifest;
    let Some((slot, _)) = manifest.connection(&entry.key.value) else {
        let classes = manifest.connections.iter().filter(|connection| connection.named_by_key());
        draft.unsure.extend(classes.clone().map(|connection| connection.kind));
        unknown_key(draft, table, entry, Some(manifest));
        return;
    };
    connect(draft, domain, slot, entry);
}

/// Connects a domain as one of its keys says.
fn connect<'a>(draft: &mut Draft<'a>, domain: DraftDomain, slot: usize, entry: &Entry<'a>) {
    let connection = &draft.domains[domain].manifest.connections[slot];
    let name = draft.domains[domain].name.value.clone();
    draft.named.insert((domain, slot));
    if let Some(needs) = &connection.needs {
        let mut problems = Problems::new();
        let name = entry.text(&mut problems);
        draft.diagnostics.extend(draft.source, problems);
        if let Some(name) = name {
            devices::resolve_owned(draft, domain, slot, needs, &name);
        }
        return;
    }
    if connection.kind.is::<Guest>() {
        let mut problems = Problems::new();
        let name = entry.text(&mut problems);
        draft.diagnostics.extend(draft.source, problems);
        if let Some(name) = name {
            guests::resolve(draft, domain, slot, &name);
        }
        return;
    }
    let Some(class) = connection.kind.client_class() else {
        let help = match connection.kind {
            kind if kind.is::<Channel>() => {
                format!("add a `[[channel]]` with `ends = [\"{name}.{}\", \"pd.connection\"]`", connection.name)
            }
            kind if kind.is::<Region>() => {
                format!("add a `[[region]]` with `map = {{ \"{name}.{}\" = \"rw\" }}`", connection.name)
            }
            kind if kind.serves_clients() => {
                format!("leave it out: clients come by keys of their own, which name `{name}`")
            }
            _ => "expansion makes it".to_string(),
        };
        let message =
            format!("`{}` is of the kind `{}`: it leads to no device", entry.key.value, connection.kind.name());
        let diagnostic = draft.at(&entry.key.span, message).help(help);
        draft.error(diagnostic);
        return;
    };
    resolve_client(draft, (domain, slot), connection, class, entry);
}

fn unknown_key(draft: &mut Draft<'_>, table: &DomainTable<'_>, entry: &Entry<'_>, manifest: Option<&Manifest>) {
    let connections = manifest.map_or(&[][..], |manifest| &manifest.connections);
    let classes = connections.iter().filter(|connection| connection.named_by_key());
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

/// `connection = "provider"`, or a table with `device`, which is the provider, and options.
fn resolve_client<'a>(
    draft: &mut Draft<'a>,
    (domain, slot): (DraftDomain, usize),
    connection: &Connection,
    class: DeviceClass,
    entry: &Entry<'a>,
) {
    if !entry.is_text() && !entry.is_table() {
        let name = providers::example(draft, class);
        let problem = entry.wrong("the name of a device, or a table with its options");
        let problem = problem.help(format!("write `{} = \"{name}\"`", entry.key.value));
        draft.diagnostics.extend(draft.source, [problem]);
        return;
    }
    check_required(draft, connection, entry);
    let mut problems = Problems::new();
    let mut options = if entry.is_text() { None } else { entry.table(format!("`{}`", entry.key.value), &mut problems) };
    let name = match &mut options {
        Some(options) => options.require("device").and_then(|entry| entry.text(&mut problems)),
        None if problems.is_empty() => entry.text(&mut problems),
        None => None,
    };
    let provider = name.as_ref().and_then(|name| {
        let provider = providers::find(draft, name, class, connection)?;
        let is_other = check_other(draft, name, provider, domain);
        (is_other && check_kind(draft, name, provider, connection)).then_some(provider)
    });
    let client = NewClient { domain, entry, provider };
    let of_class = class::of(class).read_client(draft, &client, options.as_mut(), &mut problems);
    if let Some(options) = options {
        options.finish(&mut problems);
    }
    draft.diagnostics.extend(draft.source, problems);
    if let (Some(provider), Some(of_class)) = (provider, of_class) {
        let (connection, named_at) = (connection.name.clone(), name.map(|name| name.span));
        let client = Client { domain, slot: Some(slot), connection, provider, named_at, of_class };
        draft.clients.push(client);
    }
}

/// Checks that a client has the options without which its component can do nothing.
fn check_required(draft: &mut Draft<'_>, connection: &Connection, entry: &Entry<'_>) {
    // A value is checked by whoever reads it.
    let mut ignored = Problems::new();
    let mut options = if entry.is_table() { entry.table("", &mut ignored) } else { None };
    for key in &connection.requires {
        let given = options.as_mut().and_then(|options| options.take(&key.value));
        let given = given.map(|entry| entry.boolean(&mut ignored).is_none_or(|flag| flag.value));
        if given == Some(true) {
            continue;
        }
        let message = format!("`{}` is of no use without `{} = true`", connection.name, key.value);
        let help = match entry.text(&mut ignored) {
            None => format!("add `{} = true` to its table", key.value),
            Some(name) => {
                format!("write `{} = {{ device = \"{}\", {} = true }}`", connection.name, name.value, key.value)
            }
        };
        let diagnostic = draft.at(&entry.span(), message).help(help);
        draft.error(diagnostic);
    }
}

/// Checks that nobody is a client of its own.
fn check_other(draft: &mut Draft<'_>, name: &Located<String>, provider: DraftProvider, domain: DraftDomain) -> bool {
    let is_other = draft.providers[provider].domain != domain;
    if !is_other {
        let diagnostic = draft
            .at(&name.span, format!("`{}` would be a client of its own", name.value))
            .help("name another provider");
        draft.error(diagnostic);
    }
    is_other
}

/// Checks that a client's connection is of the kind that goes with how the provider serves.
fn check_kind(draft: &mut Draft<'_>, name: &Located<String>, provider: DraftProvider, connection: &Connection) -> bool {
    let provider = &draft.providers[provider];
    let class = class::of(provider.class);
    if class.client_kind(provider.service) == Some(connection.kind) {
        return true;
    }
    let (kind, base) = (connection.kind.name(), &provider.base.value);
    let wanted = class.client_kind(provider.service).map_or("", ConnectionKind::name);
    let mut diagnostic = draft
        .at(&name.span, format!("`{}` has clients by connections of the kind `{wanted}`, not `{kind}`", provider.name));
    let bare = provider.device.and_then(|(_, table)| table.bare.as_ref());
    if let (Service::Bare, Some(bare)) = (provider.service, bare) {
        diagnostic = diagnostic
            .related(draft.source, bare.span.clone(), "bare here")
            .help("leave `bare` out: then virtualisers share it among clients of that kind");
    } else if class.client_kind(Service::Bare) == Some(connection.kind) && provider.device.is_some() {
        diagnostic =
            diagnostic.help(format!("that one has a device to itself: write `bare = true` in [device.{base}]"));
    }
    draft.error(diagnostic);
    false
}

/// A passive domain runs when it is called, so that nobody may notify it.
fn check_passive(draft: &mut Draft<'_>, table: &DomainTable<'_>, domain: DraftDomain) {
    if !draft.domains[domain].passive {
        return;
    }
    let manifest = draft.domains[domain].manifest;
    let own = draft.providers.iter().filter(|provider| provider.domain == domain);
    let notified: Vec<&Connection> = own
        .filter(|provider| class::of(provider.class).notifies())
        .map(|provider| &manifest.connections[provider.slot])
        .collect();
    for connection in notified {
        let span = table.passive.as_ref().map_or(&table.span, |passive| &passive.span);
        let message = format!(
            "`{}` is passive: nobody may notify it, but its clients would over `{}`",
            table.name.value, connection.name
        );
        let diagnostic = draft.at(span, message).help("leave out `passive`");
        draft.error(diagnostic);
    }
    for entry in &table.connections {
        let class = manifest.connection(&entry.key.value).and_then(|(_, connection)| connection.kind.client_class());
        let (Some(class), Some(passive)) = (class, &table.passive) else { continue };
        if !class::of(class).notifies() {
            continue;
        }
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
            let is_described = connection.kind.waits_for_description() || connection.needs.is_some();
            if connection.optional || !is_described || is_known {
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
                kind if kind.is::<Guest>() => {
                    format!("add `{} = \"…\"`, the name of a `[guest.NAME]`", connection.name)
                }
                kind => {
                    let class = kind.client_class();
                    let name = class.map_or_else(|| "…".to_string(), |class| providers::example(draft, class));
                    format!("add `{} = \"{name}\"`, the name of a device", connection.name)
                }
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
    let takes_logs =
        |provider: &Provider<'_>| provider.service == Service::Shared && class::of(provider.class).log().is_some();
    let Some(provider) = draft.providers.iter().position(takes_logs) else { return };
    let class = class::of(draft.providers[provider].class);
    for domain in 0..draft.domains.len() {
        if draft.domains[domain].log == LogLevel::Off || draft.providers[provider].virtualisers.contains(&domain) {
            continue;
        }
        let Some(of_class) = class.log() else { continue };
        let connection = "log".to_string();
        draft.clients.push(Client { domain, slot: None, connection, provider, named_at: None, of_class });
    }
}
