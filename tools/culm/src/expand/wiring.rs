//! The wiring: numbers for domains and channels, places for queues, and the finished plan. Nothing here can fail;
//! whatever could be wrong, the draft has refused.

use super::draft::{self, Client, Draft, DraftDevice, DraftDomain};
use super::{net, serial, supervision};
use crate::diagnostics::{Diagnostics, Place};
use crate::plan::{
    Component, ConnectionData, Device, DeviceId, Domain, DomainConnection, DomainId, End, EndNumber, Mapping, Memory,
    Part, Plan, Purpose, Region, RegionId, RegionKind, Rights, Ring, RingId,
};
use culm_abi::connection::{Channel, Interrupt};
use culm_abi::memory::PAGE_SIZE;
use culm_abi::start::IMPLICIT;
use culm_manifest::{MAX_COUNTERS, Manifest};
use std::collections::BTreeMap;
use std::path::Path;

/// A plan in the making.
pub struct Wiring<'d> {
    pub domains: Vec<Domain>,
    pub regions: Vec<Region>,
    pub rings: Vec<Ring>,
    pub devices: Vec<Device>,
    components: Vec<Component>,
    draft: &'d Draft<'d>,
    ids: Vec<DomainId>,
}

/// A device in use with all that a class needs to wire it.
pub struct DeviceClients<'d, 'a> {
    pub device: &'d draft::Device<'a>,
    pub driver: DomainId,
    pub virtualisers: Vec<DomainId>,
    pub clients: Vec<(&'d Client, DomainId)>,
}

/// A queue to make between a pair of domains.
pub struct RingSpec {
    pub name: String,
    pub capacity: u32,
    pub entry_size: u32,
    /// The first of the pair produces.
    pub forward: bool,
}

impl Draft<'_> {
    /// Makes the plan.
    pub fn wire(self, path: &Path) -> Result<Plan, Diagnostics> {
        let components = components(&self);
        let (domains, ids) = domains(&self, &components);
        let (regions, rings, devices) = (Vec::new(), Vec::new(), Vec::new());
        let mut wiring = Wiring { domains, regions, rings, devices, components, draft: &self, ids };
        for device in 0..self.devices.len() {
            wiring.device(device);
        }
        wiring.described_channels();
        wiring.described_regions();
        supervision::wire(&mut wiring);
        wiring.counters();
        let observers = wiring.observers();
        for domain in &mut wiring.domains {
            domain.connections.sort_by_key(|connection| connection.slot);
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let Wiring { domains, regions, rings, devices, components, .. } = wiring;
        let mut plan = Plan {
            name: self.file.name.as_ref().map_or(stem, |name| name.value.clone()),
            description: self.file.description.clone(),
            file: path.to_path_buf(),
            board: self.board.board.clone(),
            components,
            domains,
            regions,
            rings,
            devices,
        };
        let observation = ConnectionData::from(plan.observation());
        for observer in observers {
            let connections = &mut plan.domains[observer].connections;
            connections.push(DomainConnection::implicit("observation", observation.clone()));
        }
        Ok(plan)
    }
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

impl<'d> Wiring<'d> {
    /// A draft domain's number.
    pub fn id(&self, domain: DraftDomain) -> DomainId {
        self.ids[domain]
    }

    /// A domain's name.
    pub fn name(&self, domain: DomainId) -> String {
        self.domains[domain].name.clone()
    }

    /// Adds a channel end; returns its number.
    pub fn end(&mut self, domain: DomainId, end: End) -> EndNumber {
        let ends = &mut self.domains[domain].ends;
        ends.push(end);
        (ends.len() - 1) as EndNumber
    }

    /// A channel between two domains, each with its right to notify; returns the numbers of the two ends.
    pub fn channel(
        &mut self,
        first: (DomainId, bool),
        second: (DomainId, bool),
        label: &str,
    ) -> (EndNumber, EndNumber) {
        self.channel_with_calls((first.0, first.1, false), (second.0, second.1, false), label)
    }

    fn channel_with_calls(
        &mut self,
        first: (DomainId, bool, bool),
        second: (DomainId, bool, bool),
        label: &str,
    ) -> (EndNumber, EndNumber) {
        let numbers = (self.domains[first.0].ends.len() as EndNumber, self.domains[second.0].ends.len() as EndNumber);
        let mut add = |(domain, notify, call): (DomainId, bool, bool), peer: DomainId, end| {
            self.end(domain, End::Peer { domain: peer, end, notify, call, label: label.to_string() });
        };
        add(first, second.0, numbers.1);
        add(second, first.0, numbers.0);
        numbers
    }

    /// A region mapped as given: domain, and whether it may write.
    pub fn region(
        &mut self,
        name: String,
        size: u64,
        kind: RegionKind,
        purpose: Purpose,
        mappings: &[(DomainId, bool)],
    ) -> RegionId {
        let mappings = mappings.iter().map(|&(domain, writable)| Mapping { domain, writable }).collect();
        let size = size.next_multiple_of(PAGE_SIZE);
        self.regions.push(Region { name, size, kind, address: None, mappings, purpose, place: None });
        self.regions.len() - 1
    }

    /// Lets a domain see a region, unless it does already.
    pub fn map(&mut self, region: RegionId, domain: DomainId, writable: bool) {
        let mappings = &mut self.regions[region].mappings;
        if !mappings.iter().any(|mapping| mapping.domain == domain) {
            mappings.push(Mapping { domain, writable });
        }
    }

    /// Queues between a pair of domains, in a region of their own.
    pub fn rings(
        &mut self,
        region: String,
        (first, second): (DomainId, DomainId),
        specs: &[RingSpec],
        observed: bool,
    ) -> Vec<RingId> {
        let mappings = [(first, true), (second, true)];
        let id = self.region(region, 0, RegionKind::Cached, Purpose::Queues, &mappings);
        let mut made = Vec::new();
        let mut offset = 0;
        for spec in specs {
            let (producer, consumer) = if spec.forward { (first, second) } else { (second, first) };
            self.rings.push(Ring {
                name: spec.name.clone(),
                region: id,
                offset,
                capacity: spec.capacity,
                entry_size: spec.entry_size,
                producer,
                consumer,
                observed,
            });
            made.push(self.rings.len() - 1);
            // The draft let only powers of two pass, and entry sizes are the classes' own.
            let size = culm_queue::layout(spec.capacity, spec.entry_size as usize).unwrap_or_default() as u64;
            offset = (offset + size).next_multiple_of(culm_queue::ALIGNMENT as u64);
        }
        self.regions[id].size = offset.next_multiple_of(PAGE_SIZE);
        made
    }

    /// Gives a domain the connection that its manifest lists for this kind.
    pub fn connect(&mut self, domain: DomainId, peer: &str, data: impl Into<ConnectionData>) {
        let data = data.into();
        if let Some((slot, connection)) = self.manifest(domain).connection_of_kind(data.kind().into()) {
            let name = connection.name.clone();
            self.connect_slot(domain, Some(slot), &name, peer, data);
        }
    }

    fn manifest(&self, domain: DomainId) -> &Manifest {
        &self.components[self.domains[domain].component].manifest
    }

    /// Gives a domain a connection at this position of its manifest's list; `None`: one that no manifest lists.
    pub fn connect_slot(
        &mut self,
        domain: DomainId,
        slot: Option<usize>,
        name: &str,
        peer: &str,
        data: impl Into<ConnectionData>,
    ) {
        let data = data.into();
        let slot = slot.map_or(IMPLICIT, |slot| slot as u32);
        let connection = DomainConnection { slot, name: name.to_string(), peer: peer.to_string(), data };
        self.domains[domain].connections.push(connection);
    }

    /// One device: registers, interrupts, DMA memory, then its class's part.
    fn device(&mut self, index: DraftDevice) {
        let draft = self.draft;
        let device = &draft.devices[index];
        let id: DeviceId = self.devices.len();
        let driver = self.id(device.driver);
        let name = &device.board.name;
        let pages = device.board.registers.pages();
        let registers = self.region(
            format!("{name} registers"),
            pages.size,
            RegionKind::Device,
            Purpose::Registers,
            &[(driver, true)],
        );
        self.regions[registers].address = Some(pages.address);
        let dma = (device.board.dma > 0).then(|| {
            let name = format!("{name} descriptors");
            self.region(name, device.board.dma, RegionKind::Dma, Purpose::Descriptors, &[(driver, true)])
        });
        let interrupts = device
            .board
            .interrupts
            .iter()
            .map(|&interrupt| Interrupt { channel: self.end(driver, End::Interrupt { device: id, interrupt }) })
            .collect();
        let offset = device.board.registers.address - pages.address;
        let size = device.board.registers.size;
        let connection = culm_abi::connection::Device {
            registers: Memory::Region(Part { region: registers, offset, size, dma: false }),
            interrupts,
            dma: dma.map(|region| Memory::dma(region, self.regions[region].size)),
        };
        self.devices.push(Device {
            board: device.board.clone(),
            driver,
            registers,
            offset,
            dma,
            mac: (device.board.class.name() == "net").then_some(device.mac),
        });
        self.connect(driver, name, connection);
        let clients = draft.clients.iter().filter(|client| client.device == index);
        let clients = DeviceClients {
            device,
            driver,
            virtualisers: device.virtualisers.iter().map(|virtualiser| self.id(*virtualiser)).collect(),
            clients: clients.map(|client| (client, self.id(client.domain))).collect(),
        };
        match device.board.class.name() {
            "net" => net::wire(self, &clients),
            _ => serial::wire(self, &clients),
        }
    }

    fn described_channels(&mut self) {
        let draft = self.draft;
        for channel in &draft.channels {
            let [first, second] = &channel.ends;
            let ids = [self.id(first.domain), self.id(second.domain)];
            let label = match first.connection == second.connection {
                true => first.connection.clone(),
                false => format!("{} – {}", first.connection, second.connection),
            };
            let numbers = self.channel_with_calls(
                (ids[0], first.notify, first.call),
                (ids[1], second.notify, second.call),
                &label,
            );
            for (end, (own, peer), number) in [(first, (0, 1), numbers.0), (second, (1, 0), numbers.1)] {
                let rights = Rights { notify: end.notify, call: end.call };
                let connection = Channel { channel: number, rights };
                let peer = self.name(ids[peer]);
                self.connect_slot(ids[own], Some(end.slot), &end.connection, &peer, connection);
            }
        }
    }

    fn described_regions(&mut self) {
        let draft = self.draft;
        for region in &draft.regions {
            let kind = region.table.kind.value;
            let name = region.table.name.value.clone();
            let size = region.table.size.value;
            let id = self.region(name.clone(), size, RegionKind::of(kind), Purpose::Description, &[]);
            if let Some(at) = &region.table.at {
                self.regions[id].address = Some(at.value);
                self.regions[id].place = Some(Place { source: draft.source.clone(), span: at.span.clone() });
            }
            for &(domain, slot, writable) in &region.mappings {
                let domain = self.id(domain);
                match self.regions[id].mappings.iter_mut().find(|mapping| mapping.domain == domain) {
                    Some(mapping) => mapping.writable |= writable,
                    None => self.map(id, domain, writable),
                }
                let dma = kind == culm_manifest::MemoryKind::Dma;
                let connection = culm_abi::connection::Region {
                    region: if dma { Memory::dma(id, size) } else { Memory::region(id, size) },
                    writable,
                };
                let key = self.manifest(domain).connections[slot].name.clone();
                self.connect_slot(domain, Some(slot), &key, &name, connection);
            }
        }
    }

    /// A page for each domain whose manifest names counters.
    fn counters(&mut self) {
        const { assert!(MAX_COUNTERS * 8 <= PAGE_SIZE as usize) };
        for domain in 0..self.domains.len() {
            if self.manifest(domain).counters.is_empty() {
                continue;
            }
            let name = format!("{} counters", self.domains[domain].name);
            let region = self.region(name, PAGE_SIZE, RegionKind::Cached, Purpose::Counters, &[(domain, true)]);
            self.domains[domain].counters = Some(region);
        }
    }

    /// Who may see the whole system sees every counter, and the queues whose content is no one's secret.
    fn observers(&mut self) -> Vec<DomainId> {
        let observers = self.draft.domains.iter().enumerate().filter(|(_, domain)| domain.observe);
        let observers: Vec<DomainId> = observers.map(|(domain, _)| self.id(domain)).collect();
        let queues = self.rings.iter().filter(|ring| ring.observed).map(|ring| ring.region);
        let counters = self.domains.iter().filter_map(|domain| domain.counters);
        for region in queues.chain(counters).collect::<Vec<_>>() {
            for &observer in &observers {
                self.map(region, observer, false);
            }
        }
        observers
    }
}
