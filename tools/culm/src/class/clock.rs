//! Clock class: whoever knows the time of day shows it in a page that clients read. There are no
//! queues, and nobody waits for anybody.

use super::interface::Class;
use crate::expand::draft::Service;
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::plan::{Memory, Purpose, RegionKind};
use crate::reference::table::{Table, key};
use culm_abi::connection::{ClockClient, ClockProvider};
use culm_abi::memory::PAGE_SIZE;
use culm_manifest::ConnectionKind;

/// The class.
pub struct Clock;

impl Class for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn client_kind(&self, service: Service) -> Option<ConnectionKind> {
        (service == Service::FarEnd).then(ConnectionKind::of::<ClockClient>)
    }

    fn client_keys(&self) -> Vec<Table> {
        vec![Table {
            heading: "Connections of the kind clock-client",
            intro: "`clock = \"rtc0\"`, or a table.".to_string(),
            keys: vec![key("device", "text", "required", "whatever knows the time of day")],
        }]
    }

    fn notifies(&self) -> bool {
        false
    }

    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
        let name = &provider.provider.name;
        let readers = provider.clients.iter().map(|(_, domain)| (*domain, false));
        let mappings: Vec<_> = [(provider.domain, true)].into_iter().chain(readers).collect();
        let page = wiring.region(format!("{name} time"), PAGE_SIZE, RegionKind::Cached, Purpose::Shown, &mappings);
        let shown = Memory::region(page, PAGE_SIZE);
        for (client, domain) in &provider.clients {
            wiring.connect_slot(*domain, client.slot, &client.connection, name, ClockClient { shown });
        }
        wiring.connect_provider(provider, name, ClockProvider { shown });
    }
}
