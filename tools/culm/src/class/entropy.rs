//! Entropy class: the driver gives each client random words over a queue of its own.

use super::interface::Class;
use crate::expand::draft::Service;
use crate::expand::wiring::{ProviderClients, RingSpec, Wiring};
use crate::reference::table::{Table, key};
use culm_abi::connection::{ENTROPY_WORDS, EntropyClient, EntropyProvider, EntropyProviderClient};
use culm_manifest::ConnectionKind;

/// The class.
pub struct Entropy;

/// Entries of its queues are words.
const ENTRY: u32 = 8;

impl Class for Entropy {
    fn name(&self) -> &'static str {
        "entropy"
    }

    fn client_kind(&self, service: Service) -> Option<ConnectionKind> {
        (service == Service::FarEnd).then(ConnectionKind::of::<EntropyClient>)
    }

    fn client_keys(&self) -> Vec<Table> {
        vec![Table {
            heading: "Connections of the kind entropy-client",
            intro: "`entropy = \"rng0\"`, or a table.".to_string(),
            keys: vec![key("device", "text", "required", "whatever gives random bits")],
        }]
    }

    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
        let clients = provider.clients.iter().map(|(client, domain)| {
            let label = format!("{} {}", wiring.name(*domain), client.connection);
            let words = RingSpec { name: label.clone(), capacity: ENTROPY_WORDS, entry_size: ENTRY, forward: true };
            let rings = wiring.rings(format!("{label} queue"), (provider.domain, *domain), &[words], false);
            // A client looks into its queue when it starts, and waits for no notification.
            let (end, client_end) = wiring.channel((provider.domain, false), (*domain, true), &label);
            let connection = EntropyClient { words: rings[0], channel: client_end };
            wiring.connect_slot(*domain, client.slot, &client.connection, &provider.provider.name, connection);
            EntropyProviderClient { words: rings[0], channel: end }
        });
        let clients = clients.collect();
        wiring.connect_provider(provider, "", EntropyProvider { clients });
    }
}
