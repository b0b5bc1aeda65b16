//! Block class: a virtualiser shares a disk among clients, each of which has all of it, a partition
//! or a range. An emulated machine's disk is a file, the image: its partition table is read here,
//! so that what cannot work is found before anything boots.

mod card;
mod check;
mod image;
mod keys;
mod options;
mod outside;
mod part;
mod volume;
mod wire;

pub use outside::Disks;

use super::interface::{Class, NewClient, NewProvider, Virtualiser};
use crate::diagnostics::Diagnostics;
use crate::expand::draft::{Client, Draft, DraftProvider, OfClass, Provider, Service};
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::plan::HostFile;
use crate::reference::table::{Key, Table};
use culm_abi::connection::{BlockClient, BlockVirtualiser};
use culm_manifest::ConnectionKind;
use culm_manifest::reader::{Problems, TableReader};
use options::DeviceOptions;

/// Returns whether a client of this class cannot write.
pub fn is_read_only(client: &Client) -> bool {
    options::ClientOptions::of(client).read_only
}

/// The class.
pub struct Block;

impl Class for Block {
    fn name(&self) -> &'static str {
        options::NAME
    }

    fn virtualisers(&self) -> Vec<Virtualiser> {
        let connection = ConnectionKind::of::<BlockVirtualiser>();
        vec![Virtualiser { suffix: "virt", component: "block-virt", connection }]
    }

    fn client_kind(&self, service: Service) -> Option<ConnectionKind> {
        (service == Service::Shared).then(ConnectionKind::of::<BlockClient>)
    }

    fn holds_programs(&self) -> bool {
        true
    }

    fn device_keys(&self) -> Vec<Key> {
        keys::device_keys()
    }

    fn client_keys(&self) -> Vec<Table> {
        keys::client_keys()
    }

    fn rules(&self) -> &'static [&'static str] {
        keys::RULES
    }

    fn read_provider<'a>(
        &self,
        draft: &mut Draft<'a>,
        new: NewProvider,
        keys: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> OfClass {
        OfClass::new(options::read_provider(draft, new, keys, problems))
    }

    fn read_client<'a>(
        &self,
        draft: &mut Draft<'a>,
        client: &NewClient<'_, 'a>,
        options: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> Option<OfClass> {
        options::read_client(draft, client, options, problems).map(OfClass::new)
    }

    fn check_provider(&self, draft: &mut Draft<'_>, provider: DraftProvider) {
        check::check_clients(draft, provider);
    }

    fn warn(&self, draft: &Draft<'_>, found: &mut Diagnostics) {
        check::warn(draft, found);
    }

    fn host_file(&self, provider: &Provider<'_>) -> Option<HostFile> {
        DeviceOptions::of(provider).image.as_ref().map(|image| image.file.clone())
    }

    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
        wire::wire(wiring, provider);
    }
}
