//! A plan in words: what `culm expand` prints. It is TOML, so that programs can read it too.

use crate::guest::{device_tree, source_text};
use crate::plan::{
    ConfigValue, ConnectionData, Domain, DomainConnection, DomainId, End, Fields, Guest, Initrd, Memory, Origin, Plan,
    Purpose, Region, Rights, Value,
};
use culm_manifest::units::{format_duration, format_mac, format_size};
use std::fmt::{Display, Write as _};

/// The whole plan.
pub fn expanded(plan: &Plan) -> String {
    let mut out = String::new();
    line(&mut out, &format!("# {} on {}, fully expanded.", plan.name, plan.board.name));
    key(&mut out, "name", text(&plan.name));
    if !plan.description.is_empty() {
        key(&mut out, "description", text(&plan.description));
    }
    key(&mut out, "board", text(&plan.board.name));
    for id in 0..plan.devices.len() {
        device(&mut out, plan, id);
    }
    let mut order: Vec<&Domain> = plan.domains.iter().collect();
    order.sort_by_key(|domain| (domain.core, std::cmp::Reverse(domain.priority)));
    for domain in order {
        self::domain(&mut out, plan, domain);
    }
    for guest in &plan.guests {
        self::guest(&mut out, plan, guest);
    }
    for region in &plan.regions {
        self::region(&mut out, plan, region);
    }
    for ring in &plan.rings {
        line(&mut out, "\n[[queue]]");
        key(&mut out, "name", text(&ring.name));
        key(&mut out, "capacity", ring.capacity);
        key(&mut out, "entry", format!("{:?}", format_size(ring.entry_size.into())));
        key(&mut out, "producer", text(&plan.domains[ring.producer].name));
        key(&mut out, "consumer", text(&plan.domains[ring.consumer].name));
        key(&mut out, "region", text(&plan.regions[ring.region].name));
        key(&mut out, "offset", ring.offset);
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn key(out: &mut String, key: &str, value: impl Display) {
    let _ = writeln!(out, "{key} = {value}");
}

/// Quoted text; what Rust escapes, TOML does too, but for braces around the code of a character.
fn text(text: &str) -> String {
    format!("{text:?}").replace("\\u{", "\\U{").replace("\\'", "'")
}

fn size(bytes: u64) -> String {
    text(&format_size(bytes))
}

fn duration(nanoseconds: u64) -> String {
    text(&format_duration(nanoseconds))
}

fn device(out: &mut String, plan: &Plan, id: usize) {
    let device = &plan.devices[id];
    let board = &device.board;
    let _ = writeln!(out, "\n[device.{}]", board.name);
    match &board.classes[..] {
        [] => {}
        [class] => key(out, "class", text(class.name())),
        classes => key(out, "class", list(classes.iter().map(|class| text(class.name())))),
    }
    key(out, "compatible", text(&board.compatible));
    key(out, "driver", text(&plan.domains[device.driver].name));
    let registers = board.registers;
    key(out, "registers", format!("{{ address = {:#x}, size = {:#x} }}", registers.address, registers.size));
    let interrupts: Vec<String> = board.interrupts.iter().map(|interrupt| interrupt.number.to_string()).collect();
    key(out, "interrupts", format!("[{}]", interrupts.join(", ")));
    if let Some(mac) = device.mac {
        key(out, "mac", text(&format_mac(mac)));
    }
    if let Some(file) = &device.file {
        if let Some(path) = &file.path {
            key(out, "image", text(&path.display().to_string()));
        }
        key(out, "size", size(file.size));
        if file.read_only {
            key(out, "read_only", true);
        }
    }
}

fn domain(out: &mut String, plan: &Plan, domain: &Domain) {
    let _ = writeln!(out, "\n[pd.{}]", domain.name);
    if let Some(origin) = origin(plan, domain) {
        let _ = writeln!(out, "# {origin}");
    }
    key(out, "component", text(&plan.components[domain.component].manifest.name));
    key(out, "core", domain.core);
    key(out, "priority", domain.priority);
    if domain.passive {
        key(out, "passive", true);
    }
    if let Some(budget) = domain.budget {
        key(out, "budget", duration(budget.budget));
        key(out, "period", duration(budget.period));
    }
    key(out, "stack", size(domain.stack));
    if domain.heap > 0 {
        key(out, "heap", size(domain.heap));
    }
    let level = crate::plan::LogLevel::NAMES.iter().find(|(_, level)| *level == domain.log);
    key(out, "log", text(level.map_or("off", |(name, _)| name)));
    if domain.may_halt {
        key(out, "may_halt", true);
    }
    if domain.supervisor.is_some() {
        let action = crate::plan::FaultAction::NAMES.iter().find(|(_, action)| *action == domain.on_fault);
        key(out, "on_fault", text(action.map_or("", |(name, _)| name)));
        let restart = domain.restart;
        let restart = format!(
            "{{ limit = {}, window = {}, backoff = {} }}",
            restart.limit,
            duration(restart.window),
            duration(restart.backoff)
        );
        key(out, "restart", restart);
    }
    config(out, plan, domain);
    for connection in &domain.connections {
        self::connection(out, plan, domain, connection);
    }
    ends(out, plan, domain);
}

fn origin(plan: &Plan, domain: &Domain) -> Option<String> {
    match domain.origin {
        Origin::Description => provides(plan, domain),
        Origin::Driver(id) => Some(format!("Drives {}.", plan.devices[id].board.name)),
        Origin::Virtualiser(id) => Some(format!("Shares {} among its clients.", plan.providers[id].name)),
        Origin::Before { provider: id, duty } => Some(duty.replace("{provider}", &plan.providers[id].name)),
        Origin::Supervisor => Some("Is told of the faults of all others.".to_string()),
    }
}

/// Returns what a domain of the description provides, and which devices it owns.
fn provides(plan: &Plan, domain: &Domain) -> Option<String> {
    let is_own = |id: DomainId| plan.domains[id].name == domain.name;
    let owned = plan.devices.iter().filter(|device| is_own(device.driver));
    let owned: Vec<String> = owned.map(|device| format!("Owns {}.", device.board.name)).collect();
    let provided = plan.providers.iter().filter(|provider| is_own(provider.domain));
    let provided = provided.map(|provider| format!("Provides {} as {}.", provider.class.name(), provider.name));
    let all: Vec<String> = owned.into_iter().chain(provided).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn config(out: &mut String, plan: &Plan, domain: &Domain) {
    let fields = &plan.components[domain.component].manifest.config;
    if fields.is_empty() {
        return;
    }
    let _ = writeln!(out, "[pd.{}.config]", domain.name);
    for (field, value) in fields.iter().zip(&domain.config) {
        let value = match value {
            ConfigValue::Absent => continue,
            ConfigValue::Bool(value) => value.to_string(),
            ConfigValue::Unsigned(value) => match field.kind {
                culm_manifest::ConfigType::Duration => duration(*value),
                culm_manifest::ConfigType::Size => size(*value),
                _ => value.to_string(),
            },
            ConfigValue::Signed(value) => value.to_string(),
            ConfigValue::Text(value) => text(value),
            ConfigValue::Mac(mac) => text(&format_mac(*mac)),
            ConfigValue::File(path) | ConfigValue::Folder(path) => text(&path.display().to_string()),
            ConfigValue::List(list) => {
                format!("[{}]", list.iter().map(|element| text(element)).collect::<Vec<_>>().join(", "))
            }
            ConfigValue::Pairs(pairs) if pairs.is_empty() => "{}".into(),
            ConfigValue::Pairs(pairs) => {
                let pairs = pairs.iter().map(|(name, value)| format!("{} = {}", text(name), text(value)));
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
        };
        key(out, &field.name, value);
    }
}

fn guest(out: &mut String, plan: &Plan, guest: &Guest) {
    let _ = writeln!(out, "\n[guest.{}]", guest.name);
    key(out, "monitor", text(&plan.domains[guest.monitor].name));
    key(out, "cores", list(guest.cpus.iter().map(|cpu| cpu.core.to_string())));
    key(out, "priority", guest.priority);
    key(out, "kernel", text(&guest.kernel.display().to_string()));
    match &guest.initrd {
        Some(Initrd::File(path)) => key(out, "initrd", text(&path.display().to_string())),
        Some(Initrd::Packed(files)) => {
            let files =
                files.iter().map(|(path, file)| format!("{} = {}", text(path), text(&file.display().to_string())));
            key(out, "files", format!("{{ {} }}", files.collect::<Vec<_>>().join(", ")));
        }
        None => {}
    }
    key(out, "command_line", text(&guest.command_line));
    let devices = plan.virtio_devices(guest);
    let devices =
        devices.iter().map(|(name, slot)| format!("{name} = \"{:#x}\"", slot.registers().address)).collect::<Vec<_>>();
    if !devices.is_empty() {
        key(out, "virtio_devices", format!("{{ {} }}", devices.join(", ")));
    }
    let memory = &guest.memory;
    key(out, "memory", size(memory.size));
    key(out, "kernel_at", format!("{:#x}", culm_abi::guest::MEMORY));
    key(out, "device_tree_at", format!("{:#x}", memory.tree_at()));
    if guest.initrd.is_some() {
        key(out, "initrd_at", format!("{:#x}", memory.initrd_at()));
    }
    match device_tree(plan, guest) {
        Ok(tree) => key(out, "device_tree", literal(&source_text(&tree).unwrap_or_default())),
        Err(failure) => line(out, &format!("# {}", failure.message())),
    }
}

/// Text of several lines, as it is: it has no apostrophes.
fn literal(text: &str) -> String {
    format!("'''\n{text}'''")
}

/// Fields of a connection, in one line each.
fn connection(out: &mut String, plan: &Plan, domain: &Domain, connection: &DomainConnection) {
    let _ = writeln!(out, "[pd.{}.connection.{}]", domain.name, connection.name);
    if !connection.peer.is_empty() {
        key(out, "to", text(&connection.peer));
    }
    match &connection.data {
        // The facts that these tell of each domain stand there already.
        ConnectionData::Supervision(supervision) => {
            key(out, "children", list(supervision.children.iter().map(|child| text(&child.name))));
        }
        ConnectionData::Observation(observation) => {
            key(out, "queues", list(observation.rings.iter().map(|ring| text(&ring.name))));
        }
        data => {
            for (name, value) in pairs(plan, &data.into()) {
                key(out, name, value);
            }
        }
    }
}

/// The fields of a structure by their names; what is absent is left out.
fn pairs(plan: &Plan, fields: &Fields) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    for (field, value) in &fields.values {
        let value = match value {
            Value::Ring(ring) => text(&plan.rings[*ring].name),
            Value::Memory(memory) => text(&memory_name(plan, *memory)),
            Value::Channel(channel) => channel.to_string(),
            Value::Rights(Rights { notify, call }) => {
                pairs.extend([("notify", notify.to_string()), ("call", call.to_string())]);
                continue;
            }
            Value::Text(value) => text(value),
            Value::Flag(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Mac(mac) => text(&format_mac(*mac)),
            Value::Absent => continue,
            Value::List(all) => list(all.iter().map(|element| inline(&self::pairs(plan, element)))),
        };
        pairs.push((field.name, value));
    }
    pairs
}

fn memory_name(plan: &Plan, memory: Memory) -> String {
    match memory {
        Memory::Region(part) => plan.regions[part.region].name.clone(),
        Memory::Stack(domain) => format!("stack of {}", plan.domains[domain].name),
        Memory::CoreAccounts => "accounts of the cores".to_string(),
        Memory::DomainAccounts => "accounts of the domains".to_string(),
        Memory::Picture => "picture".to_string(),
        Memory::GuestKernel(guest) => format!("kernel of guest {}", plan.guests[guest].name),
        Memory::GuestEnd(guest) => {
            format!("device tree and initial RAM disk of guest {}", plan.guests[guest].name)
        }
    }
}

/// A structure in one line; one that has a single field is that.
fn inline(pairs: &[(&'static str, String)]) -> String {
    match pairs {
        [(_, value)] => value.clone(),
        _ => {
            let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

/// A list with one element in each line, unless there are few.
fn list(elements: impl Iterator<Item = String>) -> String {
    let elements: Vec<String> = elements.collect();
    match elements.len() {
        0 | 1 => format!("[{}]", elements.join(", ")),
        _ => format!("[\n  {},\n]", elements.join(",\n  ")),
    }
}

fn ends(out: &mut String, plan: &Plan, domain: &Domain) {
    if domain.ends.is_empty() {
        return;
    }
    let _ = writeln!(out, "[pd.{}.channels]", domain.name);
    for (number, end) in domain.ends.iter().enumerate() {
        let end = match end {
            End::Peer { domain, end, notify, call, label } => {
                let peer = text(&plan.domains[*domain].name);
                let call = if *call { ", call = true" } else { "" };
                format!("{{ to = {peer}, its_number = {end}, notify = {notify}{call}, for = {} }}", text(label))
            }
            End::Interrupt { device, interrupt } => {
                let device = text(&plan.devices[*device].board.name);
                format!("{{ interrupt = {}, of = {device} }}", interrupt.number)
            }
            End::VirtualCpu { guest, cpu } => {
                format!("{{ runs = {}, cpu = {cpu} }}", text(&plan.guests[*guest].name))
            }
            End::Child { domain } => format!("{{ supervises = {} }}", text(&plan.domains[*domain].name)),
        };
        key(out, &number.to_string(), end);
    }
}

fn region(out: &mut String, plan: &Plan, region: &Region) {
    line(out, "\n[[region]]");
    key(out, "name", text(&region.name));
    key(out, "size", size(region.size));
    key(out, "kind", text(region.kind.name()));
    let purpose = match region.purpose {
        Purpose::Description => "named in the description",
        Purpose::Queues => "queues",
        Purpose::Buffers => "payload buffers",
        Purpose::Registers => "device registers",
        Purpose::Descriptors => "a driver's structures for its device",
        Purpose::Counters => "counters",
        Purpose::Account => "a domain's record for its next life",
        Purpose::Shown => "what a provider shows",
        Purpose::VirtualCpu => "a guest's virtual CPU",
        Purpose::Guest => "memory of a guest",
    };
    key(out, "purpose", text(purpose));
    if let Some(address) = region.address {
        key(out, "at", format!("{address:#x}"));
    }
    let mappings: Vec<String> = region
        .mappings
        .iter()
        .map(|mapping| {
            let permissions = if mapping.writable { "rw" } else { "r" };
            let name = text(&plan.domains[mapping.domain].name);
            match mapping.only {
                None => format!("{name} = \"{permissions}\""),
                Some((offset, bytes)) => format!(
                    "{name} = {{ {} = {}, {} = {}, {} = \"{permissions}\" }}",
                    "offset",
                    size(offset),
                    "size",
                    size(bytes),
                    "access"
                ),
            }
        })
        .collect();
    key(out, "map", format!("{{ {} }}", mappings.join(", ")));
}
