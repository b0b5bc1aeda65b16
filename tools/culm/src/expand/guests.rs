//! Guests: whether what they boot from fits their memory, and the domain that runs each.

use super::draft::{Draft, DraftDomain, Guest};
use super::guest_files;
use super::memory::in_words;
use super::wiring::Wiring;
use crate::description::guest::GuestTable;
use crate::guest::kernel::Kernel;
use crate::plan::{self, ConfigValue, End, GuestMemory, Memory, Purpose, RegionKind, VirtualCpu};
use culm_abi::connection;
use culm_abi::guest::MAX_CPUS;
use culm_abi::memory::PAGE_SIZE;
use culm_manifest::Located;
use culm_manifest::problem::suggest;
use std::collections::BTreeMap;
use std::ops::Range;

/// The version of the interrupt controller that guests need: theirs is virtual and of that version.
const GIC: u32 = 3;

/// Connects domain `monitor` with the guest that its key names.
pub fn resolve<'a>(draft: &mut Draft<'a>, monitor: DraftDomain, slot: usize, name: &Located<String>) {
    let file = draft.file;
    let Some(table) = file.guests.iter().find(|table| table.name.value == name.value) else {
        let names = file.guests.iter().map(|table| table.name.value.as_str());
        let help = suggest(&name.value, names).unwrap_or_else(|| "describe it by `[guest.NAME]`".to_string());
        let message = format!("there is no guest called `{}`", name.value);
        let diagnostic = draft.at(&name.span, message).help(help);
        return draft.error(diagnostic);
    };
    if let Some(other) = draft.guests.iter().find(|other| other.table.name.value == name.value) {
        let other = draft.domains[other.monitor].name.span.clone();
        let diagnostic = draft
            .at(&name.span, format!("a second monitor for guest `{}`", name.value))
            .related(draft.source, other, "the first")
            .help("give it a guest of its own: another `[guest.NAME]`");
        return draft.error(diagnostic);
    }
    check_machine(draft, name);
    check_end(draft, monitor);
    let (kernel, initrd) = (guest_files::kernel(draft, table), guest_files::initrd(draft, table));
    let (priority, cores) = (priority(draft, table, monitor), cores(draft, table, monitor));
    let (Some((kernel, needs)), Some((initrd, bytes)), Some(priority)) = (kernel, initrd, priority) else { return };
    let (Some(memory), Some(cores)) = (memory(draft, table, needs, bytes), cores) else { return };
    draft.guests.push(Guest { table, monitor, slot, cores, priority, kernel, initrd, memory });
}

/// Checks that the board can run a guest.
fn check_machine(draft: &mut Draft<'_>, name: &Located<String>) {
    let version = draft.board.board.gic.version;
    if version != GIC {
        let message = format!("guests need a GICv{GIC}, the board `{}` has a GICv{version}", draft.board.board.name);
        let diagnostic = draft.at(&name.span, message).help("choose another board, such as `virt`");
        draft.error(diagnostic);
    }
}

/// Checks what a monitor is to do when its guest switches itself off: one of two things, of which
/// ending the system is a right.
fn check_end(draft: &mut Draft<'_>, monitor: DraftDomain) {
    let domain = &draft.domains[monitor];
    let is_set = |name: &str| {
        let mut fields = domain.manifest.config.iter().zip(&domain.config);
        fields.any(|(field, value)| field.name == name && *value == ConfigValue::Bool(true))
    };
    if !is_set("halts") {
        return;
    }
    let (halts, anew) = (config_span(draft, monitor, "halts"), config_span(draft, monitor, "begins_anew"));
    let name = &domain.name.value;
    let diagnostic = if is_set("begins_anew") {
        draft
            .at(&anew, format!("`{name}` cannot both end the system and begin its guest anew"))
            .related(draft.source, halts, "the system ends")
            .help("leave one of `halts` and `begins_anew` out")
    } else if !domain.may_halt {
        draft
            .at(&halts, format!("`{name}` is to end the system, and may not"))
            .help(format!("add `may_halt = true` to [pd.{name}], or leave `halts` out"))
    } else {
        return;
    };
    draft.error(diagnostic);
}

/// Where a field of a domain's configuration is given; else where the domain has its name.
fn config_span(draft: &Draft<'_>, domain: DraftDomain, field: &'static str) -> Range<usize> {
    let name = &draft.domains[domain].name;
    let table = draft.file.domains.iter().find(|table| table.name.value == name.value);
    let config = table.and_then(|table| table.config.as_ref());
    let entry = config.and_then(|config| config.clone().take(field));
    entry.map_or_else(|| name.span.clone(), |entry| entry.span())
}

/// The priority of the virtual CPU, which its monitor must be able to interrupt.
fn priority(draft: &mut Draft<'_>, table: &GuestTable, monitor: DraftDomain) -> Option<u8> {
    let priority = table.priority.as_ref()?;
    let domain = &draft.domains[monitor];
    if priority.value < domain.priority {
        return Some(priority.value);
    }
    let message = format!(
        "the priority {} of guest `{}` is not below that of `{}`, which runs it",
        priority.value, table.name.value, domain.name.value
    );
    let help = format!("`{}` has {}: give the guest less", domain.name.value, domain.priority);
    let diagnostic = draft.at(&priority.span, message).help(help);
    draft.error(diagnostic);
    None
}

/// The core of each virtual CPU: that of the monitor where the guest names none.
fn cores(draft: &mut Draft<'_>, table: &GuestTable, monitor: DraftDomain) -> Option<Vec<u32>> {
    let Some(cores) = &table.cores else { return Some(vec![draft.domains[monitor].core]) };
    if cores.value.is_empty() || cores.value.len() > MAX_CPUS {
        let message = format!("guest `{}` has {} virtual CPUs", table.name.value, cores.value.len());
        let diagnostic = draft
            .at(&cores.span, message)
            .help(format!("a guest has 1 to {MAX_CPUS}: list the core of each in `cores`"));
        draft.error(diagnostic);
        return None;
    }
    let there = draft.board.board.mpidr.len() as u64;
    if let Some(beyond) = cores.value.iter().find(|core| core.value >= there) {
        let message = format!(
            "guest `{}` is on core {}, the board `{}` has {there}",
            table.name.value, beyond.value, draft.board.board.name
        );
        let diagnostic = draft.at(&beyond.span, message).help(format!("cores are 0 to {}", there - 1));
        draft.error(diagnostic);
        return None;
    }
    Some(cores.value.iter().map(|core| core.value as u32).collect())
}

/// Lays out the guest's memory.
fn memory(draft: &mut Draft<'_>, table: &GuestTable, kernel: Kernel, initrd: u64) -> Option<GuestMemory> {
    let given = table.memory.as_ref()?;
    let unit = GuestMemory::UNIT;
    if !given.value.is_multiple_of(unit) || given.value == 0 {
        let message = format!("memory of {} is no multiple of {}", in_words(given.value), in_words(unit));
        let diagnostic = draft
            .at(&given.span, message)
            .help("the page tables of guests have entries of that size: give it `\"256MiB\"`, for example");
        draft.error(diagnostic);
        return None;
    }
    let memory = GuestMemory { size: given.value, kernel: kernel.file, initrd };
    let least = memory.least(kernel.image);
    if given.value < least {
        let message = format!(
            "memory of {} is less than guest `{}` takes when it boots: its kernel {}, its initial RAM disk {}",
            in_words(given.value),
            table.name.value,
            in_words(kernel.image),
            in_words(initrd)
        );
        let diagnostic = draft
            .at(&given.span, message)
            .help(format!("give it more than {}: it will want to work too", in_words(least)));
        draft.error(diagnostic);
        return None;
    }
    Some(memory)
}

/// After everything that connects: somebody must run each guest, on a core that can have one.
pub fn check_complete(draft: &mut Draft<'_>) {
    let file = draft.file;
    let is_named = |table: &GuestTable| {
        let entries = file.domains.iter().flat_map(|domain| &domain.connections);
        entries.filter_map(|entry| entry.text(&mut Default::default())).any(|text| text.value == table.name.value)
    };
    for table in file.guests.iter().filter(|table| !is_named(table)) {
        let diagnostic = draft
            .at(&table.name.span, format!("nobody runs the guest `{}`", table.name.value))
            .help(format!("add a `[pd]` with `component = \"vmm\"` and `guest = \"{}\"`", table.name.value));
        draft.error(diagnostic);
    }
    check_cores(draft);
}

/// A core has one virtual CPU: the registers that are a guest's alone stay in it while others run.
fn check_cores(draft: &mut Draft<'_>) {
    let mut taken = BTreeMap::new();
    let mut found = Vec::new();
    for guest in &draft.guests {
        let name = &guest.table.name;
        for (cpu, core) in guest.cores.iter().enumerate() {
            let listed = guest.table.cores.as_ref().and_then(|cores| cores.value.get(cpu));
            let span = listed.map_or_else(|| name.span.clone(), |core| core.span.clone());
            let Some((other, first)) = taken.insert(*core, (guest.table, span.clone())) else { continue };
            let message = if other.name.value == name.value {
                format!("two virtual CPUs of guest `{}` are on core {core}", name.value)
            } else {
                format!("guests `{}` and `{}` are both on core {core}", other.name.value, name.value)
            };
            let diagnostic = draft.at(&span, message).related(draft.source, first, "the first").help(
                "a core runs one virtual CPU: put them on different ones, by `cores` of the guest or `core` of its monitor",
            );
            found.push(diagnostic);
        }
    }
    found.into_iter().for_each(|diagnostic| draft.error(diagnostic));
}

/// Gives each monitor its guest.
pub fn wire(wiring: &mut Wiring, draft: &Draft<'_>) -> Vec<plan::Guest> {
    let guests = draft.guests.iter().enumerate();
    guests.map(|(id, guest)| wire_guest(wiring, guest, id)).collect()
}

fn wire_guest(wiring: &mut Wiring, guest: &Guest<'_>, id: plan::GuestId) -> plan::Guest {
    let monitor = wiring.id(guest.monitor);
    let name = guest.table.name.value.clone();
    let cpus = guest.cores.iter().enumerate().map(|(cpu, &core)| {
        let channel = wiring.end(monitor, End::VirtualCpu { guest: id, cpu });
        let page = format!("{name} virtual cpu {cpu}");
        let page = wiring.region(page, PAGE_SIZE, RegionKind::Cached, Purpose::VirtualCpu, &[(monitor, true)]);
        VirtualCpu { core, channel, page }
    });
    let cpus: Vec<_> = cpus.collect();
    let size = guest.memory.size;
    let region = format!("{name} memory");
    let region = wiring.region(region, size, RegionKind::Cached, Purpose::Guest, &[(monitor, true)]);
    let key = wiring.manifest(monitor).connections[guest.slot].name.clone();
    let connection = connection::Guest {
        memory: Memory::region(region, size),
        kernel: Memory::GuestKernel(id),
        end: Memory::GuestEnd(id),
        device_tree: guest.memory.tree_at(),
        name: name.clone(),
        cpus: cpus
            .iter()
            .map(|cpu| connection::GuestCpu {
                page: Memory::region(cpu.page, PAGE_SIZE),
                channel: cpu.channel,
                reserved: 0,
            })
            .collect(),
    };
    wiring.connect_slot(monitor, Some(guest.slot), &key, &name, connection);
    plan::Guest {
        name,
        monitor,
        cpus,
        priority: guest.priority,
        kernel: guest.kernel.clone(),
        initrd: guest.initrd.clone(),
        command_line: guest.table.command_line.clone(),
        memory: guest.memory,
        region,
    }
}
