//! The wiring: numbers for channels, places for queues. Nothing here can fail; whatever could be
//! wrong, the draft has refused.

use super::draft::{self, Client, DraftDomain};
use crate::plan::{
    Component, ConnectionData, Device, Domain, DomainConnection, DomainId, End, EndNumber, Mapping, Purpose, Region,
    RegionId, RegionKind, Ring, RingId,
};
use culm_abi::memory::PAGE_SIZE;
use culm_abi::start::IMPLICIT;
use culm_manifest::Manifest;
use std::collections::BTreeMap;

/// A plan in the making.
pub struct Wiring {
    pub domains: Vec<Domain>,
    pub regions: Vec<Region>,
    pub rings: Vec<Ring>,
    pub devices: Vec<Device>,
    pub components: Vec<Component>,
    /// Where each of the draft's domains has gone.
    pub ids: Vec<DomainId>,
    /// Memory that clients of one provider borrow from another client of its own.
    pub loans: Vec<Loan>,
    /// The guest that a domain runs.
    pub guests: BTreeMap<DomainId, String>,
}

/// Memory that a device reaches through one client, and of which that one lends a part to a client
/// of its own: a file service and its clients. The device's class makes it, the other class uses
/// it.
#[derive(Debug)]
pub struct Loan {
    /// The client of the device: its domain, and the connection's place in its manifest.
    pub lender: (DomainId, usize),
    /// The client of that client, in the same way.
    pub borrower: (DomainId, usize),
    /// Bytes, whole pages.
    pub size: u64,
    /// The region, and where the part begins in it, as soon as it is made.
    pub part: Option<(RegionId, u64)>,
}

/// A provider with all that a class needs to wire it.
pub struct ProviderClients<'d, 'a> {
    pub provider: &'d draft::Provider<'a>,
    /// The driver, or the component in its place.
    pub domain: DomainId,
    pub virtualisers: Vec<DomainId>,
    pub clients: Vec<(&'d Client, DomainId)>,
}

impl ProviderClients<'_, '_> {
    /// Whether a virtualiser is a domain of its own: queues and a channel lead from it to the
    /// driver then, which would be of no use where one domain does the work of both.
    pub fn is_apart(&self, virtualiser: DomainId) -> bool {
        virtualiser != self.domain
    }
}

/// A queue to make between a pair of domains.
pub struct RingSpec {
    pub name: String,
    pub capacity: u32,
    pub entry_size: u32,
    /// The first of the pair produces.
    pub forward: bool,
}

impl Loan {
    fn is_of(&self, lender: (DomainId, Option<usize>)) -> bool {
        (self.lender.0, Some(self.lender.1)) == lender
    }
}

impl Wiring {
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

    /// A channel between two domains, each with its right to notify; returns the numbers of the two
    /// ends.
    pub fn channel(
        &mut self,
        first: (DomainId, bool),
        second: (DomainId, bool),
        label: &str,
    ) -> (EndNumber, EndNumber) {
        self.channel_with_calls((first.0, first.1, false), (second.0, second.1, false), label)
    }

    /// The same, where an end may call too.
    pub fn channel_with_calls(
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
        let mappings = mappings.iter().map(|&(domain, writable)| Mapping { domain, writable, only: None }).collect();
        let size = size.next_multiple_of(PAGE_SIZE);
        self.regions.push(Region { name, size, kind, address: None, mappings, purpose, place: None });
        self.regions.len() - 1
    }

    /// Lets a domain see a region, unless it does already.
    pub fn map(&mut self, region: RegionId, domain: DomainId, writable: bool) {
        let mappings = &mut self.regions[region].mappings;
        if !mappings.iter().any(|mapping| mapping.domain == domain) {
            mappings.push(Mapping { domain, writable, only: None });
        }
    }

    /// Returns the bytes that a client lends of the memory that its device reaches.
    pub fn lent(&self, lender: (DomainId, Option<usize>)) -> u64 {
        self.loans.iter().filter(|loan| loan.is_of(lender)).map(|loan| loan.size).sum()
    }

    /// Lends parts of a region, one after the other from `offset` on; each borrower sees its own.
    pub fn lend(&mut self, lender: (DomainId, Option<usize>), region: RegionId, mut offset: u64) {
        for loan in self.loans.iter_mut().filter(|loan| loan.is_of(lender)) {
            loan.part = Some((region, offset));
            let only = Some((offset, loan.size));
            self.regions[region].mappings.push(Mapping { domain: loan.borrower.0, writable: true, only });
            offset += loan.size;
        }
    }

    /// Returns the region of which a client has a part, and where that begins.
    pub fn borrowed(&self, borrower: (DomainId, Option<usize>)) -> Option<(RegionId, u64)> {
        let loan = self.loans.iter().find(|loan| (loan.borrower.0, Some(loan.borrower.1)) == borrower)?;
        loan.part
    }

    /// Queues between a pair of domains, in a region of their own.
    pub fn rings(
        &mut self,
        region: String,
        (first, second): (DomainId, DomainId),
        specs: &[RingSpec],
        observed: bool,
    ) -> Vec<RingId> {
        let id = self.region(region, 0, RegionKind::Cached, Purpose::Queues, &[(first, true)]);
        self.map(id, second, true);
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

    /// Gives a provider the connection by which it provides its class.
    pub fn connect_provider(&mut self, clients: &ProviderClients<'_, '_>, peer: &str, data: impl Into<ConnectionData>) {
        let slot = clients.provider.slot;
        let name = self.manifest(clients.domain).connections[slot].name.clone();
        self.connect_slot(clients.domain, Some(slot), &name, peer, data);
    }

    /// The manifest of a domain's component.
    pub fn manifest(&self, domain: DomainId) -> &Manifest {
        &self.components[self.domains[domain].component].manifest
    }

    /// Gives a domain a connection at this position of its manifest's list; `None`: one that no
    /// manifest lists.
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
}
