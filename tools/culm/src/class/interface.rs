//! The trait of a class of devices. Everything that is particular to a class is behind it.

use crate::description::system::DomainTable;
use crate::diagnostics::Diagnostics;
use crate::expand::draft::{Client, Device, Draft, DraftDevice, DraftDomain, OfClass};
use crate::expand::wiring::{DeviceClients, Wiring};
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

/// A client of a device, while its options are read.
pub struct NewClient<'d, 'a> {
    /// The table of its domain.
    pub table: &'d DomainTable<'a>,
    /// Its domain.
    pub domain: DraftDomain,
    /// The key that makes it a client.
    pub entry: &'d Entry<'a>,
    /// The device, where the key names one that is in use.
    pub device: Option<DraftDevice>,
}

/// A class of devices.
pub trait Class: Sync {
    /// Its name, as `culm-abi` declares it.
    fn name(&self) -> &'static str;

    /// The virtualisers that share a device among its clients, in the order in which a draft and a
    /// plan have them.
    fn virtualisers(&self) -> Vec<Virtualiser>;

    /// Keys of `[device.NAME]` that only this class knows, for the reader, the book and the schema.
    fn device_keys(&self) -> Vec<Key>;

    /// Returns the keys of a client in a system file, for the book and the schema.
    fn client_keys(&self) -> Table;

    /// Returns rules of the class that concern no single key, for the book.
    fn rules(&self) -> &'static [&'static str];

    /// Reads the class's own keys of the device that is to be number `index`.
    fn read_device<'a>(
        &self,
        draft: &mut Draft<'a>,
        index: DraftDevice,
        keys: &mut TableReader<'a>,
        problems: &mut Problems,
    ) -> OfClass;

    /// Reads a client's options, and adds the domains that stand between it and the virtualisers.
    /// `None` where the client cannot be made; what is wrong is reported.
    fn read_client<'a>(
        &self,
        draft: &mut Draft<'a>,
        client: &NewClient<'_, 'a>,
        options: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> Option<OfClass>;

    /// Returns a domain's log as a client, if devices of this class take logs.
    fn log(&self) -> Option<OfClass> {
        None
    }

    /// Whether something arrives for this client by itself, which must not wait.
    fn receives(&self, client: &Client) -> bool;

    /// After everything that connects: whether a device can serve its clients.
    fn check_device(&self, draft: &mut Draft<'_>, device: DraftDevice);

    /// Adds what is legal, but odd.
    fn warn(&self, draft: &Draft<'_>, found: &mut Diagnostics);

    /// The device's own hardware address, where devices of the class have one.
    fn hardware_address(&self, device: &Device<'_>) -> Option<[u8; 6]>;

    /// Connects driver, virtualisers and clients of one device.
    fn wire(&self, wiring: &mut Wiring, device: &DeviceClients<'_, '_>);
}
