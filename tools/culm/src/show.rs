//! A plan in words: what `culm expand` prints. It is TOML, so that programs can read it too.

use crate::plan::{
    ConfigValue, ConnectionData, Domain, DomainConnection, End, Memory, Origin, Plan, Purpose, Region, RingId,
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
    key(out, "class", text(board.class.name()));
    key(out, "compatible", text(&board.compatible));
    key(out, "driver", text(&plan.domains[device.driver].name));
    let registers = board.registers;
    key(out, "registers", format!("{{ address = {:#x}, size = {:#x} }}", registers.address, registers.size));
    let interrupts: Vec<String> = board.interrupts.iter().map(|interrupt| interrupt.number.to_string()).collect();
    key(out, "interrupts", format!("[{}]", interrupts.join(", ")));
    if let Some(mac) = device.mac {
        key(out, "mac", text(&format_mac(mac)));
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
    let device = |device: usize| plan.devices[device].board.name.clone();
    match domain.origin {
        Origin::Description => None,
        Origin::Driver(id) => Some(format!("Drives {}.", device(id))),
        Origin::Virtualiser(id) => Some(format!("Shares {} among its clients.", device(id))),
        Origin::Copier(id) => Some(format!("Copies what {} received for one client.", device(id))),
        Origin::Through(id) => Some(format!("Hands what {} received on to one client.", device(id))),
        Origin::Supervisor => Some("Is told of the faults of all others.".to_string()),
    }
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

/// Fields of a connection, in one line each.
fn connection(out: &mut String, plan: &Plan, domain: &Domain, connection: &DomainConnection) {
    let _ = writeln!(out, "[pd.{}.connection.{}]", domain.name, connection.name);
    if !connection.peer.is_empty() {
        key(out, "to", text(&connection.peer));
    }
    let ring = |ring: RingId| text(&plan.rings[ring].name);
    let region = |memory: &Memory| text(&plan.regions[memory.region].name);
    match &connection.data {
        ConnectionData::Channel { channel, notify, call } => {
            key(out, "channel", channel);
            key(out, "notify", notify);
            key(out, "call", call);
        }
        ConnectionData::Region { memory, writable } => {
            key(out, "region", region(memory));
            key(out, "writable", writable);
        }
        ConnectionData::Device { device, interrupts } => {
            key(out, "device", text(&plan.devices[*device].board.name));
            key(out, "interrupts", format!("{interrupts:?}"));
        }
        ConnectionData::NetDriver { .. }
        | ConnectionData::NetRxVirtualiser { .. }
        | ConnectionData::NetTxVirtualiser { .. } => net_device_side(out, plan, &connection.data),
        ConnectionData::NetCopier { .. } | ConnectionData::NetClient { .. } => {
            net_end(out, plan, &connection.data);
        }
        ConnectionData::SerialDriver { tx, rx, channel } => {
            key(out, "tx", ring(*tx));
            key(out, "rx", ring(*rx));
            key(out, "channel", channel);
        }
        ConnectionData::SerialVirtualiser { driver_tx, driver_rx, driver_channel, clients } => {
            key(out, "driver_tx", ring(*driver_tx));
            key(out, "driver_rx", ring(*driver_rx));
            key(out, "driver_channel", driver_channel);
            let clients = clients.iter().map(|client| {
                let rx = client.rx.map(|rx| format!(", rx = {}", ring(rx))).unwrap_or_default();
                format!(
                    "{{ tx = {}{rx}, channel = {}, name = {} }}",
                    ring(client.tx),
                    client.channel,
                    text(&client.name)
                )
            });
            key(out, "clients", list(clients));
        }
        ConnectionData::SerialClient { tx, rx, channel } => {
            key(out, "tx", ring(*tx));
            if let Some(rx) = rx {
                key(out, "rx", ring(*rx));
            }
            key(out, "channel", channel);
        }
        ConnectionData::Supervision { children } => {
            let names = children.iter().map(|child| text(&plan.domains[child.domain].name));
            key(out, "children", list(names));
        }
        ConnectionData::Observation { rings } => key(out, "queues", list(rings.iter().map(|id| ring(*id)))),
    }
}

/// The driver's and the virtualisers' sides of a network device.
fn net_device_side(out: &mut String, plan: &Plan, data: &ConnectionData) {
    let ring = |ring: RingId| text(&plan.rings[ring].name);
    let region = |memory: &Memory| text(&plan.regions[memory.region].name);
    match data {
        ConnectionData::NetDriver {
            rx_free,
            rx_filled,
            tx_filled,
            tx_free,
            rx_channel,
            tx_channel,
            mac,
            large_receive,
        } => {
            for (name, id) in
                [("rx_free", rx_free), ("rx_filled", rx_filled), ("tx_filled", tx_filled), ("tx_free", tx_free)]
            {
                key(out, name, ring(*id));
            }
            key(out, "channels", format!("{{ rx = {rx_channel}, tx = {tx_channel} }}"));
            key(out, "mac", text(&format_mac(*mac)));
            key(out, "large_receive", large_receive);
        }
        ConnectionData::NetRxVirtualiser { driver_free, driver_filled, data, driver_channel, clients, .. } => {
            key(out, "driver_free", ring(*driver_free));
            key(out, "driver_filled", ring(*driver_filled));
            key(out, "driver_channel", driver_channel);
            key(out, "data", region(data));
            let clients = clients.iter().map(|client| {
                let (filled, free) = (ring(client.filled), ring(client.free));
                let mac = format_mac(client.mac);
                format!("{{ filled = {filled}, free = {free}, channel = {}, mac = \"{mac}\" }}", client.channel)
            });
            key(out, "clients", list(clients));
        }
        ConnectionData::NetTxVirtualiser { driver_filled, driver_free, driver_channel, bounce, clients, .. } => {
            key(out, "driver_filled", ring(*driver_filled));
            key(out, "driver_free", ring(*driver_free));
            key(out, "driver_channel", driver_channel);
            if let Some(bounce) = bounce {
                key(out, "bounce", region(bounce));
            }
            let clients = clients.iter().map(|client| {
                let (filled, free, data) = (ring(client.filled), ring(client.free), region(&client.data));
                let (channel, anti_spoof, mac) = (client.channel, client.anti_spoof, format_mac(client.mac));
                let large = client.large;
                format!(
                    "{{ filled = {filled}, free = {free}, data = {data}, large = {large}, channel = {channel}, \
                     mac = \"{mac}\", anti_spoof = {anti_spoof} }}"
                )
            });
            key(out, "clients", list(clients));
        }
        _ => {}
    }
}

/// The two ends that frames pass on their way to a client.
fn net_end(out: &mut String, plan: &Plan, data: &ConnectionData) {
    let mut rings: Vec<(&str, RingId)> = Vec::new();
    let mut regions: Vec<(&str, Memory)> = Vec::new();
    let mut channels: Vec<(&str, u32)> = Vec::new();
    match data {
        ConnectionData::NetCopier {
            device_filled,
            device_free,
            device_data,
            client_filled,
            client_free,
            client_data,
            device_channel,
            client_channel,
            ..
        } => {
            rings.extend([("device_filled", *device_filled), ("device_free", *device_free)]);
            rings.extend([("client_filled", *client_filled), ("client_free", *client_free)]);
            regions.extend([("device_data", *device_data), ("client_data", *client_data)]);
            channels.extend([("device", *device_channel), ("client", *client_channel)]);
        }
        ConnectionData::NetClient {
            rx_filled,
            rx_free,
            tx_filled,
            tx_free,
            rx_data,
            tx_data,
            rx_channel,
            tx_channel,
            owns_rx,
            rx_large,
            tx_large,
            mac,
            ..
        } => {
            key(out, "mac", text(&format_mac(*mac)));
            key(out, "owns_rx", owns_rx);
            key(out, "large_buffers", format!("{{ rx = {rx_large}, tx = {tx_large} }}"));
            rings.extend([("rx_filled", *rx_filled), ("rx_free", *rx_free)]);
            rings.extend([("tx_filled", *tx_filled), ("tx_free", *tx_free)]);
            regions.extend([("rx_data", *rx_data), ("tx_data", *tx_data)]);
            channels.extend([("rx", *rx_channel), ("tx", *tx_channel)]);
        }
        _ => {}
    }
    for (name, ring) in rings {
        key(out, name, text(&plan.rings[ring].name));
    }
    for (name, memory) in regions {
        key(out, name, text(&plan.regions[memory.region].name));
    }
    let channels: Vec<String> = channels.iter().map(|(name, channel)| format!("{name} = {channel}")).collect();
    key(out, "channels", format!("{{ {} }}", channels.join(", ")));
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
            format!("{} = \"{permissions}\"", text(&plan.domains[mapping.domain].name))
        })
        .collect();
    key(out, "map", format!("{{ {} }}", mappings.join(", ")));
}
