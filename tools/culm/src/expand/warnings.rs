//! Warnings about a system: things that are legal, but most likely not what its author meant. They
//! are shown and stop nothing.
//!
//! Only a draft without mistakes is looked at. A rule that a sensible system breaks does not belong
//! here: the systems of this tree have no warnings.

use super::draft::{Client, Draft, Service};
use super::switch_ports;
use crate::class;
use crate::description::system::DomainOptions;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::plan::{FaultAction, Origin};
use culm_manifest::units::format_duration;
use std::path::Path;

/// A budget below this many nanoseconds is mostly spent on entering and leaving the domain.
const SMALL_BUDGET: u64 = 20_000;

/// Looks through the draft.
pub fn find(draft: &Draft<'_>) -> Diagnostics {
    let mut found = Diagnostics::default();
    let rules: &[fn(&Draft<'_>, &mut Diagnostics)] = &[
        name,
        classes,
        supervisor,
        triggers,
        providers,
        clients,
        options,
        regions,
        channels,
        guests,
        switch_ports::warn,
    ];
    for rule in rules {
        rule(draft, &mut found);
    }
    found
}

/// The image lies in a folder of the system's name: two systems of one name overwrite each other.
fn name(draft: &Draft<'_>, found: &mut Diagnostics) {
    let Some(name) = &draft.file.name else { return };
    let stem = draft.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if name.value != stem {
        let message = format!("the system is called `{}`, its file `{stem}.toml`", name.value);
        let help = "commands find it by its file's name, and what is built has its own; leave `name` out for one name";
        found.push(draft.at(&name.span, message).help(help).warning());
    }
}

/// Adds the warnings of each class.
fn classes(draft: &Draft<'_>, found: &mut Diagnostics) {
    for class in class::all() {
        class.warn(draft, found);
    }
}

/// A domain that runs on whatever it does keeps the supervisor of its core from stopping it.
fn supervisor(draft: &Draft<'_>, found: &mut Diagnostics) {
    let Some(supervisor) = draft.domains.iter().find(|domain| domain.origin == Origin::Supervisor) else { return };
    for domain in &draft.domains {
        if domain.priority > supervisor.priority && domain.core == supervisor.core && domain.budget.is_none() {
            let message = format!(
                "`{}` has priority {}, above the supervisor's {}, and no budget",
                domain.name.value, domain.priority, supervisor.priority
            );
            let help = "while it runs nobody is restarted; give it a lower priority, or `budget` and `period`";
            push_once(found, draft.at(&domain.name.span, message).help(help).warning());
        }
    }
}

/// A provider that nobody uses, or whose driver waits for those that it serves.
fn providers(draft: &Draft<'_>, found: &mut Diagnostics) {
    for (index, provider) in draft.providers.iter().enumerate() {
        let (name, at) = (&provider.name, &provider.base.span);
        // What a component can do without is made for those that come, and for nobody if none does.
        let is_optional = provider.connection(draft).optional;
        if !is_optional && !draft.clients.iter().any(|client| client.provider == index) {
            let (message, help) = match provider.service {
                Service::FarEnd if provider.device.is_none() => (
                    format!("nobody uses `{name}`, which provides the class `{}`", provider.class.name()),
                    "connect a domain to it",
                ),
                Service::FarEnd | Service::Bare => (
                    format!("nobody uses `{name}`: its driver runs for nothing"),
                    "connect a domain to it, or leave the table out",
                ),
                Service::Shared => (
                    format!("nobody uses `{name}`: its driver and virtualisers run for nothing"),
                    "connect a domain to it, or leave the table out",
                ),
            };
            found.push(draft.at(at, message).help(help).warning());
        }
        let given = provider.device.and_then(|(_, table)| table.virtualiser.priority.as_ref());
        for &virtualiser in &provider.virtualisers {
            let (virtualiser, driver) = (&draft.domains[virtualiser], &draft.domains[provider.domain]);
            if virtualiser.priority > driver.priority && virtualiser.core == driver.core {
                let message = format!(
                    "`{}` has priority {}, above its driver's {}",
                    virtualiser.name.value, virtualiser.priority, driver.priority
                );
                let span = given.map_or(at, |priority| &priority.span);
                let help = "the device waits for its driver meanwhile; a virtualiser is one below its driver";
                push_once(found, draft.at(span, message).help(help).warning());
            }
        }
    }
}

/// A level taken for an edge: a cause that comes while the line is active for another does not
/// interrupt. An edge taken for a level: the interrupt is not kept until it is taken.
fn triggers(draft: &Draft<'_>, found: &mut Diagnostics) {
    for device in &draft.devices {
        let manifest = draft.domains[device.driver].manifest;
        let needs = manifest.connections[device.slot].needs.as_ref();
        let needs = needs.or(manifest.driver.as_ref().map(|driver| &driver.needs));
        let Some(trigger) = needs.and_then(|needs| needs.trigger) else { continue };
        let Some(other) = device.board.interrupts.iter().find(|interrupt| interrupt.trigger != trigger) else {
            continue;
        };
        let (name, wanted) = (&device.board.name, trigger.name());
        let message = format!(
            "interrupt {} of `{name}` is said to be of the kind `{}`, but devices of `{}` interrupt by {wanted}",
            other.number,
            other.trigger.name(),
            manifest.name
        );
        let diagnostic = Diagnostic::at(&draft.board.source, device.board_span.clone(), message)
            .related(draft.source, device.named_at.clone(), "the device in use")
            .help(format!(
                "write `trigger = \"{wanted}\"` in the board file: a driver that does not look again would miss some"
            ));
        found.push(diagnostic.warning());
    }
}

/// Clients that keep from its turn what serves them. What is sent can wait; what comes from a
/// device cannot.
fn clients(draft: &Draft<'_>, found: &mut Diagnostics) {
    for client in draft.clients.iter().filter(|client| client.slot.is_some() && receives(draft, client)) {
        let domain = &draft.domains[client.domain];
        let provider = &draft.providers[client.provider];
        let server = &draft.domains[provider.domain];
        if domain.priority > server.priority && domain.core == server.core {
            let (domain_name, priority, name) = (&domain.name.value, domain.priority, &provider.name);
            let message = match provider.device {
                Some(_) => format!(
                    "`{domain_name}` has priority {priority}, above the driver of `{name}`, which has {}",
                    server.priority
                ),
                None => {
                    format!("`{domain_name}` has priority {priority}, above `{name}`, which has {}", server.priority)
                }
            };
            let given = provider.device.and_then(|(_, table)| table.options.priority.as_ref());
            let (whose, help) = match provider.device {
                Some(_) => (
                    "the driver's priority",
                    "what arrives waits until the client sleeps, and is lost meanwhile; raise the driver above it",
                ),
                None => ("what serves it", "what arrives waits until the client sleeps; raise what serves it above it"),
            };
            let diagnostic = draft
                .at(&domain.name.span, message)
                .related(draft.source, given.map_or(&provider.base.span, |at| &at.span).clone(), whose)
                .help(help);
            push_once(found, diagnostic.warning());
        }
    }
}

/// Whether something arrives for this client by itself.
fn receives(draft: &Draft<'_>, client: &Client) -> bool {
    class::of(draft.providers[client.provider].class).receives(client)
}

/// Options that say nothing, or more than was meant.
fn options(draft: &Draft<'_>, found: &mut Diagnostics) {
    let domains = draft.file.domains.iter().map(|table| &table.options);
    let devices = draft.file.devices.iter().flat_map(|table| [&table.options, &table.virtualiser]);
    for options in domains.chain(devices).chain([&draft.file.supervisor]) {
        budget(draft, options, found);
        restart(draft, options, found);
    }
}

fn budget(draft: &Draft<'_>, options: &DomainOptions, found: &mut Diagnostics) {
    let (Some(budget), Some(period)) = (&options.budget, &options.period) else { return };
    if budget.value == period.value {
        let message = format!("a budget as long as its period, {}, is no limit", format_duration(period.value));
        let help = "make it shorter, or leave both out";
        found.push(draft.at(&budget.span, message).help(help).warning());
    } else if budget.value < SMALL_BUDGET {
        let message = format!("a budget of {} is mostly spent on beginning", format_duration(budget.value));
        let help = "entering and leaving a domain takes microseconds; a longer period has room for a longer budget";
        found.push(draft.at(&budget.span, message).help(help).warning());
    }
}

fn restart(draft: &Draft<'_>, options: &DomainOptions, found: &mut Diagnostics) {
    let Some(restart) = &options.restart else { return };
    let action = options.on_fault.as_ref().map_or(FaultAction::Restart, |action| action.value);
    let (message, help) = if action != FaultAction::Restart {
        ("`restart` means nothing here: `on_fault` says otherwise", "leave one of the two out")
    } else if restart.value.limit == 0 {
        ("a limit of no restarts: the first fault is the last", "write `on_fault = \"stop\"`, which says so")
    } else if restart.value.window == 0 {
        (
            "restarts are counted within a window of no time, so that there is no limit",
            "give it a `window` in which `limit` restarts are too many, for example \"10s\"",
        )
    } else {
        return;
    };
    found.push(draft.at(&restart.span, message).help(help).warning());
}

fn regions(draft: &Draft<'_>, found: &mut Diagnostics) {
    for region in &draft.regions {
        let name = &region.table.name;
        if region.mappings.iter().all(|(_, _, writable)| !writable) {
            let message = format!("the region `{}` has only readers: it stays as it is at boot, all zero", name.value);
            found.push(draft.at(&name.span, message).help("let one of them write: `\"rw\"`").warning());
        }
    }
}

/// A domain that computes above what it calls for work is refused; one that may notify nobody is
/// only odd.
fn channels(draft: &Draft<'_>, found: &mut Diagnostics) {
    for channel in &draft.channels {
        let [first, second] = &channel.ends;
        let passive = |end: &super::draft::ChannelEnd| draft.domains[end.domain].passive;
        if let (Some(call), true) = (&channel.table.call, !passive(first) && !passive(second)) {
            let callee = if first.call { second } else { first };
            let callee = &draft.domains[callee.domain];
            if callee.budget.is_none() {
                continue;
            }
            let message = format!("`{}` is called, and has a budget of its own", callee.name.value);
            let help = "its caller waits whenever that is used up; a passive domain runs on its callers' budgets";
            found.push(draft.at(&call.span, message).help(help).warning());
        }
    }
}

/// A kernel that finds no program to begin with gives up.
fn guests(draft: &Draft<'_>, found: &mut Diagnostics) {
    for guest in &draft.guests {
        let Some((first, _)) = guest.table.files.first() else { continue };
        let has_init = guest.table.files.iter().any(|(at, _)| Path::new(&at.value) == Path::new("init"));
        let is_named = guest.table.command_line.split_whitespace().any(|word| word.starts_with("rdinit="));
        let mut clients = draft.clients.iter().filter(|client| client.domain == guest.monitor);
        let has_disk = clients.any(|client| class::of(draft.providers[client.provider].class).holds_programs());
        if !has_init && !is_named && !has_disk {
            let message = format!("no program of guest `{}` is begun: `files` has no `init`", guest.table.name.value);
            let help = "add `\"init\"` to `files`, or name another of them in `command_line`: `rdinit=/bin/sh`";
            found.push(draft.at(&first.span, message).help(help).warning());
        }
    }
}

/// Adds what has not been said of the same place: a table makes several domains.
fn push_once(found: &mut Diagnostics, diagnostic: Diagnostic) {
    let mut one = Diagnostics::default();
    one.push(diagnostic);
    found.append(&one);
}
