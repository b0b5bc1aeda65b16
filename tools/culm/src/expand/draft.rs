//! The draft: everything the description names, resolved and checked, before anything is numbered.

use crate::description::board::BoardFile;
use crate::description::catalogue::{Catalogue, CatalogueComponent};
use crate::description::guest::GuestTable;
use crate::description::system::{ChannelTable, DeviceTable, RegionTable, SystemFile};
use crate::diagnostics::{Diagnostic, Diagnostics, Source};
use crate::plan::{
    BoardDevice, Budget, ConfigValue, FaultAction, GuestMemory, Initrd, LogLevel, Origin, RestartPolicy,
};
use culm_manifest::reader::Entry;
use culm_manifest::{Connection, ConnectionKind, DeviceClass, Located, Manifest};
use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Position in [`Draft::domains`].
pub type DraftDomain = usize;
/// Position in [`Draft::devices`].
pub type DraftDevice = usize;
/// Position in [`Draft::providers`].
pub type DraftProvider = usize;

/// The draft of a system.
pub struct Draft<'a> {
    pub catalogue: &'a Catalogue,
    pub path: &'a Path,
    pub source: &'a Arc<Source>,
    pub file: &'a SystemFile<'a>,
    pub board: &'a BoardFile,
    pub diagnostics: Diagnostics,
    pub devices: Vec<Device<'a>>,
    pub providers: Vec<Provider<'a>>,
    pub domains: Vec<Domain<'a>>,
    pub clients: Vec<Client>,
    /// Connections of drivers and virtualisers, by position in their manifests' lists, with the
    /// keys that make them.
    pub pending: Vec<(DraftDomain, usize, Entry<'a>)>,
    pub channels: Vec<Channel>,
    pub regions: Vec<Region<'a>>,
    pub guests: Vec<Guest<'a>>,
    /// Files and folders that go into the image, each with its bytes.
    pub packed: Vec<(Located<String>, u64)>,
    /// Connections that something in the description names, rightly or wrongly: those are not
    /// missing.
    pub named: BTreeSet<(DraftDomain, usize)>,
    /// Files of firewall rules that were read.
    pub rules: Vec<Rules>,
    /// Kinds of connection of which some could not be resolved: nothing of them counts as missing.
    pub unsure: BTreeSet<ConnectionKind>,
}

/// A file of firewall rules.
pub struct Rules {
    /// What is in it.
    pub source: Arc<Source>,
    /// Where the system file names it.
    pub place: Range<usize>,
}

/// A device in use.
pub struct Device<'a> {
    pub board: &'a BoardDevice,
    /// Where the system file names it.
    pub named_at: Range<usize>,
    /// Where the board file has it.
    pub board_span: Range<usize>,
    /// Its driver, or its owner.
    pub driver: DraftDomain,
    /// Which of the driver's connections it is.
    pub slot: usize,
}

/// Whatever provides a class, for clients to name: the driver of a device, or a component in its
/// place.
pub struct Provider<'a> {
    /// The name of its device or domain, and where the system file has that.
    pub base: &'a Located<String>,
    /// The base; with the connection's name behind it where it provides several (`card0.left`).
    pub name: String,
    pub class: DeviceClass,
    /// The driver, or the component in its place.
    pub domain: DraftDomain,
    /// By which of its connections it provides the class.
    pub slot: usize,
    /// The device and its table, if it drives one.
    pub device: Option<(DraftDevice, &'a DeviceTable<'a>)>,
    pub service: Service,
    /// Those of its class, in the class's order; none where the service has none.
    pub virtualisers: Vec<DraftDomain>,
    pub of_class: OfClass,
}

/// The service of a provider: what stands between it and its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The class's virtualisers share a driver among clients.
    Shared,
    /// Nothing: the one client has the driver's own queues.
    Bare,
    /// Nothing: the provider is the far end of each client.
    FarEnd,
}

impl<'a> Provider<'a> {
    /// The beginning of the names of the domains that serve it.
    pub fn prefix(&self) -> String {
        self.name.replace('.', "_")
    }

    /// The connection by which it provides the class.
    pub fn connection(&self, draft: &Draft<'a>) -> &'a Connection {
        &draft.domains[self.domain].manifest.connections[self.slot]
    }
}

/// The data that a class keeps of its own providers and clients: nobody else looks into it.
pub struct OfClass(Box<dyn Any>);

impl OfClass {
    /// Keeps something.
    pub fn new<T: 'static>(kept: T) -> Self {
        Self(Box::new(kept))
    }

    /// Returns what was kept. A class is only ever shown its own providers and clients.
    pub fn get<T: 'static>(&self) -> &T {
        self.0.downcast_ref().expect("what a class keeps is of one type each for providers and for clients")
    }
}

/// A protection domain.
#[derive(Clone)]
pub struct Domain<'a> {
    pub name: Located<String>,
    pub component: &'a CatalogueComponent,
    pub manifest: &'a Manifest,
    /// Devices keep their order from draft to plan, and with it their numbers.
    pub origin: Origin,
    pub core: u32,
    pub priority: u8,
    pub passive: bool,
    pub budget: Option<Budget>,
    pub stack: u64,
    pub heap: u64,
    pub log: LogLevel,
    pub observe: bool,
    pub may_halt: bool,
    pub on_fault: FaultAction,
    pub restart: RestartPolicy,
    pub config: Vec<ConfigValue>,
}

impl Domain<'_> {
    /// The number or size that its configuration has for a field; 0 if it has none.
    pub fn number(&self, field: &str) -> u64 {
        number(self.manifest, &self.config, field)
    }
}

/// The number or size that a component's configuration has for a field; 0 if it has none.
pub fn number(manifest: &Manifest, config: &[ConfigValue], field: &str) -> u64 {
    let found = manifest.config.iter().zip(config).find(|(own, _)| own.name == field);
    if let Some((_, ConfigValue::Unsigned(value))) = found { *value } else { 0 }
}

/// A class connection of a domain to a provider.
pub struct Client {
    pub domain: DraftDomain,
    /// Position in the manifest's list; `None` for the log.
    pub slot: Option<usize>,
    pub connection: String,
    pub provider: DraftProvider,
    /// Where the system file names the provider; `None` for the log.
    pub named_at: Option<Range<usize>>,
    pub of_class: OfClass,
}

/// A channel of the description.
pub struct Channel {
    pub table: ChannelTable,
    pub ends: [ChannelEnd; 2],
}

/// One end of a [`Channel`].
#[derive(Clone)]
pub struct ChannelEnd {
    pub domain: DraftDomain,
    pub slot: usize,
    pub connection: String,
    pub notify: bool,
    pub call: bool,
}

/// A region of the description.
pub struct Region<'a> {
    pub table: &'a RegionTable,
    /// Domain, position in its manifest's list, and whether it may write.
    pub mappings: Vec<(DraftDomain, usize, bool)>,
}

/// A guest.
pub struct Guest<'a> {
    pub table: &'a GuestTable,
    /// The domain that runs it, and which of its connections the guest is.
    pub monitor: DraftDomain,
    pub slot: usize,
    /// The core of each of its virtual CPUs.
    pub cores: Vec<u32>,
    pub priority: u8,
    pub kernel: PathBuf,
    pub initrd: Option<Initrd>,
    pub memory: GuestMemory,
}

impl<'a> Draft<'a> {
    /// An empty draft.
    pub fn new(
        catalogue: &'a Catalogue,
        path: &'a Path,
        source: &'a Arc<Source>,
        file: &'a SystemFile<'a>,
        board: &'a BoardFile,
        diagnostics: Diagnostics,
    ) -> Self {
        Self {
            catalogue,
            path,
            source,
            file,
            board,
            diagnostics,
            devices: Vec::new(),
            providers: Vec::new(),
            domains: Vec::new(),
            clients: Vec::new(),
            pending: Vec::new(),
            channels: Vec::new(),
            regions: Vec::new(),
            guests: Vec::new(),
            packed: Vec::new(),
            named: BTreeSet::new(),
            rules: Vec::new(),
            unsure: BTreeSet::new(),
        }
    }

    /// Reports a mistake in the system file.
    pub fn error(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// A diagnostic at a place of the system file.
    pub fn at(&self, span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(self.source, span.clone(), message)
    }

    /// A path of the system file, from where the tool runs.
    pub fn beside(&self, path: &str) -> PathBuf {
        let joined = self.as_written(path);
        joined.canonicalize().unwrap_or(joined)
    }

    /// The same, where links are not followed.
    pub fn as_written(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new(".")).join(path)
    }

    /// The clients of a provider.
    pub fn clients_of(&self, provider: DraftProvider) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(move |client| client.provider == provider)
    }

    /// The clients of all providers of a class.
    pub fn clients_of_class(&self, class: &str) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(move |client| self.providers[client.provider].class.name() == class)
    }

    /// The domain of this name, if it could be resolved.
    pub fn domain(&self, name: &str) -> Option<DraftDomain> {
        self.domains.iter().position(|domain| domain.name.value == name)
    }

    /// The component that expansion adds, for something at `span`; reports where the tree has none.
    pub fn own_component(&mut self, name: &str, span: &Range<usize>) -> Option<(&'a CatalogueComponent, &'a Manifest)> {
        if self.catalogue.components.contains_key(name) {
            return self.component(name, span);
        }
        let diagnostic = self
            .at(span, format!("the component `{name}`, which expansion adds here, is not in the tree"))
            .help("its manifest should be in `services/`, `virtualisers/` or beside them: is the checkout complete?");
        self.error(diagnostic);
        None
    }

    /// The components that this system may use, by name.
    pub fn offered(&self) -> impl Iterator<Item = (&'a str, &'a CatalogueComponent)> + use<'a> {
        let (catalogue, path) = (self.catalogue, self.path);
        let components = catalogue.components.iter().map(|(name, component)| (name.as_str(), component));
        components.filter(move |(_, component)| catalogue.kept_from(path, component).is_none())
    }

    /// The component of this name with its manifest, for something at `span`; reports where there
    /// is none.
    pub fn component(&mut self, name: &str, span: &Range<usize>) -> Option<(&'a CatalogueComponent, &'a Manifest)> {
        self.component_for("component", is_application, name, span)
    }

    /// The same for a component that is to be a `what`: those that `fit` are the choice that advice
    /// offers.
    pub fn component_for(
        &mut self,
        what: &str,
        fits: impl Fn(&CatalogueComponent) -> bool,
        name: &str,
        span: &Range<usize>,
    ) -> Option<(&'a CatalogueComponent, &'a Manifest)> {
        let catalogue = self.catalogue;
        let Some(component) = catalogue.component(name) else {
            let fitting = self.offered().filter(|(_, component)| fits(component));
            let names: Vec<&str> = fitting.map(|(name, _)| name).collect();
            let meant = name.rsplit('/').next().filter(|last| names.contains(last));
            let help = match meant {
                Some(meant) => Some(format!("did you mean `{meant}`? A component is named without its folder")),
                None => culm_manifest::problem::suggest(name, names.iter().copied()),
            };
            let diagnostic = self.at(span, format!("there is no {what} called `{name}`")).maybe_help(help);
            self.error(diagnostic);
            return None;
        };
        if let Some(kept) = catalogue.kept_from(self.path, component) {
            let message = format!("`{name}` exists for `{kept}/`: no system in `systems/` can use it");
            let help = format!("choose another {what}, or move this system to `{kept}/systems/`");
            let diagnostic = self.at(span, message).help(help);
            self.error(diagnostic);
            return None;
        }
        match &component.manifest {
            Ok(manifest) => Some((component, manifest)),
            Err(found) => {
                // The manifest is at fault: its own mistakes say it best, and once is enough.
                self.diagnostics.append(found);
                None
            }
        }
    }

    /// Resolves `pd.connection` to a domain and one of its manifest's connections. `None` where
    /// that is not possible; reports why, unless the domain itself has been reported.
    pub fn end(
        &mut self,
        end: &Located<(String, String)>,
        kind: ConnectionKind,
    ) -> Option<(DraftDomain, usize, &'a Connection)> {
        let found = self.find_end(end, kind);
        if found.is_none() {
            self.unsure.insert(kind);
        }
        found
    }

    fn find_end(
        &mut self,
        end: &Located<(String, String)>,
        kind: ConnectionKind,
    ) -> Option<(DraftDomain, usize, &'a Connection)> {
        let (name, connection) = &end.value;
        let Some(domain) = self.domain(name) else {
            if !self.file.domains.iter().any(|table| table.name.value == *name) {
                let names: Vec<&str> = self.domains.iter().map(|domain| domain.name.value.as_str()).collect();
                let help = culm_manifest::problem::suggest(name, names.iter().copied());
                let diagnostic =
                    self.at(&end.span, format!("there is no protection domain called `{name}`")).maybe_help(help);
                self.error(diagnostic);
            }
            return None;
        };
        let manifest = self.domains[domain].manifest;
        let Some((slot, found)) = manifest.connection(connection) else {
            let names = manifest.connections.iter().filter(|found| found.kind == kind);
            let help = culm_manifest::problem::suggest(connection, names.map(|found| found.name.as_str()));
            let diagnostic = self
                .at(&end.span, format!("the component `{}` has no connection `{connection}`", manifest.name))
                .maybe_help(help.or_else(|| Some(format!("its manifest lists none of the kind `{}`", kind.name()))));
            self.error(diagnostic);
            return None;
        };
        if found.kind != kind {
            let message =
                format!("`{name}.{connection}` is of the kind `{}`, not `{}`", found.kind.name(), kind.name());
            let of_kind = manifest.connections.iter().filter(|found| found.kind == kind);
            let names: Vec<String> = of_kind.map(|found| format!("`{name}.{}`", found.name)).collect();
            let diagnostic = self.at(&end.span, message).help(match names.is_empty() {
                true => format!("the manifest of `{}` lists none of the kind `{}`", manifest.name, kind.name()),
                false => format!("of that kind it has {}", names.join(", ")),
            });
            self.error(diagnostic);
            return None;
        }
        let twice = !self.named.insert((domain, slot));
        if twice {
            let diagnostic = self
                .at(&end.span, format!("`{name}.{connection}` is connected twice"))
                .help("each connection leads to one place; let the component's manifest list a second one");
            self.error(diagnostic);
            return None;
        }
        Some((domain, slot, found))
    }
}

/// Whether a `[pd]` can be of this component: it needs nothing that only expansion can give.
pub fn is_application(component: &CatalogueComponent) -> bool {
    component.manifest.as_ref().map_or(true, |manifest| {
        manifest.connections.iter().all(|connection| connection.optional || !connection.made_by_expansion())
    })
}
