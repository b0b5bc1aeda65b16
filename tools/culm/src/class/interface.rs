//! The trait of a class. Everything that is particular to a class is behind it.

use crate::diagnostics::Diagnostics;
use crate::expand::draft::{Client, Draft, DraftDevice, DraftDomain, DraftProvider, OfClass, Provider, Service};
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::plan::HostFile;
use crate::reference::table::{Key, Table};
use culm_manifest::ConnectionKind;
use culm_manifest::reader::{Entry, Problems, TableReader};

/// A virtualiser of a class: the suffix of its domain's name, its component, and the connection by
/// which it does its work.
pub struct Virtualiser {
    /// The suffix of the domain's name, behind the device's name.
    pub suffix: &'static str,
    /// Its component.
    pub component: &'static str,
    /// The kind of connection that is its work.
    pub connection: ConnectionKind,
}

/// A provider, while its keys are read.
#[derive(Clone, Copy)]
pub struct NewProvider {
    /// The number that it is to have.
    pub index: DraftProvider,
    /// Its device, if it is a driver.
    pub device: Option<DraftDevice>,
}

/// A client of a provider, while its options are read.
pub struct NewClient<'d, 'a> {
    /// Its domain.
    pub domain: DraftDomain,
    /// The key that makes it a client.
    pub entry: &'d Entry<'a>,
    /// The provider, where the key names one that is in use and fits.
    pub provider: Option<DraftProvider>,
}

/// A class: of devices, and of the components that stand in for them. What has a default here is
/// what a class without virtualisers and keys of its own leaves out.
pub trait Class: Sync {
    /// Its name, as `culm-abi` declares it.
    fn name(&self) -> &'static str;

    /// The virtualisers that share a device among its clients, in the order in which a draft and a
    /// plan have them.
    fn virtualisers(&self) -> Vec<Virtualiser> {
        Vec::new()
    }

    /// The kind of connection that clients of a provider have which serves them so; `None` if no
    /// provider of the class does.
    fn client_kind(&self, service: Service) -> Option<ConnectionKind>;

    /// Keys of `[device.NAME]` that only this class knows, for the reader, the book and the schema.
    fn device_keys(&self) -> Vec<Key> {
        Vec::new()
    }

    /// Returns the keys of clients in a system file, a table for each kind of connection that they
    /// can have, for the book and the schema.
    fn client_keys(&self) -> Vec<Table>;

    /// Returns rules of the class that concern no single key, for the book.
    fn rules(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reads the class's own keys of a provider; there are none where it has no table for them.
    fn read_provider<'a>(
        &self,
        _draft: &mut Draft<'a>,
        _new: NewProvider,
        _keys: Option<&mut TableReader<'a>>,
        _problems: &mut Problems,
    ) -> OfClass {
        OfClass::new(())
    }

    /// Reads a client's options, and adds the domains that stand between it and the provider's
    /// side. `None` where the client cannot be made; what is wrong is reported.
    fn read_client<'a>(
        &self,
        _draft: &mut Draft<'a>,
        _client: &NewClient<'_, 'a>,
        _options: Option<&mut TableReader<'a>>,
        _problems: &mut Problems,
    ) -> Option<OfClass> {
        Some(OfClass::new(()))
    }

    /// Returns the memory that a client borrows of its provider, if it does: a part of that which
    /// the provider has as a client by a connection of this kind, whole pages.
    fn borrows(&self, _client: &Client) -> Option<(ConnectionKind, u64)> {
        None
    }

    /// Returns a domain's log as a client, if devices of this class take logs.
    fn log(&self) -> Option<OfClass> {
        None
    }

    /// Whether provider and clients notify each other.
    fn notifies(&self) -> bool {
        true
    }

    /// Whether something arrives for this client by itself, which must not wait.
    fn receives(&self, _client: &Client) -> bool {
        false
    }

    /// Whether all that the provider has for nobody else comes to this client, which passes it on
    /// where it is a switch: both are one network then.
    fn joins(&self, _client: &Client) -> bool {
        false
    }

    /// Whether a guest can find the program that it begins with on what this class gives it.
    fn holds_programs(&self) -> bool {
        false
    }

    /// After everything that connects: whether a provider can serve its clients.
    fn check_provider(&self, _draft: &mut Draft<'_>, _provider: DraftProvider) {}

    /// Adds what is legal, but odd.
    fn warn(&self, _draft: &Draft<'_>, _found: &mut Diagnostics) {}

    /// The hardware address of a provider's device, where devices of the class have one.
    fn hardware_address(&self, _provider: &Provider<'_>) -> Option<[u8; 6]> {
        None
    }

    /// The file of the host's that a provider's device stands for in an emulated machine, where
    /// devices of the class have one.
    fn host_file(&self, _provider: &Provider<'_>) -> Option<HostFile> {
        None
    }

    /// Connects a provider, its virtualisers and its clients.
    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>);
}
