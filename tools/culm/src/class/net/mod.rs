//! Net class: a receive and a transmit virtualiser share the device among clients; a copier per
//! client keeps what the device wrote out of the client's reach until it is copied. A component in
//! a device's place is the far end of each client's queues itself. Before a client may stand
//! further components, through which its frames go. A device that is used bare has one client,
//! which shares the driver's queues with it.

mod bare;
mod before;
mod cards;
mod far_end;
mod forward;
mod keys;
mod options;
mod outside;
mod path;
mod wire;

pub use outside::{Network, Options};

use super::interface::{Class, NewClient, NewProvider, Virtualiser};
use crate::diagnostics::Diagnostics;
use crate::expand::draft::{Client, Draft, DraftProvider, OfClass, Provider, Service};
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::reference::table::{Key, Table};
use culm_abi::connection::{NetBare, NetClient, NetRxVirtualiser, NetTxVirtualiser};
use culm_manifest::ConnectionKind;
use culm_manifest::reader::{Problems, TableReader};
use options::{ClientOptions, ProviderOptions};

/// The class.
pub struct Net;

impl Class for Net {
    fn name(&self) -> &'static str {
        options::NAME
    }

    fn virtualisers(&self) -> Vec<Virtualiser> {
        let of = |suffix, component, connection| Virtualiser { suffix, component, connection };
        vec![
            of("rx", "net-rx", ConnectionKind::of::<NetRxVirtualiser>()),
            of("tx", "net-tx", ConnectionKind::of::<NetTxVirtualiser>()),
        ]
    }

    fn client_kind(&self, service: Service) -> Option<ConnectionKind> {
        match service {
            Service::Shared | Service::FarEnd => Some(ConnectionKind::of::<NetClient>()),
            Service::Bare => Some(ConnectionKind::of::<NetBare>()),
        }
    }

    fn device_keys(&self) -> Vec<Key> {
        keys::device_keys()
    }

    fn client_keys(&self) -> Vec<Table> {
        keys::client_keys()
    }

    fn rules(&self) -> &'static [&'static str] {
        &["A network's device or client has 16 buffers at least."]
    }

    fn read_provider<'a>(
        &self,
        draft: &mut Draft<'a>,
        new: NewProvider,
        keys: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> OfClass {
        OfClass::new(options::read_provider(draft, new.index, keys, problems))
    }

    fn read_client<'a>(
        &self,
        draft: &mut Draft<'a>,
        client: &NewClient<'_, 'a>,
        options: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> Option<OfClass> {
        let connection = draft.domains[client.domain].manifest.connection(&client.entry.key.value);
        if connection.is_some_and(|(_, connection)| connection.kind.is::<NetBare>()) {
            return bare::read_client(draft, client, options);
        }
        options::read_client(draft, client, options, problems)
    }

    fn receives(&self, _: &Client) -> bool {
        true
    }

    fn joins(&self, client: &Client) -> bool {
        ClientOptions::of(client).promiscuous
    }

    fn check_provider(&self, draft: &mut Draft<'_>, provider: DraftProvider) {
        options::check_clients(draft, provider);
    }

    /// A copier below its client does not come to its work.
    fn warn(&self, draft: &Draft<'_>, found: &mut Diagnostics) {
        for client in draft.clients_of_class(options::NAME) {
            let domain = &draft.domains[client.domain];
            let Some(copier) = ClientOptions::of(client).copier else { continue };
            let copier = &draft.domains[copier];
            if copier.priority < domain.priority {
                let message = format!(
                    "`{}` has priority {}, below its client's {}",
                    copier.name.value, copier.priority, domain.priority
                );
                let help =
                    "frames are copied when the client sleeps; leave `copier_priority` out for one above the client";
                found.push(draft.at(&copier.name.span, message).help(help).warning());
            }
        }
    }

    fn hardware_address(&self, provider: &Provider<'_>) -> Option<[u8; 6]> {
        Some(ProviderOptions::of(provider).mac)
    }

    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
        match provider.provider.service {
            Service::FarEnd => far_end::wire(wiring, provider),
            Service::Shared => wire::wire(wiring, provider),
            Service::Bare => bare::wire(wiring, provider),
        }
    }
}
