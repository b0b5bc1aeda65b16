//! The finished plan, from a draft without mistakes. Nothing here can fail; whatever could be
//! wrong, the draft has refused.

use super::draft::{self, Draft, DraftDevice, DraftDomain, DraftProvider};
use super::guests;
use super::supervision;
use super::wiring::{Loan, ProviderClients, Wiring};
use crate::class;
use crate::diagnostics::Location;
use crate::plan::{
    Component, ConnectionData, Device, DeviceId, Domain, DomainConnection, DomainId, End, Memory, Plan, Provider,
    Purpose, RegionKind, RegionPart, Rights,
};
use culm_abi::connection::{Channel, Counters, Interrupt};
use culm_abi::memory::PAGE_SIZE;
use std::collections::BTreeMap;
use std::path::Path;

/// Makes the plan.
pub fn assemble(draft: &Draft<'_>, path: &Path) -> Plan {
    let components = components(draft);
    let (domains, ids) = domains(draft, &components);
    let (regions, rings, devices) = (Vec::new(), Vec::new(), Vec::new());
    let loans = loans(draft, &ids);
    let guests = draft.guests.iter().map(|guest| (ids[guest.monitor], guest.table.name.value.clone())).collect();
    let mut wiring = Wiring { domains, regions, rings, devices, components, ids, loans, guests };
    for index in 0..draft.devices.len() {
        device(&mut wiring, draft, index);
        for provider in (0..draft.providers.len()).filter(|id| drives(draft, *id) == Some(index)) {
            self::provider(&mut wiring, draft, provider);
        }
    }
    for provider in (0..draft.providers.len()).filter(|id| drives(draft, *id).is_none()) {
        self::provider(&mut wiring, draft, provider);
    }
    described_channels(&mut wiring, draft);
    described_regions(&mut wiring, draft);
    let guests = guests::wire(&mut wiring, draft);
    supervision::wire(&mut wiring);
    counters(&mut wiring);
    let observers = observers(&mut wiring, draft);
    for domain in &mut wiring.domains {
        domain.connections.sort_by_key(|connection| connection.slot);
    }
    let providers = draft.providers.iter().map(|provider| Provider {
        name: provider.name.clone(),
        class: provider.class,
        domain: wiring.id(provider.domain),
        device: provider.device.map(|(device, _)| device),
    });
    let providers = providers.collect();
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let Wiring { domains, regions, rings, devices, components, .. } = wiring;
    let mut plan = Plan {
        name: draft.file.name.as_ref().map_or(stem, |name| name.value.clone()),
        description: draft.file.description.clone(),
        file: path.to_path_buf(),
        board: draft.board.board.clone(),
        components,
        domains,
        regions,
        rings,
        devices,
        providers,
        guests,
    };
    let observation = ConnectionData::from(plan.observation());
    for observer in observers {
        let connections = &mut plan.domains[observer].connections;
        connections.push(DomainConnection::implicit("observation", observation.clone()));
    }
    plan
}

/// The components in use, sorted by name.
fn components(draft: &Draft<'_>) -> Vec<Component> {
    let used: BTreeMap<&str, Component> = draft
        .domains
        .iter()
        .map(|domain| {
            let component = Component { manifest: domain.manifest.clone(), folder: domain.component.folder.clone() };
            (domain.manifest.name.as_str(), component)
        })
        .collect();
    used.into_values().collect()
}

/// The domains by core, and where each of the draft's has gone.
fn domains(draft: &Draft<'_>, components: &[Component]) -> (Vec<Domain>, Vec<DomainId>) {
    let mut order: Vec<DraftDomain> = (0..draft.domains.len()).collect();
    order.sort_by_key(|domain| draft.domains[*domain].core);
    let mut ids = vec![0; order.len()];
    for (id, domain) in order.iter().enumerate() {
        ids[*domain] = id;
    }
    let make = |domain: &draft::Domain<'_>| Domain {
        name: domain.name.value.clone(),
        component: components
            .iter()
            .position(|component| component.manifest.name == domain.manifest.name)
            .unwrap_or_default(),
        origin: domain.origin,
        core: domain.core,
        priority: domain.priority,
        passive: domain.passive,
        budget: domain.budget,
        stack: domain.stack,
        heap: domain.heap,
        log: domain.log,
        may_halt: domain.may_halt,
        on_fault: domain.on_fault,
        restart: domain.restart,
        supervisor: None,
        counters: None,
        config: domain.config.clone(),
        connections: Vec::new(),
        ends: Vec::new(),
    };
    (order.iter().map(|domain| make(&draft.domains[*domain])).collect(), ids)
}

/// Returns the loans of memory between clients. A client that finds no lender borrows nothing.
fn loans(draft: &Draft<'_>, ids: &[DomainId]) -> Vec<Loan> {
    let loan = |client: &draft::Client| {
        let provider = &draft.providers[client.provider];
        let (kind, size) = class::of(provider.class).borrows(client)?;
        let lends = |other: &&draft::Client| {
            let connections = &draft.domains[other.domain].manifest.connections;
            other.domain == provider.domain && other.slot.is_some_and(|slot| connections[slot].kind == kind)
        };
        let lender = draft.clients.iter().find(lends)?;
        let (lender, borrower) = ((ids[lender.domain], lender.slot?), (ids[client.domain], client.slot?));
        Some(Loan { lender, borrower, size, part: None })
    };
    draft.clients.iter().filter_map(loan).collect()
}

/// The device that a provider drives.
fn drives(draft: &Draft<'_>, provider: DraftProvider) -> Option<DraftDevice> {
    draft.providers[provider].device.map(|(device, _)| device)
}

/// One device: registers, interrupts, DMA memory.
fn device(wiring: &mut Wiring, draft: &Draft<'_>, index: DraftDevice) {
    let device = &draft.devices[index];
    let id: DeviceId = wiring.devices.len();
    let driver = wiring.id(device.driver);
    let name = &device.board.name;
    let pages = device.board.registers.pages();
    let registers = wiring.region(
        format!("{name} registers"),
        pages.size,
        RegionKind::Device,
        Purpose::Registers,
        &[(driver, true)],
    );
    wiring.regions[registers].address = Some(pages.address);
    let dma = (device.board.dma > 0).then(|| {
        let name = format!("{name} descriptors");
        wiring.region(name, device.board.dma, RegionKind::Dma, Purpose::Descriptors, &[(driver, true)])
    });
    let interrupts = device
        .board
        .interrupts
        .iter()
        .map(|&interrupt| Interrupt { channel: wiring.end(driver, End::Interrupt { device: id, interrupt }) })
        .collect();
    let offset = device.board.registers.address - pages.address;
    let size = device.board.registers.size;
    let connection = culm_abi::connection::Device {
        registers: Memory::Region(RegionPart { region: registers, offset, size, dma: false }),
        interrupts,
        dma: dma.map(|region| Memory::dma(region, wiring.regions[region].size)),
    };
    let providers = draft.providers.iter().filter(|provider| provider.device.is_some_and(|(id, _)| id == index));
    let mac = providers.clone().find_map(|provider| class::of(provider.class).hardware_address(provider));
    let file = providers.clone().find_map(|provider| class::of(provider.class).host_file(provider));
    wiring.devices.push(Device { board: device.board.clone(), driver, registers, offset, dma, mac, file });
    let key = wiring.manifest(driver).connections[device.slot].name.clone();
    wiring.connect_slot(driver, Some(device.slot), &key, name, connection);
}

/// A provider, its virtualisers and its clients: its class's part.
fn provider(wiring: &mut Wiring, draft: &Draft<'_>, index: DraftProvider) {
    let provider = &draft.providers[index];
    let clients = ProviderClients {
        provider,
        domain: wiring.id(provider.domain),
        virtualisers: provider.virtualisers.iter().map(|virtualiser| wiring.id(*virtualiser)).collect(),
        clients: draft.clients_of(index).map(|client| (client, wiring.id(client.domain))).collect(),
    };
    class::of(provider.class).wire(wiring, &clients);
}

/// `[[channel]]`.
fn described_channels(wiring: &mut Wiring, draft: &Draft<'_>) {
    for channel in &draft.channels {
        let [first, second] = &channel.ends;
        let ids = [wiring.id(first.domain), wiring.id(second.domain)];
        let label = match first.connection == second.connection {
            true => first.connection.clone(),
            false => format!("{} – {}", first.connection, second.connection),
        };
        let numbers =
            wiring.channel_with_calls((ids[0], first.notify, first.call), (ids[1], second.notify, second.call), &label);
        for (end, (own, peer), number) in [(first, (0, 1), numbers.0), (second, (1, 0), numbers.1)] {
            let rights = Rights { notify: end.notify, call: end.call };
            let connection = Channel { channel: number, rights };
            let peer = wiring.name(ids[peer]);
            wiring.connect_slot(ids[own], Some(end.slot), &end.connection, &peer, connection);
        }
    }
}

/// `[[region]]`.
fn described_regions(wiring: &mut Wiring, draft: &Draft<'_>) {
    for region in &draft.regions {
        let kind = region.table.kind.value;
        let name = region.table.name.value.clone();
        let size = region.table.size.value;
        let id = wiring.region(name.clone(), size, RegionKind::of(kind), Purpose::Description, &[]);
        if let Some(at) = &region.table.at {
            wiring.regions[id].address = Some(at.value);
            wiring.regions[id].place = Some(Location { source: draft.source.clone(), span: at.span.clone() });
        }
        for &(domain, slot, writable) in &region.mappings {
            let domain = wiring.id(domain);
            match wiring.regions[id].mappings.iter_mut().find(|mapping| mapping.domain == domain) {
                Some(mapping) => mapping.writable |= writable,
                None => wiring.map(id, domain, writable),
            }
            let dma = kind == culm_manifest::MemoryKind::Dma;
            let connection = culm_abi::connection::Region {
                region: if dma { Memory::dma(id, size) } else { Memory::region(id, size) },
                writable,
            };
            let key = wiring.manifest(domain).connections[slot].name.clone();
            wiring.connect_slot(domain, Some(slot), &key, &name, connection);
        }
    }
}

/// A page for each domain whose manifest names counters.
fn counters(wiring: &mut Wiring) {
    const { assert!(size_of::<Counters>() == PAGE_SIZE as usize) };
    for domain in 0..wiring.domains.len() {
        if wiring.manifest(domain).counters.is_empty() {
            continue;
        }
        let name = format!("{} counters", wiring.domains[domain].name);
        let region = wiring.region(name, PAGE_SIZE, RegionKind::Cached, Purpose::Counters, &[(domain, true)]);
        wiring.domains[domain].counters = Some(region);
    }
}

/// Who may see the whole system sees every counter, and the queues whose content is no one's
/// secret.
fn observers(wiring: &mut Wiring, draft: &Draft<'_>) -> Vec<DomainId> {
    let observers = draft.domains.iter().enumerate().filter(|(_, domain)| domain.observe);
    let observers: Vec<DomainId> = observers.map(|(domain, _)| wiring.id(domain)).collect();
    let queues = wiring.rings.iter().filter(|ring| ring.observed).map(|ring| ring.region);
    let counters = wiring.domains.iter().filter_map(|domain| domain.counters);
    for region in queues.chain(counters).collect::<Vec<_>>() {
        for &observer in &observers {
            wiring.map(region, observer, false);
        }
    }
    observers
}
