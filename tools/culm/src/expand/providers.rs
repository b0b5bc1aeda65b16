//! Providers: what clients can name. A driver provides what its connections say, through its
//! class's virtualisers unless its device is used bare; any other component can provide a class in
//! a device's place.

use super::domains::{Making, make};
use super::draft::{Draft, DraftDevice, DraftDomain, Provider, Service};
use super::fused;
use crate::class::{
    self,
    interface::{Class, NewProvider},
};
use crate::description::system::{DeviceTable, DomainOptions};
use crate::plan::Origin;
use culm_manifest::problem::suggest;
use culm_manifest::reader::{Entry, Problems, TableReader};
use culm_manifest::{Connection, ConnectionKind, DeviceClass, Located, Manifest};

/// Returns what a component provides: positions in its manifest's list, the connections, their
/// classes.
fn provided(manifest: &Manifest) -> Vec<(usize, &Connection, DeviceClass)> {
    let connections = manifest.connections.iter().enumerate();
    connections.filter_map(|(slot, found)| Some((slot, found, found.kind.provided_class()?))).collect()
}

/// Adds what the driver of a device provides, with the virtualisers of each. A driver of several
/// has a table for each in the device's, by its connection's name.
pub fn add_driver<'a>(draft: &mut Draft<'a>, table: &'a DeviceTable<'a>, device: DraftDevice, place: (u8, u32)) {
    let domain = draft.devices[device].driver;
    let ports = provided(draft.domains[domain].manifest);
    let mut keys = table.keys.clone();
    fused::check(draft, table);
    if ports.iter().all(|(_, connection, _)| connection.kind.serves_clients()) {
        check_no_virtualisers(draft, table);
    }
    let is_single = ports.len() == 1;
    for (slot, connection, class) in ports {
        let implementation = class::of(class);
        let new = NewProvider { index: draft.providers.len(), device: Some(device) };
        let mut problems = Problems::new();
        let of_class = if is_single {
            implementation.read_provider(draft, new, Some(&mut keys), &mut problems)
        } else {
            let what = format!("`{}` of [device.{}]", connection.name, table.name.value);
            let mut port = keys.take(&connection.name).and_then(|entry| entry.table(what, &mut problems));
            let of_class = implementation.read_provider(draft, new, port.as_mut(), &mut problems);
            if let Some(port) = port {
                port.finish(&mut problems);
            }
            of_class
        };
        draft.diagnostics.extend(draft.source, problems);
        let name = &table.name.value;
        let name = if is_single { name.clone() } else { format!("{name}.{}", connection.name) };
        let service = service(draft, table, connection, implementation);
        let mut provider = Provider {
            base: &table.name,
            name,
            class,
            domain,
            slot,
            device: Some((device, table)),
            service,
            virtualisers: Vec::new(),
            of_class,
        };
        if service == Service::Shared && fused::is_asked_for(table) {
            // The driver's domain does the work of each.
            provider.virtualisers = implementation.virtualisers().iter().map(|_| domain).collect();
        } else if service == Service::Shared {
            let Some(virtualisers) = make_virtualisers(draft, table, &provider, place) else { continue };
            provider.virtualisers = virtualisers;
        }
        draft.providers.push(provider);
    }
    for (slot, connection) in draft.domains[domain].manifest.connections.iter().enumerate() {
        if !connection.named_by_key() {
            continue;
        }
        if let Some(entry) = keys.take(&connection.name) {
            draft.pending.push((domain, slot, entry));
        }
    }
    connect_virtualisers(draft, table, device);
    let known = draft.domains[domain].manifest.driver.as_ref().map_or(&[][..], |driver| &driver.classes);
    check_keys(draft, table, keys, known, is_single);
}

/// Further keys of `virtualiser` are connections of those virtualisers that have one so called.
fn connect_virtualisers<'a>(draft: &mut Draft<'a>, table: &DeviceTable<'a>, device: DraftDevice) {
    let Some(mut keys) = table.virtualiser_keys.clone() else { return };
    let own = draft.providers.iter().filter(|provider| provider.device.is_some_and(|(own, _)| own == device));
    let virtualisers: Vec<DraftDomain> = own.flat_map(|provider| provider.virtualisers.iter().copied()).collect();
    if virtualisers.is_empty() {
        // Why there are none has been reported.
        return;
    }
    let mut found: Vec<(DraftDomain, usize, Entry<'a>)> = Vec::new();
    for domain in virtualisers {
        let connections = draft.domains[domain].manifest.connections.iter().enumerate();
        for (slot, connection) in connections.filter(|(_, connection)| connection.named_by_key()) {
            let known =
                found.iter().find(|(.., entry)| entry.key.value == connection.name).map(|(.., entry)| entry.clone());
            if let Some(entry) = known.or_else(|| keys.take(&connection.name)) {
                found.push((domain, slot, entry));
            }
        }
    }
    draft.pending.extend(found);
    let mut problems = Problems::new();
    keys.finish(&mut problems);
    draft.diagnostics.extend(draft.source, problems);
}

/// Returns what stands between a driver's connection and its clients.
fn service(draft: &mut Draft<'_>, table: &DeviceTable<'_>, connection: &Connection, class: &dyn Class) -> Service {
    let bare = table.bare.as_ref().filter(|bare| bare.value);
    if connection.kind.serves_clients() {
        return Service::FarEnd;
    }
    let Some(bare) = bare else { return Service::Shared };
    if class.client_kind(Service::Bare).is_none() {
        let message =
            format!("`{}` cannot be used bare: the class `{}` has no such clients", table.name.value, class.name());
        let diagnostic = draft.at(&bare.span, message).help("leave `bare` out");
        draft.error(diagnostic);
        return Service::Shared;
    }
    if let Some(at) = &table.virtualiser_at {
        let diagnostic = draft
            .at(at, format!("`{}` is used bare, so that it has no virtualisers", table.name.value))
            .related(draft.source, bare.span.clone(), "bare here")
            .help("leave out one of the two");
        draft.error(diagnostic);
    }
    Service::Bare
}

/// A driver that serves its clients itself has no virtualisers, to be told something or left out.
fn check_no_virtualisers(draft: &mut Draft<'_>, table: &DeviceTable<'_>) {
    let bare = table.bare.as_ref().filter(|bare| bare.value).map(|bare| ("bare", bare.span.clone()));
    let given = table.virtualiser_at.clone().map(|span| ("virtualiser", span));
    for (key, span) in bare.into_iter().chain(given) {
        let diagnostic = draft
            .at(
                &span,
                format!("`{key}` means nothing for `{}`: its driver serves each client itself", table.name.value),
            )
            .help(format!("leave `{key}` out"));
        draft.error(diagnostic);
    }
}

/// Adds what `[pd]` tables provide, by the manifests of their components.
pub fn add_domains(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.domains {
        let is_own =
            |domain: &super::draft::Domain<'_>| domain.origin == Origin::Description && domain.name == table.name;
        let Some(domain) = draft.domains.iter().position(is_own) else { continue };
        let ports = provided(draft.domains[domain].manifest);
        if ports.is_empty() {
            continue;
        }
        if let Some(device) = file.devices.iter().find(|device| device.name.value == table.name.value) {
            let diagnostic = draft
                .at(&table.name.span, format!("clients of `{}` could mean a device or this domain", table.name.value))
                .related(draft.source, device.name.span.clone(), "the device")
                .help("choose another name for the domain");
            draft.error(diagnostic);
            continue;
        }
        let several = ports.len() > 1;
        for (slot, connection, class) in ports {
            let new = NewProvider { index: draft.providers.len(), device: None };
            let mut problems = Problems::new();
            let of_class = class::of(class).read_provider(draft, new, None, &mut problems);
            draft.diagnostics.extend(draft.source, problems);
            let name = &table.name.value;
            draft.providers.push(Provider {
                base: &table.name,
                name: if several { format!("{name}.{}", connection.name) } else { name.clone() },
                class,
                domain,
                slot,
                device: None,
                service: Service::FarEnd,
                virtualisers: Vec::new(),
                of_class,
            });
        }
    }
}

/// The provider of a class that a client names: `card0`, or `card0.left` where that provides
/// several.
pub fn find(
    draft: &mut Draft<'_>,
    name: &Located<String>,
    class: DeviceClass,
    connection: &Connection,
) -> Option<usize> {
    let (base, port) = match name.value.split_once('.') {
        Some((base, port)) => (base, Some(port)),
        None => (name.value.as_str(), None),
    };
    let of_base = || draft.providers.iter().enumerate().filter(|(_, provider)| provider.base.value == base);
    let is_port = |provider: &Provider<'_>| port.is_none_or(|port| provider.connection(draft).name == port);
    let of_class: Vec<usize> =
        of_base().filter(|(_, provider)| provider.class == class).map(|(index, _)| index).collect();
    let found: Vec<usize> = of_class.iter().copied().filter(|provider| is_port(&draft.providers[*provider])).collect();
    let names = |all: &[usize]| {
        let name = |provider: &usize| format!("{base}.{}", draft.providers[*provider].connection(draft).name);
        all.iter().map(name).collect::<Vec<_>>()
    };
    let diagnostic = match (&found[..], &of_class[..]) {
        ([provider], _) => return Some(*provider),
        ([], []) if of_base().next().is_none() => return unknown(draft, name, base, class),
        ([], []) => {
            let (_, other) = of_base().next()?;
            let message = format!(
                "`{base}` is of the class `{}`, but `{}` is a connection of the kind `{}`",
                other.class.name(),
                connection.name,
                connection.kind.name()
            );
            let names = draft.providers.iter().filter(|provider| provider.class == class);
            let on_board = draft.board.board.devices.iter().filter(|device| device.is_of(class));
            let names = names.map(|provider| &provider.name).chain(on_board.map(|device| &device.name));
            let mut names: Vec<&str> = names.map(String::as_str).collect();
            names.sort_unstable();
            names.dedup();
            let advice = suggest("", names.iter().copied());
            draft.at(&name.span, message).help(advice.unwrap_or_else(|| components_that_provide(draft, class)))
        }
        ([], of_class) => {
            let message =
                format!("`{base}` provides the class `{}` by no `{}`", class.name(), port.unwrap_or_default());
            let names = names(of_class);
            draft.at(&name.span, message).maybe_help(suggest(&name.value, names.iter().map(String::as_str)))
        }
        (several, _) => draft
            .at(&name.span, format!("`{base}` provides the class `{}` more than once", class.name()))
            .help(format!("choose one of `{}`", names(several).join("`, `"))),
    };
    draft.error(diagnostic);
    None
}

/// Returns the name of a provider of a class, in use or on the board, as an example.
pub fn example(draft: &Draft<'_>, class: DeviceClass) -> String {
    let in_use = draft.providers.iter().filter(|provider| provider.class == class).map(|provider| &provider.name);
    let on_board = draft.board.board.devices.iter().filter(|device| device.is_of(class)).map(|device| &device.name);
    in_use.chain(on_board).next().map_or_else(|| "…".to_string(), String::clone)
}

/// Returns advice for a class of which nothing in use and nothing on the board is: the components
/// that provide it.
fn components_that_provide(draft: &Draft<'_>, class: DeviceClass) -> String {
    let provides = |manifest: &Manifest| {
        let kinds = manifest.connections.iter().map(|connection| connection.kind);
        kinds.into_iter().any(|kind| kind.serves_clients() && kind.provided_class() == Some(class))
    };
    let manifests = draft.offered().filter_map(|(_, component)| component.manifest.as_ref().ok());
    let names: Vec<String> =
        manifests.filter(|manifest| provides(manifest)).map(|manifest| format!("`{}`", manifest.name)).collect();
    let what = if names.len() == 1 { "the component" } else { "one of the components" };
    let (names, class) = (names.join(", "), class.name());
    if names.is_empty() {
        return format!("choose a board with a device of the class `{class}`: no component provides it without one");
    }
    format!("add a `[pd]` of {what} {names}, which provides the class `{class}`, and name that")
}

/// Reports that nothing in use has this name, unless what has it has been reported.
fn unknown(draft: &mut Draft<'_>, name: &Located<String>, base: &str, class: DeviceClass) -> Option<usize> {
    if draft.file.devices.iter().any(|table| table.name.value == base) {
        return None;
    }
    let provided = draft.providers.iter().filter(|provider| provider.class == class && provider.device.is_none());
    let on_board = draft.board.board.devices.iter().filter(|device| device.is_of(class));
    let on_board: Vec<&str> = on_board.map(|device| device.name.as_str()).collect();
    let names: Vec<&str> = on_board.iter().copied().chain(provided.map(|provider| provider.name.as_str())).collect();
    let advice = || suggest(base, names.iter().copied()).unwrap_or_else(|| components_that_provide(draft, class));
    let diagnostic = if on_board.contains(&base) {
        draft
            .at(&name.span, format!("the system does not use the device `{base}`"))
            .help(format!("add `[device.{base}]` with the `priority` of its driver"))
    } else if let Some(table) = draft.file.domains.iter().find(|table| table.name.value == base) {
        // A domain that could not be made has been reported.
        let domain = draft.domain(base)?;
        let component = &draft.domains[domain].manifest.name;
        draft
            .at(&name.span, format!("`{base}` does not provide the class `{}`", class.name()))
            .related(
                draft.source,
                table.name.span.clone(),
                format!("the manifest of `{component}` has no such connection"),
            )
            .help(advice())
    } else {
        let message = format!("the board `{}` has no device `{base}`", draft.board.board.name);
        draft.at(&name.span, message).help(advice())
    };
    draft.error(diagnostic);
    None
}

/// After everything that connects: whether each provider can serve its clients.
pub fn check_clients(draft: &mut Draft<'_>) {
    for provider in 0..draft.providers.len() {
        check_bare(draft, provider);
        class::of(draft.providers[provider].class).check_provider(draft, provider);
    }
}

/// The queues of a device that is used bare have one other end, and are not without it.
fn check_bare(draft: &mut Draft<'_>, provider: usize) {
    if draft.providers[provider].service != Service::Bare {
        return;
    }
    let mut spans = draft.clients_of(provider).map(|client| draft.domains[client.domain].name.span.clone());
    let (first, second) = (spans.next(), spans.next());
    drop(spans);
    let Some(first) = first else { return check_is_used(draft, provider) };
    let Some(second) = second else { return };
    let diagnostic = draft
        .at(&second, format!("a second client of `{}`, which is used bare", draft.providers[provider].name))
        .related(draft.source, first, "the first")
        .help("leave `bare` out: then virtualisers share it");
    draft.error(diagnostic);
}

/// Refuses a bare device without a client, unless that one could not be connected.
fn check_is_used(draft: &mut Draft<'_>, provider: usize) {
    let provider = &draft.providers[provider];
    let bare = provider.device.and_then(|(_, table)| table.bare.as_ref());
    let (Some(bare), true) = (bare, draft.diagnostics.is_empty()) else { return };
    let kind = class::of(provider.class).client_kind(Service::Bare).map_or("", ConnectionKind::name);
    let diagnostic = draft
        .at(&bare.span, format!("nobody uses `{}`, which is bare: its driver would have no queues", provider.name))
        .help(format!("name it in a `[pd]` by a connection of the kind `{kind}`, or leave `bare` out"));
    draft.error(diagnostic);
}

/// Checks the keys of a device for which there is no driver: those of its classes pass.
pub fn check_unresolved<'a>(draft: &mut Draft<'a>, table: &DeviceTable<'a>, classes: &[DeviceClass]) {
    check_keys(draft, table, table.keys.clone(), classes, true);
}

/// Reports the keys that the device's classes do not know: those of another class, and those that
/// nobody knows. Where the class is not known, those of each class pass. A driver that provides
/// several has their keys (not `is_single`) in a table for each.
fn check_keys<'a>(
    draft: &mut Draft<'a>,
    table: &DeviceTable<'a>,
    mut keys: TableReader<'a>,
    classes: &[DeviceClass],
    is_single: bool,
) {
    let own: Vec<&str> = classes.iter().flat_map(|class| class_keys(class::of(*class))).collect();
    for key in &own {
        let (Some(entry), false) = (keys.take(key), is_single) else { continue };
        let diagnostic = draft
            .at(&entry.span(), format!("`{key}` of which? `{}` provides several", table.name.value))
            .help("say it in a table of the connection's name, within this one");
        draft.error(diagnostic);
    }
    for key in class::all().flat_map(class_keys).filter(|key| !own.contains(key)) {
        let (Some(entry), false) = (keys.take(key), classes.is_empty()) else { continue };
        let name = &table.name.value;
        let classes: Vec<&str> = classes.iter().map(|class| class.name()).collect();
        let diagnostic = draft
            .at(&entry.span(), format!("`{key}` means nothing for `{name}`"))
            .help(format!("it is a device of the class `{}`; leave `{key}` out", classes.join("` and `")));
        draft.error(diagnostic);
    }
    let mut problems = Problems::new();
    keys.finish(&mut problems);
    draft.diagnostics.extend(draft.source, problems);
}

fn class_keys(class: &'static dyn Class) -> Vec<&'static str> {
    class.device_keys().iter().map(|key| key.name).collect()
}

/// Virtualisers run one priority below their driver and on its core, unless the table says
/// otherwise.
fn make_virtualisers<'a>(
    draft: &mut Draft<'a>,
    table: &'a DeviceTable<'a>,
    provider: &Provider<'a>,
    (priority, core): (u8, u32),
) -> Option<Vec<DraftDomain>> {
    let options: &'a DomainOptions = &table.virtualiser;
    let kinds = class::of(provider.class).virtualisers();
    if priority == 0 && options.priority.is_none() && !kinds.is_empty() {
        let span = table.options.priority.as_ref().map_or(&table.name.span, |priority| &priority.span);
        let diagnostic = draft
            .at(span, format!("the virtualisers of `{}` have no room below priority 0", provider.name))
            .help("raise the driver's priority, or give the virtualisers one: `virtualiser = { priority = … }`");
        draft.error(diagnostic);
    }
    let index = draft.providers.len();
    let mut made = Vec::new();
    for kind in kinds {
        let (component, manifest) = draft.own_component(kind.component, &table.name.span)?;
        require_connection(draft, table, manifest, kind.connection)?;
        let domain = make(
            draft,
            Making {
                name: Located::new(format!("{}_{}", provider.prefix(), kind.suffix), table.name.span.clone()),
                component,
                manifest,
                origin: Origin::Virtualiser(index),
                options,
                priority: priority.saturating_sub(1),
                core,
                config: None,
            },
        );
        draft.domains.push(domain);
        made.push(draft.domains.len() - 1);
    }
    Some(made)
}

/// A component that expansion adds must have the connection that it is added for.
fn require_connection(
    draft: &mut Draft<'_>,
    table: &DeviceTable<'_>,
    manifest: &Manifest,
    kind: ConnectionKind,
) -> Option<()> {
    if manifest.connection_of_kind(kind).is_some() {
        return Some(());
    }
    let message = format!("the manifest of `{}` lists no connection of the kind `{}`", manifest.name, kind.name());
    let diagnostic = draft.at(&table.name.span, message).help("expansion adds the component for that connection");
    draft.error(diagnostic);
    None
}
