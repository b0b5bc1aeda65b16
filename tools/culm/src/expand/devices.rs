//! Devices in use: each brings its driver and its class's virtualisers.

use super::domains::{Making, make, require_priority};
use super::draft::{Device, Draft, DraftDomain};
use crate::class::{self, interface::Class};
use crate::description::board::in_words;
use crate::description::catalogue::{Catalogue, CatalogueComponent};
use crate::description::system::{DeviceTable, DomainOptions};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::plan::{BoardDevice, Origin};
use culm_manifest::problem::suggest;
use culm_manifest::reader::{Problems, TableReader};
use culm_manifest::units::format_size;
use culm_manifest::{ConnectionKind, DeviceClass, Located, Manifest};

/// Resolves the `[device]` tables.
pub fn resolve(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.devices {
        resolve_table(draft, table);
    }
    check_shared(draft);
}

fn resolve_table<'a>(draft: &mut Draft<'a>, table: &'a DeviceTable<'a>) {
    if table.lacks_priority {
        require_priority(draft, &table.name, "device");
    }
    let board = draft.board;
    let Some(position) = board.board.devices.iter().position(|device| device.name == table.name.value) else {
        let help = suggest(&table.name.value, board.board.devices.iter().map(|device| device.name.as_str()));
        let message = format!("the board `{}` has no device `{}`", board.board.name, table.name.value);
        let diagnostic = draft.at(&table.name.span, message).maybe_help(help);
        draft.error(diagnostic);
        check_keys(draft, table, table.keys.clone(), None);
        return;
    };
    let device = &board.board.devices[position];
    let class = class::of(device.class);
    let index = draft.devices.len();
    let (mut keys, mut problems) = (table.keys.clone(), Problems::new());
    let of_class = class.read_device(draft, index, &mut keys, &mut problems);
    draft.diagnostics.extend(draft.source, problems);
    check_keys(draft, table, keys, Some(class));
    let Some((component, manifest)) = find_driver(draft, table, device) else { return };
    check_needs(draft, table, device, manifest);
    let priority = table.options.priority.as_ref().map_or(1, |priority| priority.value);
    let driver = make(
        draft,
        Making {
            name: Located::new(format!("{}_driver", device.name), table.name.span.clone()),
            component,
            manifest,
            origin: Origin::Driver(index),
            options: &table.options,
            priority,
            core: 0,
            config: table.config.clone(),
        },
    );
    let core = driver.core;
    draft.domains.push(driver);
    let driver = draft.domains.len() - 1;
    let Some(virtualisers) = make_virtualisers(draft, table, device, index, (priority, core)) else { return };
    let board_span = board.device_spans[position].clone();
    draft.devices.push(Device { table, board: device, board_span, driver, virtualisers, of_class });
}

/// After everything that connects: whether each device can serve its clients.
pub fn check_clients(draft: &mut Draft<'_>) {
    for device in 0..draft.devices.len() {
        class::of(draft.devices[device].board.class).check_device(draft, device);
    }
}

/// Reports the keys that the device's class does not know: those of another class, and those that
/// nobody knows. Where the class is not known, those of each class pass.
fn check_keys<'a>(
    draft: &mut Draft<'a>,
    table: &DeviceTable<'a>,
    mut keys: TableReader<'a>,
    class: Option<&'static dyn Class>,
) {
    let own: Vec<&str> = class.map_or_else(Vec::new, class_keys);
    for key in class::all().flat_map(class_keys).filter(|key| !own.contains(key)) {
        let (Some(entry), Some(class)) = (keys.take(key), class) else { continue };
        let name = &table.name.value;
        let diagnostic = draft
            .at(&entry.span(), format!("`{key}` means nothing for `{name}`"))
            .help(format!("it is a device of the class `{}`; leave `{key}` out", class.name()));
        draft.error(diagnostic);
    }
    let mut problems = Problems::new();
    keys.finish(&mut problems);
    draft.diagnostics.extend(draft.source, problems);
}

fn class_keys(class: &'static dyn Class) -> Vec<&'static str> {
    class.device_keys().iter().map(|key| key.name).collect()
}

fn find_driver<'a>(
    draft: &mut Draft<'a>,
    table: &'a DeviceTable<'a>,
    device: &BoardDevice,
) -> Option<(&'a CatalogueComponent, &'a Manifest)> {
    if let Some(name) = &table.driver {
        let is_driver = |component: &CatalogueComponent| {
            let driver = component.manifest.as_ref().ok().and_then(|manifest| manifest.driver.as_ref());
            driver.is_some_and(|driver| driver.class == device.class)
        };
        let (component, manifest) = draft.component_for("driver", is_driver, &name.value, &name.span)?;
        if manifest.driver.as_ref().is_none_or(|driver| driver.class != device.class) {
            let message = format!("`{}` is no driver of the class `{}`", name.value, device.class.name());
            let diagnostic = draft.at(&name.span, message).maybe_help(driver_names(draft, device.class));
            draft.error(diagnostic);
            return None;
        }
        return Some((component, manifest));
    }
    let catalogue = draft.catalogue;
    let drivers: Vec<_> = draft
        .offered()
        .filter_map(|(_, component)| Some((component, component.manifest.as_ref().ok()?)))
        .filter(|(_, manifest)| {
            manifest
                .driver
                .as_ref()
                .is_some_and(|driver| driver.class == device.class && driver.compatible.contains(&device.compatible))
        })
        .collect();
    match drivers[..] {
        [driver] => Some(driver),
        [] => {
            let message = format!("no driver says that it is for `{}`", device.compatible);
            let diagnostic = draft
                .at(&table.name.span, message)
                .related(&draft.board.source, device_span(draft, device), "the device")
                .maybe_help(
                    driver_names(draft, device.class).map(|names| format!("`driver = …` chooses one: {names}")),
                );
            draft.error(diagnostic);
            // One of those that could not be read may be the driver that is missing.
            for mistakes in unreadable_drivers(catalogue) {
                draft.diagnostics.append(mistakes);
            }
            None
        }
        _ => {
            let names: Vec<&str> = drivers.iter().map(|(_, manifest)| manifest.name.as_str()).collect();
            let mut diagnostic = draft
                .at(&table.name.span, format!("{} drivers say that they are for `{}`", names.len(), device.compatible))
                .help(format!("choose one by `driver = …`: `{}`", names.join("`, `")));
            for (component, manifest) in &drivers {
                let source = catalogue.source(&component.folder.join("component.toml"));
                if let (Ok(source), Some(driver)) = (source, &manifest.driver) {
                    diagnostic = diagnostic.related(&source, driver.span.clone(), "one that says so");
                }
            }
            draft.error(diagnostic);
            None
        }
    }
}

/// A driver with less of a device than it uses could not start: the mistake is the board's.
fn check_needs(draft: &mut Draft<'_>, table: &DeviceTable<'_>, device: &BoardDevice, manifest: &Manifest) {
    let Some(driver) = &manifest.driver else { return };
    let (name, user) = (&device.name, &manifest.name);
    let mut lacks: Vec<(String, String)> = Vec::new();
    if device.registers.size < driver.registers {
        lacks.push((
            format!("the {:#x} bytes of registers of `{name}` are fewer than `{user}` uses", device.registers.size),
            format!("give `registers` a `size` of {:#x} at least", driver.registers),
        ));
    }
    let interrupts = device.interrupts.len() as u64;
    if interrupts < driver.interrupts {
        let has = if interrupts == 0 { "no interrupt".to_string() } else { format!("{interrupts} of them") };
        lacks.push((
            format!("`{user}` uses {} of `{name}`, which has {has}", interrupts_in_words(driver.interrupts)),
            "list them, in the driver's order: `interrupts = [{ number = 33, trigger = \"level\" }]`, say".to_string(),
        ));
    }
    if device.dma < driver.dma {
        let needed = format_size(driver.dma);
        lacks.push((
            format!(
                "`{user}` uses {needed} of memory for `{name}`'s own structures, which has {}",
                format_size(device.dma)
            ),
            format!("give it at least `dma = \"{needed}\"`"),
        ));
    }
    for (message, help) in lacks {
        let diagnostic = Diagnostic::at(&draft.board.source, device_span(draft, device), message)
            .related(draft.source, table.name.span.clone(), "where it is used")
            .help(format!("{help}, or choose another driver by `driver = …`"));
        draft.error(diagnostic);
    }
}

fn interrupts_in_words(count: u64) -> String {
    if count == 1 { "an interrupt".to_string() } else { format!("{count} interrupts") }
}

/// What is wrong with the manifests of drivers that could not be read.
fn unreadable_drivers(catalogue: &Catalogue) -> impl Iterator<Item = &Diagnostics> {
    let is_driver = |component: &&CatalogueComponent| component.folder.starts_with(catalogue.root.join("drivers"));
    catalogue.components.values().filter(is_driver).filter_map(|component| component.manifest.as_ref().err())
}

fn device_span(draft: &Draft<'_>, device: &BoardDevice) -> std::ops::Range<usize> {
    let position = draft.board.board.devices.iter().position(|other| other.name == device.name);
    position.map_or(0..0, |position| draft.board.device_spans[position].clone())
}

/// The drivers of a class, for advice.
fn driver_names(draft: &Draft<'_>, class: DeviceClass) -> Option<String> {
    let names: Vec<&str> = draft
        .offered()
        .filter_map(|(_, component)| component.manifest.as_ref().ok())
        .filter(|manifest| manifest.driver.as_ref().is_some_and(|driver| driver.class == class))
        .map(|manifest| manifest.name.as_str())
        .collect();
    (!names.is_empty()).then(|| format!("the drivers of this class are `{}`", names.join("`, `")))
}

/// Virtualisers run one priority below their driver and on its core, unless the table says
/// otherwise.
fn make_virtualisers<'a>(
    draft: &mut Draft<'a>,
    table: &'a DeviceTable<'a>,
    device: &BoardDevice,
    index: usize,
    (priority, core): (u8, u32),
) -> Option<Vec<DraftDomain>> {
    let options: &'a DomainOptions = &table.virtualiser;
    if priority == 0 && options.priority.is_none() {
        let span = table.options.priority.as_ref().map_or(&table.name.span, |priority| &priority.span);
        let diagnostic = draft
            .at(span, format!("the virtualisers of `{}` have no room below priority 0", device.name))
            .help("raise the driver's priority, or give the virtualisers one: `virtualiser = { priority = … }`");
        draft.error(diagnostic);
    }
    let mut made = Vec::new();
    for kind in class::of(device.class).virtualisers() {
        let (component, manifest) = draft.own_component(kind.component, &table.name.span)?;
        require_connection(draft, table, manifest, kind.connection)?;
        let domain = make(
            draft,
            Making {
                name: Located::new(format!("{}_{}", device.name, kind.suffix), table.name.span.clone()),
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
pub fn require_connection(
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

/// Two devices in use must not share an interrupt, nor a page of registers: that would join their
/// drivers.
fn check_shared(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for (index, device) in draft.devices.iter().enumerate() {
        for other in &draft.devices[..index] {
            let shared = device
                .board
                .interrupts
                .iter()
                .find(|interrupt| other.board.interrupts.iter().any(|owned| owned.number == interrupt.number));
            if let Some(interrupt) = shared {
                found.push(
                    draft
                        .at(
                            &device.table.name.span,
                            format!(
                                "two owners of interrupt {}: `{}` and `{}`",
                                interrupt.number, other.board.name, device.board.name
                            ),
                        )
                        .related(draft.source, other.table.name.span.clone(), "the other owner")
                        .related(&draft.board.source, device.board_span.clone(), "where the board has it")
                        .help("an interrupt is delivered to one driver; use one of the two devices only"),
                );
            }
            if device.board.registers.pages().overlaps(other.board.registers.pages()) {
                found.push(
                    draft
                        .at(
                            &device.table.name.span,
                            format!("the registers of `{}` and `{}` share a page", other.board.name, device.board.name),
                        )
                        .related(draft.source, other.table.name.span.clone(), "the other device")
                        .help(format!(
                            "memory is protected by pages of 4 KiB, so that either driver could reach both devices \
                             ({} and {}); use a device on another page",
                            in_words(other.board.registers),
                            in_words(device.board.registers)
                        )),
                );
            }
        }
    }
    for diagnostic in found {
        draft.error(diagnostic);
    }
}
