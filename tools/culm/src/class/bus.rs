//! Bus class: the driver of a bridge makes each device behind it ready, and shows the device's
//! driver that it is, in a page of its own.

use super::interface::Class;
use crate::expand::draft::{Draft, DraftDomain, DraftProvider, OfClass, Service};
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::plan::{Bridge, Memory, PhysicalRange, Purpose, RegionKind, Slot};
use crate::reference::table::{Table, key};
use culm_abi::connection::{BusClient, BusProvider, BusProviderClient};
use culm_abi::memory::PAGE_SIZE;
use culm_manifest::ConnectionKind;

/// The class.
pub struct Bus;

/// The work of a provider.
struct Work {
    /// Where memory is put that no driver uses.
    aside: PhysicalRange,
    tenants: Vec<Tenant>,
}

/// A device behind the bridge, and who drives it.
#[derive(Clone)]
struct Tenant {
    domain: DraftDomain,
    slot: Slot,
    registers: PhysicalRange,
    is_master: bool,
}

impl Class for Bus {
    fn name(&self) -> &'static str {
        "bus"
    }

    fn client_kind(&self, service: Service) -> Option<ConnectionKind> {
        (service == Service::FarEnd).then(ConnectionKind::of::<BusClient>)
    }

    fn client_keys(&self) -> Vec<Table> {
        vec![Table {
            heading: "Connections of the kind bus-client",
            intro: "`bus = \"pci0\"`, or a table. The driver or owner of a device that sits behind a bridge has one."
                .to_string(),
            keys: vec![key("device", "text", "required", "the bridge behind which its device sits")],
        }]
    }

    fn check_provider(&self, draft: &mut Draft<'_>, provider: DraftProvider) {
        let device = draft.providers[provider].device.map(|(device, _)| device);
        let bridge = device.and_then(|device| draft.devices[device].board.bridge.clone());
        let Some(Bridge { aside, .. }) = bridge else { return no_bridge(draft, provider) };
        let name = draft.providers[provider].name.clone();
        let behind = draft.devices.iter().filter_map(|device| {
            let slot = device.board.slot.clone().filter(|slot| slot.bridge == name)?;
            let (registers, is_master) = (device.board.registers, device.board.dma > 0);
            Some(Tenant { domain: device.driver, slot, registers, is_master })
        });
        let tenants: Vec<Tenant> = behind.collect();
        check_clients(draft, provider, &tenants);
        draft.providers[provider].of_class = OfClass::new(Work { aside, tenants });
    }

    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
        let Work { aside, tenants } = provider.provider.of_class.get();
        let clients = provider.clients.iter().filter_map(|(client, domain)| {
            let tenant = tenants.iter().find(|tenant| tenant.domain == client.domain)?;
            let label = format!("{} {}", wiring.name(*domain), client.connection);
            let mappings = [(provider.domain, true), (*domain, false)];
            let name = format!("{label} state");
            let page = wiring.region(name, PAGE_SIZE, RegionKind::Cached, Purpose::Shown, &mappings);
            let shown = Memory::region(page, PAGE_SIZE);
            let (channel, client_end) = wiring.channel((provider.domain, true), (*domain, false), &label);
            let connection = BusClient { shown, channel: client_end };
            wiring.connect_slot(*domain, client.slot, &client.connection, &provider.provider.name, connection);
            let Tenant { slot, registers: PhysicalRange { address, size }, is_master, .. } = tenant.clone();
            let (vendor, product) = (slot.vendor.into(), slot.product.into());
            let (slot, bar) = (slot.number, slot.bar);
            Some(BusProviderClient { shown, address, size, slot, bar, vendor, product, channel, is_master })
        });
        let clients = clients.collect();
        wiring.connect_provider(provider, "", BusProvider { aside: aside.address, aside_size: aside.size, clients });
    }
}

/// Reports a provider of which the board does not say what is behind it.
fn no_bridge(draft: &mut Draft<'_>, provider: DraftProvider) {
    let (name, span) = (draft.providers[provider].name.clone(), draft.providers[provider].base.span.clone());
    let diagnostic = draft
        .at(&span, format!("the board does not say what is behind `{name}`"))
        .help("its device in the board file has a `bridge`, with window and interrupts");
    draft.error(diagnostic);
}

/// Each client has one device behind the bridge, and each device a client for its driver.
fn check_clients(draft: &mut Draft<'_>, provider: DraftProvider, tenants: &[Tenant]) {
    let name = draft.providers[provider].name.clone();
    let clients: Vec<DraftDomain> = draft.clients_of(provider).map(|client| client.domain).collect();
    let mut found = Vec::new();
    for (index, client) in clients.iter().enumerate() {
        let owner = &draft.domains[*client].name;
        let own = tenants.iter().filter(|tenant| tenant.domain == *client).count();
        let message = match own {
            1 if clients[..index].contains(client) => format!("`{}` is a client of `{name}` twice", owner.value),
            1 => continue,
            0 => format!("`{}` has no device behind `{name}`", owner.value),
            _ => format!("`{}` has {own} devices behind `{name}`", owner.value),
        };
        found.push(draft.at(&owner.span, message).help("a client of it drives or owns one device that sits there"));
    }
    for device in &draft.devices {
        let is_behind = device.board.slot.as_ref().is_some_and(|slot| slot.bridge == name);
        if is_behind && !clients.contains(&device.driver) {
            let message =
                format!("nobody would make `{}` ready: its driver is no client of `{name}`", device.board.name);
            found.push(
                draft.at(&device.named_at, message).help("its driver needs a connection of the kind `bus-client`"),
            );
        }
    }
    for diagnostic in found {
        draft.error(diagnostic);
    }
}
