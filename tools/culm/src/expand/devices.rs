//! Devices in use: each brings its driver, or belongs to the domain that names it.

use super::domains::{Making, make, require_priority};
use super::draft::{Device, Draft, DraftDomain};
use super::fused;
use super::providers;
use crate::description::catalogue::{Catalogue, CatalogueComponent};
use crate::description::resources::in_words;
use crate::description::system::DeviceTable;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::plan::{BoardDevice, Origin};
use culm_manifest::problem::suggest;
use culm_manifest::units::format_size;
use culm_manifest::{ConnectionKind, Located, Manifest, Needs};
use std::ops::Range;

/// Resolves the `[device]` tables.
pub fn resolve(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.devices {
        resolve_table(draft, table);
    }
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
        providers::check_unresolved(draft, table, &[]);
        return;
    };
    let device = &board.board.devices[position];
    let Some((component, manifest)) = find_driver(draft, table, device) else {
        providers::check_unresolved(draft, table, &device.classes);
        return;
    };
    if let Some(driver) = &manifest.driver {
        check_needs(draft, &table.name.span, device, (&manifest.name, &driver.needs));
    }
    let priority = table.options.priority.as_ref().map_or(1, |priority| priority.value);
    let driver = make(
        draft,
        Making {
            name: Located::new(format!("{}_driver", device.name), table.name.span.clone()),
            component,
            manifest,
            origin: Origin::Driver(draft.devices.len()),
            options: &table.options,
            priority,
            core: 0,
            config: table.config.clone(),
        },
    );
    let core = driver.core;
    draft.domains.push(driver);
    let driver = draft.domains.len() - 1;
    let slot = manifest.connection_of_kind(ConnectionKind::of::<culm_abi::connection::Device>());
    let (board_span, named_at) = (board.device_spans[position].clone(), table.name.span.clone());
    let slot = slot.map_or(0, |(slot, _)| slot);
    draft.devices.push(Device { board: device, named_at, board_span, driver, slot });
    providers::add_driver(draft, table, draft.devices.len() - 1, (priority, core));
}

/// Gives a domain the device of the board that its connection names: it owns the device, and has no
/// driver but itself.
pub fn resolve_owned<'a>(
    draft: &mut Draft<'a>,
    domain: DraftDomain,
    slot: usize,
    needs: &Needs,
    name: &Located<String>,
) {
    let board = draft.board;
    let fits = |device: &&BoardDevice| needs.compatible.contains(&device.compatible);
    let fitting = board.board.devices.iter().filter(fits).map(|device| device.name.as_str());
    let owner = &draft.domains[domain].manifest.name;
    let Some(position) = board.board.devices.iter().position(|device| device.name == name.value) else {
        let message = format!("the board `{}` has no device `{}`", board.board.name, name.value);
        let diagnostic = draft.at(&name.span, message).maybe_help(suggest(&name.value, fitting));
        draft.error(diagnostic);
        return;
    };
    let device = &board.board.devices[position];
    if !fits(&device) {
        let message = format!("`{}` is `{}`, which `{owner}` does not know", device.name, device.compatible);
        let known = format!("it knows `{}`", needs.compatible.join("`, `"));
        let diagnostic = draft
            .at(&name.span, message)
            .related(&board.source, board.device_spans[position].clone(), "the device")
            .help(suggest(&name.value, fitting).map_or(known.clone(), |help| format!("{known}; {help}")));
        draft.error(diagnostic);
        return;
    }
    if let Some(other) = draft.devices.iter().find(|other| other.board.name == device.name) {
        let diagnostic = draft
            .at(&name.span, format!("two owners of `{}`", device.name))
            .related(draft.source, other.named_at.clone(), "the other one")
            .help("a device belongs to one domain, its driver or its owner");
        draft.error(diagnostic);
        return;
    }
    check_needs(draft, &name.span, device, (owner, needs));
    let (board_span, named_at) = (board.device_spans[position].clone(), name.span.clone());
    draft.devices.push(Device { board: device, named_at, board_span, driver: domain, slot });
}

/// Finds the driver of a device. `None` if there is none, or one with mistakes; reports why.
fn find_driver<'a>(
    draft: &mut Draft<'a>,
    table: &'a DeviceTable<'a>,
    device: &BoardDevice,
) -> Option<(&'a CatalogueComponent, &'a Manifest)> {
    let (component, manifest) = choose_driver(draft, table, device)?;
    let source = draft.catalogue.source(&component.folder.join("component.toml")).ok()?;
    let mistakes = fused::mistakes(&source, manifest);
    draft.diagnostics.append(&mistakes);
    mistakes.is_empty().then_some((component, manifest))
}

fn choose_driver<'a>(
    draft: &mut Draft<'a>,
    table: &'a DeviceTable<'a>,
    device: &BoardDevice,
) -> Option<(&'a CatalogueComponent, &'a Manifest)> {
    if let Some(name) = &table.driver {
        let is_driver = |component: &CatalogueComponent| {
            component.manifest.as_ref().is_ok_and(|manifest| drives_class_of(manifest, device))
        };
        let (component, manifest) = draft.component_for("driver", is_driver, &name.value, &name.span)?;
        if !drives_class_of(manifest, device) {
            let message = format!("`{}` is no driver of the class `{}`", name.value, device.class_names());
            let diagnostic = draft.at(&name.span, message).maybe_help(driver_names(draft, device));
            draft.error(diagnostic);
            return None;
        }
        return fused::check_driver(draft, table, manifest).then_some((component, manifest));
    }
    let catalogue = draft.catalogue;
    let drivers: Vec<_> = draft
        .offered()
        .filter_map(|(_, component)| Some((component, component.manifest.as_ref().ok()?)))
        .filter(|(_, manifest)| {
            let driver = manifest.driver.as_ref();
            drives_class_of(manifest, device)
                && fused::is_fused(manifest) == fused::is_asked_for(table)
                && driver.is_some_and(|driver| driver.needs.compatible.contains(&device.compatible))
        })
        .collect();
    match drivers[..] {
        [driver] => Some(driver),
        [] => {
            let what = if fused::is_asked_for(table) { "driver with its virtualisers" } else { "driver" };
            let message = format!("no {what} says that it is for `{}`", device.compatible);
            let diagnostic = draft
                .at(&table.name.span, message)
                .related(&draft.board.source, device_span(draft, device), "the device")
                .maybe_help(no_driver(draft, device));
            draft.error(diagnostic);
            // One of those that could not be read may be the driver that is missing.
            let unreadable = unreadable_drivers(catalogue).filter(|_| !device.classes.is_empty());
            for mistakes in unreadable {
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
                    diagnostic = diagnostic.related(&source, driver.needs.span.clone(), "one that says so");
                }
            }
            draft.error(diagnostic);
            None
        }
    }
}

/// A component with less of a device than it uses could not start: the mistake is the board's.
fn check_needs(draft: &mut Draft<'_>, used_at: &Range<usize>, device: &BoardDevice, (user, needs): (&str, &Needs)) {
    let name = &device.name;
    let mut lacks: Vec<(String, String)> = Vec::new();
    if device.registers.size < needs.registers {
        lacks.push((
            format!("the {:#x} bytes of registers of `{name}` are fewer than `{user}` uses", device.registers.size),
            format!("give `registers` a `size` of {:#x} at least", needs.registers),
        ));
    }
    let interrupts = device.interrupts.len() as u64;
    if interrupts < needs.interrupts {
        let has = if interrupts == 0 { "no interrupt".to_string() } else { format!("{interrupts} of them") };
        lacks.push((
            format!("`{user}` uses {} of `{name}`, which has {has}", interrupts_in_words(needs.interrupts)),
            "list them, in the driver's order: `interrupts = [{ number = 33, trigger = \"level\" }]`, say".to_string(),
        ));
    }
    if device.dma < needs.dma {
        let needed = format_size(needs.dma);
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
            .related(draft.source, used_at.clone(), "where it is used")
            .help(format!("{help}, or choose another driver by `driver = …`"));
        draft.error(diagnostic);
    }
}

fn interrupts_in_words(count: u64) -> String {
    if count == 1 { "an interrupt".to_string() } else { format!("{count} interrupts") }
}

/// Returns what is wrong with the manifests of drivers that could not be read.
fn unreadable_drivers(catalogue: &Catalogue) -> impl Iterator<Item = &Diagnostics> {
    catalogue.likely_drivers().filter_map(|component| component.manifest.as_ref().err())
}

fn device_span(draft: &Draft<'_>, device: &BoardDevice) -> std::ops::Range<usize> {
    let position = draft.board.board.devices.iter().position(|other| other.name == device.name);
    position.map_or(0..0, |position| draft.board.device_spans[position].clone())
}

/// Whether a component is a driver of every class that the board gives to a device.
fn drives_class_of(manifest: &Manifest, device: &BoardDevice) -> bool {
    let driver = manifest.driver.as_ref().filter(|_| !device.classes.is_empty());
    driver.is_some_and(|driver| device.classes.iter().all(|class| driver.provides(*class)))
}

/// The drivers of a device's class, for advice.
fn driver_names(draft: &Draft<'_>, device: &BoardDevice) -> Option<String> {
    let manifests = draft.offered().filter_map(|(_, component)| component.manifest.as_ref().ok());
    let drivers = manifests.filter(|manifest| drives_class_of(manifest, device));
    let names: Vec<&str> = drivers.map(|manifest| manifest.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("the drivers of this class are `{}`", names.join("`, `")))
}

/// Advice on a device for which there is no driver.
fn no_driver(draft: &Draft<'_>, device: &BoardDevice) -> Option<String> {
    if device.classes.is_empty() {
        let name = &device.name;
        return Some(format!("it is of no class: a `[pd]` can own it, whose key for it says `\"{name}\"`"));
    }
    driver_names(draft, device).map(|names| format!("`driver = …` chooses one: {names}"))
}

/// Two devices in use must not share an interrupt, nor a page of registers: that would join their
/// drivers.
pub fn check_shared(draft: &mut Draft<'_>) {
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
                            &device.named_at,
                            format!(
                                "two owners of interrupt {}: `{}` and `{}`",
                                interrupt.number, other.board.name, device.board.name
                            ),
                        )
                        .related(draft.source, other.named_at.clone(), "the other owner")
                        .related(&draft.board.source, device.board_span.clone(), "where the board has it")
                        .help("an interrupt is delivered to one driver; use one of the two devices only"),
                );
            }
            if device.board.registers.pages().overlaps(other.board.registers.pages()) {
                found.push(
                    draft
                        .at(
                            &device.named_at,
                            format!("the registers of `{}` and `{}` share a page", other.board.name, device.board.name),
                        )
                        .related(draft.source, other.named_at.clone(), "the other device")
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
