//! File class: a component with a disk, or files of any other origin, gives each client a folder of
//! its own. A client's memory is a part of what the disk reaches, so that nobody copies.

mod check;
mod keys;
mod options;
mod wire;

use super::interface::{Class, NewClient};
use crate::expand::draft::{Client, Draft, DraftProvider, OfClass, Service};
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::reference::table::Table;
use culm_abi::connection::{BlockClient, FileClient};
use culm_manifest::ConnectionKind;
use culm_manifest::reader::{Problems, TableReader};
use options::ClientOptions;

/// The class.
pub struct File;

impl Class for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn client_kind(&self, service: Service) -> Option<ConnectionKind> {
        (service == Service::FarEnd).then(ConnectionKind::of::<FileClient>)
    }

    fn client_keys(&self) -> Vec<Table> {
        keys::client_keys()
    }

    fn rules(&self) -> &'static [&'static str] {
        keys::RULES
    }

    fn read_client<'a>(
        &self,
        draft: &mut Draft<'a>,
        client: &NewClient<'_, 'a>,
        options: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> Option<OfClass> {
        Some(OfClass::new(options::read_client(draft, client, options, problems)))
    }

    fn borrows(&self, client: &Client) -> Option<(ConnectionKind, u64)> {
        Some((ConnectionKind::of::<BlockClient>(), ClientOptions::of(client).memory))
    }

    fn check_provider(&self, draft: &mut Draft<'_>, provider: DraftProvider) {
        check::check_clients(draft, provider);
    }

    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
        wire::wire(wiring, provider);
    }
}
